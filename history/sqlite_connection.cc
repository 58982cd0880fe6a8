#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/sqlite_database.h"
#include "history/connection.h"

namespace sparsmith {
namespace {

namespace fs = std::filesystem;

constexpr DatabaseNoun kNoun = {"performance history", "restore it from a copy", "give another path with --db"};

constexpr Dialect kDialect = {.id = "INTEGER PRIMARY KEY",
                              .integer = "INTEGER",
                              .real = "REAL",
                              .text = "TEXT",
                              .bytes = "BLOB",
                              .keyed = "WITHOUT ROWID",
                              .begin = "BEGIN IMMEDIATE",
                              .tables = "SELECT name FROM sqlite_master WHERE type = 'table'"};

// $1 as SQLite has it.
std::string numbered(std::string sql) {
  std::ranges::replace(sql, '$', '?');
  return sql;
}

class SqliteConnection : public HistoryConnection {
 public:
  SqliteConnection(const std::string& path, int flags) : path_(path), database_(path, flags, kBusyTimeoutMilliseconds) {
    distrust(database_);
  }

  const std::string& name() const override { return path_; }
  const Dialect& dialect() const override { return kDialect; }

  Status execute(const std::string& sql, const SqlValues& values, const ReadRow& read) override {
    return guard([&]() -> Status {
      SQLite::Statement& statement = statements_.try_emplace(sql, database_, numbered(sql)).first->second;
      statement.tryReset();  // from an earlier error
      int index = 0;
      for (const SqlValue& value : values)
        std::visit([&](const auto& one) { bind_next(statement, index, one); }, value);
      SqlRow row(static_cast<std::size_t>(statement.getColumnCount()));
      Status status;
      while (status.ok() && statement.executeStep()) {
        for (std::size_t i = 0; i < row.size(); ++i) row[i] = statement.getColumn(static_cast<int>(i)).getString();
        if (read) status = read(row);
      }
      statement.tryReset();
      return status;
    });
  }
  Status run_script(const std::string& sql) override {
    return guard([&]() -> Status {
      database_.exec(sql);
      return {};
    });
  }
  Status prepare_to_write() override {
    return guard([&]() -> Status {
      set_journal_mode(database_, path_);
      return {};
    });
  }

 private:
  template <class Body>
  auto guard(Body&& body) -> decltype(body()) {
    return guard_sqlite(path_, kNoun, std::forward<Body>(body));
  }

  std::string path_;
  SQLite::Database database_;
  std::map<std::string, SQLite::Statement> statements_;  // by their text
};

}  // namespace

Result<std::unique_ptr<HistoryConnection>> connect_sqlite(const std::string& path, PerfStore::Mode mode) {
  const bool reads_alone = mode == PerfStore::Mode::kReadOnly;
  if (!reads_alone) SPARSMITH_RETURN_IF_ERROR(make_parent_folder(path, kNoun));
  std::error_code error;
  if (reads_alone && !fs::exists(path, error))
    return not_found(fmt::format("{}: no performance history there; `sparsmith perf record` makes one", path));
  if (fs::is_directory(path, error)) return io_error(fmt::format("{}: a folder, not a performance history", path));
  return guard_sqlite(path, kNoun, [&]() -> Result<std::unique_ptr<HistoryConnection>> {
    const int flags = reads_alone ? SQLite::OPEN_READONLY : SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE;
    return std::unique_ptr<HistoryConnection>(std::make_unique<SqliteConnection>(path, flags));
  });
}

}  // namespace sparsmith
