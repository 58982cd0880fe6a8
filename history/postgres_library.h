// libpq, opened when it is first needed: a sparsmith that never talks to a server runs where it is not installed.
#pragma once

#include <libpq-fe.h>

#include "sparsmith/status.h"

namespace sparsmith {

// The functions of libpq that are used, by their names without PQ.
struct PostgresLibrary {
  decltype(&PQconnectdb) connectdb = nullptr;
  decltype(&PQstatus) status = nullptr;
  decltype(&PQerrorMessage) error_message = nullptr;
  decltype(&PQfinish) finish = nullptr;
  decltype(&PQsetNoticeProcessor) set_notice_processor = nullptr;
  decltype(&PQserverVersion) server_version = nullptr;
  decltype(&PQexec) exec = nullptr;
  decltype(&PQexecParams) exec_params = nullptr;
  decltype(&PQprepare) prepare = nullptr;
  decltype(&PQexecPrepared) exec_prepared = nullptr;
  decltype(&PQresultStatus) result_status = nullptr;
  decltype(&PQresultErrorField) result_error_field = nullptr;
  decltype(&PQntuples) ntuples = nullptr;
  decltype(&PQgetvalue) getvalue = nullptr;
  decltype(&PQunescapeBytea) unescape_bytea = nullptr;
  decltype(&PQfreemem) freemem = nullptr;
  decltype(&PQclear) clear = nullptr;

  // The library of this machine; it stays open. Any thread. Error: kIoError when it is not installed.
  static Result<const PostgresLibrary*> open();
};

}  // namespace sparsmith
