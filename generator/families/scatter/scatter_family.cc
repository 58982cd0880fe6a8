#include "generator/families/scatter/scatter_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/ceil_div.h"
#include "formats/operand_layout.h"
#include "formats/scatter_layout.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/families/scatter_parts.h"
#include "generator/kernel_parts.h"
#include "generator/operand_relayout.h"

namespace sparsmith {
namespace {

// The share of multiprocessors at work with blocks of `block_rows` rows, in so many parts.
double use_by_rows(std::int64_t block_rows, std::int64_t parts, const Problem& problem) {
  return use_of_sms(std::max<std::int64_t>(1, ceil_div(problem.spec.rows, block_rows)) * parts, parts, problem.device);
}

const ScatterChoice kChoice = {
    .parameters = {"entry", "tile_rows"},
    .packing =
        [](auto& in) {
          return ScatterPacking{.entry = static_cast<ScatterEntry>(in["entry"]),
                                .tile_rows = static_cast<int>(in["tile_rows"])};
        },
    .values_below = 2,
};

std::vector<Parameter> parameters() {
  return {
      entry_parameter(),
      {"tile_rows", "m", tuned("ScatterKernel", "kTileRows"),
       "use of a loaded X against blocks to fill the multiprocessors with"},
      min_rounds_parameter(),
      max_rounds_parameter(),
      {"token_tile", "t", tuned("ScatterKernel", "kTokens"), "use of a scattered tile against registers"},
      {"input_columns", "c", tuned("ScatterKernel", "kInputColumns"),
       "columns of X held ahead: latency hiding against registers"},
      {"warps", "w", tuned("ScatterKernel", "kWarps"), "latency hiding against registers a thread"},
      {"row_tiles", "r", tuned("ScatterKernel", "kRowTiles"),
       "tiles above one another that meet the same X, against registers for their sums"},
      {"parts", "k", tuned("ClusterSums", "kParts"),
       "blocks of a cluster that share the columns: more blocks, against an exchange of sums"},
      {.name = "tiles_ahead",
       .abbreviation = "p",
       .values = {0, 1},
       .meaning = "tiles asked for as far as L2, behind the one on its way: latency hiding against requests",
       .later = true},
      input_parameter(true),
      {.name = "natural_columns",
       .abbreviation = "n",
       .values = {0, 1},
       .meaning = "a packing of its own, against one that kernels for many tokens read too",
       .labels = {"fragments", "natural"},
       .later = true},
  };
}

std::vector<Rule> legal_rules() {
  return legal({
      {{"tile_rows", "input_columns"},
       "X is loaded for a tile at most",
       [](auto& in) { return in["input_columns"] * in["tile_rows"] <= 4096; }},
      {{"tile_rows", "row_tiles", "input_columns"},
       "X is loaded once for the tiles of several row blocks",
       [](auto& in) { return in["row_tiles"] == 1 || in["input_columns"] * in["tile_rows"] == 4096; }},
      {{"parts"},
       "clusters need compute capability 9.0",
       [](auto& in) { return in["parts"] == 1 || in.device.compute_capability >= 90; }},
      {{"tiles_ahead"},
       "bulk prefetches ask for tiles ahead, and need compute capability 9.0",
       [](auto& in) { return in["tiles_ahead"] == 0 || in.device.compute_capability >= 90; }},
      {{"input", "natural_columns"},
       "X is laid out for columns in the order of fragments",
       [](auto& in) { return in["input"] == 0 || in["natural_columns"] == 0; }},
      {{"tile_rows", "row_tiles", "token_tile", "input_columns"},
       "sums and X exceed the registers of a thread",
       [](auto& in) {
         return in["row_tiles"] * in["tile_rows"] * in["token_tile"] / 32 +
                    in["token_tile"] * in["input_columns"] / 64 <=
                160;
       }},
      {{"entry", "tile_rows", "min_rounds", "max_rounds", "token_tile", "input_columns", "warps", "row_tiles", "parts"},
       "the warps' tiles or partial sums exceed the shared memory of a block",
       [](auto& in) { return ScatterConfig(in.config).shared_bytes() <= in.device.shared_bytes_per_block; }},
  });
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"tile_rows"},
       "lower tiles only where they keep more multiprocessors at work",
       [](auto& in) {
         return in["tile_rows"] == 64 ||
                use_by_rows(in["tile_rows"], 1, in.problem) > 1.1 * use_by_rows(in["tile_rows"] * 2, 1, in.problem);
       }},
      {{"tile_rows", "row_tiles", "parts"},
       "tiles of several row blocks, and parts of the columns, where multiprocessors are at work all the same or more",
       [](auto& in) {
         const std::int64_t rows = in["row_tiles"] * in["tile_rows"];
         const double use = use_by_rows(rows, in["parts"], in.problem);
         if (in["row_tiles"] == 2 && use < 0.95 * use_by_rows(in["tile_rows"], 1, in.problem)) return false;
         return in["parts"] == 1 || (in["parts"] == 2 && in["row_tiles"] == 2) ||
                use > 1.1 * use_by_rows(rows, in["parts"] / 2, in.problem);
       }},
      {{"tiles_ahead", "input"},
       "tiles ahead from 16 tokens on; then always where X is laid out",
       [](auto& in) {
         return in.problem.tokens < 16 ? in["tiles_ahead"] == 0
                                       : in["tiles_ahead"] >= in["input"] || in.device.compute_capability < 90;
       }},
      {{"tile_rows", "natural_columns"},
       "natural columns for few tokens, where other kernels read the same packing",
       [](auto& in) {
         return in["natural_columns"] == 0 || (in["tile_rows"] == 64 && in.problem.tokens <= 16 &&
                                               in.device.compute_capability == 90 && comes_by_vectors(in.spec));
       }},
      {{"input"}, kInputWorthwhile, [](auto& in) { return in["input"] == 0 || worth_laying_out(in.problem); }},
      {{"token_tile"},
       "a token tile that holds all tokens, or the largest ones",
       [](auto& in) {
         const auto tokens = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(in.problem.tokens)));
         return in["token_tile"] == std::clamp<std::int64_t>(tokens, 8, 64) || (in["token_tile"] == 32 && tokens > 32);
       }},
      {{"tile_rows", "token_tile", "input_columns"},
       "X is held for a whole tile in at most 32 registers, or for half of one where registers are short",
       [](auto& in) {
         const std::int64_t registers = in["token_tile"] * in["input_columns"] / 64;
         const bool whole = in["input_columns"] * in["tile_rows"] == 4096;
         return registers <= 32 && (whole || registers >= 16);
       }},
      {{"tile_rows", "warps", "parts"},
       "warps that all have tiles, and enough of them to hide latency",
       [](auto& in) {
         const std::int64_t tiles = ceil_div(in.spec.cols * in["tile_rows"], 4096 * in["parts"]);
         return in["warps"] <= std::max<std::int64_t>(tiles, 4) && (in["warps"] >= 8 || tiles < 8);
       }},
      {{"entry", "tile_rows", "min_rounds", "max_rounds", "token_tile", "input_columns", "warps", "row_tiles", "parts",
        "input"},
       "what a thread holds fits the registers that its block leaves it",
       [](auto& in) {
         const ScatterConfig config(in.config);
         const int others = in.device.compute_capability / 10 == 9 ? 0 : 24;  // the estimate is of sm_90
         return config.registers() + others <= std::min(254, in.device.registers_per_sm / (config.warps * 32));
       }},
  };
}

OperandRelayout relayout_of(const ScatterConfig& config) {
  return {OperandOrder::kFragment,
          fmt::format("fact.column_tiles * {}", config.tile_columns() / operands::kChunkColumns),
          config.token_tile / operands::kTileTokens};
}

KernelText scatter_text(const ScatterConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  const auto blocks = static_cast<int>(config.resident_blocks(problem.device));
  text.name =
      fmt::format("scatter_{}_e{}_m{}_i{}_a{}_t{}_c{}_w{}x{}_r{}_k{}_p{}{}", spec_tag(spec), config.entry_letter(),
                  config.tile_rows, config.min_rounds, config.max_rounds, config.token_tile, config.input_columns,
                  config.warps, blocks, config.row_tiles, config.parts, config.tiles_ahead,
                  config.relayout  ? "_operands"
                  : config.natural ? "_natural"
                                   : "");
  text.summary = fmt::format("Y = W X for {} weights as lists of nonzeros, made dense in tiles of {} x {}",
                             short_name(spec.type), config.tile_rows, config.tile_columns());
  text.threads = config.warps * 32;
  text.min_blocks_per_sm = blocks;
  text.headers = {"snippets/prolog/scatter_entries.cuh",
                  config.relayout ? "snippets/prolog/laid_out_operands.cuh" : "snippets/prolog/fragment_input.cuh",
                  "snippets/kernels/scatter.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      config.entries_line(),
      {fmt::format("using Input = {}<InputType, {}{}>", config.relayout ? "FragmentOperands" : "FragmentInput",
                   token_major(spec), config.natural ? ", true" : ""),
       config.natural ? "X token-major, W's columns natural" : "X token-major"},
  };
  add_output(spec, text);
  text.lines.push_back(
      {fmt::format("using Kernel = ScatterKernel<Entries, Input, Output, {}, {}, {}, {}, {}, {}, {}>", config.tile_rows,
                   config.token_tile, config.input_columns, config.warps, config.row_tiles, config.parts,
                   config.tiles_ahead),
       "rows of a tile, tokens, columns of X held, warps, row tiles, parts of the columns, tiles ahead"});
  add_shared_bytes(config.shared_bytes(), "Kernel::kSharedBytes", text);
  add_scatter_parameters(spec, text);
  if (config.relayout) add_operand_parameters(relayout_of(config), text);
  add_output_parameters(text);
  text.body = kMakeScatterWeight;
  text.body += config.relayout ? kMakeOperandInput : "const Input input(x, ldx, cols, n);\n";
  text.body += kMakeOutput;
  text.body += "Kernel::run(weight, input, output, n, shared_memory());";
  return text;
}

Result<PlannedKernels> scatter_kernels(const Config& values, const Problem& problem, const PackedWeight& /*packed*/) {
  const ScatterConfig config(values);
  PlannedKernels kernels;
  if (config.relayout) {
    add_operand_relayout(problem.spec, relayout_of(config), kernels);
    kernels.plan.workspace_bytes = IntegerExpression::of(relayout_of(config).bytes());
  }
  PlanStep& step = kernels.launch(scatter_text(config, problem));
  step.grid = {formula("ceil_div(fact.row_blocks, {}) * {}", config.row_tiles, config.parts),
               token_blocks(config.token_tile), 1};
  step.cluster = {config.parts, 1, 1};
  return kernels;
}

// The cost model of the scatter family: microseconds, without running anything.
//
// A multiprocessor goes through its tiles one cycle a turn at its shared memory and L1: ldmatrix reads a tile, a store
// or a clearing of all entries takes as many turns as the fullest bank has words, loads return a line a turn, and a
// vector load of X takes some for each token's line. Instructions hide behind that. Turns of stores are the packer's;
// the constants are fitted to some 1,800 configs of 60 to 95 % zeros, 8 to 64 tokens and six shapes, timed on an
// H200.

constexpr double kSustainedClock = 1.755 / 1.98;  // of what the device says
constexpr double kSustainedHbm = 0.8;
constexpr double kBestRate = 0.633;       // of the cycles below, that 16 warps reach
constexpr double kFixedUs = 3.62;         // launch, first loads, sums across warps
constexpr double kInputTurns = 7.5;       // a 16-byte load a lane: 8 tokens, a line of each
constexpr double kOperandTurns = 5.9;     // the same, laid out: whole lines
constexpr double kOperandWaitUs = 0.7;    // until X is laid out, beyond what that launch takes by itself
constexpr double kTurnTurns = 6;          // words of these exchanged by lanes: shuffles and selects
constexpr double kElementTurns = 38;      // the same, element by element of feature-major X: 8 loads, 4 lines of each
constexpr double kMatrixTurns = 23.5;     // of 16 ldmatrix.x4
constexpr double kMultiplyCycles = 1.53;  // an mma.m16n8k16, at 62 % of the peak rate
constexpr double kInputWait = 179;        // for X in the middle of a tile, shared by the warps of a multiprocessor
constexpr double kLateRoundCycles = 41;   // a round that is loaded when needed
constexpr double kExchangeUs = 1.45;      // of sums in a cluster
// What a block's beginning and end cost where it follows another one: alone on its multiprocessor, beside a second
// block, in a cluster, which waits for room on all of its multiprocessors.
constexpr double kFollowingUs = 1.4;
constexpr double kFollowingBesideUs = 1.1;
constexpr double kFollowingClusterUs = 3.9;

// Turns of shared memory for one store of all entries, over entries / 32, by density: the packer's for uniform tiles.
double turns_per_round(ScatterEntry entry, double density) {
  static constexpr std::array<double, 7> kDensity = {0.0, 0.05, 0.10, 0.15, 0.20, 0.30, 0.40};
  static constexpr std::array<double, 7> kByte = {2.2, 1.95, 1.69, 1.51, 1.34, 1.08, 1.02};
  static constexpr std::array<double, 7> kWord = {2.3, 2.15, 1.98, 1.78, 1.50, 1.10, 1.01};
  const std::array<double, 7>& turns = entry == ScatterEntry::kByte ? kByte : kWord;
  for (std::size_t i = 1; i < kDensity.size(); ++i) {
    if (density > kDensity[i]) continue;
    const double way = (density - kDensity[i - 1]) / (kDensity[i] - kDensity[i - 1]);
    return turns[i - 1] + way * (turns[i] - turns[i - 1]);
  }
  return turns.back();
}

// How much of the cycles below `warps` of a multiprocessor reach.
double rate(double warps) { return kBestRate * (warps >= 12 ? 1.0 : warps >= 8 ? 0.87 : 0.5); }

// What tiles ahead make of that: they gain 1 to 2 % from 16 tokens on, and lose 3 % below (70 and 80 %).
double time_ahead(const ScatterConfig& config, const Problem& problem) {
  return config.tiles_ahead == 0 ? 1.0 : problem.tokens >= 16 ? 0.985 : 1.03;
}

// How X comes: turns for a lane's 16 bytes.
double input_turns(const ScatterConfig& config, const Problem& problem) {
  if (config.relayout) return kOperandTurns;
  return (comes_by_vectors(problem.spec) ? kInputTurns : kElementTurns) + (config.natural ? kTurnTurns : 0);
}

// Cycles of a multiprocessor for a tile.
double tile_cycles(const ScatterConfig& config, const Problem& problem, const SparsityStatistics& statistics) {
  const ScatterRounds rounds = scatter_rounds(config.packing(), statistics);
  const double entries = entries_of_tile(config.packing(), statistics);
  const double fragments = config.token_tile / 8.0 * config.tile_columns() / 32.0 / config.row_tiles;  // of X, loaded
  const double multiplications = 16.0 * config.token_tile / 8.0;

  const double crowded = turns_per_round(config.entry, entries / scatter::kTileElements) * entries / 32;
  const double turns = kMatrixTurns + 2 * config.store_turns(rounds, crowded) + config.load_turns(rounds) +
                       fragments * input_turns(config, problem);
  const int more_inputs = config.tile_columns() / config.input_columns - 1;
  return std::max(turns, multiplications * kMultiplyCycles) + more_inputs * kInputWait / config.warps +
         rounds.beyond(config.max_rounds) * kLateRoundCycles;
}

double predicted_scatter_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const ScatterConfig config(values);
  const ScatterRounds rounds = scatter_rounds(config.packing(), statistics);
  const auto sms = static_cast<double>(multiprocessors_for_clusters(config.parts, problem.device));
  const DeviceRates rates(problem.device);
  const double element = static_cast<double>(size_of(problem.spec.type));
  const double row_blocks = std::ceil(static_cast<double>(problem.spec.rows) / config.tile_rows);
  const double column_tiles = std::ceil(static_cast<double>(problem.spec.cols) / config.tile_columns());
  const double token_tiles = std::ceil(static_cast<double>(problem.tokens) / config.token_tile);

  // Blocks that a multiprocessor holds at once, and in all on the busiest one: where one ends, another begins, but
  // clusters.
  const double blocks = std::ceil(row_blocks / config.row_tiles) * config.parts * token_tiles;
  const double together =
      std::min(static_cast<double>(config.resident_blocks(problem.device)), std::ceil(blocks / sms));
  const double busiest = config.parts > 1 ? std::ceil(blocks / sms / together) * together : std::ceil(blocks / sms);
  const double waves = std::ceil(busiest / together);
  const double last = busiest - (waves - 1) * together;  // blocks of the last wave
  // Tiles, as if all warps had equally many.
  const int sharing = config.warps * config.parts;
  const double shares = std::ceil(column_tiles / sharing) * config.warps * config.row_tiles;
  const double block_us = shares * tile_cycles(config, problem, statistics) * time_ahead(config, problem) /
                          (kSustainedClock * rates.clock_mhz);
  const double decode_us =
      block_us * ((busiest - last) / rate(together * config.warps) + last / rate(last * config.warps));
  const double following_us = config.parts > 1 ? kFollowingClusterUs : together > 1 ? kFollowingBesideUs : kFollowingUs;

  const double weight_bytes = row_blocks * column_tiles * config.tile_bytes(rounds);
  const double x_and_y =
      static_cast<double>(problem.spec.cols + problem.spec.rows) * static_cast<double>(problem.tokens) * element;
  const double memory_us = (weight_bytes * token_tiles + x_and_y) / (kSustainedHbm * rates.hbm);
  return kFixedUs + (waves - 1) * following_us + launch_delay_us(problem.device) +
         (config.parts > 1 ? kExchangeUs : 0) + (config.relayout ? relayout_us(problem) + kOperandWaitUs : 0) +
         std::max(decode_us, memory_us);
}

}  // namespace

std::int64_t ScatterConfig::resident_blocks(const DeviceProperties& device) const {
  // Given out in eights. An exchange of sums takes its own, behind all others.
  const std::int64_t needed = ceil_div(std::max(registers(), parts > 1 ? 88 : 8), 8) * 8;
  const std::int64_t by_registers = device.registers_per_sm / (std::int64_t{32} * warps * needed);
  return std::max<std::int64_t>(1, std::min(by_registers, device.shared_bytes_per_block / shared_bytes()));
}

std::int64_t ScatterConfig::shared_bytes() const {
  const std::int64_t sent = std::int64_t{parts > 1 ? rows() * token_tile * 4 : 0};
  return std::int64_t{warps} * std::max(8192, token_tile * (rows() + 4) * 4) + rows() / scatter::kPartRows * 4 + sent;
}

int ScatterConfig::registers() const {
  // By what ptxas says of kernels that spill and of kernels that do not.
  const int predicates = max_rounds > min_rounds ? 3 : 0;
  // Loads of X, which keep their order; and multiplications that could otherwise stand in each other's way.
  const int loads = token_tile > 32 ? 72 : token_tile == 32 ? 8 : input_registers() > 16 ? 12 : 0;
  const int second_row = row_tiles > 1 ? 30 : 0;
  // Of these, X that lies as operands needs few: its loads have one address and no branches.
  const int spared = !relayout ? 0 : (token_tile > 32 ? 70 : token_tile == 32 ? 16 : 8) + (row_tiles > 1 ? 18 : 0);
  return sum_registers() + input_registers() + 2 * list_registers() + 24 + 2 * (token_tile / 8) + predicates + loads +
         second_row - spared;
}

const Family& scatter_family() {
  static const Family kFamily = {
      .name = "scatter",
      .multiplied_share = 1,
      .parameters = parameters(),
      .rules = joined({legal_scatter_rules(), legal_rules(), worthwhile_scatter_rules(kChoice), worthwhile_rules()}),
      .packing_of_rows = packing_name<ScatterConfig>,
      .kernels = scatter_kernels,
      .predict = predicted_scatter_us,
  };
  return kFamily;
}

}  // namespace sparsmith
