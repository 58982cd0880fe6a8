#include "generator/families/unpack_bitmap/unpack_bitmap_family.h"

#include <fmt/format.h>

#include "formats/bitmap_layout.h"
#include "generator/catalogue.h"
#include "generator/families/dense/dense_family.h"
#include "generator/families/unpack_parts.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

std::vector<Parameter> parameters() {
  return {
      {"tiles", "r", tuned("BitmapValues", "kTiles"), "16-row tiles a strip, as other kernels read the packing"},
      {"run_bits", "b", tuned("BitmapValues", "kRunBits"),
       "bits of a word whose values lie together: bank conflicts against offsets to count"},
      {"stored_offsets", "o", {0, 1}, "a scan a strip against a bit an element", {"scanned", "stored"}},
      proposal_parameter(8),
  };
}

std::vector<Rule> rules() {
  return joined({legal({{{"tiles"}, "values are of 16 bits", [](auto& in) { return size_of(in.spec.type) == 2; }}}),
                 worthwhile_unpack_rules("tiles"),
                 {{{"tiles"},
                   "a bit an element is worth it from 5 % nonzeros up",
                   [](auto& in) { return in.statistics.sparsity <= 0.95; }},
                  {{"run_bits"},
                   "runs of 4 bits from 25 % nonzeros up",
                   [](auto& in) { return in["run_bits"] == 8 || in.statistics.sparsity <= 0.75; }},
                  {{"run_bits", "stored_offsets"}, "a bit an element for offsets, not two", [](auto& in) {
                     return in["run_bits"] == 8 || in["stored_offsets"] == 0;
                   }}}});
}

KernelText unpack_text(const UnpackBitmapConfig& config, const OperatorSpec& spec) {
  KernelText text;
  text.name = fmt::format("unpack_bitmap_r{}_b{}_{}", config.tiles, config.run_bits,
                          config.stored_offsets ? "stored" : "scanned");
  text.summary = "the dense weight of a bitmap and values, for a library's product";
  text.threads = UnpackBitmapConfig::kWarps * 32;
  text.headers = {"snippets/prolog/strip_ring.cuh", "snippets/prolog/strip_bounds.cuh",
                  "snippets/prolog/bitmap_values.cuh", "snippets/epilog/dense_rows.cuh",
                  "snippets/kernels/unpack_bitmap.cuh"};
  text.lines = {
      {fmt::format("constexpr int kWarps = {}", UnpackBitmapConfig::kWarps), "of a block, with a strip each"},
      {"using Ring = StripRing<StripBounds<kWarps>>", "strips of W to shared memory"},
      {fmt::format("using Values = BitmapValues<{}, {}, {}>", config.tiles, config.run_bits,
                   boolean(config.stored_offsets)),
       "16-row tiles of a strip, bits of a run, stored offsets"},
      {"using Kernel = UnpackBitmapKernel<Ring, Values, kWarps>", ""},
  };
  text.parameters = {{"const u8*", "strips", packed_array("strips")},
                     {"const u32*", "strip_offsets", packed_array("strip_offsets")},
                     {"const u32*", "row_parts", packed_array("row_parts")},
                     {"int", "slot_bytes", integer("fact.max_strip_bytes")},
                     {"int", "row_tiles", integer("fact.row_tiles")},
                     {"int", "row_strips", integer("fact.strips")},
                     {"int", "first_strips", integer("fact.first_strips")},
                     {"int", "first_units", integer("fact.first_units")}};
  add_dense_rows(spec, text);
  text.body +=
      "Ring ring({strips, strip_offsets, row_strips, first_strips, first_units}, slot_bytes, 1, shared_memory(),\n"
      "          nullptr);\n"
      "Kernel::run(ring, row_parts, dense, row_tiles, row_strips);";
  return text;
}

Result<PlannedKernels> unpack_kernels(const Config& values, const Problem& problem, const PackedWeight& /*packed*/) {
  constexpr int kWarps = UnpackBitmapConfig::kWarps;
  return unpacked_product(values, problem, unpack_text(UnpackBitmapConfig(values), problem.spec),
                          {formula("max(fact.row_tiles, 1)"), formula("max(ceil_div(fact.strips, {}), 1)", kWarps), 1},
                          formula("{} * fact.max_strip_bytes", kWarps));
}

double predicted_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const UnpackBitmapConfig config(values);
  const double elements = static_cast<double>(problem.spec.rows) * static_cast<double>(problem.spec.cols);
  const double header_bits = config.stored_offsets ? 1.0 + 8.0 / config.run_bits : 1.0;
  return predicted_unpacked_us(problem, elements * (header_bits / 8 + 2 * (1 - statistics.sparsity)));
}

}  // namespace

const Family& unpack_bitmap_family() {
  static const Family kFamily = {
      .name = "unpack_bitmap",
      .by_library = true,
      .multiplied_share = 1,
      .parameters = parameters(),
      .rules = rules(),
      .packing_of_rows = packing_name<UnpackBitmapConfig>,
      .packs_transposed = false,  // the library transposes
      .kernels = unpack_kernels,
      .predict = predicted_us,
  };
  return kFamily;
}

}  // namespace sparsmith
