#include "generator/families/cooperative/cooperative_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

const ScatterChoice kChoice = {
    .parameters = {"entry"},
    .packing =
        [](auto& in) {
          return ScatterPacking{.entry = static_cast<ScatterEntry>(in["entry"]),
                                .tile_rows = CooperativeConfig::kTileRows};
        },
    .padded = true,
};

constexpr int kThreadRegisters = 168;  // of 384 threads

std::vector<Parameter> parameters() {
  return {
      entry_parameter(),
      min_rounds_parameter(),
      max_rounds_parameter(),
      {"token_tile", "t", tuned("CooperativeKernel", "kTokens"),
       "uses of a tile that was made dense against blocks to fill the device with"},
      {"stages", "s", tuned("CooperativeKernel", "kStages"), "waits for X and W against shared memory"},
      {"whole_tiles", "z", {0, 1}, "registers and instructions against accesses of shared memory"},
      {"column_parts", "k", tuned("CooperativeKernel", "kParts"),
       "blocks to fill the device with against sums in a cluster"},
  };
}

std::vector<Rule> legal_rules() {
  return legal({
      {{"entry"},
       "only devices of compute capability 9.0 have wgmma",
       [](auto& in) { return in.device.compute_capability == 90; }},
      {{"entry"}, "boxes of X have tokens as lines", [](auto& in) { return in.spec.layout == Layout::kTokenMajor; }},
      {{"token_tile", "stages"},
       "shared memory takes the stages",
       [](auto& in) {
         Config config = in.config;
         config.values.insert({{"min_rounds", 0}, {"max_rounds", 0}, {"whole_tiles", 1}, {"column_parts", 1}});
         return CooperativeConfig(config).shared_bytes() <= in.device.shared_bytes_per_block;
       }},
      {{"stages", "whole_tiles"},
       "a producing warp keeps places of two stages",
       [](auto& in) { return in["whole_tiles"] != 0 || in["stages"] == 4; }},
  });
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"entry"}, "lines of X without gaps are aligned to 16 bytes", [](auto& in) { return in.spec.cols % 8 == 0; }},
      {{"token_tile"},
       "so few tokens that most of a tile of them is empty",
       [](auto& in) { return 2 * in.problem.tokens > in["token_tile"]; }},
      {{"token_tile", "stages", "whole_tiles"},
       "all the stages that shared memory takes",
       [](auto& in) { return in["stages"] == (in["token_tile"] == 256 || in["whole_tiles"] == 0 ? 4 : 6); }},
      {{"entry", "min_rounds", "max_rounds", "stages", "whole_tiles"},
       "no more than a few registers spill",
       [](auto& in) {
         Config config = in.config;
         config.values.insert({{"token_tile", 128}, {"column_parts", 1}});
         return CooperativeConfig(config).registers() <= kThreadRegisters;
       }},
      {{"token_tile", "column_parts"},
       "the columns are cut where that leaves a multiprocessor for each block",
       [](auto& in) {
         const std::int64_t outputs = ceil_div(in.spec.rows, std::int64_t{CooperativeConfig::kBlockRows}) *
                                      ceil_div(in.problem.tokens, in["token_tile"]);
         return in["column_parts"] == 1 || in["column_parts"] * outputs <= in.device.sm_count;
       }},
  };
}

KernelText cooperative_text(const CooperativeConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  const std::string parts = config.column_parts > 1 ? fmt::format("_c{}", config.column_parts) : "";
  KernelText text;
  text.name =
      fmt::format("cooperative_{}_e{}_i{}_a{}_t{}_s{}_{}{}", spec_tag(spec), config.entry_letter(), config.min_rounds,
                  config.max_rounds, config.token_tile, config.stages, config.clearing(), parts);
  text.summary = fmt::format(
      "Y = W X for {} weights as lists of nonzeros, which a warpgroup makes dense and two others multiply: {} rows "
      "by {} tokens",
      short_name(spec.type), CooperativeConfig::kBlockRows, config.token_tile);
  text.architecture = "sm_90a";
  text.threads = CooperativeConfig::kThreads;
  text.min_blocks_per_sm = 1;
  text.headers = {"snippets/prolog/scatter_entries.cuh", "snippets/prolog/fragment_input.cuh",
                  "snippets/kernels/cooperative.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      config.entries_line(),
      {fmt::format("using Input = FragmentInput<InputType, {}>", token_major(spec)), "X token-major"},
  };
  add_output(spec, text);
  text.lines.push_back(
      {fmt::format("using Kernel = CooperativeKernel<Entries, Input, Output, {}, {}, {}, {}>", config.token_tile,
                   config.stages, boolean(config.whole_tiles != 0), config.column_parts),
       "tokens, stages, whole tiles cleared, parts of the columns"});
  add_shared_bytes(config.shared_bytes(), "Kernel::kSharedBytes", text);
  add_scatter_parameters(spec, text);
  text.parameters.push_back(
      {"const __grid_constant__ TensorMap", "x_map", tensor_map("x", spec.cols, {.lines = config.box_tokens()})});
  const std::string range = make_part_range(config.column_parts, "tile", "column_tiles", text);
  add_output_parameters(text);
  text.body = kMakeOutput + range;
  text.body += kMakeScatterWeight;
  text.body +=
      "const Input input(x, ldx, cols, n);\n"
      "Kernel::run(weight, x_map, input, output, first_tile, end_tile, n, shared_memory());";
  return text;
}

// A block for each multiprocessor, or as many as there are outputs; where blocks share out the columns, two an output.
Result<PlannedKernels> cooperative_kernels(const Config& values, const Problem& problem,
                                           const PackedWeight& /*packed*/) {
  constexpr int kClusterBlocks = CooperativeConfig::kClusterBlocks;
  const CooperativeConfig config(values);
  const std::string outputs =
      fmt::format("ceil_div(fact.row_blocks, {}) * ceil_div(n, {})", config.panel_tiles(), config.token_tile);
  PlannedKernels kernels;
  PlanStep& step = kernels.launch(cooperative_text(config, problem));
  if (config.column_parts > 1) {
    step.grid = {formula("{}", outputs), 1, config.column_parts};
    step.cluster[2] = config.column_parts;
  } else {
    step.grid[0] =
        formula("{} * min({}, {})", kClusterBlocks, outputs, std::max(1, problem.device.sm_count / kClusterBlocks));
    step.cluster[0] = kClusterBlocks;
  }
  return kernels;
}

// The cost model of the cooperative family: microseconds, without running anything.
//
// A stage of 64 columns takes the tensor cores of a multiprocessor four multiplications for each of two row tiles. It
// takes longer where turns of shared memory, or instructions of producing warps, do: their time grows with the tokens
// and with the rounds of a tile. Outputs take their time one after the other.
//
// Fitted by hand to some 60 times on an H200: 8192 x 8192, 50 to 90 % zeros, 128 to 8,192 tokens.
constexpr double kSustainedClock = 1.47 / 1.98;  // of what the device says: the power that tensor cores take bounds it
constexpr double kSmallTileClock = 1.66 / 1.98;  // tiles of 128 tokens leave tensor cores idle
constexpr double kFixedUs = 5.2;                 // launch, and the first tile
constexpr double kOutputCycles = 6000;           // an output's end
constexpr double kExchangeUs = 3.0;              // of sums in a cluster
constexpr double kTensorCycles = 4.05;           // of a token and a stage: 4 without waits
constexpr double kStageCycles = 500;             // without tokens and entries
constexpr double kTokenCycles = 1.75;
constexpr double kRoundCycles = 5.6;         // of both tiles, which are cleared as a whole
constexpr double kClearedRoundCycles = 2.6;  // which are cleared entry by entry, in the word form
constexpr double kLateRoundCycles = 200;
constexpr double kL2BytesPerUs = 5.0e6;       // to blocks that read different lines
constexpr double kL2InputBytesPerUs = 9.0e6;  // to blocks that read the same lines at about the same time

double predicted_cooperative_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const CooperativeConfig config(values);
  const ScatterRounds rounds = scatter_rounds(config.packing(), statistics);
  const DeviceRates rates(problem.device);
  const double clusters = std::max(1.0, rates.sms / CooperativeConfig::kClusterBlocks);
  const auto row_panels = static_cast<double>(
      ceil_div(problem.spec.rows, std::int64_t{config.panel_tiles() * CooperativeConfig::kTileRows}));
  const auto token_tiles = static_cast<double>(ceil_div(problem.tokens, std::int64_t{config.token_tile}));
  const auto columns = static_cast<double>(ceil_div(problem.spec.cols, std::int64_t{CooperativeConfig::kTileRows}));
  const double stages = std::ceil(columns / config.column_parts);

  const bool cleared = config.whole_tiles == 0 && !config.bytes();
  const double stored = std::max<double>(rounds.mean, config.max_rounds);
  const double stage_cycles =
      std::max(kTensorCycles * config.token_tile, kStageCycles + kTokenCycles * config.token_tile +
                                                      (cleared ? kClearedRoundCycles : kRoundCycles) * stored) +
      rounds.beyond(config.max_rounds) * kLateRoundCycles;
  const double outputs = std::ceil(row_panels * token_tiles / clusters);
  const double clock = (config.token_tile == 256 ? kSustainedClock : kSmallTileClock) * rates.clock_mhz;
  const double compute_us = outputs * (stages * stage_cycles + kOutputCycles) / clock;

  const double tiles = row_panels * config.panel_tiles() * columns;
  const double weight_bytes = tiles * config.tile_bytes(rounds);
  const double x_bytes = columns * 128 * static_cast<double>(problem.tokens);
  const double y_bytes = static_cast<double>(problem.spec.rows) * static_cast<double>(problem.tokens) * 2;
  const double l2_us = (weight_bytes * token_tiles / kL2BytesPerUs + x_bytes * row_panels / kL2InputBytesPerUs) /
                       l2_speed(problem.device);
  const double memory_us = (weight_bytes + x_bytes + y_bytes) / (0.75 * rates.hbm);
  return kFixedUs + launch_delay_us(problem.device) + std::max({compute_us, l2_us, memory_us}) +
         (config.column_parts > 1 ? kExchangeUs : 0);
}

}  // namespace

std::int64_t CooperativeConfig::shared_bytes() const {
  const std::int64_t stage = std::int64_t{token_tile} * 128 + 2 * 8192 + 4 * 8;
  return stages * stage + 8 * 2560 + 2 * 4 * 4;
}

const Family& cooperative_family() {
  static const Family kFamily = {
      .name = "cooperative",
      .multiplied_share = 1,
      .parameters = parameters(),
      .rules = joined({legal_scatter_rules(), legal_rules(), worthwhile_scatter_rules(kChoice), worthwhile_rules()}),
      .packing_of_rows = packing_name<CooperativeConfig>,
      .kernels = cooperative_kernels,
      .predict = predicted_cooperative_us,
  };
  return kFamily;
}

}  // namespace sparsmith
