#include <fmt/format.h>
#include <fmt/ranges.h>

#include <locale>
#include <sstream>
#include <tuple>

#include "base/hash.h"
#include "cache/database.h"

namespace sparsmith {
namespace {

// Before a device, in meta: what a probe found.
const std::string kSpeeds = "speeds of ";

// Fields in the order of the columns of weight, of the key of binary, and of kColumns but for the hash.
template <class Weight>
auto fields_of_weight(Weight& w) {
  return std::tie(w.pattern_hash, w.value_hash, w.rows, w.cols, w.nnz, w.histogram);
}
template <class Key>
auto fields_of_key(Key& k) {
  return std::tie(k.name, k.closure_hash, k.architecture, k.nvrtc_version);
}
template <class Figures>
auto fields_of_figures(Figures& f) {
  return std::tie(f.registers, f.spill_store_bytes, f.spill_load_bytes, f.stack_bytes, f.static_shared_bytes);
}
template <class Kernel>
auto fields_of_kernel(Kernel& k) {
  return std::tuple_cat(fields_of_key(k.key), std::tie(k.cubin), fields_of_figures(k.figures));
}

constexpr const char* kColumns =
    "name, closure_hash, architecture, nvrtc_version, cubin, registers, spill_store_bytes, spill_load_bytes, "
    "stack_bytes, static_shared_bytes, hash";

// Covers the figures of ptxas too: a kernel must not be judged by damaged ones.
std::string hash_of(const KernelRecord& kernel) {
  const auto fields = std::tuple_cat(fields_of_key(kernel.key), fields_of_figures(kernel.figures),
                                     std::tuple(hash_bytes(kernel.cubin)));
  return hash_text(fmt::format("{}", fmt::join(fields, "|")));
}

// A row of the table `binary`.
struct StoredKernel {
  KernelRecord kernel;
  std::string hash;
  std::int64_t id = 0;
  bool sound() const { return hash == hash_of(kernel); }
};

SQLite::Statement select_kernels(SQLite::Database& database, const std::string& where) {
  return {database, fmt::format("SELECT {}, id, (SELECT config FROM kernel k WHERE k.name = binary.name AND "
                                "k.closure_hash = binary.closure_hash) FROM binary {}",
                                kColumns, where)};
}

StoredKernel stored_kernel(SQLite::Statement& row) {
  StoredKernel stored;
  read_columns(row,
               std::tuple_cat(fields_of_kernel(stored.kernel), std::tie(stored.hash, stored.id, stored.kernel.config)));
  return stored;
}

}  // namespace

Result<std::int64_t> Cache::put_device(const DeviceRecord& d) {
  return state_->writing([&]() -> Result<std::int64_t> {
    return execute_for_id(
        state_->database,
        "INSERT INTO device (device_class, name, compute_capability, sm_count, memory_bytes, memory_bandwidth) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET memory_bandwidth = max(memory_bandwidth, ?6) "
        "RETURNING id",
        d.device_class, d.name, d.compute_capability, d.sm_count, d.memory_bytes, d.memory_bandwidth);
  });
}

Result<std::optional<SpeedsRecord>> Cache::find_speeds(const std::string& probe_key) {
  return state_->reading([&]() -> Result<std::optional<SpeedsRecord>> {
    SQLite::Statement query(state_->database, "SELECT value FROM meta WHERE key = ?1");
    bind_all(query, kSpeeds + probe_key);
    if (!query.executeStep()) return std::optional<SpeedsRecord>();
    std::istringstream text(query.getColumn(0).getString());
    text.imbue(std::locale::classic());
    SpeedsRecord speeds;
    text >> speeds.memory_bandwidth >> speeds.l2_bandwidth >> speeds.launch_us;
    // What cannot be read is as good as not there: it is measured again.
    const bool good = text && speeds.memory_bandwidth > 0 && speeds.l2_bandwidth >= 0 && speeds.launch_us >= 0;
    return good ? std::optional<SpeedsRecord>(speeds) : std::nullopt;
  });
}

Status Cache::put_speeds(const std::string& probe_key, const SpeedsRecord& speeds) {
  return state_->writing([&]() -> Status {
    execute(state_->database, "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2",
            kSpeeds + probe_key,
            fmt::format("{} {} {}", speeds.memory_bandwidth, speeds.l2_bandwidth, speeds.launch_us));
    return {};
  });
}

Result<std::int64_t> Cache::put_environment(const EnvironmentRecord& e) {
  return state_->writing([&]() -> Result<std::int64_t> {
    return execute_for_id(
        state_->database,
        "INSERT INTO environment (driver_version, nvrtc_version, program_version) VALUES (?1, ?2, ?3) "
        "ON CONFLICT DO UPDATE SET driver_version = ?1 RETURNING id",
        e.driver_version, e.nvrtc_version, e.program_version);
  });
}

Status Cache::put_weight(const WeightRecord& weight) {
  return state_->writing([&]() -> Status {
    insert_row(state_->database, "INSERT OR REPLACE INTO weight", fields_of_weight(weight));
    return {};
  });
}

Result<std::vector<WeightRecord>> Cache::weights() {
  return state_->reading([&]() -> Result<std::vector<WeightRecord>> {
    SQLite::Statement query(state_->database, "SELECT * FROM weight ORDER BY pattern_hash");
    std::vector<WeightRecord> found;
    while (query.executeStep()) read_columns(query, fields_of_weight(found.emplace_back()));
    return found;
  });
}

Result<std::optional<KernelRecord>> Cache::find_kernel(const KernelKey& key) {
  return state_->reading([&]() -> Result<std::optional<KernelRecord>> {
    SQLite::Statement query = select_kernels(
        state_->database, "WHERE name = ?1 AND closure_hash = ?2 AND architecture = ?3 AND nvrtc_version = ?4");
    bind_all(query, fields_of_key(key));
    if (!query.executeStep()) return std::optional<KernelRecord>();
    StoredKernel stored = stored_kernel(query);
    query.reset();  // a reader of the row would block its removal
    const bool may_write = state_->mode == Mode::kReadWrite;
    if (!stored.sound()) {
      ++state_->damaged;
      if (may_write) execute(state_->database, "DELETE FROM binary WHERE id = ?1", stored.id);
      return std::optional<KernelRecord>();
    }
    // To the day: a row that is rewritten with its cubin on every use would wear the disk.
    if (may_write)
      execute(state_->database,
              "UPDATE binary SET used_at = ?2 WHERE id = ?1 AND substr(used_at, 1, 10) <> substr(?2, 1, 10)", stored.id,
              utc_now());
    return std::optional<KernelRecord>(std::move(stored.kernel));
  });
}

Status Cache::put_kernel(const KernelRecord& kernel) {
  return state_->writing([&]() -> Status {
    WriteTransaction transaction(state_->database);
    execute(state_->database, "INSERT OR REPLACE INTO kernel VALUES (?1, ?2, ?3)", kernel.key.name,
            kernel.key.closure_hash, kernel.config);
    insert_row(state_->database, fmt::format("INSERT OR REPLACE INTO binary ({}, used_at)", kColumns),
               std::tuple_cat(fields_of_kernel(kernel), std::tuple(hash_of(kernel), utc_now())));
    transaction.commit();
    return {};
  });
}

std::vector<std::string> check_binaries(SQLite::Database& database, bool remove) {
  std::vector<std::string> problems;
  std::vector<std::int64_t> damaged;
  {
    SQLite::Statement query = select_kernels(database, "");
    while (query.executeStep()) {
      const StoredKernel stored = stored_kernel(query);
      if (stored.sound()) continue;
      damaged.push_back(stored.id);
      problems.push_back(fmt::format("binary {} for {}: fails its hash{}", stored.kernel.key.name,
                                     stored.kernel.key.architecture, remove ? "; dropped" : ""));
    }
  }
  if (remove) {
    for (const std::int64_t id : damaged) execute(database, "DELETE FROM binary WHERE id = ?1", id);
  }
  return problems;
}

}  // namespace sparsmith
