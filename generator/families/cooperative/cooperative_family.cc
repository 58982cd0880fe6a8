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
};

std::vector<Parameter> parameters() {
  return {
      entry_parameter(),
      min_rounds_parameter(),
      max_rounds_parameter(),
      {"token_tile", "t", tuned("CooperativeKernel", "kTokens"),
       "uses of a tile that was made dense against blocks to fill the device with"},
      {"stages", "s", tuned("CooperativeKernel", "kStages"), "waits for X and W against shared memory"},
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
         config.values.insert({{"min_rounds", 0}, {"max_rounds", 0}});
         return CooperativeConfig(config).shared_bytes() <= in.device.shared_bytes_per_block;
       }},
  });
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"entry"}, "lines of X without gaps are aligned to 16 bytes", [](auto& in) { return in.spec.cols % 8 == 0; }},
      {{"token_tile"},
       "so few tokens that most of a tile of them is empty",
       [](auto& in) { return 2 * in.problem.tokens > in["token_tile"]; }},
      {{"token_tile", "stages"},
       "all the stages that shared memory takes",
       [](auto& in) { return in["stages"] == (in["token_tile"] == 256 ? 4 : 6); }},
  };
}

KernelText cooperative_text(const CooperativeConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  text.name = fmt::format("cooperative_{}_e{}_i{}_a{}_t{}_s{}", spec_tag(spec), config.entry_letter(),
                          config.min_rounds, config.max_rounds, config.token_tile, config.stages);
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
  text.lines.push_back({fmt::format("using Kernel = CooperativeKernel<Entries, Input, Output, {}, {}>",
                                    config.token_tile, config.stages),
                        "tokens, stages"});
  text.lines.push_back({fmt::format("static_assert(Kernel::kAhead == {})", boolean(config.holds_two_tiles())),
                        "entries of two tiles in registers"});
  add_shared_bytes(config.shared_bytes(), "Kernel::kSharedBytes", text);
  add_scatter_parameters(spec, text);
  text.parameters.push_back({"const __grid_constant__ TensorMap", "x_map", tensor_map("x", spec.cols)});
  add_output_parameters(text);
  text.body = kMakeOutput;
  text.body += kMakeScatterWeight;
  text.body +=
      "const Input input(x, ldx, cols, n);\n"
      "Kernel::run(weight, x_map, input, output, n, shared_memory());";
  return text;
}

// A block for each multiprocessor, or as many as there are outputs.
Result<PlannedKernels> cooperative_kernels(const Config& values, const Problem& problem,
                                           const PackedWeight& /*packed*/) {
  constexpr int kBlocks = CooperativeConfig::kClusterBlocks;
  const CooperativeConfig config(values);
  PlannedKernels kernels;
  PlanStep& step = kernels.launch(cooperative_text(config, problem));
  step.grid[0] = formula("{} * min(ceil_div(fact.row_blocks, {}) * ceil_div(n, {}), {})", kBlocks, 2 * kBlocks,
                         config.token_tile, std::max(1, problem.device.sm_count / kBlocks));
  step.cluster[0] = kBlocks;
  return kernels;
}

// The cost model of the cooperative family: microseconds, without running anything.
//
// A stage of 64 columns takes the tensor cores of a multiprocessor four multiplications for each of two row tiles.
// Beside that stands its shared memory, one cycle a turn: X is written once and read for each row tile, tiles are
// cleared, stored and read; and L2. Outputs take their time one after the other.
//
// Fitted by hand to some 20 times on an H200: 8192 x 8192, 50 to 90 % zeros, 128 to 8,192 tokens.
constexpr double kSustainedClock = 1.66 / 1.98;  // of what the device says: the power that tensor cores take bounds it
constexpr double kFixedUs = 2.0;
constexpr double kOutputCycles = 9000;  // an output's beginning and end
constexpr double kTensorCycles = 4.5;   // of a token and a stage: 4 without waits
constexpr double kBehindBound = 1.14;   // how far stages stay behind shared memory
constexpr double kLateCycles = 280;     // of a stage where a warp's registers hold the entries of one tile alone
constexpr double kLateRoundCycles = 40;
constexpr double kTileReadTurns = 64;
constexpr double kClearTurns = 64;
constexpr double kL2BytesPerUs = 5.0e6;

double predicted_cooperative_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const CooperativeConfig config(values);
  const ScatterRounds rounds = scatter_rounds(config.packing(), statistics);
  const DeviceRates rates(problem.device);
  const double clusters = std::max(1.0, rates.sms / CooperativeConfig::kClusterBlocks);
  const auto row_panels = static_cast<double>(
      ceil_div(problem.spec.rows, std::int64_t{CooperativeConfig::kClusterBlocks * CooperativeConfig::kBlockRows}));
  const auto token_tiles = static_cast<double>(ceil_div(problem.tokens, std::int64_t{config.token_tile}));
  const auto stages = static_cast<double>(ceil_div(problem.spec.cols, std::int64_t{CooperativeConfig::kTileRows}));

  const double x_turns = config.token_tile + 2.0 * config.token_tile;
  const double tile_turns =
      kTileReadTurns + kClearTurns + config.store_turns(rounds, rounds.mean) + config.load_turns(rounds);
  const double late =
      rounds.beyond(config.max_rounds) * kLateRoundCycles + (config.holds_two_tiles() ? 0 : kLateCycles);
  const double stage_cycles =
      std::max(kTensorCycles * config.token_tile, kBehindBound * (x_turns + 2 * tile_turns)) + late;
  const double outputs = std::ceil(row_panels * token_tiles / clusters);
  const double compute_us = outputs * (stages * stage_cycles + kOutputCycles) / (kSustainedClock * rates.clock_mhz);

  const double tiles = row_panels * 4 * stages;
  const double weight_bytes = tiles * config.tile_bytes(rounds);
  const double x_bytes = stages * 128 * static_cast<double>(problem.tokens);
  const double y_bytes = static_cast<double>(problem.spec.rows) * static_cast<double>(problem.tokens) * 2;
  const double l2_us = (weight_bytes * token_tiles + x_bytes * row_panels) / (kL2BytesPerUs * l2_speed(problem.device));
  const double memory_us = (weight_bytes + x_bytes + y_bytes) / (0.75 * rates.hbm);
  return kFixedUs + launch_delay_us(problem.device) + std::max({compute_us, l2_us, memory_us});
}

}  // namespace

std::int64_t CooperativeConfig::shared_bytes() const {
  const std::int64_t stage = std::int64_t{token_tile} * 128 + 2 * 8192 + 4 * 8;
  return stages * stage + 8 * 2560 + 2 * 8 + 2 * 8 * 4;
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
