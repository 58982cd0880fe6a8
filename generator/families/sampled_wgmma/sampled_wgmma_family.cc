#include "generator/families/sampled_wgmma/sampled_wgmma_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/ceil_div.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

constexpr std::size_t kBlocksOf32 = 3;  // in SparsityStatistics::kBlockSizes
constexpr std::size_t kBlocksOf64 = 4;
static_assert(SparsityStatistics::kBlockSizes[kBlocksOf64] == SampledWgmmaConfig::kTileRows);

constexpr int kSharedBytes = 227 * 1024;          // of a block of threads, compute capability 9.0
constexpr int kSumBytes = 4 * 16 * (32 + 4) * 4;  // of a warpgroup
constexpr int kStageExtra = 2 * 8;                // barriers
constexpr int kUnitColumns = 64;

// The share of tiles that hold an element; of 64 x 32, about.
double touched_share(std::int64_t tile_columns, const SparsityStatistics& statistics) {
  const double of_64 = statistics.block_touched[kBlocksOf64];
  return tile_columns == 64 ? of_64 : std::sqrt(of_64 * statistics.block_touched[kBlocksOf32]);
}

// ---- the cost model ----
//
// A stage takes the time of its products on tensor cores, or of bringing its boxes, one behind the other: L2 sends them
// to all multiprocessors. Fitted to 108 times of 4096 x 4096 on an H200, N = 4,096 and 16,384: blocks of 16, 32 and 64
// at 90 % zeros, of 32 at 75 %. They are met within 12 % (root of the mean square). Of 8 fastest configs 5 are found;
// the others are 1, 5 and 20 % faster than the preferred ones.
constexpr double kLaunchUs = 3;        // and the first stage
constexpr double kNextLaunchUs = 2.8;  // of the kernel that adds up parts
constexpr double kTokenCycles = 2;     // of 64 x 64 products of a token on tensor cores
constexpr double kTensorShare = 0.59;  // of the clock that the device says: power bounds it
constexpr double kStageCycles = 267;   // at least: barriers
constexpr double kBoxCycles = 33;
constexpr double kL2BytesPerUs = 1.01e7;
constexpr double kStoreCycles = 17;  // of 64 x 1 outputs
constexpr double kPartialBytesPerUs = 3.5e6;

// What a plan computes: its groups, of so many times 64 columns on average, and at most.
struct SampledWork {
  double groups = 0;
  double units = 0;
  double longest = 0;
  double nonzeros = 0;
};

// Of a group of so many times 64 columns.
double group_us(const SampledWgmmaConfig& config, const Problem& problem, double units, int parts) {
  const DeviceRates rates(problem.device);
  const double columns = units * kUnitColumns;
  const double tokens = config.stage_tokens();
  const double tensor_us = tokens * units * config.row_tiles * kTokenCycles / (kTensorShare * rates.clock_mhz);
  const double boxes = columns / config.tile_columns + config.row_tiles;
  const double l2_us = tokens * 2 * (config.row_tiles * SampledWgmmaConfig::kTileRows + columns) * rates.sms /
                       (kL2BytesPerUs * l2_speed(problem.device));
  const double stage_us =
      std::max({tensor_us, l2_us + boxes * kBoxCycles / rates.clock_mhz, kStageCycles / rates.clock_mhz});
  const auto stages =
      static_cast<double>(ceil_div(ceil_div(problem.tokens, std::int64_t{config.stage_tokens()}), parts));
  return stages * stage_us + columns * config.row_tiles * kStoreCycles / rates.clock_mhz;
}

// Without what no number of parts changes. Long groups run first.
double products_us(const SampledWgmmaConfig& config, const Problem& problem, const SampledWork& work, int parts) {
  const double rounds = std::max(1.0, std::ceil(work.groups * parts / DeviceRates(problem.device).sms));
  const double partial_us = config.split ? work.nonzeros * parts * 8 / kPartialBytesPerUs : 0;
  return group_us(config, problem, work.longest, parts) + (rounds - 1) * group_us(config, problem, work.units, parts) +
         partial_us;
}

// The number of parts of the tokens that is predicted to be the fastest.
int best_parts(const SampledWgmmaConfig& config, const Problem& problem, const SampledWork& work) {
  constexpr int kMostParts = 32;
  if (!config.split) return 1;
  int best = 2;
  for (int parts = 3; parts <= kMostParts; ++parts)
    if (products_us(config, problem, work, parts) < products_us(config, problem, work, best)) best = parts;
  return best;
}

// The groups of a weight whose tiles hold an element by chance: the number of a panel's has a binomial distribution.
SampledWork predicted_work(const SampledWgmmaConfig& config, const Problem& problem,
                           const SparsityStatistics& statistics) {
  constexpr double kRare = 0.1;  // panels of a kind that are not counted on
  const double share = 1 - std::pow(1 - touched_share(config.tile_columns, statistics), config.row_tiles);
  const double touched = std::clamp(share, 1e-9, 1 - 1e-9);
  const auto panels =
      static_cast<double>(ceil_div(problem.spec.rows, std::int64_t{config.row_tiles * SampledWgmmaConfig::kTileRows}));
  const std::int64_t tiles = ceil_div(problem.spec.cols, std::int64_t{config.tile_columns});
  const std::int64_t most = config.group_columns / kUnitColumns;
  SampledWork work{.nonzeros = static_cast<double>(statistics.nnz)};
  double units = 0;  // of a panel
  double groups = 0;
  double log_chance = static_cast<double>(tiles) * std::log1p(-touched);  // of so many tiles
  for (std::int64_t held = 0; held <= tiles; ++held) {
    const double chance = std::exp(log_chance);
    const std::int64_t of_panel = ceil_div(held * config.tile_columns, std::int64_t{kUnitColumns});
    const std::int64_t count = std::max<std::int64_t>(1, ceil_div(of_panel, most));
    units += chance * static_cast<double>(of_panel);
    groups += chance * static_cast<double>(count);
    if (chance * panels > kRare) work.longest = std::max(work.longest, static_cast<double>(ceil_div(of_panel, count)));
    log_chance += std::log(static_cast<double>(tiles - held) / static_cast<double>(held + 1)) + std::log(touched) -
                  std::log1p(-touched);
  }
  work.groups = panels * groups;
  work.units = units / groups;
  work.longest = std::max(work.longest, work.units);
  return work;
}

double predicted_sampled_wgmma_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const SampledWgmmaConfig config(values);
  const SampledWork work = predicted_work(config, problem, statistics);
  const double products = products_us(config, problem, work, best_parts(config, problem, work));
  const auto tokens = static_cast<double>(problem.tokens);
  const double hbm_us =
      2 * tokens * static_cast<double>(problem.spec.cols + problem.spec.rows) / (0.8 * DeviceRates(problem.device).hbm);
  const double launches = config.split ? 2 : 1;
  return kLaunchUs + launches * launch_delay_us(problem.device) + std::max(products, hbm_us) +
         (launches - 1) * kNextLaunchUs;
}

// ---- rules ----

std::vector<Parameter> parameters() {
  return {
      {"tile_columns", "c", tuned("SampledWgmmaKernel", "kTileColumns"), "zeros that are multiplied against boxes"},
      {"row_tiles", "r", tuned("SampledWgmmaKernel", "kRowTiles"), "uses of X against tiles that hold nothing"},
      {"group_columns", "g", tuned("SampledWgmmaKernel", "kGroupColumns"), "uses of dY against blocks of threads"},
      {"split", "s", {0, 1}, "blocks of threads against sums that are added up"},
  };
}

std::vector<Rule> legal_rules() {
  std::vector<Rule> rules = legal_box_rules();
  for (Rule& rule : rules) rule.parameters = {"tile_columns"};  // boxes have a fixed number of tokens
  return joined({std::move(rules), legal({
                                       {{"row_tiles", "group_columns"},
                                        "a warpgroup has sums of 256 columns at most",
                                        [](auto& in) { return in["row_tiles"] == 1 || in["group_columns"] <= 256; }},
                                   })});
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"tile_columns"},
       "lines of X and dY without gaps are aligned to 16 bytes",
       [](auto& in) { return in.spec.cols % 8 == 0 && in.spec.rows % 8 == 0; }},
      {{"tile_columns"},
       "narrow tiles leave out some that hold nothing",
       [](auto& in) {
         return in["tile_columns"] == 64 || touched_share(32, in.statistics) < 0.95 * touched_share(64, in.statistics);
       }},
      {{"tile_columns", "row_tiles"},
       "two rows of tiles share most columns",
       [](auto& in) {
         return in["row_tiles"] == 1 || (in.spec.rows > SampledWgmmaConfig::kTileRows &&
                                         touched_share(in["tile_columns"], in.statistics) >= 0.5);
       }},
      {{"group_columns"},
       "a group no wider than the weight",
       [](auto& in) { return in["group_columns"] == 128 || in["group_columns"] < 2 * in.spec.cols; }},
  };
}

// ---- kernels ----

KernelText sampled_wgmma_text(const SampledWgmmaConfig& config, const OperatorSpec& spec, int parts) {
  KernelText text;
  text.name = fmt::format("sampled_wgmma_{}_c{}_r{}_g{}{}", spec_tag(spec), config.tile_columns, config.row_tiles,
                          config.group_columns, config.split ? "_parts" : "");
  text.summary =
      fmt::format("values = dY X^T at the nonzeros of {} weights, by warpgroups: {} rows by {} columns",
                  short_name(spec.type), SampledWgmmaConfig::kTileRows * config.row_tiles, config.group_columns);
  text.architecture = "sm_90a";
  text.threads = config.threads();
  text.min_blocks_per_sm = 1;
  text.headers = {"snippets/prolog/fragment_input.cuh", "snippets/epilog/store_output.cuh",
                  "snippets/kernels/sampled_wgmma.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      {"using Input = FragmentInput<InputType, true>", "X and dY token-major"},
      config.split
          ? KernelText::Line{"using Output = StoreOutput<float, true, NoActivation, false, false, false>",
                             "sums of a part, side by side"}
          : KernelText::Line{fmt::format("using Output = StoreOutput<OutputType, true, NoActivation, false, {}, false>",
                                         boolean(spec.epilogue.beta)),
                             "values side by side; + beta * their old values"},
      {fmt::format("using Kernel = SampledWgmmaKernel<Input, Output, {}, {}, {}, {}, {}>", config.tile_columns,
                   config.row_tiles, config.group_columns, config.stage_tokens(), config.stages()),
       "columns of a tile, rows of tiles, columns of a group, tokens of a stage, stages"},
  };
  add_shared_bytes(config.shared_bytes(), "Kernel::kSharedBytes", text);
  text.parameters = {{"const u32*", "group_panels", packed_array("group_panels")},
                     {"const u32*", "group_tiles", packed_array("group_tiles")},
                     {"const u32*", "columns", packed_array("columns")},
                     {"const u32*", "masks", packed_array("masks")},
                     {"const u32*", "firsts", packed_array("firsts")},
                     {"int", "groups", integer("fact.groups")},
                     {"const __grid_constant__ TensorMap", "dy_map",
                      tensor_map("dy", spec.rows, {config.stage_tokens(), SampledWgmmaConfig::kTileRows})},
                     {"const __grid_constant__ TensorMap", "x_map",
                      tensor_map("x", spec.cols, {config.stage_tokens(), config.tile_columns})},
                     {"const InputType*", "dy", operand("dy")},
                     {"i64", "lddy", integer("ld.dy")},
                     {"int", "rows", integer(spec.rows)},
                     {"int", "parts", integer(parts)}};
  add_input_parameters(spec, text);
  text.body =
      "const Kernel::Pattern pattern{group_panels, group_tiles, columns, masks, firsts, groups};\n"
      "const Input gradients(dy, lddy, rows, n);\n"
      "const Input activations(x, ldx, cols, n);\n";
  if (config.split) {
    text.parameters.push_back({"float*", "partials", workspace()});
    text.parameters.push_back({"i64", "nonzeros", integer("fact.nonzeros")});
    text.body +=
        "const Output output{partials, 0, nullptr, nullptr, 0, 1.0F, 0.0F};\n"
        "const i64 part_stride = nonzeros;\n";
  } else {
    text.parameters.push_back({"OutputType*", "values", operand("values")});
    text.parameters.push_back({"float", "alpha", scalar("alpha")});
    text.parameters.push_back({"float", "beta", scalar("beta")});
    text.body +=
        "const Output output{values, 0, nullptr, nullptr, 0, alpha, beta};\n"
        "const i64 part_stride = 0;\n";
  }
  text.body +=
      "Kernel::run(pattern, dy_map, x_map, gradients, activations, output, part_stride, parts, n, shared_memory());";
  return text;
}

// The second kernel: adds up the sums of the parts, in order.
KernelText finish_text(const OperatorSpec& spec, int parts) {
  KernelText text;
  text.name = fmt::format("finish_values_{}", spec_tag(spec));
  text.summary = "adds up the sums of values over parts of the tokens";
  text.threads = 256;
  text.headers = {"snippets/epilog/store_output.cuh", "snippets/kernels/finish.cuh"};
  text.lines = {output_type(spec),
                {fmt::format("using Output = StoreOutput<OutputType, false, NoActivation, false, {}, false>",
                             boolean(spec.epilogue.beta)),
                 "a line of one element a value; + beta * its old value"},
                {"using Kernel = FinishPartsKernel<Output, false, kThreads>", "as feature-major Y of one token"}};
  text.parameters = {{"const float*", "partials", workspace()},     {"int", "part_count", integer(parts)},
                     {"int", "nonzeros", integer("fact.nonzeros")}, {"OutputType*", "values", operand("values")},
                     {"float", "alpha", scalar("alpha")},           {"float", "beta", scalar("beta")}};
  text.body =
      "const Output output{values, 1, nullptr, nullptr, 0, alpha, beta};\n"
      "Kernel::run(partials, output, part_count, nonzeros, 1);";
  return text;
}

Result<PlannedKernels> sampled_wgmma_kernels(const Config& values, const Problem& problem, const PackedWeight& packed) {
  const SampledWgmmaConfig config(values);
  const int parts = sampled_parts(config, problem, packed.facts);
  PlannedKernels kernels;
  kernels.launch(sampled_wgmma_text(config, problem.spec, parts)).grid[0] =
      formula("max(min(fact.groups * {}, {}), 1)", parts, std::max(1, problem.device.sm_count));
  if (!config.split) return kernels;
  KernelText finish = finish_text(problem.spec, parts);
  const int threads = finish.threads;
  kernels.launch(std::move(finish)).grid[0] = formula("max(min(ceil_div(fact.nonzeros, {}), 65535), 1)", threads);
  kernels.plan.workspace_bytes = formula("{} * fact.nonzeros", 4 * parts);
  return kernels;
}

}  // namespace

int sampled_parts(const SampledWgmmaConfig& config, const Problem& problem, const Facts& facts) {
  const auto fact = [&](const char* name) { return static_cast<double>(facts.at(name)); };
  const double units = fact("tiles") * config.tile_columns / kUnitColumns / std::max(1.0, fact("groups"));
  return best_parts(config, problem, {fact("groups"), units, std::ceil(units), fact("nonzeros")});
}

int SampledWgmmaConfig::stages() const {
  return std::min(kMostStages, (kSharedBytes - warpgroups() * kSumBytes) / (stage_bytes() + kStageExtra));
}

std::int64_t SampledWgmmaConfig::shared_bytes() const {
  return std::int64_t{stages()} * (stage_bytes() + kStageExtra) + warpgroups() * kSumBytes;
}

const Family& sampled_wgmma_family() {
  static const Family kFamily = {
      .name = "sampled_wgmma",
      .serves = [](const OperatorSpec& spec) { return spec.kind == OperatorKind::kSddmm; },
      .multiplied_share = 1,
      .parameters = parameters(),
      .rules = joined({legal_rules(), worthwhile_rules()}),
      .packing_of_rows = packing_name<SampledWgmmaConfig>,
      .kernels = sampled_wgmma_kernels,
      .predict = predicted_sampled_wgmma_us,
  };
  return kFamily;
}

}  // namespace sparsmith
