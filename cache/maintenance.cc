// verify, export, merge and garbage collection.
#include <fmt/format.h>

#include <filesystem>

#include "cache/database.h"

namespace sparsmith {

namespace {

constexpr const char* kDropBareKernels =
    "DELETE FROM kernel WHERE (name, closure_hash) NOT IN (SELECT name, closure_hash FROM binary)";

std::int64_t file_bytes(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

std::vector<std::string> check_structure(SQLite::Database& database) {
  std::vector<std::string> problems;
  SQLite::Statement integrity(database, "PRAGMA integrity_check(20)");
  while (integrity.executeStep()) {
    const std::string line = integrity.getColumn(0).getString();
    if (line != "ok") problems.push_back("structure: " + line);
  }
  SQLite::Statement references(database, "PRAGMA foreign_key_check");
  while (references.executeStep()) {
    problems.push_back(fmt::format("table {}: row {} refers to a row of {} that is not there",
                                   references.getColumn(0).getString(), references.getColumn(1).getInt64(),
                                   references.getColumn(2).getString()));
  }
  return problems;
}

std::vector<std::string> check_choices(SQLite::Database& database, bool remove) {
  std::vector<std::string> problems;
  for (const StoredChoice& row : select_choices(database, "choice")) {
    if (row.sound()) continue;
    problems.push_back(fmt::format("choice of {} for {} tokens: fails its checksum{}", row.choice.key.pattern_hash,
                                   row.choice.key.tokens, remove ? "; dropped" : ""));
    if (remove) execute(database, "DELETE FROM choice WHERE checksum = ?1", row.checksum);
  }
  return problems;
}

// Detaches on every way out.
class AttachedDatabase {
 public:
  AttachedDatabase(SQLite::Database& database, const std::string& path) : database_(database) {
    execute(database_, "ATTACH DATABASE ?1 AS other", path);
  }
  AttachedDatabase(const AttachedDatabase&) = delete;
  AttachedDatabase& operator=(const AttachedDatabase&) = delete;
  ~AttachedDatabase() { database_.tryExec("DETACH DATABASE other"); }

 private:
  SQLite::Database& database_;
};

struct Columns {
  std::string names;  // joined by commas
  std::string sound;  // the condition that each holds a value of its type
};

// But for numbers of rows, which differ from cache to cache.
Columns columns_of(SQLite::Database& database, const std::string& table) {
  SQLite::Statement query(database,
                          "SELECT group_concat(printf('\"%w\"', name), ', '), "
                          "group_concat(printf('typeof(\"%w\") = %Q', name, lower(type)), ' AND ') "
                          "FROM pragma_table_info(?1, 'main') WHERE name NOT IN ('id', 'device_id', 'environment_id')");
  bind_all(query, table);
  Columns columns;
  if (query.executeStep()) read_columns(query, std::tie(columns.names, columns.sound));
  return columns;
}

// Rows that have a natural key. Binaries are merged through the API, which checks their hashes. Rows that hold a value
// of another type than the column's, which only damage puts there, stay behind.
void merge_plain_rows(SQLite::Database& database) {
  for (const char* table : {"device", "environment", "weight", "kernel"}) {
    const auto [names, sound] = columns_of(database, table);
    database.exec(
        fmt::format("INSERT OR IGNORE INTO {0} ({1}) SELECT {1} FROM other.{0} WHERE {2}", table, names, sound));
  }
}

// Devices and environments have other numbers here than there.
std::int64_t merge_measurements(SQLite::Database& database) {
  return database.exec(fmt::format(
      "INSERT OR IGNORE INTO measurement ({0}, device_id, environment_id) SELECT {0}, "
      "(SELECT d.id FROM device d JOIN other.device o ON o.device_class = d.device_class AND o.name = d.name AND "
      "o.memory_bytes = d.memory_bytes WHERE o.id = m.device_id), "
      "(SELECT e.id FROM environment e JOIN other.environment o ON o.driver_version = e.driver_version AND "
      "o.nvrtc_version = e.nvrtc_version AND o.program_version = e.program_version WHERE o.id = m.environment_id) "
      "FROM other.measurement m WHERE m.status <> 'running'",
      columns_of(database, "measurement").names));
}

void merge_choices(SQLite::Database& database, Cache::Merged* merged) {
  for (const StoredChoice& theirs : select_choices(database, "other.choice")) {
    if (!theirs.sound()) {
      ++merged->damaged;
      continue;
    }
    const std::optional<StoredChoice> ours = holder_of(database, theirs.choice.key);
    // An equal row is no news, and the same one must win whichever way two caches are merged.
    if (ours && ours->sound() && (ours->checksum == theirs.checksum || !replaces(theirs.choice, ours->choice)))
      continue;
    write_choice(database, theirs.choice);
    ++merged->choices;
  }
}

}  // namespace

Result<std::vector<std::string>> Cache::verify() {
  return state_->reading([&]() -> Result<std::vector<std::string>> {
    const bool remove = state_->mode == Mode::kReadWrite;
    std::vector<std::string> problems = check_structure(state_->database);
    for (auto& line : check_binaries(state_->database, remove)) problems.push_back(std::move(line));
    for (auto& line : check_choices(state_->database, remove)) problems.push_back(std::move(line));
    return problems;
  });
}

Status Cache::export_to(const std::string& path, int seconds) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    return invalid_argument(fmt::format("{}: exists already; an export does not overwrite", path));
  }
  return state_->reading([&]() -> Status {
    execute(state_->database, "VACUUM INTO ?1", path);
    if (seconds == 0) return {};
    SQLite::Database copy(path, SQLite::OPEN_READWRITE);
    const std::string age = fmt::format("-{} seconds", seconds);
    for (const char* old : {"binary WHERE used_at", "measurement WHERE began_at", "choice WHERE chosen_at"})
      execute(copy, fmt::format("DELETE FROM {} < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1)", old), age);
    copy.exec(kDropBareKernels);
    copy.exec("VACUUM");
    return {};
  });
}

Result<Cache::Merged> Cache::merge_from(const std::string& path) {
  std::error_code error;
  if (std::filesystem::equivalent(path, state_->path, error)) {
    return invalid_argument(fmt::format("{}: a cache cannot be merged into itself", path));
  }
  // Opened once by itself: it must be a cache of this schema, and its binaries pass their hashes on the way.
  SPARSMITH_ASSIGN_OR_RETURN(Cache other, open(path, Mode::kReadOnly));
  std::vector<KernelKey> missing;
  Merged merged;
  SPARSMITH_RETURN_IF_ERROR(other.state_->reading([&]() -> Status {
    SQLite::Statement query(other.state_->database,
                            "SELECT name, closure_hash, architecture, nvrtc_version FROM binary");
    while (query.executeStep()) {
      KernelKey& key = missing.emplace_back();
      read_columns(query, std::tie(key.name, key.closure_hash, key.architecture, key.nvrtc_version));
    }
    return {};
  }));
  SPARSMITH_RETURN_IF_ERROR(state_->reading([&]() -> Status {
    AttachedDatabase attached(state_->database, path);
    WriteTransaction transaction(state_->database);
    merge_plain_rows(state_->database);
    merged.measurements = merge_measurements(state_->database);
    merge_choices(state_->database, &merged);
    transaction.commit();
    return {};
  }));
  for (const KernelKey& key : missing) {
    SPARSMITH_ASSIGN_OR_RETURN(const auto held, find_kernel(key));
    if (held) continue;
    SPARSMITH_ASSIGN_OR_RETURN(auto kernel, other.find_kernel(key));
    if (!kernel) {
      ++merged.damaged;
      continue;
    }
    SPARSMITH_RETURN_IF_ERROR(put_kernel(*kernel));
    ++merged.binaries;
  }
  return merged;
}

Result<Cache::Collected> Cache::collect_garbage(int days) {
  return state_->reading([&]() -> Result<Collected> {
    Collected collected;
    collected.bytes_before = file_bytes(state_->path);
    {
      WriteTransaction transaction(state_->database);
      const std::string age = fmt::format("-{} days", days);
      collected.binaries = execute(state_->database,
                                   "DELETE FROM binary WHERE used_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1)", age);
      collected.measurements = execute(
          state_->database,
          "DELETE FROM measurement WHERE status <> 'running' AND began_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1) "
          "AND (pattern_hash, operator, tokens, device_class, timing_policy) IN "
          "(SELECT pattern_hash, operator, tokens, device_class, timing_policy FROM choice)",
          age);
      state_->database.exec(kDropBareKernels);
      transaction.commit();
    }
    state_->database.exec("VACUUM");
    SQLite::Statement checkpoint(state_->database, "PRAGMA wal_checkpoint(TRUNCATE)");
    checkpoint.executeStep();
    collected.bytes_after = file_bytes(state_->path);
    return collected;
  });
}

}  // namespace sparsmith
