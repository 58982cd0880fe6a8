// The cost model of the scatter family: microseconds, without running anything.
//
// A multiprocessor goes through its tiles one cycle a turn at its shared memory and L1: ldmatrix reads a tile, a store
// or a clearing of all entries takes as many turns as the fullest bank has words, loads return a line a turn, and a
// vector load of X takes some for each token's line. Instructions hide behind that. Turns of stores are the packer's;
// the constants are fitted to some 1,800 configs of 60 to 95 % zeros, 8 to 64 tokens and six shapes, timed on an
// H200.
#include <algorithm>
#include <array>
#include <cmath>

#include "formats/scatter_layout.h"
#include "generator/device_speed.h"
#include "generator/operand_relayout.h"
#include "generator/scatter_family.h"

namespace sparsmith {
namespace {

constexpr double kSustainedClock = 1.755 / 1.98;  // of what the device says
constexpr double kSustainedHbm = 0.8;
constexpr double kBestRate = 0.633;       // of the cycles below, that 16 warps reach
constexpr double kFixedUs = 3.62;         // launch, first loads, sums across warps
constexpr double kInputTurns = 7.5;       // a 16-byte load a lane: 8 tokens, a line of each
constexpr double kOperandTurns = 5.9;     // the same, laid out: whole lines
constexpr double kOperandWaitUs = 0.7;    // until X is laid out, beyond what that launch takes by itself
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
  return comes_by_vectors(problem.spec) ? kInputTurns : kElementTurns;
}

// The share of the variation between rows that is left between row blocks once 16-row parts have been dealt out.
double left_by_dealing(int tile_rows) { return tile_rows == 64 ? 0.12 : tile_rows == 32 ? 0.22 : 1.0; }

double entries_of_tile(const ScatterPacking& packing, const SparsityStatistics& statistics) {
  const double elements = static_cast<double>(statistics.rows) * static_cast<double>(statistics.cols);
  if (elements == 0) return 0;
  return std::min<double>(packing.tile_rows, static_cast<double>(statistics.rows)) *
         std::min<double>(packing.tile_columns(), static_cast<double>(statistics.cols)) *
         static_cast<double>(statistics.nnz) / elements;
}

// What a normal draw of the tile's rounds exceeds the registers by, in the mean.
double late_rounds(const ScatterConfig& config, const ScatterRounds& rounds) {
  const double deviation = std::max(rounds.deviation, 0.1);
  const double above = (config.max_rounds - rounds.mean) / deviation;
  return deviation *
         (std::exp(-above * above / 2) / std::sqrt(2 * 3.14159265) - above * 0.5 * std::erfc(above / std::sqrt(2.0)));
}

// Cycles of a multiprocessor for a tile.
double tile_cycles(const ScatterConfig& config, const Problem& problem, const SparsityStatistics& statistics) {
  const ScatterRounds rounds = scatter_rounds(config.packing(), statistics);
  const bool bytes = config.entry == ScatterEntry::kByte;
  const double entries = entries_of_tile(config.packing(), statistics);
  const double held = std::max<double>(rounds.mean, config.min_rounds);
  const double fragments = config.token_tile / 8.0 * config.tile_columns() / 32.0 / config.row_tiles;  // of X, loaded
  const double multiplications = 16.0 * config.token_tile / 8.0;

  // Rounds to spare let the packer keep stores to one bank apart.
  const double crowded = turns_per_round(config.entry, entries / scatter::kTileElements) * entries / 32;
  const double stores = std::max(held, crowded - 1.3 * (held - rounds.mean));
  const double turns =
      kMatrixTurns + 2 * stores + held * (bytes ? 0.75 : 1.0) + fragments * input_turns(config, problem);
  const int more_inputs = config.tile_columns() / config.input_columns - 1;
  return std::max(turns, multiplications * kMultiplyCycles) + more_inputs * kInputWait / config.warps +
         late_rounds(config, rounds) * kLateRoundCycles;
}

}  // namespace

ScatterRounds scatter_rounds(const ScatterPacking& packing, const SparsityStatistics& statistics) {
  const double entries = entries_of_tile(packing, statistics);
  const double density = entries / scatter::kTileElements;
  // Entries fall into a tile by chance, and the rows of a block differ together.
  const double by_rows =
      entries * statistics.row_cov / std::sqrt(packing.tile_rows) * left_by_dealing(packing.tile_rows);
  ScatterRounds rounds;
  rounds.mean = entries / 32 + (packing.entry == ScatterEntry::kByte ? 1.3 : 0.5);
  rounds.deviation = std::sqrt(entries * (1 - density) + by_rows * by_rows) / 32;
  return rounds;
}

double ScatterFamily::predict(const Config& config_, const Problem& problem,
                              const SparsityStatistics& statistics) const {
  const ScatterConfig config(config_);
  const ScatterRounds rounds = scatter_rounds(config.packing(), statistics);
  const auto sms = static_cast<double>(multiprocessors_for_clusters(config.parts, problem.device));
  const double clock = kSustainedClock * std::max(problem.device.clock_khz, 1000000) / 1000;  // cycles a microsecond
  const double hbm = kSustainedHbm * std::max(problem.device.memory_bandwidth, 1e11) / 1e6;   // bytes a microsecond
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
  const double block_us = shares * tile_cycles(config, problem, statistics) * time_ahead(config, problem) / clock;
  const double decode_us =
      block_us * ((busiest - last) / rate(together * config.warps) + last / rate(last * config.warps));
  const double following_us = config.parts > 1 ? kFollowingClusterUs : together > 1 ? kFollowingBesideUs : kFollowingUs;

  const bool bytes = config.entry == ScatterEntry::kByte;
  const double held = std::max<double>(rounds.mean, config.min_rounds);
  const double weight_bytes = row_blocks * column_tiles * (held * 32 * (bytes ? 3 : 4) + 4);
  const double x_and_y =
      static_cast<double>(problem.spec.cols + problem.spec.rows) * static_cast<double>(problem.tokens) * element;
  const double memory_us = (weight_bytes * token_tiles + x_and_y) / hbm;
  return kFixedUs + (waves - 1) * following_us + launch_delay_us(problem.device) +
         (config.parts > 1 ? kExchangeUs : 0) + (config.relayout ? relayout_us(problem) + kOperandWaitUs : 0) +
         std::max(decode_us, memory_us);
}

}  // namespace sparsmith
