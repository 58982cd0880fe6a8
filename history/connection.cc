#include "history/connection.h"

#include <string_view>

namespace sparsmith {

Result<std::int64_t> HistoryConnection::integer_of(const std::string& sql, std::initializer_list<SqlValue> values) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::unique_ptr<SqlRows> rows, query_with(sql, values));
  SPARSMITH_ASSIGN_OR_RETURN(const bool found, rows->next());
  if (!found) return internal_error(name() + ": a query without an answer: " + sql);
  return rows->integer(0);
}

Result<HistoryTransaction> HistoryTransaction::begin(HistoryConnection& connection) {
  SPARSMITH_RETURN_IF_ERROR(connection.begin());
  return HistoryTransaction(&connection);
}

Status HistoryTransaction::commit() {
  SPARSMITH_RETURN_IF_ERROR(connection_->commit());
  connection_ = nullptr;
  return {};
}

bool is_postgresql(const std::string& address) {
  return address.starts_with("postgresql://") || address.starts_with("postgres://");
}

std::string without_password(const std::string& address) {
  if (!is_postgresql(address)) return address;
  std::string result = address;
  const std::size_t host = result.find("://") + 3;
  const std::size_t at = result.substr(0, result.find_first_of("/?", host)).rfind('@');
  const std::size_t colon = result.find(':', host);
  if (at != std::string::npos && colon < at) result.replace(colon, at - colon, ":***");
  for (std::size_t begin = result.find("password="); begin != std::string::npos;
       begin = result.find("password=", begin + 1)) {
    const std::size_t value = begin + std::string_view("password=").size();
    result.replace(value, std::min(result.find('&', value), result.size()) - value, "***");
  }
  return result;
}

Result<std::unique_ptr<HistoryConnection>> connect_history(const std::string& address, PerfStore::Mode mode) {
  return is_postgresql(address) ? connect_postgresql(address, mode) : connect_sqlite(address, mode);
}

#ifndef SPARSMITH_POSTGRESQL
Result<std::unique_ptr<HistoryConnection>> connect_postgresql(const std::string& address, PerfStore::Mode /*mode*/) {
  return unsupported(without_password(address) +
                     ": this sparsmith was built without PostgreSQL (libpq-dev was missing); give a file with --db");
}
#endif

}  // namespace sparsmith
