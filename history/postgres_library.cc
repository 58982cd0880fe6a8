#include "history/postgres_library.h"

#include <dlfcn.h>

#include <string>

namespace sparsmith {
namespace {

constexpr const char* kName = "libpq.so.5";

template <class Function>
bool load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Result<PostgresLibrary> load_all() {
  void* const library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return io_error(std::string("PostgreSQL cannot be reached: ") + kName +
                    " is not here; install the package libpq5, or give a file with --db");
  PostgresLibrary f;
  const bool whole =
      load(library, "PQconnectdb", f.connectdb) && load(library, "PQstatus", f.status) &&
      load(library, "PQerrorMessage", f.error_message) && load(library, "PQfinish", f.finish) &&
      load(library, "PQsetNoticeProcessor", f.set_notice_processor) &&
      load(library, "PQserverVersion", f.server_version) && load(library, "PQexec", f.exec) &&
      load(library, "PQexecParams", f.exec_params) && load(library, "PQprepare", f.prepare) &&
      load(library, "PQexecPrepared", f.exec_prepared) && load(library, "PQresultStatus", f.result_status) &&
      load(library, "PQresultErrorField", f.result_error_field) && load(library, "PQntuples", f.ntuples) &&
      load(library, "PQgetvalue", f.getvalue) && load(library, "PQunescapeBytea", f.unescape_bytea) &&
      load(library, "PQfreemem", f.freemem) && load(library, "PQclear", f.clear);
  if (!whole) return io_error(std::string("PostgreSQL cannot be reached: ") + kName + " lacks a function");
  return f;
}

}  // namespace

Result<const PostgresLibrary*> PostgresLibrary::open() {
  static const Result<PostgresLibrary> opened = load_all();
  if (!opened.ok()) return opened.status();
  return &*opened;
}

}  // namespace sparsmith
