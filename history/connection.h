// The database of a performance history: SQLite or PostgreSQL. Internal to history/.
//
// Both use the same SQL, with values as $1, $2, ... in the order of their first use. Dialect and the two files that
// implement the class contain the differences.
//
// One thread at a time may use a connection. It reads one result at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "history/store.h"
#include "sparsmith/status.h"

namespace sparsmith {

using SqlValue = std::variant<std::int64_t, double, std::string, std::span<const std::byte>>;
using SqlValues = std::vector<SqlValue>;

// A row of a result: the text of each column, or its bytes.
using SqlRow = std::vector<std::string>;
std::int64_t sql_integer(const std::string& text);  // 0: no integer

// The types of the schema's columns, and statements with different text in both databases.
struct Dialect {
  const char* id;       // the table's key, a number from the database
  const char* integer;  // of 64 bits
  const char* real;     // of 64 bits
  const char* text;     // compared byte by byte
  const char* bytes;
  const char* keyed;  // suffix of a table that is only read by its key

  const char* begin;   // a transaction that writes: one at a time over all connections
  const char* tables;  // a query: the names of all tables
};

class HistoryConnection {
 public:
  virtual ~HistoryConnection() = default;

  // The name in messages: a path, or an address without its password.
  virtual const std::string& name() const = 0;
  virtual const Dialect& dialect() const = 0;

  // Executes one statement. `read` (may be empty) gets each row of the result until it returns an error.
  //   Errors of all functions: kInvalidInput when the database is damaged or lacks a table or column of the statement;
  //   kIoError when it cannot be reached, read, written, or locked within ten seconds.
  using ReadRow = std::function<Status(SqlRow& row)>;
  virtual Status execute(const std::string& sql, const SqlValues& values, const ReadRow& read) = 0;
  // Several statements without values.
  virtual Status run_script(const std::string& sql) = 0;
  // Called before the first write, after a check that the database is a history.
  virtual Status prepare_to_write() { return {}; }

  // Runs `body` in a transaction. The transaction is undone when `body` fails. It takes its lock at the start, so it
  // cannot fail on a lock later.
  Status in_transaction(const std::function<Status()>& body);

  // The results of `read` for each row of a query.
  template <class Read>
  auto all(const std::string& sql, const SqlValues& values, const Read& read)
      -> Result<std::vector<decltype(read(std::declval<SqlRow&>()))>> {
    std::vector<decltype(read(std::declval<SqlRow&>()))> found;
    const auto add = [&](SqlRow& row) {
      found.push_back(read(row));
      return Status();
    };
    SPARSMITH_RETURN_IF_ERROR(execute(sql, values, add));
    return found;
  }
  Result<std::vector<std::string>> tables();  // names
  // The integer in the only row and column of a query's result. Error: kInternalError when there is no row.
  Result<std::int64_t> integer_of(const std::string& sql, const SqlValues& values);
};

// Makes the tables when missing, and updates older tables.
//   Error: kInvalidInput when the database is of another kind, or has tables of a newer program.
Status prepare_schema(HistoryConnection& connection, PerfStore::Mode mode);

// Whether `address` is the address of a PostgreSQL server, "postgresql://..." or "postgres://...", and not a path.
bool is_postgresql(const std::string& address);
// `address` without its password.
std::string without_password(const std::string& address);
// `message` without the password of `address`, and without quoted parts of the password.
std::string without_password(const std::string& address, std::string message);

// Opens a database with any contents. With kReadWrite SQLite makes a missing file.
//   Errors: kNotFound when there is no file to read; kIoError when the server or libpq is missing; kUnsupported when
//   this build has no PostgreSQL.
Result<std::unique_ptr<HistoryConnection>> connect_history(const std::string& address, PerfStore::Mode mode);

// The parts of connect_history() for each kind of database.
Result<std::unique_ptr<HistoryConnection>> connect_sqlite(const std::string& path, PerfStore::Mode mode);
Result<std::unique_ptr<HistoryConnection>> connect_postgresql(const std::string& address, PerfStore::Mode mode);

}  // namespace sparsmith
