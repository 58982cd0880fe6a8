#include <fmt/args.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "base/sqlite_database.h"
#include "history/database.h"

namespace sparsmith {
namespace {

// docs/performance_history.md says what each column means. A change here is a new PerfStore::kSchemaVersion, with a
// migration below. {id} and the like are types, as Dialect has them.
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

std::string in_dialect(const char* sql, const Dialect& dialect) {
  fmt::dynamic_format_arg_store<fmt::format_context> types;
  types.push_back(fmt::arg("id", dialect.id));
  types.push_back(fmt::arg("integer", dialect.integer));
  types.push_back(fmt::arg("real", dialect.real));
  types.push_back(fmt::arg("text", dialect.text));
  types.push_back(fmt::arg("bytes", dialect.bytes));
  types.push_back(fmt::arg("keyed", dialect.keyed));
  return fmt::vformat(sql, types);
}

Result<std::optional<std::string>> meta_of(HistoryConnection& connection, const std::string& key) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::unique_ptr<SqlRows> rows,
                             connection.query_with("SELECT value FROM meta WHERE key = $1", {key}));
  SPARSMITH_ASSIGN_OR_RETURN(const bool found, rows->next());
  return found ? std::optional<std::string>(rows->text(0)) : std::nullopt;
}

// nullopt: none is stated, so that this is no history.
Result<std::optional<int>> schema_version_of(HistoryConnection& connection) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::optional<std::string> text, meta_of(connection, "schema_version"));
  if (!text) return std::optional<int>();
  int version = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), version);
  if (error != std::errc() || end != text->data() + text->size() || version < 1)
    return invalid_input(fmt::format("{}: the schema version '{}' is no number", connection.name(), *text));
  return std::optional<int>(version);
}

Status put_meta(HistoryConnection& connection, const std::string& key, const std::string& value) {
  return connection.execute_with("INSERT INTO meta VALUES ($1, $2)", {key, value});
}

Status create(HistoryConnection& connection) {
  SPARSMITH_ASSIGN_OR_RETURN(HistoryTransaction transaction, HistoryTransaction::begin(connection));
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<std::string> tables, connection.tables());
  if (tables.empty()) {  // nobody else made them while we waited for the lock
    SPARSMITH_RETURN_IF_ERROR(connection.run_script(in_dialect(kTables, connection.dialect())));
    SPARSMITH_RETURN_IF_ERROR(connection.run_script(in_dialect(kMarks, connection.dialect())));
    SPARSMITH_RETURN_IF_ERROR(put_meta(connection, "format", "sparsmith performance history"));
    SPARSMITH_RETURN_IF_ERROR(put_meta(connection, "schema_version", std::to_string(PerfStore::kSchemaVersion)));
    SPARSMITH_RETURN_IF_ERROR(put_meta(connection, "created_at", utc_now()));
  }
  return transaction.commit();
}

// One version after the other, all in one transaction.
Status migrate(HistoryConnection& connection) {
  SPARSMITH_ASSIGN_OR_RETURN(HistoryTransaction transaction, HistoryTransaction::begin(connection));
  SPARSMITH_ASSIGN_OR_RETURN(const std::optional<int> version, schema_version_of(connection));
  if (version == 1) {  // another process may have been faster
    SPARSMITH_RETURN_IF_ERROR(connection.run_script(in_dialect(kMarks, connection.dialect())));
  }
  SPARSMITH_RETURN_IF_ERROR(connection.execute_with("UPDATE meta SET value = $1 WHERE key = 'schema_version'",
                                                    {std::to_string(PerfStore::kSchemaVersion)}));
  return transaction.commit();
}

Status check_tables(HistoryConnection& connection) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<std::string> tables, connection.tables());
  for (const char* table : {"environment", "run", "bench_case", "implementation", "measurement", "mark"}) {
    if (std::ranges::find(tables, table) == tables.end())
      return invalid_input(fmt::format("{}: the performance history lacks its table {}", connection.name(), table));
  }
  return {};
}

// The version of the history that is there. Error: kInvalidInput when something else is.
Result<int> version_of_history(HistoryConnection& connection, const std::vector<std::string>& tables) {
  std::optional<int> version;
  std::optional<std::string> format;
  if (std::ranges::find(tables, "meta") != tables.end()) {
    SPARSMITH_ASSIGN_OR_RETURN(version, schema_version_of(connection));
    SPARSMITH_ASSIGN_OR_RETURN(format, meta_of(connection, "format"));
  }
  if (!version || !format || !format->ends_with("performance history"))
    return invalid_input(fmt::format("{}: a database, but not a performance history of sparsmith", connection.name()));
  return *version;
}

}  // namespace

Status prepare_schema(HistoryConnection& connection, PerfStore::Mode mode) {
  const bool may_write = mode == PerfStore::Mode::kReadWrite;
  SPARSMITH_ASSIGN_OR_RETURN(std::vector<std::string> tables, connection.tables());
  if (tables.empty() && may_write) {
    SPARSMITH_RETURN_IF_ERROR(create(connection));
    SPARSMITH_ASSIGN_OR_RETURN(tables, connection.tables());
  }
  SPARSMITH_ASSIGN_OR_RETURN(const int version, version_of_history(connection, tables));
  if (version > PerfStore::kSchemaVersion) {
    return invalid_input(
        fmt::format("{}: written by a newer sparsmith (schema version {}, this program knows up to {}); update this "
                    "program, or give another path with --db",
                    connection.name(), version, PerfStore::kSchemaVersion));
  }
  if (version < PerfStore::kSchemaVersion) {
    if (!may_write)
      return invalid_input(
          fmt::format("{}: has the older schema version {} and is opened for reading alone; "
                      "`sparsmith perf record` or `perf mark` bring it up to date",
                      connection.name(), version));
    SPARSMITH_RETURN_IF_ERROR(migrate(connection));
  }
  return check_tables(connection);
}

}  // namespace sparsmith
