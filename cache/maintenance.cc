// verify, export, merge and garbage collection.
#include <fmt/format.h>

#include <filesystem>

#include "cache/database.h"

namespace sparsmith {

namespace {

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
  std::vector<std::string> damaged;  // stored checksums
  SQLite::Statement query(database, fmt::format("SELECT {} FROM choice", kChoiceColumns));
  while (query.executeStep()) {
    const ChoiceRecord choice = choice_of_row(query);
    const std::string stored = query.getColumn(kChecksumColumn).getString();
    if (stored == checksum_of(choice)) continue;
    damaged.push_back(stored);
    problems.push_back(fmt::format("choice of {} for {} tokens: fails its checksum{}", choice.key.pattern_hash,
                                   choice.key.tokens, remove ? "; dropped" : ""));
  }
  query.reset();
  if (remove) {
    for (const std::string& checksum : damaged) execute(database, "DELETE FROM choice WHERE checksum = ?1", checksum);
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

// Rows that have a natural key. Binaries are merged through the API, which checks their hashes. Of tables that are
// equal SQLite would copy rows as they lie on the page, values of another type than the column's included, which only
// damage puts there: such rows stay behind.
void merge_plain_rows(SQLite::Database& database) {
  database.exec(
      "INSERT OR IGNORE INTO device (device_class, name, compute_capability, sm_count, memory_bytes, memory_bandwidth) "
      "SELECT device_class, name, compute_capability, sm_count, memory_bytes, memory_bandwidth FROM other.device");
  database.exec(
      "INSERT OR IGNORE INTO environment (driver_version, nvrtc_version, program_version) "
      "SELECT driver_version, nvrtc_version, program_version FROM other.environment");
  database.exec(
      "INSERT OR IGNORE INTO weight SELECT * FROM other.weight WHERE typeof(pattern_hash) = 'text' AND "
      "typeof(value_hash) = 'text' AND typeof(rows) = 'integer' AND typeof(cols) = 'integer' AND "
      "typeof(nnz) = 'integer' AND typeof(histogram) = 'text'");
  database.exec(
      "INSERT OR IGNORE INTO kernel SELECT * FROM other.kernel WHERE typeof(name) = 'text' AND "
      "typeof(closure_hash) = 'text' AND typeof(config) = 'text'");
}

// Devices and environments have other numbers here than there.
std::int64_t merge_measurements(SQLite::Database& database) {
  constexpr const char* kCopied =
      "uid, pattern_hash, value_hash, operator, tokens, device_class, timing_policy, config, packing, packer_version, "
      "closure_hash, predicted_us, host, pid, start_time, began_at, ended_at, status, abandoned, reason, median_us, "
      "q1_us, "
      "q3_us, samples, copies, warm, max_error_over_bound";
  return database.exec(fmt::format(
      "INSERT OR IGNORE INTO measurement ({0}, device_id, environment_id) SELECT {0}, "
      "(SELECT d.id FROM device d JOIN other.device o ON o.device_class = d.device_class AND o.name = d.name AND "
      "o.memory_bytes = d.memory_bytes WHERE o.id = m.device_id), "
      "(SELECT e.id FROM environment e JOIN other.environment o ON o.driver_version = e.driver_version AND "
      "o.nvrtc_version = e.nvrtc_version AND o.program_version = e.program_version WHERE o.id = m.environment_id) "
      "FROM other.measurement m WHERE m.status <> 'running'",
      kCopied));
}

void merge_choices(SQLite::Database& database, Cache::Merged* merged) {
  SQLite::Statement theirs(database, fmt::format("SELECT {} FROM other.choice", kChoiceColumns));
  SQLite::Statement ours(
      database, fmt::format("SELECT {} FROM main.choice WHERE pattern_hash = ?1 AND operator = ?2 AND tokens = ?3 AND "
                            "device_class = ?4 AND timing_policy = ?5",
                            kChoiceColumns));
  while (theirs.executeStep()) {
    const ChoiceRecord choice = choice_of_row(theirs);
    if (theirs.getColumn(kChecksumColumn).getString() != checksum_of(choice)) {
      ++merged->damaged;
      continue;
    }
    ours.reset();
    bind_all(ours, choice.key.pattern_hash, choice.key.operator_name, choice.key.tokens, choice.key.device_class,
             choice.key.timing_policy);
    if (ours.executeStep()) {
      const ChoiceRecord holder = choice_of_row(ours);
      const bool sound = ours.getColumn(kChecksumColumn).getString() == checksum_of(holder);
      // An equal row is no news, and the same one must win whichever way two caches are merged.
      if (sound && (checksum_of(holder) == checksum_of(choice) || !replaces(choice, holder))) continue;
    }
    ours.reset();
    write_choice(database, choice);
    ++merged->choices;
  }
}

}  // namespace

Result<std::vector<std::string>> Cache::verify() {
  const std::lock_guard lock(state_->mutex);
  return guarded(state_->path, [&]() -> Result<std::vector<std::string>> {
    const bool remove = state_->mode == Mode::kReadWrite;
    std::vector<std::string> problems = check_structure(state_->database);
    for (auto& line : check_binaries(state_->database, remove)) problems.push_back(std::move(line));
    for (auto& line : check_choices(state_->database, remove)) problems.push_back(std::move(line));
    return problems;
  });
}

Status Cache::export_to(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    return invalid_argument(fmt::format("{}: exists already; an export does not overwrite", path));
  }
  const std::lock_guard lock(state_->mutex);
  return guarded(state_->path, [&]() -> Status {
    execute(state_->database, "VACUUM INTO ?1", path);
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
  SPARSMITH_RETURN_IF_ERROR(guarded(path, [&]() -> Status {
    SQLite::Statement query(other.state_->database,
                            "SELECT name, closure_hash, architecture, nvrtc_version FROM binary");
    while (query.executeStep()) {
      missing.push_back({query.getColumn(0).getString(), query.getColumn(1).getString(), query.getColumn(2).getString(),
                         query.getColumn(3).getString()});
    }
    return {};
  }));
  SPARSMITH_RETURN_IF_ERROR(guarded(state_->path, [&]() -> Status {
    const std::lock_guard lock(state_->mutex);
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
  const std::lock_guard lock(state_->mutex);
  return guarded(state_->path, [&]() -> Result<Collected> {
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
          "AND "
          "EXISTS (SELECT 1 FROM choice c WHERE c.pattern_hash = measurement.pattern_hash AND c.operator = "
          "measurement.operator AND c.tokens = measurement.tokens AND c.device_class = measurement.device_class AND "
          "c.timing_policy = measurement.timing_policy)",
          age);
      state_->database.exec(
          "DELETE FROM kernel WHERE NOT EXISTS (SELECT 1 FROM binary b WHERE b.name = kernel.name AND b.closure_hash = "
          "kernel.closure_hash)");
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
