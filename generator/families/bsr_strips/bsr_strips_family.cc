#include "generator/families/bsr_strips/bsr_strips_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "formats/bsr_strips_layout.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

constexpr std::size_t kBlocksOf8 = 1;  // in SparsityStatistics::kBlockSizes
static_assert(SparsityStatistics::kBlockSizes[kBlocksOf8] == bsr_strips::kChunkColumns);

constexpr std::int64_t kSharedBytes = 227 * 1024;  // of a block of threads, compute capability 9.0
constexpr std::int64_t kOutputBytes = 2560;        // of a warp
constexpr std::int64_t kStepsAhead = 4;
constexpr std::int64_t kStageBarriers = 2 * 8;
constexpr std::int64_t kMostStages = 8;

// The share of the weight's chunks of 8 columns, as high as a panel, that hold a nonzero: between those of the blocks
// that are as wide, and as high.
double touched_share(std::int64_t tiles, const SparsityStatistics& statistics) {
  const auto& touched = statistics.block_touched;
  const std::size_t narrow = tiles == 1 ? kBlocksOf8 : kBlocksOf8 + 1;
  return std::sqrt(touched[narrow] * touched[narrow + 1]);
}

std::int64_t strips(const OperatorSpec& spec) { return ceil_div(spec.cols, std::int64_t{bsr_strips::kStripColumns}); }
std::int64_t outputs(const RuleInput& in) {
  return ceil_div(in.spec.rows, in["rows"]) * ceil_div(in.problem.tokens, in["token_tile"]);
}

std::vector<Parameter> parameters() {
  return {
      {"tiles", "r", tuned("StripSteps", "kTiles_"), "uses of X in shared memory against zeros that are multiplied"},
      {"rows", "m", {128, 256}, "uses of X against blocks of threads"},
      {"token_tile", "t", tuned("BsrStripsKernel", "kTokens"), "uses of W against blocks of threads"},
      {"column_parts", "k", tuned("BsrStripsKernel", "kParts"), "blocks to fill the device with against sums to add"},
  };
}

std::vector<Rule> legal_rules() {
  return legal({
      {{"rows", "token_tile", "column_parts"},
       "idle warps add up no sums of parts",
       [](auto& in) { return in["column_parts"] == 1 || in["rows"] * in["token_tile"] < 256 * 128; }},
  });
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"tiles"},
       "most columns of a panel hold nothing",
       [](auto& in) { return touched_share(in["tiles"], in.statistics) <= 0.4; }},
      {{"tiles"},
       "a step for two tiles has little more to multiply than two for one",
       [](auto& in) {
         return in["tiles"] == 1 || touched_share(2, in.statistics) <= 1.3 * touched_share(1, in.statistics);
       }},
      {{"rows"},
       "several panels for each block of threads",
       [](auto& in) { return in["rows"] == 128 || in.spec.rows > 128; }},
      {{"rows", "token_tile"},
       "128 tokens for 256 rows, where X takes longest",
       [](auto& in) { return in["token_tile"] == 64 || in["rows"] == 256; }},
      {{"rows", "token_tile", "column_parts"},
       "the columns are cut where that leaves a multiprocessor for each block",
       [](auto& in) { return in["column_parts"] == 1 || in["column_parts"] * outputs(in) <= in.device.sm_count; }},
      {{"column_parts"},
       "several strips for each part of the columns",
       [](auto& in) { return in["column_parts"] == 1 || strips(in.spec) >= 4 * in["column_parts"]; }},
  };
}

KernelText bsr_strips_text(const BsrStripsConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  text.name = fmt::format("bsr_strips_{}_r{}_m{}_t{}_k{}", spec_tag(spec), config.tiles, config.rows, config.token_tile,
                          config.column_parts);
  text.summary = fmt::format("Y = W X for {} weights in small blocks: {} rows by {} tokens, X in strips",
                             short_name(spec.type), config.rows, config.token_tile);
  text.architecture = "sm_90a";
  text.threads = config.threads();
  text.min_blocks_per_sm = 1;
  text.headers = {"snippets/prolog/fragment_input.cuh", "snippets/kernels/bsr_strips.cuh"};
  text.lines = {
      stored_type(spec.type),
      input_type(spec),
      output_type(spec),
      {fmt::format("using Input = FragmentInput<InputType, {}>", token_major(spec)), "X token-major"},
      {fmt::format("using Steps = StripSteps<Stored, {}>", config.tiles), "tiles of a panel"},
  };
  add_output(spec, text);
  text.lines.push_back({fmt::format("using Kernel = BsrStripsKernel<Steps, Input, Output, {}, {}, {}, {}>",
                                    config.token_tile, config.warps(), config.stages(), config.column_parts),
                        "tokens, warps, stages, parts of the columns"});
  add_shared_bytes(config.shared_bytes(), "Kernel::kSharedBytes", text);
  text.parameters = {
      {"const Stored*", "values", packed_array("values")},
      {"const u32*", "steps", packed_array("steps")},
      {"const u32*", "part_steps", packed_array("part_steps")},
      {"const u32*", "panel_order", packed_array("panels")},
      {"int", "panels", integer("fact.panels")},
      {"int", "strips", integer("fact.strips")},
      {"int", "rows", integer(spec.rows)},
      {"const __grid_constant__ TensorMap", "x_map", tensor_map("x", spec.cols, {.lines = config.token_tile})}};
  add_input_parameters(spec, text);
  add_output_parameters(text);
  text.body = std::string(kMakeOutput) +
              "const Steps weight{values, steps, part_steps, panel_order, panels, strips};\n"
              "const Input input(x, ldx, cols, n);\n"
              "Kernel::run(weight, x_map, input, output, rows, block_index_z(), n, shared_memory());";
  return text;
}

// A block for each multiprocessor, or as many as there are parts of outputs.
Result<PlannedKernels> bsr_strips_kernels(const Config& values, const Problem& problem,
                                          const PackedWeight& /*packed*/) {
  const BsrStripsConfig config(values);
  PlannedKernels kernels;
  PlanStep& step = kernels.launch(bsr_strips_text(config, problem));
  step.grid = {formula("min(ceil_div(fact.panels, {}) * ceil_div(n, {}), {})", config.warps(), config.token_tile,
                       std::max(1, problem.device.sm_count / config.column_parts)),
               1, config.column_parts};
  step.cluster[2] = config.column_parts;
  return kernels;
}

// The cost model of the bsr_strips family: microseconds, without running anything.
//
// Shared memory decides: X is written to it once, and a step reads its columns and operands. The fewer warps there are,
// the more of their waits show.
//
// Fitted to 112 times on an H100 and an H200: 8192 x 8192, blocks of 8, 16 and 32, 75 and 90 % zeros, 64 to 8,192
// tokens; rms 0.07.
constexpr double kFixedUs = 3.8;        // the first strip, and the last output
constexpr double kExchangeUs = 3.5;     // of sums in a cluster
constexpr double kStripUs = 0.038;      // and, for a cycle of shared memory,
constexpr double kCycleUs16 = 0.00078;  // with 16 warps
constexpr double kCycleUs8 = 0.00095;   // with 8
constexpr double kCycleUs4 = 0.00113;   // with 4
constexpr double kL2BytesPerUs = 12e6;  // to all multiprocessors

double predicted_bsr_strips_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const BsrStripsConfig config(values);
  const DeviceRates rates(problem.device);
  const double tokens = config.token_tile;
  const auto count = static_cast<double>(strips(problem.spec));
  const double panels = std::ceil(static_cast<double>(problem.spec.rows) / config.packing().rows());
  const double outputs =
      std::ceil(panels / config.warps()) * std::ceil(static_cast<double>(problem.tokens) / config.token_tile);
  const double rounds = std::max(1.0, outputs * config.column_parts / rates.sms);

  // Chunks stand in pairs: where they are few, every second pair lacks one.
  const double chunks = bsr_strips::kStripChunks * touched_share(config.tiles, statistics);
  const double alone = statistics.block_touched[kBlocksOf8] < 0.9 * statistics.block_touched[kBlocksOf8 + 1] ? 0.25 : 0;
  const double steps = chunks / 2 + alone;  // of a warp and strip
  const double cycles = 2 * tokens + config.warps() * steps * (tokens / 4 + 8 * config.tiles);
  const double cycle_us = config.warps() == 16 ? kCycleUs16 : config.warps() == 8 ? kCycleUs8 : kCycleUs4;
  const double slower = 1.98e3 / rates.clock_mhz;
  const double l2_us =
      256 * tokens * std::min(outputs * config.column_parts, rates.sms) / (kL2BytesPerUs * l2_speed(problem.device));
  const double strip_us = std::max((kStripUs + cycle_us * cycles) * slower, l2_us);
  const double weight_bytes = panels * count * steps * (512 * config.tiles + 4);
  const double exchange_us = config.column_parts > 1 ? kExchangeUs : 0;
  return kFixedUs + launch_delay_us(problem.device) + exchange_us + 0.8 * weight_bytes / rates.hbm +
         rounds * std::ceil(count / config.column_parts) * strip_us;
}

}  // namespace

int BsrStripsConfig::stages() const {
  const std::int64_t stage = std::int64_t{256} * token_tile + kStageBarriers;
  const std::int64_t warp = std::max(kStepsAhead * 512 * tiles, column_parts > 1 ? 0 : kOutputBytes);
  const std::int64_t left = kSharedBytes - warps() * warp - (column_parts > 1 ? rows / 16 * 4 : 0);
  return static_cast<int>(std::min(kMostStages, left / stage));
}

std::int64_t BsrStripsConfig::shared_bytes() const {
  const std::int64_t stages_end = std::int64_t{256} * token_tile * stages();
  const std::int64_t warp = std::max(kStepsAhead * 512 * tiles, column_parts > 1 ? 0 : kOutputBytes);
  const std::int64_t rest = warps() * warp + kStageBarriers * stages();
  if (column_parts == 1) return stages_end + rest;
  const std::int64_t sums = std::int64_t{token_tile} * (rows + 4) * 4 +
                            (column_parts - 1) * (std::int64_t{rows} / 4 * token_tile / column_parts) * 16;
  return std::max(stages_end, sums) + rest + rows / 16 * 4;
}

const Family& bsr_strips_family() {
  static const Family kFamily = {
      .name = "bsr_strips",
      .multiplied_share = 1,
      .parameters = parameters(),
      .rules = joined({legal_box_rules(), legal_rules(), worthwhile_box_rules(), worthwhile_rules()}),
      .packing_of_rows = packing_name<BsrStripsConfig>,
      .kernels = bsr_strips_kernels,
      .predict = predicted_bsr_strips_us,
  };
  return kFamily;
}

}  // namespace sparsmith
