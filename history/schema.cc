#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string>

#include "base/sqlite_database.h"
#include "history/connection.h"

namespace sparsmith {
namespace {

// docs/guide/performance_history.md describes the columns. A change here is a new PerfStore::kSchemaVersion, with a
// migration in upgrade(). {id} and the like are types, as Dialect has them.
constexpr const char* kTables = R"sql(
CREATE TABLE meta (key {text} PRIMARY KEY, value {text} NOT NULL) {keyed};
CREATE TABLE environment (
  id {id},
  device {text} NOT NULL, driver {text} NOT NULL, nvrtc {text} NOT NULL, clocks {text} NOT NULL,
  UNIQUE (device, driver, nvrtc, clocks));
CREATE TABLE run (
  id {id},
  commit_hash {text} NOT NULL, parents {text} NOT NULL, committed_at {text} NOT NULL, branch {text} NOT NULL,
  session {text} NOT NULL, again {integer} NOT NULL, search_s {real} NOT NULL, program_version {text} NOT NULL,
  recorded_at {text} NOT NULL, environment_id {integer} NOT NULL REFERENCES environment(id));
CREATE INDEX run_commit ON run (commit_hash);
CREATE TABLE bench_case (
  id {id},
  name {text} NOT NULL, operator {text} NOT NULL, weight {text} NOT NULL, device_class {text} NOT NULL,
  cache_policy {text} NOT NULL, command {text} NOT NULL,
  UNIQUE (name, operator, weight, device_class, cache_policy));
CREATE TABLE implementation (
  id {id},
  hash {text} NOT NULL UNIQUE,
  choice {text} NOT NULL, config {text} NOT NULL, packing {text} NOT NULL, packing_hash {text} NOT NULL,
  packed_bytes {integer} NOT NULL, plan_hash {text} NOT NULL, kernels {text} NOT NULL);
CREATE TABLE measurement (
  id {id},
  run_id {integer} NOT NULL REFERENCES run(id), case_id {integer} NOT NULL REFERENCES bench_case(id),
  implementation_id {integer} NOT NULL REFERENCES implementation(id), samples {bytes} NOT NULL);
CREATE INDEX measurement_run ON measurement (run_id);
)sql";

// What version 2 added.
constexpr const char* kMarks = R"sql(
CREATE TABLE mark (
  commit_hash {text} NOT NULL, case_name {text} NOT NULL, reason {text} NOT NULL, author {text} NOT NULL,
  marked_at {text} NOT NULL,
  PRIMARY KEY (commit_hash, case_name)) {keyed};
)sql";

Status run_in_dialect(HistoryConnection& connection, const char* sql) {
  const Dialect& types = connection.dialect();
  return connection.run_script(fmt::format(
      fmt::runtime(sql), fmt::arg("id", types.id), fmt::arg("integer", types.integer), fmt::arg("real", types.real),
      fmt::arg("text", types.text), fmt::arg("bytes", types.bytes), fmt::arg("keyed", types.keyed)));
}

Status no_history(const HistoryConnection& connection) {
  return invalid_input(fmt::format("{}: a database, but not a performance history of sparsmith", connection.name()));
}

// The version of the history that is there; 0: the database is empty. Error: kInvalidInput when it holds something
// else.
Result<int> version_of(HistoryConnection& connection) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<std::string> tables, connection.tables());
  if (tables.empty()) return 0;
  std::map<std::string, std::string> meta;
  const auto add = [&](const SqlRow& row) {
    meta[row[0]] = row[1];
    return Status();
  };
  if (std::ranges::find(tables, "meta") != tables.end())
    SPARSMITH_RETURN_IF_ERROR(connection.execute("SELECT key, value FROM meta", {}, add));
  if (!meta.contains("schema_version") || !meta["format"].ends_with("performance history"))
    return no_history(connection);
  const std::string& text = meta["schema_version"];
  int version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size() || version < 1)
    return invalid_input(fmt::format("{}: the schema version '{}' is no number", connection.name(), text));
  return version;
}

Status put_meta(HistoryConnection& connection, const std::string& key, const std::string& value) {
  return connection.execute("INSERT INTO meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                            {key, value}, nullptr);
}

// Makes the tables, or the tables that later versions added. Another process may have been faster.
Status upgrade(HistoryConnection& connection) {
  return connection.in_transaction([&]() -> Status {
    SPARSMITH_ASSIGN_OR_RETURN(const int version, version_of(connection));
    if (version >= PerfStore::kSchemaVersion) return {};
    if (version == 0) {
      SPARSMITH_RETURN_IF_ERROR(run_in_dialect(connection, kTables));
      SPARSMITH_RETURN_IF_ERROR(put_meta(connection, "format", "sparsmith performance history"));
      SPARSMITH_RETURN_IF_ERROR(put_meta(connection, "created_at", utc_now()));
    }
    SPARSMITH_RETURN_IF_ERROR(run_in_dialect(connection, kMarks));
    return put_meta(connection, "schema_version", std::to_string(PerfStore::kSchemaVersion));
  });
}

}  // namespace

Status prepare_schema(HistoryConnection& connection, PerfStore::Mode mode) {
  SPARSMITH_ASSIGN_OR_RETURN(const int version, version_of(connection));
  if (version > PerfStore::kSchemaVersion) {
    return invalid_input(
        fmt::format("{}: written by a newer sparsmith (schema version {}, this program knows up to {}); update this "
                    "program, or give another path with --db",
                    connection.name(), version, PerfStore::kSchemaVersion));
  }
  if (version < PerfStore::kSchemaVersion) {
    if (mode == PerfStore::Mode::kReadOnly && version == 0) return no_history(connection);
    if (mode == PerfStore::Mode::kReadOnly)
      return invalid_input(
          fmt::format("{}: has the older schema version {} and is opened for reading alone; "
                      "`sparsmith perf record` or `perf mark` bring it up to date",
                      connection.name(), version));
    SPARSMITH_RETURN_IF_ERROR(upgrade(connection));
  }
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<std::string> tables, connection.tables());
  for (const char* table : {"environment", "run", "bench_case", "implementation", "measurement", "mark"}) {
    if (std::ranges::find(tables, table) == tables.end())
      return invalid_input(fmt::format("{}: the performance history lacks its table {}", connection.name(), table));
  }
  return {};
}

}  // namespace sparsmith
