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
                              .keyed = "WITHOUT ROWID"};

// $1 as SQLite has it.
std::string numbered(std::string sql) {
  std::ranges::replace(sql, '$', '?');
  return sql;
}

void bind_values(SQLite::Statement& statement, std::span<const SqlValue> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int index = static_cast<int>(i) + 1;
    std::visit(
        [&](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::span<const std::byte>>) {
            statement.bind(index, static_cast<const void*>(value.data()), static_cast<int>(value.size()));
          } else {
            statement.bind(index, value);
          }
        },
        values[i]);
  }
}

class SqliteRows : public SqlRows {
 public:
  SqliteRows(SQLite::Statement statement, const std::string& path) : statement_(std::move(statement)), path_(path) {}

  Result<bool> next() override {
    return guard_sqlite(path_, kNoun, [&]() -> Result<bool> { return statement_.executeStep(); });
  }
  std::int64_t integer(int column) const override { return statement_.getColumn(column).getInt64(); }
  std::string text(int column) const override { return statement_.getColumn(column).getString(); }
  std::string bytes(int column) const override {
    const SQLite::Column value = statement_.getColumn(column);
    return {static_cast<const char*>(value.getBlob()), static_cast<std::size_t>(value.getBytes())};
  }

 private:
  mutable SQLite::Statement statement_;  // of whose columns it says itself that they are constant
  const std::string& path_;
};

class SqliteConnection : public HistoryConnection {
 public:
  SqliteConnection(const std::string& path, int flags) : path_(path), database_(path, flags, kBusyTimeoutMilliseconds) {
    distrust(database_);
  }

  const std::string& name() const override { return path_; }
  const Dialect& dialect() const override { return kDialect; }

  Status execute(const std::string& sql, std::span<const SqlValue> values) override {
    return guard([&]() -> Status {
      auto found = statements_.find(sql);
      if (found == statements_.end())
        found = statements_.try_emplace(sql, database_, numbered(sql)).first;
      else
        found->second.reset();
      bind_values(found->second, values);
      found->second.exec();
      found->second.reset();
      return {};
    });
  }
  Result<std::unique_ptr<SqlRows>> query(const std::string& sql, std::span<const SqlValue> values) override {
    return guard([&]() -> Result<std::unique_ptr<SqlRows>> {
      SQLite::Statement statement(database_, numbered(sql));
      bind_values(statement, values);
      return std::unique_ptr<SqlRows>(std::make_unique<SqliteRows>(std::move(statement), path_));
    });
  }
  Status run_script(const std::string& sql) override {
    return guard([&]() -> Status {
      database_.exec(sql);
      return {};
    });
  }

  Status begin() override { return run_script("BEGIN IMMEDIATE"); }
  Status commit() override { return run_script("COMMIT"); }
  void roll_back() override { database_.tryExec("ROLLBACK"); }

  Status prepare_to_write() override {
    return guard([&]() -> Status {
      set_journal_mode(database_, path_);
      return {};
    });
  }
  Result<std::vector<std::string>> tables() override {
    SPARSMITH_ASSIGN_OR_RETURN(const std::unique_ptr<SqlRows> rows,
                               query("SELECT name FROM sqlite_master WHERE type = 'table'", {}));
    std::vector<std::string> names;
    for (;;) {
      SPARSMITH_ASSIGN_OR_RETURN(const bool more, rows->next());
      if (!more) return names;
      names.push_back(rows->text(0));
    }
  }
  Result<std::int64_t> size_bytes() override {
    return integer_of("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()", {});
  }

 private:
  template <class Body>
  auto guard(Body&& body) -> decltype(body()) {
    return guard_sqlite(path_, kNoun, std::forward<Body>(body));
  }

  std::string path_;
  SQLite::Database database_;
  std::map<std::string, SQLite::Statement> statements_;  // that return nothing, by their text
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
