#include "formats/packed_check.h"

#include <fmt/format.h>

#include "formats/bitmap.h"
#include "formats/bsr.h"
#include "formats/csr.h"
#include "formats/panel.h"
#include "formats/scatter.h"
#include "formats/slots.h"
#include "formats/two_four.h"
#include "matrix/csr_matrix.h"
#include "matrix/dense_matrix.h"

namespace sparsmith {
namespace {

Result<CsrMatrix> unpack_dense(const PackedWeight& packed) {
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(packed.rows, packed.cols));
  const PackedArray* values = packed.array("values");
  if (values == nullptr || packed.arrays.size() != 1 || values->type != packed.value_type ||
      values->size() != packed.rows * packed.cols)
    return invalid_input(fmt::format("dense: there is no array of {} x {}", packed.rows, packed.cols));
  return csr_from_dense({values->bytes.data(), packed.rows, packed.cols, packed.value_type});
}

struct Format {
  std::string_view prefix;  // of packings' names
  Result<CsrMatrix> (*unpack)(const PackedWeight&);
};
constexpr Format kFormats[] = {{"csr_", unpack_csr},          {"slots_", unpack_slots}, {"panel_", unpack_panel},
                               {"bitmap_", unpack_bitmap},    {"bsr_", unpack_bsr},     {"scatter_", unpack_scatter},
                               {"two_four", unpack_two_four}, {"dense", unpack_dense}};

PackedWeight copied(const PackedView& view) {
  PackedWeight packed{std::string(view.packing), view.packer_version, view.rows, view.cols, 0, view.value_type, {}, {}};
  for (const PackedArrayView& array : view.arrays)
    packed.arrays.push_back({std::string(array.name), array.type, {array.bytes.begin(), array.bytes.end()}});
  if (view.facts != nullptr) packed.facts = *view.facts;
  return packed;
}

}  // namespace

Status check_packed(const PackedView& packed, const PackedClaim& claim, PackedCheck depth, int /*threads*/) {
  for (const Format& format : kFormats) {
    if (!packed.packing.starts_with(format.prefix)) continue;
    SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, format.unpack(copied(packed)));
    if (depth == PackedCheck::kBounds) return {};
    if (matrix.nnz() != claim.nnz || matrix.pattern_hash() != claim.pattern_hash ||
        matrix.value_hash() != claim.value_hash)
      return invalid_input(fmt::format("{}: the arrays hold another weight", packed.packing));
    return {};
  }
  return invalid_input(fmt::format("no format has the packing \"{:.100}\"", packed.packing));
}

}  // namespace sparsmith
