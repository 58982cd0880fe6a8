#include "generator/families/sampled_regions/sampled_regions_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/ceil_div.h"
#include "formats/region_masks_layout.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

using region_masks::kBandRows;
using region_masks::kBands;
using region_masks::kBoxColumns;
using region_masks::kBoxes;
using region_masks::kPanelRows;
using region_masks::kTileColumns;

constexpr std::size_t kBlocksOf32 = 3;
static_assert(SparsityStatistics::kBlockSizes[kBlocksOf32] == kBandRows);

// ---- the cost model ----
//
// A stage takes the time in which tensor cores read the operands of its tiles from shared memory, or in which L2 sends
// its boxes: those of dY cost most, whose lines have 64 bytes. Fitted to 96 times of one H200, N = 4,096 and 16,384:
// 4096 x 4096 in blocks of 32 at 60, 75 and 90 % zeros and of 16 at 90 %, 14336 x 4096 and 2048 x 8192 in blocks of 32.
// They are met within 9 % (root of the mean square), and the fastest config is found in all twelve cases.
constexpr double kLaunchUs = 3;
constexpr double kTileCycles = 75;     // of a tile of one warpgroup, at the clock that the device says
constexpr double kBandsCycles = 1000;  // of the boxes of dY
constexpr double kInputCycles = 50;    // of a box of X
constexpr double kSharpness = 4;
constexpr double kRegionUs = 2;  // values

// Bands in pairs, of 32 columns, where each band holds an element with this chance.
double predicted_pairs(double chance) {
  const double odd = (1 - std::pow(1 - 2 * chance, kBands)) / 2;
  return (kBands * chance + odd) / 2;
}

double predicted_sampled_regions_us(const Config& values, const Problem& problem,
                                    const SparsityStatistics& statistics) {
  constexpr double kUneven = 1.04;  // regions have not as many tiles as one another
  const SampledRegionsConfig config(values);
  const DeviceRates rates(problem.device);
  const double slots = 2 * config.tiles;
  const auto boxes = static_cast<double>(ceil_div(problem.spec.cols, std::int64_t{kBoxColumns}));
  const auto panels = static_cast<double>(ceil_div(problem.spec.rows, std::int64_t{kPanelRows}));
  const double pairs = predicted_pairs(statistics.block_touched[kBlocksOf32]);
  const double tiles = boxes * kBoxColumns / kTileColumns * pairs;
  const double clusters_of_panel = std::max(std::ceil(boxes / kBoxes / 2), std::ceil(kUneven * tiles / slots / 2));
  const double rounds = std::ceil(panels * clusters_of_panel / std::floor(std::max(1.0, rates.sms / 2)));
  const double own_boxes = std::min<double>(kBoxes, boxes / clusters_of_panel / 2);
  const double shared_us = slots * kTileCycles / rates.clock_mhz;
  const double l2_us = (kBandsCycles + kInputCycles * own_boxes) / (rates.clock_mhz * l2_speed(problem.device));
  const auto stages = static_cast<double>(ceil_div(problem.tokens, std::int64_t{SampledRegionsConfig::kStageTokens}));
  return kLaunchUs + launch_delay_us(problem.device) +
         rounds * (stages * together({shared_us, l2_us}, kSharpness) + kRegionUs);
}

// ---- rules ----

std::vector<Parameter> parameters() {
  return {{"tiles", "t", tuned("SampledRegionsKernel", "kTiles"), "fewer regions against more time of each"}};
}

std::vector<Rule> rules() {
  std::vector<Rule> rules = legal_box_rules();
  for (Rule& rule : rules) rule.parameters = {"tiles"};  // boxes have a fixed number of tokens
  const std::vector<Rule> worthwhile = {
      {{"tiles"},
       "lines of X and dY without gaps are aligned to 16 bytes",
       [](auto& in) { return in.spec.cols % 8 == 0 && in.spec.rows % 8 == 0; }},
      {{"tiles"},
       "a region of as many tiles as four times 64 columns have, about",
       [](auto& in) {
         constexpr int kColumnsOfTiles = kBoxes * kBoxColumns / kTileColumns;
         const double tiles = kColumnsOfTiles * predicted_pairs(in.statistics.block_touched[kBlocksOf32]);
         return in["tiles"] == 4 || in["tiles"] < tiles;
       }},
  };
  return joined({std::move(rules), worthwhile});
}

// ---- kernels ----

KernelText sampled_regions_text(const SampledRegionsConfig& config, const OperatorSpec& spec) {
  KernelText text;
  text.name = fmt::format("sampled_regions_{}_t{}", spec_tag(spec), config.tiles);
  text.summary = fmt::format("values = dY X^T at the nonzeros of {} weights, by warpgroups: {} tiles of two bands each",
                             short_name(spec.type), config.tiles);
  text.architecture = "sm_90a";
  text.threads = SampledRegionsConfig::kThreads;
  text.min_blocks_per_sm = 1;
  text.headers = {"snippets/prolog/fragment_input.cuh", "snippets/epilog/store_output.cuh",
                  "snippets/kernels/sampled_regions.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      {"using Input = FragmentInput<InputType, true>", "X and dY token-major"},
      {fmt::format("using Output = StoreOutput<OutputType, true, NoActivation, false, {}, false>",
                   boolean(spec.epilogue.beta)),
       "values side by side; + beta * their old values"},
      {fmt::format("using Kernel = SampledRegionsKernel<Input, Output, {}, {}>", config.tiles,
                   SampledRegionsConfig::kStages),
       "tiles of a warpgroup, stages"},
  };
  add_shared_bytes(config.shared_bytes(), "Kernel::kSharedBytes", text);
  text.parameters = {{"const u32*", "region_panels", packed_array("region_panels")},
                     {"const u32*", "region_tiles", packed_array("region_tiles")},
                     {"const u32*", "columns", packed_array("columns")},
                     {"const u32*", "tiles", packed_array("tiles")},
                     {"const u32*", "masks", packed_array("masks")},
                     {"const u32*", "firsts", packed_array("firsts")},
                     {"int", "regions", integer("fact.regions")},
                     {"const __grid_constant__ TensorMap", "dy_map",
                      tensor_map("dy", spec.rows, {SampledRegionsConfig::kStageTokens, kBandRows})},
                     {"const __grid_constant__ TensorMap", "x_map",
                      tensor_map("x", spec.cols, {SampledRegionsConfig::kStageTokens, kBoxColumns})},
                     {"const InputType*", "dy", operand("dy")},
                     {"i64", "lddy", integer("ld.dy")},
                     {"int", "rows", integer(spec.rows)}};
  add_input_parameters(spec, text);
  text.parameters.push_back({"OutputType*", "values", operand("values")});
  text.parameters.push_back({"float", "alpha", scalar("alpha")});
  text.parameters.push_back({"float", "beta", scalar("beta")});
  text.body =
      "const Kernel::Pattern pattern{region_panels, region_tiles, columns, tiles, masks, firsts, regions};\n"
      "const Input gradients(dy, lddy, rows, n);\n"
      "const Input activations(x, ldx, cols, n);\n"
      "const Output output{values, 0, nullptr, nullptr, 0, alpha, beta};\n"
      "Kernel::run(pattern, dy_map, x_map, gradients, activations, output, n, shared_memory());";
  return text;
}

Result<PlannedKernels> sampled_regions_kernels(const Config& values, const Problem& problem,
                                               const PackedWeight& /*packed*/) {
  constexpr int kBlocks = SampledRegionsConfig::kClusterBlocks;
  PlannedKernels kernels;
  PlanStep& step = kernels.launch(sampled_regions_text(SampledRegionsConfig(values), problem.spec));
  step.grid[0] =
      formula("max(min(fact.regions, {}), {})", std::max(1, problem.device.sm_count / kBlocks) * kBlocks, kBlocks);
  step.cluster[0] = kBlocks;
  return kernels;
}

}  // namespace

std::int64_t SampledRegionsConfig::shared_bytes() const {
  constexpr std::int64_t kStage = kStageTokens * (kPanelRows + kBoxes * kBoxColumns) * 2 + 2 * 8;  // with barriers
  constexpr std::int64_t kSums = 8 * 16 * (32 + 4) * 4;
  return kStages * kStage + kSums + 2 * tiles * 8;
}

const Family& sampled_regions_family() {
  static const Family kFamily = {
      .name = "sampled_regions",
      .serves = [](const OperatorSpec& spec) { return spec.kind == OperatorKind::kSddmm; },
      .multiplied_share = 1,
      .parameters = parameters(),
      .rules = rules(),
      .packing_of_rows = packing_name<SampledRegionsConfig>,
      .kernels = sampled_regions_kernels,
      .predict = predicted_sampled_regions_us,
  };
  return kFamily;
}

}  // namespace sparsmith
