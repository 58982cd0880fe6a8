// Hybrids: a weight that is nearly structured, as a structured part and a rest.
//
// A hybrid is a layer over formats. Its packing's name is "<packing>_rest_<structure>_<packing of the rest>", as in
// "bsr_lines64_rest_b32_csr_u16_a4_natural". The packed weight has the arrays and facts of the structured part, and
// those of the rest with the prefix "rest_". An element is in one of the parts. The pattern alone decides in which, so
// new values stay at their places.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/packed_check.h"
#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

struct HybridPacking {
  std::string structured;  // of a format whose PackedFormat::leaves_rest is set
  // "b8", "b16", "b32" or "b64": the structured part is the aligned blocks of so many rows and columns that are at
  // least half full. 0, "2of4": the first two nonzeros of each aligned group of four columns.
  int block = 0;
  std::string rest;  // of the csr format

  std::string name() const;
  // That of a packing's name, which is not that of a transposed weight; nothing if the name is not a hybrid's.
  static std::optional<HybridPacking> named(std::string_view packing);
};

inline constexpr std::string_view kRestPrefix = "rest_";  // of arrays and facts

struct HybridParts {
  CsrMatrix structured;
  CsrMatrix rest;
};
// `block`: as in HybridPacking.
HybridParts split_hybrid(const CsrMatrix& matrix, int block);
// The weight. Error: kInvalidInput, with the row, if split_hybrid() does not give these parts of it.
Result<CsrMatrix> joined_hybrid(const HybridParts& parts, int block);

// The packed parts as one, and one as views of its parts. The version of a hybrid's packer follows from those of both.
PackedWeight join_packed(const HybridPacking& packing, PackedWeight structured, PackedWeight rest);
class HybridView {
 public:
  // `packed` outlives this.
  HybridView(const HybridPacking& packing, const PackedView& packed);
  HybridView(const HybridView&) = delete;
  HybridView& operator=(const HybridView&) = delete;

  const std::array<PackedView, 2>& parts() const { return parts_; }  // structured, rest

 private:
  HybridPacking packing_;
  std::array<PackedView, 2> parts_;
  std::array<std::vector<PackedArrayView>, 2> arrays_;
  std::array<Facts, 2> facts_;
};

}  // namespace sparsmith
