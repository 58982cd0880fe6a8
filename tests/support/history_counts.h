// What a performance history holds, counted by its database.
#pragma once

#include <string>

#include "history/connection.h"

namespace sparsmith {

// The integer of "SELECT <what>": "count(*) FROM run".
inline std::int64_t count_in_history(const std::string& address, const std::string& what) {
  return connect_history(address, PerfStore::Mode::kReadOnly).value()->integer_of("SELECT " + what, {}).value();
}

// The bytes of all tables.
inline std::int64_t bytes_of_history(const std::string& address) {
  return count_in_history(address, is_postgresql(address)
                                       ? "sum(pg_total_relation_size(quote_ident(tablename)::regclass))::bigint "
                                         "FROM pg_tables WHERE schemaname = current_schema()"
                                       : "page_count * page_size FROM pragma_page_count(), pragma_page_size()");
}

}  // namespace sparsmith
