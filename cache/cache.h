// The results of earlier runs in one SQLite file: compiled kernels, measurements and choices
// (docs/reference/cache.md describes the tables).
//
// Calls from several threads to one Cache run one after another. Any number of processes may use one file at the same
// time. Every write is committed when its function returns, so a killed process loses only its unfinished write. Losing
// the file costs time, but never changes results: callers treat an error of the cache as a miss. Failed writes are
// counted.
//
// Errors: kInvalidInput when the file is damaged, is no cache, or has another schema; kIoError when it cannot be
// read, written, or locked within ten seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/records.h"
#include "sparsmith/status.h"

namespace sparsmith {

class Cache {
 public:
  enum class Mode : std::uint8_t { kReadWrite, kReadOnly };
  static constexpr int kSchemaVersion = 3;

  // $XDG_CACHE_HOME/sparsmith/cache.db, or ~/.cache/sparsmith/cache.db. Error: kNotFound when neither is set.
  static Result<std::string> default_path();

  // Opens the cache at `path`. kReadWrite makes the file and its folder when missing. A file that is no cache is an
  // error and is not changed.
  static Result<Cache> open(const std::string& path, Mode mode);

  // For the default path. A file that is no cache, is damaged, or has another schema is moved to "<path>.<n>.bad", and
  // a new file is made. `notice` (may be null) then receives a message.
  static Result<Cache> open_or_rebuild(const std::string& path, std::string* notice);

  Cache(Cache&&) noexcept;
  Cache& operator=(Cache&&) noexcept;
  ~Cache();

  const std::string& path() const;

  // The writes that failed since the cache was opened. The first failure is a warning in the log. Callers continue.
  struct WriteFailures {
    std::int64_t count = 0;
    std::string reason;  // of the first failure
  };
  WriteFailures write_failures() const;

  // The put_ functions with an id return the id of an equal row, or of a new row. Other rows refer to it.
  Result<std::int64_t> put_device(const DeviceRecord& device);
  // The measured speeds of a device with its driver (DeviceProperties::probe_key()); no value when not measured.
  Result<std::optional<SpeedsRecord>> find_speeds(const std::string& probe_key);
  Status put_speeds(const std::string& probe_key, const SpeedsRecord& speeds);
  Result<std::int64_t> put_environment(const EnvironmentRecord& environment);
  Status put_weight(const WeightRecord& weight);
  Result<std::vector<WeightRecord>> weights();

  // Kernel binaries. A binary that does not match its hash is removed, counted in damaged(), and not found.
  Result<std::optional<KernelRecord>> find_kernel(const KernelKey& key);
  Status put_kernel(const KernelRecord& kernel);
  std::int64_t damaged() const;

  // Measurements. begin() writes the row with status kRunning before any launch and returns its id. finish() fills in
  // the results. When a process has died, its rows with status kRunning become kCrashed: open() for writing and begin()
  // do this.
  Result<std::int64_t> begin(const MeasurementRecord& measurement);
  Status finish(std::int64_t id, const MeasurementRecord& outcome);
  // Finished measurements, oldest first.
  Result<std::vector<MeasurementRecord>> measurements(const ProblemKey& key);

  // Choices, one per key. Of two choices, measured beats predicted, then complete beats incomplete. Between two
  // incomplete choices the larger budget wins, then the lower time; between two complete choices the later wins. A
  // choice whose row fails its checksum is removed, counted in damaged(), and not found.
  Status put_choice(const ChoiceRecord& choice);
  // The choice of the exact device class, else of the same architecture with the nearest SM count, else kNone.
  Result<ChoiceMatch> find_choice(const ProblemKey& key, int compute_capability, int sm_count);
  Result<std::vector<ChoiceRecord>> choices();

  struct Counts {
    std::int64_t devices = 0, environments = 0, weights = 0, kernels = 0, binaries = 0, measurements = 0, choices = 0;
    std::int64_t binary_bytes = 0;
    std::int64_t running = 0, crashed = 0;
  };
  Result<Counts> counts();

  // Checks the file's structure, and every binary and choice against its hash. Damaged rows that can be dropped are
  // dropped (not in kReadOnly). Returns one line for each problem.
  Result<std::vector<std::string>> verify();

  // Writes a compact copy to `path`, which must not exist. `seconds`: of binaries, measurements and choices, only those
  // that were written or used in the last so many seconds; 0: all.
  Status export_to(const std::string& path, int seconds = 0);

  struct Merged {
    std::int64_t binaries = 0, measurements = 0, choices = 0;  // rows copied
    std::int64_t damaged = 0;                                  // rows that failed their hash, not copied
  };
  // Copies rows from the cache at `path` that this cache does not have, and choices that beat its own. Binaries are
  // copied one by one, all other rows in one transaction.
  Result<Merged> merge_from(const std::string& path);

  struct Collected {
    std::int64_t binaries = 0, measurements = 0;
    std::int64_t bytes_before = 0, bytes_after = 0;  // of the file
  };
  // Drops binaries that were not used for `days` days, and measurements of that age whose problem has a choice. Then
  // compacts the file.
  Result<Collected> collect_garbage(int days);

 private:
  struct State;
  explicit Cache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sparsmith
