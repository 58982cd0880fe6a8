#include "generator/families/bsr_wgmma/bsr_wgmma_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

constexpr std::size_t kBlocksOf32 = 3;  // in SparsityStatistics::kBlockSizes
constexpr std::size_t kBlocksOf64 = 4;
static_assert(SparsityStatistics::kBlockSizes[kBlocksOf64] == BsrWgmmaConfig::kBlockRows);

// The share of blocks of 64 rows by `width` columns, 32 or 64, that hold an element. Of 32 columns, packers put halves
// with common columns together (formats/row_pairs.h).
double touched_share(std::int64_t width, std::int64_t cols, const SparsityStatistics& statistics) {
  const double of_64 = statistics.block_touched[kBlocksOf64];
  if (width == 64) return of_64;
  // Columns that two halves have in common by chance, and by how many standard deviations more those have that were
  // sought: met within 5 % for 128 and 448 halves by 128 and 448 columns of which 10, 25 and 50 % are there.
  constexpr double kSought = 2.1;
  const double share = statistics.block_touched[kBlocksOf32];
  const auto columns = static_cast<double>(std::max<std::int64_t>(1, ceil_div(cols, width)));
  const double common = share * share + kSought * share * std::sqrt((1 - share * share) / columns);
  const double neighbours = std::sqrt(of_64 * share);  // of 64 x 32, about
  return std::max(share, std::min(neighbours, 2 * share - common));
}

constexpr int kSharedBytes = 227 * 1024;  // of a block of threads, compute capability 9.0
constexpr int kOutputBytes = 4 * 2560;    // of a warpgroup
constexpr int kStageExtra = 2 * 8 + 4;    // barriers and a row mask
constexpr int kMostStages = 12;

std::vector<Parameter> parameters() {
  return {
      {"block_columns", "c", tuned("BsrWgmmaKernel", "kColumns"), "zeros that are multiplied against stages"},
      {"token_tile", "t", tuned("BsrWgmmaKernel", "kTokens"), "uses of a block of W against blocks of threads"},
      {"row_tiles", "r", tuned("BsrWgmmaKernel", "kRowTiles"), "uses of X against blocks of threads"},
  };
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"block_columns"},
       "most blocks hold nothing",
       [](auto& in) { return touched_share(in["block_columns"], in.spec.cols, in.statistics) <= 0.6; }},
      {{"block_columns"},
       "narrow blocks leave out some that hold nothing",
       [](auto& in) {
         return in["block_columns"] == 64 ||
                touched_share(32, in.spec.cols, in.statistics) < 0.95 * touched_share(64, in.spec.cols, in.statistics);
       }},
      {{"row_tiles"},
       "a row of blocks for each warpgroup",
       [](auto& in) { return in["row_tiles"] == 1 || in.spec.rows > BsrWgmmaConfig::kBlockRows; }},
  };
}

KernelText bsr_wgmma_text(const BsrWgmmaConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  text.name = fmt::format("bsr_wgmma_{}_c{}_t{}_r{}", spec_tag(spec), config.block_columns, config.token_tile,
                          config.row_tiles);
  text.summary = fmt::format("Y = W X for {} weights in blocks of {} x {}, by warpgroups: {} rows by {} tokens",
                             short_name(spec.type), BsrWgmmaConfig::kBlockRows, config.block_columns,
                             BsrWgmmaConfig::kBlockRows * config.row_tiles, config.token_tile);
  text.architecture = "sm_90a";
  text.threads = config.threads();
  text.min_blocks_per_sm = 1;
  text.headers = {"snippets/prolog/fragment_input.cuh", "snippets/kernels/bsr_wgmma.cuh"};
  text.lines = {
      stored_type(spec.type),
      input_type(spec),
      output_type(spec),
      {fmt::format("using Input = FragmentInput<InputType, {}>", token_major(spec)), "X token-major"},
  };
  add_output(spec, text);
  text.lines.push_back({fmt::format("using Kernel = BsrWgmmaKernel<Input, Output, {}, {}, {}, {}>",
                                    config.block_columns, config.token_tile, config.row_tiles, config.stages()),
                        "columns of a block, tokens, rows of blocks, stages"});
  add_shared_bytes(config.shared_bytes(), "Kernel::kSharedBytes", text);
  text.parameters = {{"const Stored*", "values", packed_array("blocks")},
                     {"const u32*", "row_blocks", packed_array("row_blocks")},
                     {"const u32*", "block_columns", packed_array("block_columns")},
                     {"const u32*", "row_order", packed_array("row_order")},
                     {"int", "rows", integer(spec.rows)},
                     {"int", "block_rows", integer("fact.block_rows")},
                     {"const __grid_constant__ TensorMap", "x_map",
                      tensor_map("x", spec.cols, {config.token_tile, config.block_columns})},
                     {"int", "written", integer("written")}};
  const bool halves = config.packing().halves();
  if (halves) text.parameters.push_back({"const u32*", "half_rows", packed_array("half_rows")});
  add_input_parameters(spec, text);
  add_output_parameters(text);
  text.body =
      fmt::format(
          "{}const Kernel::Weight weight{{values, row_blocks, block_columns, row_order, {}, rows, block_rows}};\n",
          kMakeOutput, halves ? "half_rows" : "nullptr") +
      "const Input input(x, ldx, cols, n);\n"
      "Kernel::run(weight, x_map, input, output, n, written != 0, shared_memory());";
  return text;
}

Result<PlannedKernels> bsr_wgmma_kernels(const Config& values, const Problem& problem, const PackedWeight& /*packed*/) {
  const BsrWgmmaConfig config(values);
  PlannedKernels kernels;
  kernels.launch(bsr_wgmma_text(config, problem)).grid[0] =
      formula("min(ceil_div(fact.block_rows, {}) * ceil_div(n, {}), {})", config.row_tiles, config.token_tile,
              std::max(1, problem.device.sm_count));
  return kernels;
}

// The cost model of the bsr_wgmma family: microseconds, without running anything.
//
// A stage takes the time of its blocks on tensor cores, or of bringing X and W. L2 sends both to all multiprocessors.
// Where there are few outputs, rows with the most blocks decide.
//
// Fitted to 130 times on an H200: 8192 x 8192, blocks of 32, 64 and 128, 75 and 90 % zeros, 64 to 8,192 tokens; rms
// 0.07.
constexpr double kFixedUs = 5.4;  // launch, and the first stage
constexpr double kOutputCycles = 750;
constexpr double kTokenCycles = 3.55;  // of a block of 64 columns and a token, on tensor cores: 2 without waits
constexpr double kStageCycles = 226;   // and, for each byte of X,
constexpr double kInputByteCycles = 0.0225;
constexpr double kL2BytesPerUs = 9.3e6;
constexpr double kClock = 1.7 / 1.98;  // of what the device says: the power that tensor cores take bounds it
constexpr double kSpread = 0.54;       // of the longest row, in standard deviations of blocks at drawn places

double predicted_bsr_wgmma_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const BsrWgmmaConfig config(values);
  const DeviceRates rates(problem.device);
  const double touched = touched_share(config.block_columns, problem.spec.cols, statistics);
  const double input_bytes = 2.0 * config.block_columns * config.token_tile;  // of a stage
  const double block_bytes = 2.0 * config.block_columns * BsrWgmmaConfig::kBlockRows;
  const auto columns = static_cast<double>(ceil_div(problem.spec.cols, std::int64_t{config.block_columns}));
  const auto block_rows = static_cast<double>(ceil_div(problem.spec.rows, std::int64_t{BsrWgmmaConfig::kBlockRows}));
  const auto tokens = static_cast<double>(problem.tokens);
  const double outputs = std::ceil(block_rows / config.row_tiles) * std::ceil(tokens / config.token_tile);
  const double rounds = std::max(1.0, outputs / rates.sms);

  const double stages = columns * (1 - std::pow(1 - touched, config.row_tiles));  // of an output
  const double blocks = columns * touched * config.row_tiles;
  const double clock = kClock * rates.clock_mhz;
  const double cycles = std::max(blocks * config.token_tile * kTokenCycles * config.block_columns / 64,
                                 stages * (kStageCycles + kInputByteCycles * input_bytes));
  const double l2_us = (stages * input_bytes + blocks * block_bytes) * std::min(outputs, rates.sms) /
                       (kL2BytesPerUs * l2_speed(problem.device));
  const double spread =
      outputs <= 4 * rates.sms ? kSpread * std::sqrt((1 - touched) / std::max(stages, 1.0)) / rounds : 0;
  const double output_us = std::max(cycles / clock, l2_us) * (1 + spread) + kOutputCycles / clock;
  const double hbm_us =
      (block_rows * columns * touched * block_bytes +
       2 * tokens * (static_cast<double>(problem.spec.cols) + static_cast<double>(problem.spec.rows))) /
      (0.8 * rates.hbm);
  return kFixedUs + launch_delay_us(problem.device) + std::max(rounds * output_us, hbm_us);
}

}  // namespace

int BsrWgmmaConfig::stages() const {
  return std::min(kMostStages, (kSharedBytes - row_tiles * kOutputBytes) / (stage_bytes() + kStageExtra));
}

std::int64_t BsrWgmmaConfig::shared_bytes() const {
  return std::int64_t{stages()} * (stage_bytes() + kStageExtra) + row_tiles * kOutputBytes;
}

const Family& bsr_wgmma_family() {
  static const Family kFamily = {
      .name = "bsr_wgmma",
      .multiplied_share = 1,
      .parameters = parameters(),
      .rules = joined({legal_box_rules(), worthwhile_box_rules(), worthwhile_rules()}),
      .packing_of_rows = packing_name<BsrWgmmaConfig>,
      .kernels = bsr_wgmma_kernels,
      .predict = predicted_bsr_wgmma_us,
  };
  return kFamily;
}

}  // namespace sparsmith
