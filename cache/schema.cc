#include <fmt/format.h>

#include <optional>
#include <string>

#include "cache/database.h"

namespace sparsmith {
namespace {

// docs/reference/cache.md says what each column means; a change here is a new Cache::kSchemaVersion.
constexpr const char* kTables = R"sql(
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE device (
  id INTEGER PRIMARY KEY,
  device_class TEXT NOT NULL, name TEXT NOT NULL, compute_capability INTEGER NOT NULL, sm_count INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL, memory_bandwidth REAL NOT NULL,
  UNIQUE (device_class, name, memory_bytes));
CREATE TABLE environment (
  id INTEGER PRIMARY KEY,
  driver_version TEXT NOT NULL, nvrtc_version TEXT NOT NULL, program_version TEXT NOT NULL,
  UNIQUE (driver_version, nvrtc_version, program_version));
CREATE TABLE weight (
  pattern_hash TEXT NOT NULL, value_hash TEXT NOT NULL, rows INTEGER NOT NULL, cols INTEGER NOT NULL,
  nnz INTEGER NOT NULL, histogram TEXT NOT NULL,
  PRIMARY KEY (pattern_hash, value_hash)) WITHOUT ROWID;
CREATE TABLE kernel (
  name TEXT NOT NULL, closure_hash TEXT NOT NULL, config TEXT NOT NULL,
  PRIMARY KEY (name, closure_hash)) WITHOUT ROWID;
CREATE TABLE binary (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL, closure_hash TEXT NOT NULL, architecture TEXT NOT NULL, nvrtc_version TEXT NOT NULL,
  cubin BLOB NOT NULL, hash TEXT NOT NULL, registers INTEGER NOT NULL,
  spill_store_bytes INTEGER NOT NULL, spill_load_bytes INTEGER NOT NULL, stack_bytes INTEGER NOT NULL,
  static_shared_bytes INTEGER NOT NULL, used_at TEXT NOT NULL,
  UNIQUE (name, closure_hash, architecture, nvrtc_version));
CREATE TABLE measurement (
  id INTEGER PRIMARY KEY,
  uid TEXT NOT NULL UNIQUE,
  pattern_hash TEXT NOT NULL, value_hash TEXT NOT NULL, operator TEXT NOT NULL, tokens INTEGER NOT NULL,
  device_class TEXT NOT NULL, timing_policy TEXT NOT NULL,
  config TEXT NOT NULL, packing TEXT NOT NULL, packer_version INTEGER NOT NULL, closure_hash TEXT NOT NULL,
  predicted_us REAL NOT NULL,
  device_id INTEGER REFERENCES device(id), environment_id INTEGER REFERENCES environment(id),
  host TEXT NOT NULL, pid INTEGER NOT NULL, start_time INTEGER NOT NULL,
  began_at TEXT NOT NULL, ended_at TEXT,
  status TEXT NOT NULL, abandoned INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '',
  median_us REAL, q1_us REAL, q3_us REAL, samples INTEGER, copies INTEGER, warm INTEGER, max_error_over_bound REAL);
CREATE INDEX measurement_problem ON measurement (pattern_hash, operator, tokens, device_class, timing_policy);
CREATE INDEX measurement_running ON measurement (host) WHERE status = 'running';
CREATE TABLE choice (
  pattern_hash TEXT NOT NULL, operator TEXT NOT NULL, tokens INTEGER NOT NULL, device_class TEXT NOT NULL,
  timing_policy TEXT NOT NULL, compute_capability INTEGER NOT NULL, sm_count INTEGER NOT NULL,
  kind TEXT NOT NULL, config TEXT NOT NULL, packing TEXT NOT NULL, packer_version INTEGER NOT NULL,
  closure_hash TEXT NOT NULL, nvrtc_version TEXT NOT NULL, evidence TEXT NOT NULL, reason TEXT NOT NULL,
  families TEXT NOT NULL, us REAL NOT NULL, q1_us REAL NOT NULL, q3_us REAL NOT NULL, dense_us REAL NOT NULL,
  complete INTEGER NOT NULL, budget_s REAL NOT NULL, chosen_at TEXT NOT NULL, checksum TEXT NOT NULL,
  goal TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (pattern_hash, operator, tokens, device_class, timing_policy)) WITHOUT ROWID;
)sql";

// The version a database says it has; nullopt when it says none.
std::optional<std::string> schema_version_of(SQLite::Database& database) {
  if (!database.tableExists("meta")) return std::nullopt;
  SQLite::Statement query(database, "SELECT value FROM meta WHERE key = 'schema_version'");
  if (!query.executeStep()) return std::nullopt;
  return query.getColumn(0).getString();
}

Status check_schema(SQLite::Database& database, const std::string& path) {
  const std::optional<std::string> version = schema_version_of(database);
  if (!version) return invalid_input(fmt::format("{}: a SQLite database, but not a cache of sparsmith", path));
  if (*version != std::to_string(Cache::kSchemaVersion)) {
    return invalid_input(
        fmt::format("{}: the cache has schema version {}, this program reads version {}; give another path, "
                    "or use the program that wrote it",
                    path, *version, Cache::kSchemaVersion));
  }
  for (const char* table : {"device", "environment", "weight", "kernel", "binary", "measurement", "choice"}) {
    if (!database.tableExists(table))
      return invalid_input(fmt::format("{}: the cache lacks its table {}", path, table));
  }
  return {};
}

}  // namespace

Status prepare_schema(SQLite::Database& database, const std::string& path, Cache::Mode mode) {
  if (mode == Cache::Mode::kReadWrite && is_empty(database)) {
    WriteTransaction transaction(database);
    if (is_empty(database)) {  // nobody else made the tables while we waited for the lock
      database.exec(kTables);
      execute(database, "INSERT INTO meta VALUES ('schema_version', ?1)", std::to_string(Cache::kSchemaVersion));
      execute(database, "INSERT INTO meta VALUES ('created_at', ?1)", utc_now());
    }
    transaction.commit();
  }
  if (mode == Cache::Mode::kReadWrite && schema_version_of(database) == "2") {
    WriteTransaction transaction(database);
    if (schema_version_of(database) == "2") {
      database.exec("ALTER TABLE choice ADD COLUMN goal TEXT NOT NULL DEFAULT ''");
      execute(database, "UPDATE meta SET value = '3' WHERE key = 'schema_version'");
    }
    transaction.commit();
  }
  return check_schema(database, path);
}

}  // namespace sparsmith
