// The database of a performance history, whichever it is: SQLite or PostgreSQL. Internal to history/.
//
// Both take the same SQL, with values as $1, $2, ... in the order of their first use. What they do not share stands in
// Dialect, and in the two files that implement this class.
//
// A connection may be used by one thread at a time, and reads one result at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
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

// The types of the schema's columns.
struct Dialect {
  const char* id;       // a number that the database gives, and the table's key
  const char* integer;  // of 64 bits
  const char* real;     // of 64 bits
  const char* text;     // compared byte by byte
  const char* bytes;
  const char* keyed;  // behind a table that is read by its key alone
};

// A result, row by row: next() before the first, too. Columns count from 0 and are read as what the schema says.
class SqlRows {
 public:
  virtual ~SqlRows() = default;
  virtual Result<bool> next() = 0;
  virtual std::int64_t integer(int column) const = 0;
  virtual std::string text(int column) const = 0;
  virtual std::string bytes(int column) const = 0;
};

class HistoryConnection {
 public:
  virtual ~HistoryConnection() = default;

  // As messages name it: a path, or an address without its password.
  virtual const std::string& name() const = 0;
  virtual const Dialect& dialect() const = 0;

  // One statement. Errors, of all: kInvalidInput when the database is damaged or lacks what the statement names;
  // kIoError when it cannot be reached, read, written, or locked within ten seconds.
  virtual Status execute(const std::string& sql, std::span<const SqlValue> values) = 0;
  virtual Result<std::unique_ptr<SqlRows>> query(const std::string& sql, std::span<const SqlValue> values) = 0;
  // Several statements without values.
  virtual Status run_script(const std::string& sql) = 0;

  // A transaction that writes; one at a time over all connections, so that none can fail half way for a lock.
  virtual Status begin() = 0;
  virtual Status commit() = 0;
  virtual void roll_back() = 0;

  // Called before the first write, once it is known that what is there is a history.
  virtual Status prepare_to_write() = 0;

  virtual Result<std::vector<std::string>> tables() = 0;  // names
  virtual Result<std::int64_t> size_bytes() = 0;

  // For statements whose values stand in the call.
  Status execute_with(const std::string& sql, std::initializer_list<SqlValue> values) {
    return execute(sql, std::span(values.begin(), values.size()));
  }
  Result<std::unique_ptr<SqlRows>> query_with(const std::string& sql, std::initializer_list<SqlValue> values) {
    return query(sql, std::span(values.begin(), values.size()));
  }
  // The integer of the one row and column that a query has. Error: kInternalError when there is no row.
  Result<std::int64_t> integer_of(const std::string& sql, std::initializer_list<SqlValue> values);
};

// Undone unless committed.
class HistoryTransaction {
 public:
  static Result<HistoryTransaction> begin(HistoryConnection& connection);
  HistoryTransaction(HistoryTransaction&& other) noexcept : connection_(std::exchange(other.connection_, nullptr)) {}
  HistoryTransaction& operator=(HistoryTransaction&&) = delete;
  ~HistoryTransaction() {
    if (connection_ != nullptr) connection_->roll_back();
  }
  Status commit();

 private:
  explicit HistoryTransaction(HistoryConnection* connection) : connection_(connection) {}
  HistoryConnection* connection_;
};

// Whether `address` is of a PostgreSQL server, "postgresql://..." or "postgres://...", and not a path.
bool is_postgresql(const std::string& address);
// `address` without the password that it may hold.
std::string without_password(const std::string& address);
// `message` without the password of `address`, and without the parts of it that the message quotes.
std::string without_password(const std::string& address, std::string message);

// Opens a database, and knows nothing yet of what it holds. With kReadWrite SQLite makes a file where there is none.
//   Errors: kNotFound when there is no file to read; kIoError when there is no such server or libpq;
//   kUnsupported when this build has no PostgreSQL.
Result<std::unique_ptr<HistoryConnection>> connect_history(const std::string& address, PerfStore::Mode mode);

// Of connect_history(), for either.
Result<std::unique_ptr<HistoryConnection>> connect_sqlite(const std::string& path, PerfStore::Mode mode);
Result<std::unique_ptr<HistoryConnection>> connect_postgresql(const std::string& address, PerfStore::Mode mode);

}  // namespace sparsmith
