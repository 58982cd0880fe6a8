#include "generator/families/two_four_wgmma/two_four_wgmma_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/ceil_div.h"
#include "formats/two_four_layout.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kSharedBytes = 227 * 1024;  // of a block of threads, compute capability 9.0
constexpr std::int64_t kOutputBytes = 4 * 2560;    // of a warpgroup
constexpr std::int64_t kStageBarriers = 2 * 8;
constexpr int kMostStages = 12;

std::int64_t row_panels(const OperatorSpec& spec) { return ceil_div(spec.rows, std::int64_t{two_four::kPanelRows}); }
std::int64_t strips(const OperatorSpec& spec) { return ceil_div(spec.cols, std::int64_t{two_four::kStripColumns}); }
std::int64_t outputs(const RuleInput& in) {
  return ceil_div(row_panels(in.spec), in["row_tiles"]) * ceil_div(in.problem.tokens, in["token_tile"]);
}

std::vector<Parameter> parameters() {
  return {
      {"token_tile", "t", tuned("TwoFourWgmmaKernel", "kTokens"), "uses of a strip of W against blocks of threads"},
      {"row_tiles", "r", tuned("TwoFourWgmmaKernel", "kRowTiles"), "uses of X against blocks of threads"},
      {"column_parts", "k", tuned("TwoFourWgmmaKernel", "kParts"),
       "blocks to fill the device with against sums to add"},
      {"sum", "m", {0, 1}, "who adds up the sums of parts", {"launch", "cluster"}},
  };
}

std::vector<Rule> legal_rules() {
  return legal({
      {{"token_tile"},
       "a group of four columns has more than two nonzeros",
       [](auto& in) { return in.statistics.two_four_legal == 1.0; }},
      {{"column_parts", "sum"},
       "a cluster adds up several parts",
       [](auto& in) { return in["sum"] == 0 || in["column_parts"] > 1; }},
      {{"token_tile", "row_tiles", "sum"},
       "idle warps add up no sums of parts",
       [](auto& in) { return in["sum"] == 0 || in["token_tile"] * in["row_tiles"] < 512; }},
  });
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"row_tiles"},
       "a panel of rows for each warpgroup",
       [](auto& in) { return in["row_tiles"] == 1 || in.spec.rows > two_four::kPanelRows; }},
      {{"token_tile", "row_tiles"},
       "256 tokens for two row tiles, where X takes longest",
       [](auto& in) { return in["token_tile"] < 256 || in["row_tiles"] == 2; }},
      {{"token_tile", "row_tiles", "column_parts", "sum"},
       "the columns are cut where that leaves a multiprocessor for each block",
       [](auto& in) {
         // GPCs have 16 or 18 multiprocessors: some clusters of four find no place in them.
         const std::int64_t left_over = in["sum"] != 0 && in["column_parts"] > 2 ? in.device.sm_count / 11 : 0;
         return in["column_parts"] == 1 || in["column_parts"] * outputs(in) + left_over <= in.device.sm_count;
       }},
      {{"column_parts"},
       "several strips for each part of the columns",
       [](auto& in) { return in["column_parts"] == 1 || strips(in.spec) >= 4 * in["column_parts"]; }},
  };
}

KernelText two_four_wgmma_text(const TwoFourWgmmaConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  const bool split = config.second_kernel();
  const std::string parts = split ? "_k" : config.cluster() > 1 ? fmt::format("_c{}", config.cluster()) : "";
  text.name = fmt::format("two_four_wgmma_{}_t{}_r{}{}", spec_tag(spec), config.token_tile, config.row_tiles, parts);
  text.summary = fmt::format(
      "Y = W X for {} weights with two nonzeros in four, by sparse tensor cores of warpgroups: {} rows by {} tokens",
      short_name(spec.type), two_four::kPanelRows * config.row_tiles, config.token_tile);
  text.architecture = "sm_90a";
  text.threads = config.threads();
  text.min_blocks_per_sm = 1;
  text.headers = {"snippets/prolog/fragment_input.cuh", "snippets/kernels/two_four_wgmma.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      {fmt::format("using Input = FragmentInput<InputType, {}>", token_major(spec)), "X token-major"},
  };
  add_part_output(spec, split, text);
  text.lines.push_back({fmt::format("using Kernel = TwoFourWgmmaKernel<Input, Output, {}, {}, {}, {}>",
                                    config.token_tile, config.row_tiles, config.stages(), config.cluster()),
                        "tokens, row tiles, stages, blocks of a cluster"});
  add_shared_bytes(config.shared_bytes(), "Kernel::kSharedBytes", text);
  text.parameters = {
      {"const u8*", "tiles", packed_array("tiles")},
      {"int", "strips", integer("fact.strips")},
      {"int", "rows", integer(spec.rows)},
      {"const __grid_constant__ TensorMap", "x_map", tensor_map("x", spec.cols, {.lines = config.token_tile})}};
  const std::string range = make_part_range(config.column_parts, "strip", "strips", text);
  text.parameters.push_back({"int", "written", integer("written")});
  add_input_parameters(spec, text);
  text.body =
      make_part_output(spec, split, "0", text) + range +
      "const Kernel::Tiles weight{tiles, strips};\n"
      "const Input input(x, ldx, cols, n);\n"
      "Kernel::run(weight, x_map, input, output, rows, first_strip, end_strip, n, written != 0, shared_memory());";
  return text;
}

// A block for each multiprocessor, or as many as there are parts of outputs.
Result<PlannedKernels> two_four_wgmma_kernels(const Config& values, const Problem& problem,
                                              const PackedWeight& /*packed*/) {
  const TwoFourWgmmaConfig config(values);
  const std::string outputs =
      fmt::format("ceil_div(fact.panels, {}) * ceil_div(n, {})", config.row_tiles, config.token_tile);
  PlannedKernels kernels;
  PlanStep& step = kernels.launch(two_four_wgmma_text(config, problem));
  step.grid = {formula("min({}, {})", outputs, std::max(1, problem.device.sm_count / config.column_parts)), 1,
               config.column_parts};
  step.cluster[2] = config.cluster();
  if (config.second_kernel()) {
    add_finish_parts(problem.spec, config.column_parts, "0", kernels);
    kernels.plan.workspace_bytes = IntegerExpression::of(part_bytes(problem.spec, config.column_parts));
  }
  return kernels;
}

// The cost model of the two_four_wgmma family: microseconds, without running anything.
//
// A strip takes each warpgroup its time on tensor cores and the time to load operands, which shared memory does not do
// meanwhile; or the time from one strip to the next, if there is one warpgroup. Tensor cores at work take power, which
// bounds the clock, the more the longer a kernel is. Blocks that share out the columns read different lines of X, which
// L2 then sends to each of them.
//
// Fitted to 118 times on an H200: four shapes, 64 to 8,192 tokens; rms 0.10.
constexpr double kFixedUs = 2.3;
constexpr double kStartCycles = 3600;                   // to the first strip
constexpr double kOutputCycles = 11;                    // of a token of an output, at its end
constexpr double kLoadCycles = 92;                      // of a warpgroup's strip, and
constexpr double kMultiplyCycles = 0.92;                // for each token
constexpr double kStripCycles = 200;                    // from one strip to the next, and
constexpr double kTokenCycles = 0.5;                    // for each token
constexpr double kExchangeCycles = 3000;                // of sums in a cluster, and
constexpr double kExchangeTokenCycles = 10;             // for each token and row tile
constexpr double kPartBytesPerCycle = 5400;             // from L2 to blocks that share out the columns
constexpr double kSecondKernelUs = 1.74;                // as of the wgmma family,
constexpr double kSumBytesPerUs = 7.2e6;                // and L2
constexpr double kClocks[] = {0.88, 0.85, 0.78, 0.75};  // of what the device says, for 1, 2, 4 and 8 tiles of 64 x 64
constexpr double kSlowFromUs = 30;                      // longer kernels have a lower clock,
constexpr double kSlowestUs = 70;                       // from here on by
constexpr double kSlower = 0.15;

double predicted_two_four_wgmma_us(const Config& values, const Problem& problem,
                                   const SparsityStatistics& /*statistics*/) {
  const TwoFourWgmmaConfig config(values);
  const DeviceRates rates(problem.device);
  const double tokens = config.token_tile;
  const auto columns = static_cast<double>(strips(problem.spec));
  const auto panels = static_cast<double>(row_panels(problem.spec));
  const double outputs = std::ceil(panels / config.row_tiles) * std::ceil(static_cast<double>(problem.tokens) / tokens);
  const double rounds = std::max(1.0, std::ceil(outputs * config.column_parts / rates.sms));
  const double strip_bytes = config.row_tiles * double{two_four::kStripBytes} + tokens * 128;

  double strip_cycles =
      std::max(config.row_tiles * (kMultiplyCycles * tokens + kLoadCycles), kStripCycles + kTokenCycles * tokens);
  double cycles = kStartCycles + rounds * kOutputCycles * tokens;
  double finish_us = 0;
  if (config.cluster() > 1) {
    strip_cycles = std::max(
        strip_cycles, strip_bytes * outputs * config.column_parts / (kPartBytesPerCycle * l2_speed(problem.device)));
    cycles += kExchangeCycles + kExchangeTokenCycles * tokens * config.row_tiles;
  } else if (config.second_kernel()) {  // fp32 sums are written and read once a part
    const double sums = 4.0 * static_cast<double>(problem.spec.rows) * static_cast<double>(problem.tokens);
    finish_us = kSecondKernelUs + launch_delay_us(problem.device) +
                2 * sums * config.column_parts / (kSumBytesPerUs * l2_speed(problem.device));
  }
  cycles += rounds * std::ceil(columns / config.column_parts) * strip_cycles;
  const auto tiles = static_cast<unsigned>(config.row_tiles * config.token_tile / 64);
  const double clock = kClocks[std::bit_width(tiles) - 1] * rates.clock_mhz;
  const double hbm_us =
      (panels * columns * two_four::kStripBytes +
       2 * static_cast<double>(problem.tokens) * static_cast<double>(problem.spec.cols + problem.spec.rows)) /
      (0.9 * rates.hbm);
  const double us = std::max(cycles / clock, hbm_us + kStartCycles / clock);
  const double slower = kSlower * std::clamp((us - kSlowFromUs) / (kSlowestUs - kSlowFromUs), 0.0, 1.0);
  return kFixedUs + launch_delay_us(problem.device) + us * (1 + slower) + finish_us;
}

}  // namespace

int TwoFourWgmmaConfig::stages() const {
  const std::int64_t taken = cluster() > 1 ? 4 * 4 * row_tiles : kOutputBytes * row_tiles;
  const std::int64_t stage = token_tile * 128 + row_tiles * two_four::kStripBytes + kStageBarriers;
  return static_cast<int>(std::min<std::int64_t>(kMostStages, (kSharedBytes - taken) / stage));
}

std::int64_t TwoFourWgmmaConfig::shared_bytes() const {
  const std::int64_t stage = token_tile * 128 + row_tiles * two_four::kStripBytes;
  const std::int64_t barriers = stages() * kStageBarriers;
  if (cluster() == 1) return stages() * stage + row_tiles * kOutputBytes + barriers;
  const std::int64_t rows = std::int64_t{64} * row_tiles;
  const std::int64_t sums =
      token_tile * (rows + 4) * 4 + (column_parts - 1) * (rows / 4 * token_tile / column_parts) * 16;
  return std::max(stages() * stage, sums) + barriers + rows / 16 * 4;
}

const Family& two_four_wgmma_family() {
  static const Family kFamily = {
      .name = "two_four_wgmma",
      .multiplied_share = 0.5,
      .parameters = parameters(),
      .rules = joined({legal_box_rules(), legal_rules(), worthwhile_box_rules(), worthwhile_rules()}),
      .packing_of_rows = [](const Config&, const Problem&) -> std::string { return kTwoFourPacking; },
      .kernels = two_four_wgmma_kernels,
      .predict = predicted_two_four_wgmma_us,
  };
  return kFamily;
}

}  // namespace sparsmith
