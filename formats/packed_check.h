// Validation of packed weights of unknown origin, before kernels read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

// A packed weight in memory of another owner, such as a mapped file. Its contents are not trusted.
struct PackedArrayView {
  std::string name;  // the name that launch plans bind to
  DataType type = DataType::kUint8;
  std::span<const std::byte> bytes;
};
struct PackedView {
  std::string_view packing;
  int packer_version = 1;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DataType value_type = DataType::kFloat32;
  std::span<const PackedArrayView> arrays;
  const Facts* facts = nullptr;  // null: none
  bool spare = false;            // arrays may end in room that nothing uses (formats/pattern_room.h)
};

// The weight that the arrays should hold: CsrMatrix's nnz, pattern_hash() and value_hash().
struct PackedClaim {
  std::int64_t nnz = 0;
  std::string pattern_hash;
  std::string value_hash;
};

enum class PackedCheck : std::uint8_t {
  kBounds,    // every number that kernels use as an address is within bounds; names, sizes and facts agree
  kContents,  // also: the arrays hold the claimed weight, each element once; padding and facts are as packers write
              // them
};

// Ok if kernels may read the arrays. Walks the arrays in linear time, on `threads` threads (0: all cores). Memory is
// linear in stored elements and rows. Arrays need no alignment.
//   Error: kInvalidInput, with the packing's name, the place and the reason; also for a packing of an unknown format.
Status check_packed(const PackedView& packed, const PackedClaim& claim, PackedCheck depth, int threads);

}  // namespace sparsmith
