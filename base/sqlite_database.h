// SQLite for the rooms with a database (sparsmith::sqlite; not part of sparsmith::base). Exceptions of SQLiteCpp become
// a Status here.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// The words for a database in messages.
struct DatabaseNoun {
  const char* name;            // "cache"
  const char* when_damaged;    // "remove it, it costs only the time to measure again"
  const char* not_a_database;  // "move it away or give another path"
};

inline constexpr int kBusyTimeoutMilliseconds = 10000;

// The error of the database at `path` as a Status.
Status sqlite_error(const SQLite::Exception& error, const std::string& path, const DatabaseNoun& noun);

// Runs `body` (returning a Status or a Result) and returns its value. An exception becomes an error.
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

template <class T>
inline constexpr bool kIsTuple = false;
template <class... Fields>
inline constexpr bool kIsTuple<std::tuple<Fields...>> = true;

// Binds `value` to the next place after `index`, or a tuple's fields to the next places. Advances `index`.
template <class T>
void bind_next(SQLite::Statement& statement, int& index, const T& value) {
  if constexpr (kIsTuple<T>) {
    std::apply([&](const auto&... fields) { (bind_next(statement, index, fields), ...); }, value);
  } else if constexpr (std::is_same_v<T, std::vector<std::byte>> || std::is_same_v<T, std::span<const std::byte>>) {
    statement.bind(++index, static_cast<const void*>(value.data()), static_cast<int>(value.size()));
  } else if constexpr (std::is_integral_v<T>) {
    statement.bind(++index, static_cast<std::int64_t>(value));
  } else {
    statement.bind(++index, value);
  }
}

// Binds `arguments` to ?1, ?2, ... in order. A tuple counts as its fields.
template <class... Arguments>
void bind_all(SQLite::Statement& statement, const Arguments&... arguments) {
  [[maybe_unused]] int index = 0;
  (bind_next(statement, index, arguments), ...);
}

// Reads the first columns of the statement's current row into `fields`, in order.
template <class... Fields>
void read_columns(SQLite::Statement& row, const std::tuple<Fields&...>& fields) {
  int index = 0;
  const auto read = [&](auto& field) {
    using Field = std::decay_t<decltype(field)>;
    const SQLite::Column column = row.getColumn(index++);
    if constexpr (std::is_same_v<Field, std::string>) {
      field = column.getString();
    } else if constexpr (std::is_same_v<Field, std::vector<std::byte>>) {
      const auto* const bytes = static_cast<const std::byte*>(column.getBlob());
      field.assign(bytes, bytes + column.getBytes());
    } else if constexpr (std::is_floating_point_v<Field>) {
      field = column.getDouble();
    } else {
      field = static_cast<Field>(column.getInt64());
    }
  };
  std::apply([&](auto&... each) { (read(each), ...); }, fields);
}

// Runs one statement that returns no rows. Returns the number of changed rows.
template <class... Arguments>
int execute(SQLite::Database& database, const std::string& sql, const Arguments&... arguments) {
  SQLite::Statement statement(database, sql);
  bind_all(statement, arguments...);
  return statement.exec();
}

// Runs a statement with RETURNING id. Returns the id.
template <class... Arguments>
std::int64_t execute_for_id(SQLite::Database& database, const std::string& sql, const Arguments&... arguments) {
  SQLite::Statement statement(database, sql);
  bind_all(statement, arguments...);
  statement.executeStep();
  const std::int64_t id = statement.getColumn(0).getInt64();
  statement.executeStep();  // to the statement's end, which commits it
  return id;
}

// Inserts one row. `into`: "INSERT OR REPLACE INTO table (columns)". `values`: one value for each column, in tuples.
template <class... Values>
void insert_row(SQLite::Database& database, const std::string& into, const std::tuple<Values...>& values) {
  std::string places = "?";
  for (std::size_t i = 1; i < sizeof...(Values); ++i) places += ", ?";
  execute(database, into + " VALUES (" + places + ")", values);
}

// A write transaction. It takes its lock at the start, so it cannot fail on a lock later. It is undone unless
// committed.
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

// Sets WAL on a local disk, and a rollback journal when shared memory between processes does not work. Both survive a
// killed process. In WAL mode a power failure may lose the last commits.
void set_journal_mode(SQLite::Database& database, const std::string& path);

// Limits the harm from a damaged or hostile file: the size of values, and functions in its schema.
void distrust(SQLite::Database& database);

// Whether the file holds no table yet.
bool is_empty(SQLite::Database& database);

// Makes the folder of `path`.
Status make_parent_folder(const std::string& path, const DatabaseNoun& noun);

// The current time in UTC, ISO 8601 with milliseconds.
std::string utc_now();

}  // namespace sparsmith
