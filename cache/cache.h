// What earlier runs found out, in one SQLite file: compiled kernels, measurements and choices
// (docs/cache.md describes the tables).
//
// Threads that use one Cache wait for each other; any number of processes may use one file at once. Every write is
// committed when its function returns, so a killed process loses at most what it was about to write. Losing the
// file costs time, never results: callers treat an error of the cache as a miss, and writes that fail are counted.
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

  // Opens the cache at `path`; kReadWrite makes it, and its folder, where there is none. A file that is no cache
  // is an error and stays as it is.
  static Result<Cache> open(const std::string& path, Mode mode);

  // For the default path: a file that is no cache, is damaged, or has another schema is moved aside to
  // "<path>.<n>.bad" and a new one is made. `notice` (may be null) receives what was done, or nothing.
  static Result<Cache> open_or_rebuild(const std::string& path, std::string* notice);

  Cache(Cache&&) noexcept;
  Cache& operator=(Cache&&) noexcept;
  ~Cache();

  const std::string& path() const;

  // What could not be written since the cache was opened. The first failure is a warning in the log; callers go on.
  struct WriteFailures {
    std::int64_t count = 0;
    std::string reason;  // of the first one
  };
  WriteFailures write_failures() const;

  // Rows that others refer to: the id of an equal one, or of a new one.
  Result<std::int64_t> put_device(const DeviceRecord& device);
  // What a device, with its driver, was found to reach (DeviceProperties::probe_key()); nothing where it was not.
  Result<std::optional<SpeedsRecord>> find_speeds(const std::string& probe_key);
  Status put_speeds(const std::string& probe_key, const SpeedsRecord& speeds);
  Result<std::int64_t> put_environment(const EnvironmentRecord& environment);
  Status put_weight(const WeightRecord& weight);
  Result<std::vector<WeightRecord>> weights();

  // Kernel binaries. One that does not match its hash is removed, counted in damaged(), and not found.
  Result<std::optional<KernelRecord>> find_kernel(const KernelKey& key);
  Status put_kernel(const KernelRecord& kernel);
  std::int64_t damaged() const;

  // Measurements. begin() writes the row as running before anything is launched and returns its id; finish() fills
  // in what came out. Opening for writing, and begin(), turn rows left running by dead processes into crashed ones.
  Result<std::int64_t> begin(const MeasurementRecord& measurement);
  Status finish(std::int64_t id, const MeasurementRecord& outcome);
  // Finished ones, oldest first.
  Result<std::vector<MeasurementRecord>> measurements(const ProblemKey& key);

  // Choices, one a key. Of two, measured beats predicted, then complete beats incomplete; between incomplete ones
  // the larger budget and then the lower time wins, between complete ones the later. A choice whose row fails
  // its checksum is removed, counted in damaged(), and not found.
  Status put_choice(const ChoiceRecord& choice);
  // Exact device class, else the same architecture with the nearest SM count, else kNone.
  Result<ChoiceMatch> find_choice(const ProblemKey& key, int compute_capability, int sm_count);
  Result<std::vector<ChoiceRecord>> choices();

  struct Counts {
    std::int64_t devices = 0, environments = 0, weights = 0, kernels = 0, binaries = 0, measurements = 0, choices = 0;
    std::int64_t binary_bytes = 0;
    std::int64_t running = 0, crashed = 0;
  };
  Result<Counts> counts();

  // Checks the file's structure, every binary and every choice against its hash; what is damaged and can be dropped
  // is dropped (not in kReadOnly). Each problem found is one line; none: all is well.
  Result<std::vector<std::string>> verify();

  // Writes a compact copy to `path`, which must not exist.
  Status export_to(const std::string& path);

  struct Merged {
    std::int64_t binaries = 0, measurements = 0, choices = 0;  // rows taken over
    std::int64_t damaged = 0;                                  // rows of the other that failed their hash and were left
  };
  // Takes over what the cache at `path` has and this one lacks or holds a weaker choice for; binaries one by one, the
  // rest at once or not at all.
  Result<Merged> merge_from(const std::string& path);

  struct Collected {
    std::int64_t binaries = 0, measurements = 0;
    std::int64_t bytes_before = 0, bytes_after = 0;  // of the file
  };
  // Drops binaries unused for `days` days and measurements as old whose problem has a choice, then compacts.
  Result<Collected> collect_garbage(int days);

 private:
  struct State;
  explicit Cache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sparsmith
