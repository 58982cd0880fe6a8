// Packed weights of every format, drawn, and views of them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "formats/coding.h"
#include "formats/hybrid.h"
#include "formats/packed_check.h"
#include "formats/packed_format.h"
#include "tests/support/drawn_matrix.h"
#include "tests/support/drawn_slots.h"
#include "tests/support/packings.h"

namespace sparsmith::test {

struct DrawnPacking {
  CsrMatrix matrix;
  PackedWeight packed;
};

inline PackedClaim claim_of(const CsrMatrix& matrix) {
  return {matrix.nnz(), matrix.pattern_hash(), matrix.value_hash()};
}

inline std::vector<PackedArrayView> array_views(const PackedWeight& packed) {
  std::vector<PackedArrayView> views;
  for (const PackedArray& array : packed.arrays) views.push_back({array.name, array.type, array.bytes});
  return views;
}

// The packing of that name, but of codes.
inline std::string coded_packing(std::string_view packing, const Coding& coding) {
  const std::string coded = fmt::format("{}_{}", without_transposed(packing), coding.name);
  return is_transposed(packing) ? transposed_packing(coded) : coded;
}

// check_packed() of a weight in memory of its own.
inline Status check_packed(const PackedWeight& packed, const PackedClaim& claim, PackedCheck depth, int threads = 1) {
  const std::vector<PackedArrayView> arrays = array_views(packed);
  return check_packed(
      {packed.packing, packed.packer_version, packed.rows, packed.cols, packed.value_type, arrays, &packed.facts},
      claim, depth, threads);
}

// Rows of any density, some empty, some full, and some values 0; in `two_four` at most two nonzeros of four columns.
inline CsrMatrix draw_any_matrix(Random& random, std::int64_t rows, std::int64_t cols, bool two_four = false) {
  const double usual = static_cast<double>(1 + random() % 60) / 100;
  CsrMatrix matrix = draw_matrix(random, rows, cols, [&](std::int64_t) {
    const std::uint64_t kind = random() % 8;
    return kind == 0 ? 0.0 : kind == 1 ? 1.0 : usual;
  });
  for (float& value : matrix.values) value = random() % 16 == 0 ? 0 : random() % 2 == 0 ? value : -value;
  matrix.data_type = DataType::kFloat16;
  if (!two_four) return matrix;
  CsrMatrix pruned;
  pruned.rows = rows;
  pruned.cols = cols;
  pruned.data_type = DataType::kFloat16;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
      const std::uint32_t column = matrix.column_indices[i];
      const std::int64_t first = pruned.row_offsets.back();
      if (pruned.nnz() >= first + 2 && pruned.column_indices[pruned.nnz() - 2] / 4 == column / 4) continue;
      pruned.column_indices.push_back(column);
      pruned.values.push_back(matrix.values[i]);
    }
    pruned.row_offsets.push_back(pruned.nnz());
  }
  return pruned;
}

// The name of a hybrid, of all its parameters.
inline std::string hybrid_packing(Random& random, std::string_view structured) {
  static constexpr int kBlocks[] = {8, 16, 32, 64};
  const CsrPacking rest{.index_bytes = random() % 2 == 0 ? 2 : 4,
                        .alignment = 1 << random() % 4,
                        .order = static_cast<RowOrder>(random() % 3)};
  const int block = structured == "two_four" ? 0 : kBlocks[random() % std::size(kBlocks)];
  return HybridPacking{std::string(structured), block, rest.name()}.name();
}

inline PanelPacking draw_panel_packing(Random& random) {
  PanelPacking packing;
  packing.row_parts = static_cast<int>(1 + random() % 3);
  packing.warps = 1 << random() % 3;
  packing.segment_length = 8 << random() % 4;
  packing.segment_lanes = 1 << random() % 3;
  if (random() % 3 == 0) {
    packing.token_lanes = 1 << random() % 4;
    packing.segment_lanes = std::min(packing.segment_lanes, packing.lanes());
    packing.sweep_columns = random() % 2 == 0 ? 64 : 0;
    return packing;
  }
  packing.column_parts = static_cast<int>(1 + random() % 3);
  packing.turned = random() % 2 == 0;
  packing.row_store = static_cast<panel::RowStore>(random() % 4);
  if (packing.segment_lanes <= 2 && random() % 2 == 0) packing.order = panel::tensor_order(packing.segment_lanes);
  return packing;
}

inline TileMasksPacking draw_tile_masks_packing(Random& random) {
  return {random() % 2 == 0 ? 32 : 64, 1 + static_cast<int>(random() % 2), 128 << random() % 3};
}

inline RegionMasksPacking draw_region_masks_packing(Random& random) {
  return {RegionMasksPacking::kLeastTiles + 2 * static_cast<int>(random() % 8)};
}

// One packing of a format, of all its parameters that a drawn matrix allows, now and then of the transposed weight,
// where `coded` now and then of codes, and where the format leaves a rest now and then a hybrid.
inline Result<DrawnPacking> draw_packing(Random& random, std::string_view format, bool coded = true) {
  const auto rows = static_cast<std::int64_t>(1 + random() % 90);
  const auto cols = static_cast<std::int64_t>(random() % 4 == 0 ? 256 + random() % 200 : 1 + random() % 200);
  CsrMatrix matrix = draw_any_matrix(random, rows, cols, format == "two_four");
  const DataType half = DataType::kFloat16;
  const DataType any = random() % 2 == 0 ? half : DataType::kFloat32;
  const auto pack = [&]() -> Result<PackedWeight> {
    if (format == "csr") {
      CsrPacking packing;
      packing.index_bytes = random() % 2 == 0 ? 2 : 4;
      packing.alignment = 1 << random() % 4;
      packing.order = static_cast<RowOrder>(random() % 3);
      if (random() % 2 == 0) {
        packing.split_length = 8 << random() % 3;
        packing.partials = random() % 2 == 0 ? PartialSums::kAtomic : PartialSums::kTwoPass;
      }
      return pack_csr(matrix, packing, any);
    }
    if (format == "slots") return pack_slots(matrix, draw_slots_packing(random, cols), any);
    if (format == "panel") {
      const PanelPacking packing = draw_panel_packing(random);
      return pack_panel(matrix, packing,
                        packing.staged() || packing.order == panel::LaneOrder::kSparseTensor ? half : any);
    }
    if (format == "bitmap")
      return pack_bitmap(matrix, {1 << random() % 3, random() % 2 == 0 ? 4 : 8, random() % 2 == 0}, half);
    if (format == "bsr") return pack_bsr(matrix, {1 << random() % 3, random() % 2 == 0}, half);
    if (format == "scatter")
      return pack_scatter(matrix,
                          {random() % 2 == 0 ? ScatterEntry::kByte : ScatterEntry::kWord, 16 << random() % 3,
                           static_cast<int>(random() % 5 * 4),
                           random() % 2 == 0 ? ScatterColumns::kFragments : ScatterColumns::kNatural},
                          half);
    if (format == "bsr_strips") return pack_bsr_strips(matrix, {1 + static_cast<int>(random() % 2)}, half);
    if (format == "region_masks") return pack_region_masks(matrix, draw_region_masks_packing(random), half);
    if (format == "tile_masks") return pack_tile_masks(matrix, draw_tile_masks_packing(random), half);
    if (format == "two_four") return pack_two_four(matrix, half);
    return sparsmith::pack("dense", matrix, any);
  };
  Result<PackedWeight> packed = pack();
  if (!packed.ok()) return packed.status();
  if (random() % 4 == 0) {  // where the packing takes it
    Result<PackedWeight> transposed = sparsmith::pack(transposed_packing(packed->packing), matrix, packed->value_type);
    if (transposed.ok()) packed = std::move(transposed);
  }
  if (!holds_values(format)) std::ranges::fill(matrix.values, 1.0F);
  if (coded && packed_format(format).value()->codes && random() % 3 == 0) {  // where the packing is aligned for them
    const Coding& coding = codings()[random() % codings().size()];
    const std::string name = coded_packing(packed->packing, coding);
    if (Result<PackedWeight> codes = sparsmith::pack(name, matrix, packed->value_type); codes.ok()) {
      packed = std::move(codes);
      matrix = unpack(*packed).value();
    }
  }
  if (packed_format(format).value()->leaves_rest && random() % 3 == 0) {
    matrix = fill_blocks(random, matrix, 8 << random() % 4, 4);
    const bool of_transposed = is_transposed(packed->packing);
    const std::string name = hybrid_packing(random, without_transposed(packed->packing));
    packed = sparsmith::pack(of_transposed ? transposed_packing(name) : name, matrix, packed->value_type);
    if (!packed.ok()) return packed.status();
  }
  return DrawnPacking{std::move(matrix), *std::move(packed)};
}

}  // namespace sparsmith::test
