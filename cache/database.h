// SQLite at arm's length: exceptions of SQLiteCpp become a Status at this edge. Internal to cache/.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cache/cache.h"
#include "cache/process_identity.h"
#include "sparsmith/status.h"

namespace sparsmith {

// What went wrong with the database at `path`.
Status database_error(const SQLite::Exception& error, const std::string& path);

// Runs `body` (returning a Status or a Result) and returns its value, or what it threw as a Status.
template <class Body>
auto guarded(const std::string& path, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& error) {
    return database_error(error, path);
  } catch (const std::exception& error) {
    return internal_error(path + ": " + error.what());
  }
}

// Binds `arguments` to ?1, ?2, ... in order.
template <class... Arguments>
void bind_all(SQLite::Statement& statement, const Arguments&... arguments) {
  int index = 0;
  const auto bind = [&](const auto& argument) {
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

struct Cache::State {
  std::string path;
  Mode mode = Mode::kReadWrite;
  SQLite::Database database;
  ProcessIdentity process = ProcessIdentity::current();
  std::int64_t damaged = 0;
};

// Makes the tables where there are none. Error: kInvalidInput when the file holds something else.
Status prepare_schema(SQLite::Database& database, const std::string& path, Cache::Mode mode);

// WAL on a local disk; a rollback journal where shared memory between processes does not work.
void set_journal_mode(SQLite::Database& database, const std::string& path);

// Calls rows crashed that dead processes left running.
void mark_abandoned(SQLite::Database& database, const ProcessIdentity& process);

// The choice of the statement's current row, whose columns are kChoiceColumns; and the checksum it should carry.
extern const char* const kChoiceColumns;
ChoiceRecord choice_of_row(SQLite::Statement& row);
std::string checksum_of(const ChoiceRecord& choice);
// Whether `challenger` takes the place of `holder`, which has the same key.
bool replaces(const ChoiceRecord& challenger, const ChoiceRecord& holder);
// Writes over whatever the key holds, keeping chosen_at.
void write_choice(SQLite::Database& database, const ChoiceRecord& choice);

// Names binaries that fail their hash, one line each, and removes them where asked to.
std::vector<std::string> check_binaries(SQLite::Database& database, bool remove);

std::string utc_now();

}  // namespace sparsmith
