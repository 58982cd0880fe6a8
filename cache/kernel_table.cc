#include <fmt/format.h>

#include <locale>
#include <sstream>

#include "base/hash.h"
#include "cache/database.h"

namespace sparsmith {
namespace {

// Covers the figures of ptxas too: a kernel must not be judged by damaged ones.
std::string hash_of(const KernelRecord& kernel) {
  return hash_text(fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", kernel.key.name, kernel.key.closure_hash,
                               kernel.key.architecture, kernel.key.nvrtc_version, kernel.figures.registers,
                               kernel.figures.spill_store_bytes, kernel.figures.spill_load_bytes,
                               kernel.figures.stack_bytes, kernel.figures.static_shared_bytes,
                               hash_bytes(kernel.cubin)));
}

std::vector<std::byte> blob_of(const SQLite::Column& column) {
  const auto* data = static_cast<const std::byte*>(column.getBlob());
  return {data, data + column.getBytes()};
}

// Before a device, in meta: what a probe found.
const std::string kSpeeds = "speeds of ";

// Of binary: what a KernelRecord is made of; and where its config stands.
constexpr const char* kColumns =
    "name, closure_hash, architecture, nvrtc_version, cubin, hash, registers, spill_store_bytes, spill_load_bytes, "
    "stack_bytes, static_shared_bytes, id";
constexpr const char* kConfig =
    "(SELECT config FROM kernel k WHERE k.name = binary.name AND k.closure_hash = binary.closure_hash)";

KernelRecord kernel_of_row(SQLite::Statement& row) {
  KernelRecord kernel;
  kernel.key = {row.getColumn(0).getString(), row.getColumn(1).getString(), row.getColumn(2).getString(),
                row.getColumn(3).getString()};
  kernel.cubin = blob_of(row.getColumn(4));
  kernel.figures.registers = row.getColumn(6).getInt();
  kernel.figures.spill_store_bytes = row.getColumn(7).getInt64();
  kernel.figures.spill_load_bytes = row.getColumn(8).getInt64();
  kernel.figures.stack_bytes = row.getColumn(9).getInt64();
  kernel.figures.static_shared_bytes = row.getColumn(10).getInt64();
  kernel.config = row.getColumn(12).getString();
  return kernel;
}

}  // namespace

Result<std::int64_t> Cache::put_device(const DeviceRecord& device) {
  const std::lock_guard lock(state_->mutex);
  return state_->writing([&]() -> Result<std::int64_t> {
    execute(state_->database,
            "INSERT INTO device (device_class, name, compute_capability, sm_count, memory_bytes, memory_bandwidth) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET memory_bandwidth = max(memory_bandwidth, ?6)",
            device.device_class, device.name, device.compute_capability, device.sm_count, device.memory_bytes,
            device.memory_bandwidth);
    SQLite::Statement query(state_->database,
                            "SELECT id FROM device WHERE device_class = ?1 AND name = ?2 AND memory_bytes = ?3");
    bind_all(query, device.device_class, device.name, device.memory_bytes);
    if (!query.executeStep()) return invalid_input(state_->path + ": the cache lost a device it had just taken");
    return query.getColumn(0).getInt64();
  });
}

Result<std::optional<SpeedsRecord>> Cache::find_speeds(const std::string& probe_key) {
  const std::lock_guard lock(state_->mutex);
  return guarded(state_->path, [&]() -> Result<std::optional<SpeedsRecord>> {
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
  const std::lock_guard lock(state_->mutex);
  return state_->writing([&]() -> Status {
    execute(state_->database, "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2",
            kSpeeds + probe_key,
            fmt::format("{} {} {}", speeds.memory_bandwidth, speeds.l2_bandwidth, speeds.launch_us));
    return {};
  });
}

Result<std::int64_t> Cache::put_environment(const EnvironmentRecord& environment) {
  const std::lock_guard lock(state_->mutex);
  return state_->writing([&]() -> Result<std::int64_t> {
    execute(state_->database,
            "INSERT OR IGNORE INTO environment (driver_version, nvrtc_version, program_version) VALUES (?1, ?2, ?3)",
            environment.driver_version, environment.nvrtc_version, environment.program_version);
    SQLite::Statement query(
        state_->database,
        "SELECT id FROM environment WHERE driver_version = ?1 AND nvrtc_version = ?2 AND program_version = ?3");
    bind_all(query, environment.driver_version, environment.nvrtc_version, environment.program_version);
    if (!query.executeStep()) return invalid_input(state_->path + ": the cache lost an environment it had just taken");
    return query.getColumn(0).getInt64();
  });
}

Status Cache::put_weight(const WeightRecord& weight) {
  const std::lock_guard lock(state_->mutex);
  return state_->writing([&]() -> Status {
    execute(state_->database, "INSERT OR REPLACE INTO weight VALUES (?1, ?2, ?3, ?4, ?5, ?6)", weight.pattern_hash,
            weight.value_hash, weight.rows, weight.cols, weight.nnz, weight.histogram);
    return {};
  });
}

Result<std::vector<WeightRecord>> Cache::weights() {
  const std::lock_guard lock(state_->mutex);
  return guarded(state_->path, [&]() -> Result<std::vector<WeightRecord>> {
    SQLite::Statement query(state_->database, "SELECT * FROM weight ORDER BY pattern_hash");
    std::vector<WeightRecord> found;
    while (query.executeStep()) {
      found.push_back({query.getColumn(0).getString(), query.getColumn(1).getString(), query.getColumn(2).getInt64(),
                       query.getColumn(3).getInt64(), query.getColumn(4).getInt64(), query.getColumn(5).getString()});
    }
    return found;
  });
}

Result<std::optional<KernelRecord>> Cache::find_kernel(const KernelKey& key) {
  const std::lock_guard lock(state_->mutex);
  return guarded(state_->path, [&]() -> Result<std::optional<KernelRecord>> {
    SQLite::Statement query(state_->database,
                            fmt::format("SELECT {}, {} FROM binary WHERE name = ?1 AND closure_hash = ?2 AND "
                                        "architecture = ?3 AND nvrtc_version = ?4",
                                        kColumns, kConfig));
    bind_all(query, key.name, key.closure_hash, key.architecture, key.nvrtc_version);
    if (!query.executeStep()) return std::optional<KernelRecord>();
    KernelRecord kernel = kernel_of_row(query);
    const bool sound = hash_of(kernel) == query.getColumn(5).getString();
    const std::int64_t id = query.getColumn(11).getInt64();
    query.reset();  // a reader of the row would block its removal
    if (!sound) {
      ++state_->damaged;
      if (state_->mode == Mode::kReadWrite) execute(state_->database, "DELETE FROM binary WHERE id = ?1", id);
      return std::optional<KernelRecord>();
    }
    if (state_->mode == Mode::kReadWrite) {
      // To the day: a row that is rewritten with its cubin on every use would wear the disk.
      execute(state_->database,
              "UPDATE binary SET used_at = ?2 WHERE id = ?1 AND substr(used_at, 1, 10) <> substr(?2, 1, 10)", id,
              utc_now());
    }
    return std::optional<KernelRecord>(std::move(kernel));
  });
}

Status Cache::put_kernel(const KernelRecord& kernel) {
  const std::lock_guard lock(state_->mutex);
  return state_->writing([&]() -> Status {
    WriteTransaction transaction(state_->database);
    execute(state_->database, "INSERT OR REPLACE INTO kernel VALUES (?1, ?2, ?3)", kernel.key.name,
            kernel.key.closure_hash, kernel.config);
    execute(
        state_->database,
        fmt::format("INSERT OR REPLACE INTO binary ({}, used_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
                    "NULL, ?12)",
                    kColumns),
        kernel.key.name, kernel.key.closure_hash, kernel.key.architecture, kernel.key.nvrtc_version,
        std::span<const std::byte>(kernel.cubin), hash_of(kernel), kernel.figures.registers,
        kernel.figures.spill_store_bytes, kernel.figures.spill_load_bytes, kernel.figures.stack_bytes,
        kernel.figures.static_shared_bytes, utc_now());
    transaction.commit();
    return {};
  });
}

std::vector<std::string> check_binaries(SQLite::Database& database, bool remove) {
  std::vector<std::string> problems;
  std::vector<std::int64_t> damaged;
  {
    SQLite::Statement query(database, fmt::format("SELECT {}, {} FROM binary", kColumns, kConfig));
    while (query.executeStep()) {
      const KernelRecord kernel = kernel_of_row(query);
      if (hash_of(kernel) == query.getColumn(5).getString()) continue;
      damaged.push_back(query.getColumn(11).getInt64());
      problems.push_back(fmt::format("binary {} for {}: fails its hash{}", kernel.key.name, kernel.key.architecture,
                                     remove ? "; dropped" : ""));
    }
  }
  if (remove) {
    for (const std::int64_t id : damaged) execute(database, "DELETE FROM binary WHERE id = ?1", id);
  }
  return problems;
}

}  // namespace sparsmith
