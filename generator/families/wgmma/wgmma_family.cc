#include "generator/families/wgmma/wgmma_family.h"

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
          return ScatterPacking{.entry = static_cast<ScatterEntry>(in["entry"]), .tile_rows = WgmmaConfig::kTileRows};
        },
};

// The share of multiprocessors at work.
double use_by_parts(const RuleInput& in, std::int64_t column_parts, std::int64_t cluster) {
  const std::int64_t panels = ceil_div(in.spec.rows, in["row_tiles"] * WgmmaConfig::kTileRows);
  const std::int64_t token_tiles = ceil_div(in.problem.tokens, WgmmaConfig::kTokens);
  return use_of_sms(std::max<std::int64_t>(1, panels) * column_parts * token_tiles, cluster, in.device);
}

std::vector<Parameter> parameters() {
  return {
      entry_parameter(),
      min_rounds_parameter(),
      max_rounds_parameter(),
      {"row_tiles", "r", tuned("WgmmaKernel", "kRowTiles"),
       "use of a loaded X against registers, and against blocks to fill the device with"},
      {"warpgroups", "w", tuned("WgmmaKernel", "kWarpgroups"), "latency hiding against registers a thread"},
      {"whole_tiles", "z", {0, 1}, "registers and instructions against accesses of shared memory"},
      {"taken_tiles", "x", tuned("WgmmaKernel", "kTakenTiles"), "waits for tensor cores against registers"},
      {"tile_buffers", "b", tuned("WgmmaKernel", "kBuffers"),
       "scattering beside multiplications against shared memory"},
      {"column_parts", "k", {1, 2, 3, 4, 6, 8}, "blocks to fill the device with against a second kernel"},
      {"sum",
       "s",
       {0, 1},
       "sums of column parts through L2 and a second kernel, or in a cluster",
       {"launch", "cluster"}},
  };
}

std::vector<Rule> legal_rules() {
  return legal({
      {{"entry"},
       "only devices of compute capability 9.0 have wgmma",
       [](auto& in) { return in.device.compute_capability == 90; }},
      {{"row_tiles", "taken_tiles"},
       "X is held for the column tiles of a step at most",
       [](auto& in) { return in["row_tiles"] * in["taken_tiles"] <= 4; }},
      {{"column_parts", "sum"},
       "a cluster is two blocks or four",
       [](auto& in) { return in["sum"] == 0 || in["column_parts"] == 2 || in["column_parts"] == 4; }},
      {{},
       "what a block needs exceeds registers or shared memory by far",
       [](auto& in) {
         const WgmmaConfig config(in.config);
         return config.shared_bytes() <= in.device.shared_bytes_per_block &&
                config.missing_registers(in.problem.device) <= 40;
       }},
  });
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"entry"}, "up to 16 tokens each warp for itself is faster", [](auto& in) { return in.problem.tokens > 16; }},
      {{"row_tiles", "column_parts", "sum"},
       "as few parts of the columns as give all multiprocessors work",
       [](auto& in) {
         const double used = use_by_parts(in, in["column_parts"], in["sum"] != 0 ? in["column_parts"] : 1);
         for (const std::int64_t parts : {1, 2, 3, 4, 6, 8}) {
           if (parts >= in["column_parts"]) break;
           if (use_by_parts(in, parts, 1) * 1.1 > used) return false;
         }
         return true;
       }},
      {{"row_tiles", "warpgroups", "column_parts"},
       "warps that all have several tiles",
       [](auto& in) {
         const std::int64_t tiles = ceil_div(in.spec.cols, 64) * in["row_tiles"];
         return in["warpgroups"] == 1 || tiles >= in["column_parts"] * in["warpgroups"] * 4 * 2;
       }},
      {{"entry", "min_rounds", "max_rounds", "row_tiles", "warpgroups", "whole_tiles", "taken_tiles", "tile_buffers"},
       "as many warpgroups as have the registers, or one more with a few spilled",
       [](auto& in) {
         Config config = in.config;
         config.values.insert({{"column_parts", 1}, {"sum", 0}});
         const WgmmaConfig one(config);
         config.values["warpgroups"] = one.warpgroups + 1;
         const WgmmaConfig more(config);
         const bool more_fit = one.warpgroups < 4 && more.missing_registers(in.problem.device) == 0 &&
                               more.shared_bytes() <= in.device.shared_bytes_per_block;
         return one.missing_registers(in.problem.device) <= 18 && !more_fit;
       }},
      {{"row_tiles", "taken_tiles"},
       "X of two column tiles is enough to keep tensor cores at work",
       [](auto& in) { return in["taken_tiles"] <= 2; }},
      {{"row_tiles", "taken_tiles", "tile_buffers"},
       "with two buffers all products of a step are started at once, so that nothing waits for some of them",
       [](auto& in) { return in["tile_buffers"] == 1 || in["row_tiles"] * in["taken_tiles"] == 4; }},
  };
}

KernelText wgmma_text(const WgmmaConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  const bool split = config.second_kernel();
  const std::string parts = split ? "_k" : config.cluster() > 1 ? fmt::format("_c{}", config.cluster()) : "";
  KernelText text;
  text.name = fmt::format("wgmma_{}_e{}_i{}_a{}_r{}_w{}_{}_x{}_b{}{}", spec_tag(spec), config.entry_letter(),
                          config.min_rounds, config.max_rounds, config.row_tiles, config.warpgroups, config.clearing(),
                          config.taken_tiles, config.tile_buffers, parts);
  text.summary = fmt::format("Y = W X for {} weights as lists of nonzeros, made dense for wgmma: {} rows by {} tokens",
                             short_name(spec.type), config.rows(), WgmmaConfig::kTokens);
  text.architecture = "sm_90a";
  text.threads = config.threads();
  text.min_blocks_per_sm = 1;
  text.headers = {"snippets/prolog/scatter_entries.cuh", "snippets/prolog/fragment_input.cuh",
                  "snippets/kernels/wgmma.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      config.entries_line(),
      {fmt::format("using Input = FragmentInput<InputType, {}>", token_major(spec)), "X token-major"},
  };
  add_part_output(spec, split, text);
  text.lines.push_back(
      {fmt::format("using Kernel = WgmmaKernel<Entries, Input, Output, {}, {}, {}, {}, {}, {}>", config.row_tiles,
                   config.warpgroups, boolean(config.whole_tiles != 0), config.taken_tiles, config.tile_buffers,
                   config.cluster()),
       "row tiles, warpgroups, whole tiles cleared, column tiles of X held, tiles of a warp, blocks of a cluster"});
  add_shared_bytes(config.shared_bytes(), "Kernel::kSharedBytes", text);
  add_scatter_parameters(spec, text);
  const std::string range = make_part_range(config.column_parts, "tile", "column_tiles", text);
  text.body = make_part_output(spec, split, "0", text) + range;
  text.body += kMakeScatterWeight;
  text.body +=
      "const Input input(x, ldx, cols, n);\n"
      "Kernel::run(weight, input, output, first_tile, end_tile, n, shared_memory());";
  return text;
}

Result<PlannedKernels> wgmma_kernels(const Config& values, const Problem& problem, const PackedWeight& /*packed*/) {
  const WgmmaConfig config(values);
  PlannedKernels kernels;
  PlanStep& step = kernels.launch(wgmma_text(config, problem));
  step.grid = {formula("ceil_div(fact.row_blocks, {})", config.row_tiles), token_blocks(WgmmaConfig::kTokens),
               config.column_parts};
  step.cluster = {1, 1, config.cluster()};
  if (config.second_kernel()) {
    add_finish_parts(problem.spec, config.column_parts, "0", kernels);
    kernels.plan.workspace_bytes = IntegerExpression::of(part_bytes(problem.spec, config.column_parts));
  }
  return kernels;
}

// The cost model of the wgmma family: microseconds, without running anything.
//
// A multiprocessor goes through its tiles one cycle a turn at its shared memory, as the scatter family does
// (scatter_family.cc): a tile of W is read by tensor cores in 64 turns, stored and cleared in as many as the packer
// counts, or cleared as a whole in 64; X of 64 tokens is written and read in 64 turns each, once for the row tiles that
// share it. Beside that stand tensor cores (128 cycles a tile, however few tokens), L2, which X comes from for every
// row panel anew, HBM, and where columns are cut into parts the second kernel or the exchange in a cluster. The
// constants are fitted to spaces that an H200 recorded (docs/results/search.md).

constexpr double kSustainedClock = 1.755 / 1.98;  // of what the device says
constexpr double kSustainedHbm = 0.65;
constexpr double kBestRate = 1.06;            // of the cycles below, that one buffer and four warpgroups reach
constexpr double kFixedUs = 3.77;             // launch, first loads, sums across warpgroups
constexpr double kSecondKernelUs = 1.74;      // of which the launch hides behind the first one
constexpr double kClusterUs = 0.29;           // its barriers
constexpr double kClusterBytesPerUs = 2.1e4;  // that a block stores to others
constexpr double kL2BytesPerUs = 7.2e6;       // by all multiprocessors
constexpr double kTileReadTurns = 95;         // by tensor cores
constexpr double kInputTurns = 30;            // 16 tokens by 64 columns, written and read
constexpr double kMultiplyCycles = 128.0;     // 64 x 64 by 64 tokens
constexpr double kTileInstructions = 112;     // besides those of entries: addresses, X, barriers, loop
constexpr double kIssueShare = 0.49;          // of issue time that does not hide behind shared memory
constexpr double kPredicateCycles = 1.67;     // a round that not every tile has
constexpr double kElementTurns = 320;         // more, where X comes element by element
constexpr double kSpillUs = 0.5;
// What a block's beginning and end cost where it follows another one; and in a cluster, which waits for room on all of
// its multiprocessors.
constexpr double kFollowingUs = 2.2;
constexpr double kFollowingClusterUs = 3.2;
constexpr double kLateRoundCycles = 72;  // a round that is loaded when needed

constexpr double kTwoBuffers = 0.76;
constexpr double kTwoBuffersAlone = 0.65;
constexpr double kThreeGroups = 0.92;
constexpr double kTwoGroups = 0.79;
constexpr double kOneGroup = 0.45;

// How much of the best rate the warpgroups of a multiprocessor reach. With two buffers each
// does two things at a time.
double rate(const WgmmaConfig& config) {
  const int at_work = config.warpgroups * config.tile_buffers;
  if (config.tile_buffers > 1) return at_work >= 4 ? kTwoBuffers : kTwoBuffersAlone;
  return at_work >= 4 ? 1.0 : at_work == 3 ? kThreeGroups : at_work == 2 ? kTwoGroups : kOneGroup;
}

double tile_cycles(const WgmmaConfig& config, const ScatterRounds& rounds, double token_parts, Layout layout) {
  const double turns =
      kTileReadTurns + config.tile_turns(rounds) +
      token_parts * (kInputTurns + (layout == Layout::kTokenMajor ? 0.0 : kElementTurns)) / config.row_tiles;
  const double loads = config.min_rounds * 0.2 + (config.max_rounds - config.min_rounds) * 2.0;  // some predicated
  const double instructions =
      kTileInstructions + config.entry_instructions(rounds) + loads + (config.whole_tiles != 0 ? 16 : 0);
  return std::max(turns + kIssueShare * instructions / 4, kMultiplyCycles) +
         (config.max_rounds - config.min_rounds) * kPredicateCycles +
         rounds.beyond(config.max_rounds) * kLateRoundCycles;
}

// What adding up the column parts takes.
double parts_us(const WgmmaConfig& config, const Problem& problem) {
  if (config.column_parts == 1) return 0;
  const auto tokens = static_cast<double>(problem.tokens);
  if (config.second_kernel()) {  // fp32 sums are written and read once a part
    const double sums = 4.0 * static_cast<double>(problem.spec.rows) * tokens * config.column_parts;
    return kSecondKernelUs + launch_delay_us(problem.device) + 2 * sums / (kL2BytesPerUs * l2_speed(problem.device));
  }
  const double sums = 4.0 * config.rows() * std::min<double>(tokens, WgmmaConfig::kTokens);
  return kClusterUs + sums * (config.cluster() - 1) / config.cluster() / kClusterBytesPerUs;
}

double predicted_wgmma_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const WgmmaConfig config(values);
  const ScatterRounds rounds = scatter_rounds(config.packing(), statistics);
  const auto sms = static_cast<double>(config.multiprocessors(problem.device));
  const DeviceRates rates(problem.device);
  const auto tokens = static_cast<double>(problem.tokens);
  const double row_panels = std::ceil(static_cast<double>(problem.spec.rows) / config.rows());
  const double column_tiles = std::ceil(static_cast<double>(problem.spec.cols) / WgmmaConfig::kTileRows);
  const double token_tiles = std::ceil(tokens / WgmmaConfig::kTokens);
  const double token_parts = std::ceil(tokens / token_tiles / 16);

  const double busiest = std::ceil(row_panels * config.column_parts * token_tiles / sms);  // blocks
  // Tiles of a block, as if all warps had equally many.
  const double shares = 4.0 * config.warpgroups / config.row_tiles;
  const double tiles = std::ceil(column_tiles / config.column_parts / shares) * shares * config.row_tiles;
  const double decode_us = busiest * tiles * tile_cycles(config, rounds, token_parts, problem.spec.layout) /
                           (kBestRate * rate(config)) / (kSustainedClock * rates.clock_mhz);

  const double weight_bytes = row_panels * config.row_tiles * column_tiles * config.tile_bytes(rounds);
  const double x_bytes = static_cast<double>(problem.spec.cols) * tokens * 2;
  const double y_bytes = static_cast<double>(problem.spec.rows) * tokens * 2;
  const double memory_us = (weight_bytes * token_tiles + x_bytes + y_bytes) / (kSustainedHbm * rates.hbm);
  const double l2_us = (weight_bytes * token_tiles + x_bytes * row_panels) / (kL2BytesPerUs * l2_speed(problem.device));
  const double following_us = (busiest - 1) * (config.cluster() > 1 ? kFollowingClusterUs : kFollowingUs);
  const double spill_us = config.missing_registers(problem.device) > 0 ? kSpillUs : 0;
  return kFixedUs + launch_delay_us(problem.device) + following_us + std::max({decode_us, memory_us, l2_us}) +
         parts_us(config, problem) + spill_us;
}

}  // namespace

std::int64_t WgmmaConfig::shared_bytes() const {
  const std::int64_t partials = std::int64_t{kTokens} * (rows() + 8) * 4;
  const std::int64_t others = std::int64_t{kTokens} * rows() * 4 / cluster() * (cluster() - 1);
  const std::int64_t tiles_and_x = std::int64_t{4} * tile_buffers * (8192 + 2048 * (4 / row_tiles));
  return warpgroups * std::max(tiles_and_x, partials) + others + std::int64_t{row_tiles} * 16 + warpgroups * 16;
}

std::int64_t WgmmaConfig::multiprocessors(const DeviceProperties& device) const {
  return multiprocessors_for_clusters(cluster(), device);
}

int WgmmaConfig::registers() const {
  const int lists = tile_buffers > 1   ? list_registers() + 2 * cleared_registers()
                    : whole_tiles != 0 ? list_registers()
                                       : 2 * list_registers();
  // By what ptxas says of kernels that spill and of kernels that do not.
  const int others = tile_buffers > 1 ? (row_tiles == 4 ? 72 : 84) : row_tiles == 2 ? 44 : 58;
  const int predicates = max_rounds > min_rounds ? 2 : 0;
  return row_tiles * 32 + 16 * taken_tiles + lists + others + predicates;
}

const Family& wgmma_family() {
  static const Family kFamily = {
      .name = "wgmma",
      .multiplied_share = 1,
      .parameters = parameters(),
      .rules = joined({legal_scatter_rules(), legal_rules(), worthwhile_scatter_rules(kChoice), worthwhile_rules()}),
      .packing_of_rows = packing_name<WgmmaConfig>,
      .kernels = wgmma_kernels,
      .predict = predicted_wgmma_us,
  };
  return kFamily;
}

}  // namespace sparsmith
