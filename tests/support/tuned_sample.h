// A small model for tests: what a tuned file may hold, with the bytes that its views point at.
#pragma once

#include <vector>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "runtime/tuned_file.h"

namespace sparsmith {

// Three weights, for the fake driver's kernels:
//   "fc/1"  fp32 2 x 3 [[1, 0, 2], [0, 3, 0]] in csr, token_major, bias; buckets 1 and 8, kernel fake_csr
//   "fc2"   the same, token_major, no epilogue, bucket 4, two steps and a workspace
//   "fc3"   fp32 2 x 3, kept dense, token_major, bias, bucket 1
// All kernels have binaries for sm_80 and sm_90. Not copyable: contents() points into it.
class TunedSample {
 public:
  TunedSample();
  TunedSample(const TunedSample&) = delete;
  TunedSample& operator=(const TunedSample&) = delete;

  TunedContents& contents() { return contents_; }
  const PackedWeight& csr() const { return csr_; }
  const CsrMatrix& matrix() const { return matrix_; }
  static TunedWriter writer();  // of values of a csr packing, by kernel fake_write; no packing has one
  // Makes the first weight one that is pruned: its product reads the first of two packings, and kernel fake_fill writes
  // 16 bytes of 7 into the array "tiles" of the second one.
  void make_prunable();

 private:
  void add_kernels();
  void add_weights();

  CsrMatrix matrix_;
  PackedWeight csr_;
  PackedWeight dense_;
  std::vector<std::vector<std::byte>> cubins_;
  std::vector<std::byte> tiles_ = std::vector<std::byte>(64);
  TunedContents contents_;
};

}  // namespace sparsmith
