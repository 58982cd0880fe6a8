// The packed forms of one weight, and the loading of candidates that read them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "generator/family.h"
#include "search/contender.h"
#include "search/kernel_store.h"

namespace sparsmith {

// Packs on demand. The address of a packed weight stays valid until it is dropped. One thread at a time.
class Packings {
 public:
  explicit Packings(const CsrMatrix& matrix) : matrix_(matrix) {}

  // What `config` reads, packed now or before.
  Result<const PackedWeight*> get(const Config& config, const Problem& problem);
  // The same for many configs, on all cores; what cannot be packed is left out, and get() says why.
  void make(std::span<const Config* const> configs, const Problem& problem);
  const PackedWeight* find(const std::string& name) const;  // nullptr when it is not there
  const std::vector<std::unique_ptr<PackedWeight>>& all() const { return all_; }

  std::int64_t bytes() const;  // of those that are there
  void drop(const std::string& name);
  PackedWeight take(const std::string& name);  // REQUIRES: it is there; it no longer is
  // GPU bytes of every packing that ever was made.
  const std::map<std::string, std::int64_t>& sizes() const { return sizes_; }
  // Seconds that it took to make one; 0 where it was not made.
  double seconds(const std::string& name) const;

 private:
  struct Made;
  void keep(Made made);

  const CsrMatrix& matrix_;
  std::vector<std::unique_ptr<PackedWeight>> all_;
  std::map<std::string, std::int64_t> sizes_;
  std::map<std::string, double> seconds_;
};

// The weight with its zeros, as tuned files hold a dense choice's: packing "dense", array "values" [M][K] of `type`.
PackedWeight pack_dense(const CsrMatrix& matrix, DataType type);

// The candidate as a worker takes it, still without binaries: enough for the emulator.
LoadedCandidate loaded_candidate(const Candidate& candidate);

// Puts the binaries in. Error: a kernel does not compile, spills much, or needs more registers than `device` has.
Status attach_binaries(const KernelStore& kernels, const DeviceProperties& device, Contender& contender);

}  // namespace sparsmith
