// Packs drawn matrices in every format: what the fuzz targets of unpackers begin with. Each is unpacked once, since
// a seed that is refused leads nowhere.
//   usage: draw_packed_seeds FOLDER      makes FOLDER/unpack_<format>/<n>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "matrix/synthesis.h"
#include "tests/fuzz/packed_bytes.h"
#include "tests/support/packings.h"

namespace sparsmith {
namespace {

using Seeds = std::vector<Result<PackedWeight>>;

CsrMatrix draw(std::int64_t rows, std::int64_t cols, double sparsity, const char* pattern = "lognormal:1") {
  SynthesisSpec spec{.rows = rows, .cols = cols, .sparsity = sparsity, .data_type = DataType::kFloat16, .seed = 1};
  spec.pattern = parse_synthesis_pattern(pattern).value();
  return synthesize(spec).value();
}

// Packed small: a mutation of a short input is more likely to matter.
std::map<std::string, Seeds> draw_formats() {
  std::map<std::string, Seeds> formats;
  const CsrMatrix dense = draw(9, 70, 0.4);
  const CsrMatrix sparse = draw(25, 300, 0.95);
  const CsrMatrix small = draw(3, 5, 0.5);
  Seeds& csr = formats["csr"];
  Seeds& slots = formats["slots"];
  Seeds& panel = formats["panel"];
  Seeds& bitmap = formats["bitmap"];
  Seeds& bsr = formats["bsr"];
  Seeds& scatter = formats["scatter"];
  Seeds& tile_masks = formats["tile_masks"];
  for (const CsrMatrix* matrix : {&dense, &sparse, &small}) {
    for (const DataType type : {DataType::kFloat16, DataType::kFloat32}) {
      csr.push_back(pack_csr(*matrix, {}, type));
      csr.push_back(pack_csr(*matrix,
                             {.index_bytes = 2,
                              .alignment = 4,
                              .order = RowOrder::kSorted,
                              .split_length = 8,
                              .partials = PartialSums::kTwoPass},
                             type));
      for (const SlotColumns columns :
           {SlotColumns::kUint16, SlotColumns::kUint32, SlotColumns::kDelta8, SlotColumns::kOffset8})
        slots.push_back(pack_slots(*matrix, {columns, 4, 1, 1}, type));
      slots.push_back(pack_slots(*matrix, {SlotColumns::kDelta8, 8, 2, 3}, type));
      slots.push_back(pack_slots(*matrix, {SlotColumns::kDelta4, 8, 1, 1}, type));
      slots.push_back(pack_slots(*matrix, {SlotColumns::kDelta6, 16, 1, 1}, type));
      slots.push_back(pack_slots(*matrix, {SlotColumns::kDelta4, 32, 1, 1}, type));
      panel.push_back(pack_panel(*matrix, {.warps = 1, .segment_length = 16}, type));
      panel.push_back(pack_panel(*matrix,
                                 {.row_parts = 2,
                                  .column_parts = 2,
                                  .warps = 2,
                                  .segment_lanes = 4,
                                  .turned = false,
                                  .row_store = panel::RowStore::kDirect},
                                 type));
      panel.push_back(pack_panel(*matrix, {.row_parts = 2, .warps = 2, .segment_lanes = 2, .token_lanes = 8}, type));
    }
    panel.push_back(pack_panel(*matrix, {.warps = 2, .segment_lanes = 2, .order = panel::LaneOrder::kSparseTensor},
                               DataType::kFloat16));
    panel.push_back(pack_panel(*matrix, {.warps = 1, .token_lanes = 2, .sweep_columns = 64}, DataType::kFloat16));
    panel.push_back(
        pack_panel(*matrix, {.column_parts = 3, .warps = 2, .segment_length = 16, .row_store = panel::RowStore::kAdded},
                   DataType::kFloat32));
    for (const int run_bits : {4, 8})
      for (const bool stored : {false, true})
        bitmap.push_back(pack_bitmap(*matrix, {1, run_bits, stored}, DataType::kFloat16));
    bitmap.push_back(pack_bitmap(*matrix, {4, 8, true}, DataType::kBFloat16));
    bsr.push_back(pack_bsr(*matrix, {1, false}, DataType::kFloat16));
    bsr.push_back(pack_bsr(*matrix, {2, true}, DataType::kBFloat16));
    for (const int line : {32, 64}) bsr.push_back(pack_bsr(*matrix, {.tiles = 4, .line = line}, DataType::kFloat16));
    formats["region_masks"].push_back(pack_region_masks(*matrix, {8}, DataType::kFloat16));
    formats["region_masks"].push_back(pack_region_masks(*matrix, {22}, DataType::kBFloat16));
    tile_masks.push_back(pack_tile_masks(*matrix, {64, 1, 256}, DataType::kFloat16));
    tile_masks.push_back(pack_tile_masks(*matrix, {32, 2, 128}, DataType::kBFloat16));
    scatter.push_back(pack_scatter(*matrix, {ScatterEntry::kByte, 16, 0}, DataType::kFloat16));
    scatter.push_back(pack_scatter(*matrix, {ScatterEntry::kWord, 64, 4}, DataType::kBFloat16));
    scatter.push_back(
        pack_scatter(*matrix, {ScatterEntry::kByte, 64, 0, ScatterColumns::kNatural}, DataType::kFloat16));
  }
  slots.push_back(pack_slots(draw(9, 200, 0.8, "power:1.5"), {SlotColumns::kUint16, 4, 1, 5}, DataType::kFloat16));
  slots.push_back(pack_slots(sparse, {SlotColumns::kDelta3, 32, 1, 1}, DataType::kFloat16));
  Seeds& two_four = formats["two_four"];
  two_four.push_back(pack_two_four(draw(3, 70, 0.5, "2:4"), DataType::kFloat16));
  two_four.push_back(pack_two_four(draw(65, 9, 0.8, "2:4"), DataType::kBFloat16));
  Seeds& hybrid = formats["hybrid"];
  for (const char* packing : {"bsr_r1_listed_rest_b8_csr_u16_a4_natural", "bsr_strips_r1_rest_b8_csr_u32_a1_sorted",
                              "two_four_rest_2of4_csr_u16_a4_natural_transposed"})
    for (const CsrMatrix* matrix : {&dense, &sparse, &small})
      hybrid.push_back(pack(packing, *matrix, DataType::kFloat16));
  for (const DataType type : {DataType::kFloat16, DataType::kFloat32})
    formats["dense"].push_back(pack("dense", small, type));
  // Columns that 16-bit values do not share a word with.
  panel.push_back(pack_panel(draw(4, 40000, 0.999), {.warps = 1, .token_lanes = 4}, DataType::kFloat16));
  return formats;
}

Status write_seeds(const std::filesystem::path& folder, const Seeds& seeds) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return io_error(fmt::format("{}: {}", folder.string(), error.message()));
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(const PackedWeight packed, seeds[i]);
    const std::string bytes = fuzz::packed_to_bytes(packed);
    const Result<CsrMatrix> back = unpack(fuzz::packed_from_bytes(std::as_bytes(std::span(bytes))));
    if (!back.ok()) return back.status().annotate(fmt::format("seed {}, {}", i, packed.packing));
    SPARSMITH_RETURN_IF_ERROR(write_file_atomically((folder / std::to_string(i)).string(), bytes));
  }
  return {};
}

}  // namespace
}  // namespace sparsmith

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  for (const auto& [name, seeds] : sparsmith::draw_formats()) {
    const auto status = sparsmith::write_seeds(std::filesystem::path(argv[1]) / ("unpack_" + name), seeds);
    if (status.ok()) continue;
    std::fprintf(stderr, "%s: %s\n", name.c_str(), status.to_string().c_str());
    return 1;
  }
  return 0;
}
