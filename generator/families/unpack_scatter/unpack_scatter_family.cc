#include "generator/families/unpack_scatter/unpack_scatter_family.h"

#include <fmt/format.h>

#include "base/ceil_div.h"
#include "formats/scatter_layout.h"
#include "generator/families/dense/dense_family.h"
#include "generator/families/unpack_parts.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kSharedBytes = std::int64_t{UnpackScatterConfig::kWarps} * scatter::kTileBytes;

const ScatterChoice kChoice = {
    .parameters = {"entry"},
    .packing =
        [](auto& in) {
          return ScatterPacking{.entry = static_cast<ScatterEntry>(in["entry"]),
                                .tile_rows = UnpackScatterConfig::kTileRows};
        },
    .padded = true,
};

std::vector<Parameter> parameters() {
  return {entry_parameter(), min_rounds_parameter(), max_rounds_parameter(), proposal_parameter(8)};
}

KernelText unpack_text(const UnpackScatterConfig& config, const OperatorSpec& spec) {
  KernelText text;
  text.name = fmt::format("unpack_scatter_e{}_i{}_a{}", config.entry_letter(), config.min_rounds, config.max_rounds);
  text.summary = "the dense weight of lists of nonzeros, for a library's product";
  text.threads = UnpackScatterConfig::kWarps * 32;
  text.headers = {"snippets/prolog/scatter_entries.cuh", "snippets/epilog/dense_rows.cuh",
                  "snippets/kernels/unpack_scatter.cuh"};
  text.lines = {
      config.entries_line(),
      {fmt::format("using Kernel = UnpackScatterKernel<Entries, {}>", UnpackScatterConfig::kWarps),
       "warps of a block, with a tile each"},
  };
  add_shared_bytes(kSharedBytes, "Kernel::kSharedBytes", text);
  add_scatter_weight_parameters(text);
  add_dense_rows(spec, text);
  text.body += kMakeScatterWeight;
  text.body += "Kernel::run(weight, dense, shared_memory());";
  return text;
}

Result<PlannedKernels> unpack_kernels(const Config& values, const Problem& problem, const PackedWeight& /*packed*/) {
  return unpacked_product(values, problem, unpack_text(UnpackScatterConfig(values), problem.spec),
                          {formula("max(fact.row_blocks, 1)"),
                           formula("max(ceil_div(fact.column_tiles, {}), 1)", UnpackScatterConfig::kWarps), 1},
                          kSharedBytes);
}

double predicted_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const UnpackScatterConfig config(values);
  const auto tiles = static_cast<double>(ceil_div(problem.spec.weight_rows(), std::int64_t{64}) *
                                         ceil_div(problem.spec.weight_cols(), std::int64_t{64}));
  return predicted_unpacked_us(problem, tiles * config.tile_bytes(scatter_rounds(config.packing(), statistics)));
}

}  // namespace

const Family& unpack_scatter_family() {
  static const Family kFamily = {
      .name = "unpack_scatter",
      .by_library = true,
      .multiplied_share = 1,
      .parameters = parameters(),
      .rules = joined({legal_scatter_rules(), worthwhile_unpack_rules("entry"), worthwhile_scatter_rules(kChoice)}),
      .packing_of_rows = packing_name<UnpackScatterConfig>,
      .packs_transposed = false,  // the library transposes
      .kernels = unpack_kernels,
      .predict = predicted_us,
  };
  return kFamily;
}

}  // namespace sparsmith
