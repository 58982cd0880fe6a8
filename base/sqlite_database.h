// SQLite at arm's length, for the rooms that keep a database (sparsmith::sqlite; not part of sparsmith::base):
// exceptions of SQLiteCpp become a Status at this edge.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "sparsmith/status.h"

namespace sparsmith {

// What a message says of a database: "cache", and what its loss costs.
struct DatabaseNoun {
  const char* name;            // "cache"
  const char* when_damaged;    // "remove it, it costs only the time to measure again"
  const char* not_a_database;  // "move it away or give another path"
};

inline constexpr int kBusyTimeoutMilliseconds = 10000;

// What went wrong with the database at `path`.
Status sqlite_error(const SQLite::Exception& error, const std::string& path, const DatabaseNoun& noun);

// Runs `body` (returning a Status or a Result) and returns its value, or what it threw as a Status.
template <class Body>
auto guard_sqlite(const std::string& path, const DatabaseNoun& noun, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& error) {
    return sqlite_error(error, path, noun);
  } catch (const std::exception& error) {
    return internal_error(path + ": " + error.what());
  }
}

// Binds `arguments` to ?1, ?2, ... in order.
template <class... Arguments>
void bind_all(SQLite::Statement& statement, const Arguments&... arguments) {
  [[maybe_unused]] int index = 0;
  [[maybe_unused]] const auto bind = [&](const auto& argument) {
    using Argument = std::decay_t<decltype(argument)>;
    ++index;
    if constexpr (std::is_same_v<Argument, std::span<const std::byte>>) {
      statement.bind(index, static_cast<const void*>(argument.data()), static_cast<int>(argument.size()));
    } else if constexpr (std::is_integral_v<Argument>) {
      statement.bind(index, static_cast<std::int64_t>(argument));
    } else {
      statement.bind(index, argument);
    }
  };
  (bind(arguments), ...);
}

// Runs one statement that returns no rows; the number of rows it changed.
template <class... Arguments>
int execute(SQLite::Database& database, const std::string& sql, const Arguments&... arguments) {
  SQLite::Statement statement(database, sql);
  bind_all(statement, arguments...);
  return statement.exec();
}

// A write transaction that takes its lock at once, so that it cannot fail half way for a lock; undone unless committed.
class WriteTransaction {
 public:
  explicit WriteTransaction(SQLite::Database& database) : database_(database) { database_.exec("BEGIN IMMEDIATE"); }
  WriteTransaction(const WriteTransaction&) = delete;
  WriteTransaction& operator=(const WriteTransaction&) = delete;
  ~WriteTransaction() {
    if (!committed_) database_.tryExec("ROLLBACK");
  }
  void commit() {
    database_.exec("COMMIT");
    committed_ = true;
  }

 private:
  SQLite::Database& database_;
  bool committed_ = false;
};

// WAL on a local disk; a rollback journal where shared memory between processes does not work. Either survives a killed
// process; in WAL mode a power failure may take the last commits.
void set_journal_mode(SQLite::Database& database, const std::string& path);

// Limits what a damaged or hostile file can do: the size of a value, functions in its schema.
void distrust(SQLite::Database& database);

// Whether the file holds no table yet.
bool is_empty(SQLite::Database& database);

// Makes the folder that `path` lies in.
Status make_parent_folder(const std::string& path, const DatabaseNoun& noun);

// UTC now, ISO 8601 with milliseconds.
std::string utc_now();

}  // namespace sparsmith
