#include "generator/families/specialized/specialized_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/families/scatter_parts.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

const ScatterChoice kChoice = {
    .parameters = {"entry"},
    .packing =
        [](auto& in) {
          return ScatterPacking{.entry = static_cast<ScatterEntry>(in["entry"]),
                                .tile_rows = SpecializedConfig::kTileRows};
        },
};

// The share of multiprocessors at work.
double use_by_parts(const RuleInput& in, std::int64_t column_parts) {
  const std::int64_t panels = ceil_div(in.spec.rows, in["row_tiles"] * SpecializedConfig::kTileRows);
  const std::int64_t token_tiles = ceil_div(in.problem.tokens, in["token_tile"]);
  return use_of_sms(std::max<std::int64_t>(1, panels) * column_parts * token_tiles, 1, in.device);
}

std::vector<Parameter> parameters() {
  return {
      entry_parameter(),
      min_rounds_parameter(),
      max_rounds_parameter(),
      {"token_tile", "t", tuned("SpecializedKernel", "kTokens"),
       "passes over the weight against registers and shared memory"},
      {"row_tiles", "r", tuned("SpecializedKernel", "kRowTiles"),
       "use of a loaded X against blocks to fill the device with"},
      {"warpgroups", "w", tuned("SpecializedKernel", "kWarpgroups"),
       "waits for tensor cores against registers a thread"},
      {"producers", "p", tuned("SpecializedKernel", "kProducers"), "latency hiding against registers a thread"},
      {"tile_buffers", "b", tuned("SpecializedKernel", "kBuffers"), "waits for tensor cores against shared memory"},
      {"whole_tiles", "z", {0, 1}, "registers and instructions against accesses of shared memory"},
      {"stages", "s", tuned("InputRing", "kStages"), "waits for X against shared memory"},
      {"stage_columns", "x", {64, 128, 256}, "waits for X against shared memory"},
      {"column_parts", "k", tuned("SpecializedKernel", "kBlocks"),
       "blocks to fill the device with against sums in a cluster"},
  };
}

std::vector<Rule> legal_rules() {
  return legal({
      {{"entry"},
       "only devices of compute capability 9.0 have wgmma",
       [](auto& in) { return in.device.compute_capability == 90; }},
      {{"row_tiles", "warpgroups", "producers", "tile_buffers", "stage_columns"},
       "every row tile has warpgroups, and there are places for two stages' tiles of each of them, each of one "
       "warpgroup",
       [](auto& in) {
         const std::int64_t places = in["producers"] * in["tile_buffers"];
         const std::int64_t of_stage = in["row_tiles"] * in["stage_columns"] / 64;
         const std::int64_t of_turn = in["warpgroups"] / in["row_tiles"] * of_stage;
         return in["warpgroups"] % in["row_tiles"] == 0 && places % of_turn == 0 && places >= 2 * of_turn;
       }},
      {{"token_tile", "row_tiles", "warpgroups", "producers", "tile_buffers"},
       "the places of tiles take partial sums, but for one",
       [](auto& in) {
         const std::int64_t sums =
             in["warpgroups"] / in["row_tiles"] * in["token_tile"] * (in["row_tiles"] * 64 + 4) * 4;
         return sums <= (in["producers"] * in["tile_buffers"] - 1) * 8192;
       }},
      {{"token_tile", "warpgroups", "producers"},
       "a multiplication's sums, and its operands, are in registers: otherwise it does not compile",
       [](auto& in) {
         const std::int64_t threads = (in["warpgroups"] * 4 + in["producers"] + SpecializedConfig::kLoaders) * 32;
         return in["token_tile"] / 2 + 26 <= in.device.registers_per_sm / threads / 8 * 8;
       }},
      {{},
       "what a block needs exceeds registers or shared memory by far",
       [](auto& in) {
         const SpecializedConfig config(in.config);
         return config.shared_bytes() <= in.device.shared_bytes_per_block &&
                config.missing_registers(in.problem.device) <= 24;
       }},
  });
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"token_tile"},
       "the least tile of tokens that takes all of them, or 64 or 128 of them at a time",
       [](auto& in) {
         const std::int64_t tile = in["token_tile"];
         return tile >= in.problem.tokens ? tile == 8 || tile / 2 < in.problem.tokens : tile >= 64;
       }},
      {{"token_tile", "row_tiles"},
       "for few tokens X is too small to share it between row tiles",
       [](auto& in) { return in["row_tiles"] == 1 || in["token_tile"] >= 32; }},
      {{"token_tile", "stages", "stage_columns"},
       "stages that hide what X takes from L2, and leave shared memory to tiles",
       [](auto& in) {
         const std::int64_t columns = in["stages"] * in["stage_columns"];
         return in["stage_columns"] * in["token_tile"] <= 4096 &&
                (columns * in["token_tile"] >= 32768 || columns >= 1024);
       }},
      {{"row_tiles", "column_parts", "token_tile"},
       "the columns are cut where that gives more multiprocessors work",
       [](auto& in) { return in["column_parts"] == 1 || use_by_parts(in, 2) > 1.1 * use_by_parts(in, 1); }},
      {{"entry", "min_rounds", "max_rounds", "token_tile", "row_tiles", "warpgroups", "producers", "tile_buffers"},
       "no more than a few registers spill",
       [](auto& in) {
         Config config = in.config;
         config.values.insert({{"column_parts", 1}, {"stages", 4}, {"stage_columns", 64}, {"whole_tiles", 0}});
         return SpecializedConfig(config).missing_registers(in.problem.device) <= 8;
       }},
  };
}

KernelText specialized_text(const SpecializedConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  const std::string parts = config.column_parts > 1 ? fmt::format("_c{}", config.column_parts) : "";
  KernelText text;
  text.name =
      fmt::format("specialized_{}_e{}_i{}_a{}_t{}_r{}_w{}_p{}_b{}_{}_s{}_x{}{}", spec_tag(spec), config.entry_letter(),
                  config.min_rounds, config.max_rounds, config.token_tile, config.row_tiles, config.warpgroups,
                  config.producers, config.tile_buffers, config.clearing(), config.stages, config.stage_columns, parts);
  text.summary = fmt::format(
      "Y = W X for {} weights as lists of nonzeros, which some warps make dense and others multiply: {} rows "
      "by {} tokens",
      short_name(spec.type), config.rows(), config.token_tile);
  text.architecture = "sm_90a";
  text.threads = config.threads();
  text.min_blocks_per_sm = 1;
  text.headers = {"snippets/prolog/scatter_entries.cuh", "snippets/prolog/fragment_input.cuh",
                  "snippets/prolog/input_ring.cuh", "snippets/kernels/specialized.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      config.entries_line(),
      {fmt::format("using Input = FragmentInput<InputType, {}>", token_major(spec)), "X token-major"},
      {fmt::format("using Ring = InputRing<Input, {}, {}, {}>", config.token_tile, config.stage_columns / 64,
                   config.stages),
       "tokens, column tiles of a stage, stages"},
  };
  add_output(spec, text);
  text.lines.push_back(
      {fmt::format("using Kernel = SpecializedKernel<Entries, Input, Ring, Output, {}, {}, {}, {}, {}, {}, {}>",
                   config.token_tile, config.row_tiles, config.warpgroups, config.producers, config.tile_buffers,
                   boolean(config.whole_tiles != 0), config.column_parts),
       "tokens, row tiles, warpgroups that multiply, producing warps, tiles of each, whole tiles cleared, blocks of a "
       "cluster"});
  add_shared_bytes(config.shared_bytes(), "Kernel::kSharedBytes", text);
  add_scatter_parameters(spec, text);
  const std::string range = make_part_range(config.column_parts, "tile", "column_tiles", text);
  add_output_parameters(text);
  text.body = kMakeOutput + range;
  text.body += kMakeScatterWeight;
  text.body +=
      "const Input input(x, ldx, cols, n);\n"
      "Kernel::run(weight, input, output, first_tile, end_tile, n, shared_memory());";
  return text;
}

Result<PlannedKernels> specialized_kernels(const Config& values, const Problem& problem,
                                           const PackedWeight& /*packed*/) {
  const SpecializedConfig config(values);
  PlannedKernels kernels;
  PlanStep& step = kernels.launch(specialized_text(config, problem));
  step.grid = {formula("ceil_div(fact.row_blocks, {})", config.row_tiles), token_blocks(config.token_tile),
               config.column_parts};
  step.cluster = {1, 1, config.column_parts};
  return kernels;
}

// The cost model of the specialized family: microseconds, without running anything.
//
// A multiprocessor goes through its tiles one cycle a turn at its shared memory: tensor cores read a tile of W in 64
// turns (a profile counts them at the same pipe as loads and stores), it is stored and cleared in as many as the packer
// counts, or cleared as a whole in 64; X is written once for the row tiles that share it and read for each. Beside that
// stand the producing warps, each of which makes a tile in some thousands of cycles, L2, HBM, and the exchange of sums
// in a cluster.
//
// Fitted to some 800 times on an H200, of five shapes, 50 to 95 % zeros and 8 to 128 tokens.

constexpr double kSustainedClock = 1.755 / 1.98;  // of what the device says
constexpr double kSustainedHbm = 0.75;
constexpr double kFixedUs = 5.2;  // launch, first loads, end of a block
// What a block's beginning and end cost where it follows another one; and in a cluster, which waits for room on all of
// its multiprocessors.
constexpr double kFollowingUs = 1.1;
constexpr double kFollowingClusterUs = 4.0;
constexpr double kExchangeUs = 0.43;       // of sums in a cluster
constexpr double kL2BytesPerUs = 5.7e6;    // by all multiprocessors
constexpr double kBehindBound = 1.04;      // how far all stay behind the busiest
constexpr double kTileReadTurns = 112;     // by tensor cores, which is more than the 64 that a tile has
constexpr double kProducerCycles = 880.0;  // of a tile: entries from L2, fence, barriers
constexpr double kProducerRoundCycles = 34;
constexpr double kPlaceCycles = 370;         // until a tile's place is empty again
constexpr double kTileInstructions = 300.0;  // besides those of entries: of all warps
constexpr double kLateRoundCycles = 40.0;    // a round that is loaded when needed

// Cycles of a multiprocessor for a tile.
double tile_cycles(const SpecializedConfig& config, const ScatterRounds& rounds) {
  const double turns = kTileReadTurns + config.tile_turns(rounds) + config.token_tile * (1 + 1.0 / config.row_tiles);
  const double instructions = kTileInstructions + config.entry_instructions(rounds);
  const double producer = kProducerCycles + kProducerRoundCycles * std::max<double>(rounds.mean, config.max_rounds) +
                          (config.tile_buffers > 1 ? 0 : kPlaceCycles);
  return std::max({turns * kBehindBound, instructions / 4 * kBehindBound, producer / config.producers}) +
         rounds.beyond(config.max_rounds) * kLateRoundCycles;
}

double predicted_specialized_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const SpecializedConfig config(values);
  const ScatterRounds rounds = scatter_rounds(config.packing(), statistics);
  const double sms = std::max(problem.device.sm_count, 1);
  const DeviceRates rates(problem.device);
  const auto tokens = static_cast<double>(problem.tokens);
  const double row_panels = std::ceil(static_cast<double>(problem.spec.rows) / config.rows());
  const double column_tiles = std::ceil(static_cast<double>(problem.spec.cols) / SpecializedConfig::kTileRows);
  const double token_tiles = std::ceil(tokens / config.token_tile);

  const double busiest = std::ceil(row_panels * config.column_parts * token_tiles / sms);  // blocks
  const double tiles = std::ceil(column_tiles / config.column_parts) * config.row_tiles;
  const double decode_us = busiest * tiles * tile_cycles(config, rounds) / (kSustainedClock * rates.clock_mhz);

  const double weight_bytes = row_panels * config.row_tiles * column_tiles * config.tile_bytes(rounds);
  const double x_bytes = static_cast<double>(problem.spec.cols) * tokens * 2;
  const double y_bytes = static_cast<double>(problem.spec.rows) * tokens * 2;
  const double memory_us = (weight_bytes * token_tiles + x_bytes + y_bytes) / (kSustainedHbm * rates.hbm);
  const double l2_us = (weight_bytes * token_tiles + x_bytes * row_panels) / (kL2BytesPerUs * l2_speed(problem.device));
  const double following_us = (busiest - 1) * (config.column_parts > 1 ? kFollowingClusterUs : kFollowingUs);
  return kFixedUs + launch_delay_us(problem.device) + following_us + std::max({decode_us, memory_us, l2_us}) +
         (config.column_parts > 1 ? kExchangeUs : 0);
}

}  // namespace

std::int64_t SpecializedConfig::shared_bytes() const {
  const std::int64_t places = std::int64_t{producers} * tile_buffers;
  const std::int64_t x = std::int64_t{stages} * stage_columns * token_tile * 2;
  const std::int64_t others = std::int64_t{token_tile} * rows() * 4 / column_parts * (column_parts - 1);
  return places * 8192 + x + others + (places + stages) * 16 + std::int64_t{row_tiles} * 16 + warpgroups * 16;
}

int SpecializedConfig::registers() const {
  const int produce = list_registers() + tile_buffers * cleared_registers() + 40;
  const int multiply = token_tile / 2 + 40;
  return std::max(produce, multiply);
}

const Family& specialized_family() {
  static const Family kFamily = {
      .name = "specialized",
      .multiplied_share = 1,
      .parameters = parameters(),
      .rules = joined({legal_scatter_rules(), legal_rules(), worthwhile_scatter_rules(kChoice), worthwhile_rules()}),
      .packing_of_rows = packing_name<SpecializedConfig>,
      .kernels = specialized_kernels,
      .predict = predicted_specialized_us,
  };
  return kFamily;
}

}  // namespace sparsmith
