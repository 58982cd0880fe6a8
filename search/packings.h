// The packed forms of one weight, and the loading of candidates that read them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "generator/family.h"
#include "search/contender.h"
#include "search/kernel_store.h"

namespace sparsmith {

// Packs on demand. The address of a packed weight stays valid until it is dropped. Thread-safe.
class Packings {
 public:
  // Beyond it, packings that are not needed next are dropped: the worker holds as much, and the device.
  static constexpr std::int64_t kResidentBytes = std::int64_t{2} << 30;

  explicit Packings(const CsrMatrix& matrix) : matrix_(matrix) {}

  // What `config` reads, packed now or before.
  Result<const PackedWeight*> get(const Config& config, const Problem& problem);
  // The same for many configs, on all cores; what cannot be packed is left out, and get() says why. What another thread
  // is packing is waited for.
  void make(std::span<const Config* const> configs, const Problem& problem);
  const PackedWeight* find(const std::string& name) const;  // nullptr when it is not there
  std::int64_t bytes() const;                               // of those that are there

  // What `reader` will read, until it says something else: it is not dropped.
  void reserve(const void* reader, std::set<std::string> names);
  std::vector<std::string> unreserved() const;  // of those that are there
  void drop(const std::string& name);           // unless it is reserved
  PackedWeight take(const std::string& name);   // REQUIRES: it is there; it no longer is
  // GPU bytes of every packing that ever was made.
  std::map<std::string, std::int64_t> sizes() const;
  // Seconds that it took to make one; 0 where it was not made.
  double seconds(const std::string& name) const;

 private:
  struct Made;
  // REQUIRES: the mutex is held.
  const PackedWeight* found(const std::string& name) const;
  const PackedWeight* keep(Made made);
  bool is_reserved(const std::string& name) const;

  const CsrMatrix& matrix_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable packed_;
  std::set<std::string> in_work_;
  std::map<const void*, std::set<std::string>> reserved_;
  std::vector<std::unique_ptr<PackedWeight>> all_;
  std::map<std::string, std::int64_t> sizes_;
  std::map<std::string, double> seconds_;
};

// The candidate as a worker takes it, still without binaries: enough for the emulator.
LoadedCandidate loaded_candidate(const Candidate& candidate);

// Puts the binaries in. Error: a kernel does not compile, spills much, or needs more registers than `device` has.
Status attach_binaries(const KernelStore& kernels, const DeviceProperties& device, Contender& contender);

}  // namespace sparsmith
