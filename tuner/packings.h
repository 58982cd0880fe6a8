// The packed forms of one weight, each made once, and the loading of candidates that read them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "generator/family.h"
#include "tuner/kernel_store.h"
#include "tuner/race.h"

namespace sparsmith {

// Packs on demand. Addresses of packed weights stay valid for the object's life.
class Packings {
 public:
  explicit Packings(const CsrMatrix& matrix) : matrix_(matrix) {}

  // What `config` reads, packed now or before.
  Result<const PackedWeight*> get(const Config& config, const Problem& problem);
  const PackedWeight* find(const std::string& name) const;  // nullptr when it was never made
  const std::vector<std::unique_ptr<PackedWeight>>& all() const { return all_; }

 private:
  const CsrMatrix& matrix_;
  std::vector<std::unique_ptr<PackedWeight>> all_;
};

// The weight with its zeros, as tuned files hold a dense choice's: packing "dense", array "values" [M][K] of `type`.
PackedWeight pack_dense(const CsrMatrix& matrix, DataType type);

// The candidate as a worker takes it, still without binaries: enough for the emulator.
LoadedCandidate loaded_candidate(const Candidate& candidate);

// Puts the binaries in. Error: a kernel does not compile, spills much, or needs more registers than `device` has.
Status attach_binaries(const KernelStore& kernels, const DeviceProperties& device, Contender& contender);

}  // namespace sparsmith
