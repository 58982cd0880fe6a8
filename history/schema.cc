#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>

#include "history/database.h"

namespace sparsmith {
namespace {

// docs/performance_history.md says what each column means. A change here is a new PerfStore::kSchemaVersion, with a
// migration below.
constexpr const char* kTables = R"sql(
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE environment (
  id INTEGER PRIMARY KEY,
  device TEXT NOT NULL, driver TEXT NOT NULL, nvrtc TEXT NOT NULL, clocks TEXT NOT NULL,
  UNIQUE (device, driver, nvrtc, clocks));
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  commit_hash TEXT NOT NULL, parents TEXT NOT NULL, committed_at TEXT NOT NULL, branch TEXT NOT NULL,
  session TEXT NOT NULL, again INTEGER NOT NULL, search_s REAL NOT NULL, program_version TEXT NOT NULL,
  recorded_at TEXT NOT NULL, environment_id INTEGER NOT NULL REFERENCES environment(id));
CREATE INDEX run_commit ON run (commit_hash);
CREATE TABLE bench_case (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL, operator TEXT NOT NULL, weight TEXT NOT NULL, device_class TEXT NOT NULL,
  cache_policy TEXT NOT NULL, command TEXT NOT NULL,
  UNIQUE (name, operator, weight, device_class, cache_policy));
CREATE TABLE implementation (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  choice TEXT NOT NULL, config TEXT NOT NULL, packing TEXT NOT NULL, packing_hash TEXT NOT NULL,
  packed_bytes INTEGER NOT NULL, plan_hash TEXT NOT NULL, kernels TEXT NOT NULL);
CREATE TABLE measurement (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run(id), case_id INTEGER NOT NULL REFERENCES bench_case(id),
  implementation_id INTEGER NOT NULL REFERENCES implementation(id), samples BLOB NOT NULL);
CREATE INDEX measurement_run ON measurement (run_id);
)sql";

// What version 2 added.
constexpr const char* kMarks = R"sql(
CREATE TABLE mark (
  commit_hash TEXT NOT NULL, case_name TEXT NOT NULL, reason TEXT NOT NULL, author TEXT NOT NULL,
  marked_at TEXT NOT NULL,
  PRIMARY KEY (commit_hash, case_name)) WITHOUT ROWID;
)sql";

Result<std::optional<int>> schema_version_of(SQLite::Database& database, const std::string& path) {
  if (!database.tableExists("meta")) return std::optional<int>();
  SQLite::Statement query(database, "SELECT value FROM meta WHERE key = 'schema_version'");
  if (!query.executeStep()) return std::optional<int>();
  const std::string text = query.getColumn(0).getString();
  int version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size() || version < 1)
    return invalid_input(fmt::format("{}: the schema version '{}' is no number", path, text));
  return std::optional<int>(version);
}

void create(SQLite::Database& database) {
  WriteTransaction transaction(database);
  if (is_empty(database)) {  // nobody else made the tables while we waited for the lock
    database.exec(kTables);
    database.exec(kMarks);
    execute(database, "INSERT INTO meta VALUES ('format', 'sparsmith performance history')");
    execute(database, "INSERT INTO meta VALUES ('schema_version', ?1)", std::to_string(PerfStore::kSchemaVersion));
    execute(database, "INSERT INTO meta VALUES ('created_at', ?1)", utc_now());
  }
  transaction.commit();
}

// One version after the other, all in one transaction.
Status migrate(SQLite::Database& database, const std::string& path) {
  WriteTransaction transaction(database);
  SPARSMITH_ASSIGN_OR_RETURN(const std::optional<int> version, schema_version_of(database, path));
  if (version == 1) database.exec(kMarks);  // another process may have been faster
  execute(database, "UPDATE meta SET value = ?1 WHERE key = 'schema_version'",
          std::to_string(PerfStore::kSchemaVersion));
  transaction.commit();
  return {};
}

Status check_tables(SQLite::Database& database, const std::string& path) {
  for (const char* table : {"environment", "run", "bench_case", "implementation", "measurement", "mark"}) {
    if (!database.tableExists(table))
      return invalid_input(fmt::format("{}: the performance history lacks its table {}", path, table));
  }
  return {};
}

bool says_history(SQLite::Database& database) {
  SQLite::Statement query(database, "SELECT 1 FROM meta WHERE key = 'format' AND value LIKE '%performance history'");
  return query.executeStep();
}

}  // namespace

Status prepare_schema(SQLite::Database& database, const std::string& path, PerfStore::Mode mode) {
  const bool may_write = mode == PerfStore::Mode::kReadWrite;
  if (may_write && is_empty(database)) create(database);
  SPARSMITH_ASSIGN_OR_RETURN(const std::optional<int> version, schema_version_of(database, path));
  if (!version || !says_history(database))
    return invalid_input(fmt::format("{}: a SQLite database, but not a performance history of sparsmith", path));
  if (*version > PerfStore::kSchemaVersion) {
    return invalid_input(
        fmt::format("{}: written by a newer sparsmith (schema version {}, this program knows up to {}); update this "
                    "program, or give another path with --db",
                    path, *version, PerfStore::kSchemaVersion));
  }
  if (*version < PerfStore::kSchemaVersion) {
    if (!may_write)
      return invalid_input(
          fmt::format("{}: has the older schema version {} and is opened for reading alone; "
                      "`sparsmith perf record` or `perf mark` bring it up to date",
                      path, *version));
    SPARSMITH_RETURN_IF_ERROR(migrate(database, path));
  }
  return check_tables(database, path);
}

}  // namespace sparsmith
