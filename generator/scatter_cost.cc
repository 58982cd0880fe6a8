// The cost model of the scatter family: microseconds, without running anything.
//
// A multiprocessor goes through its tiles at a rate that its warps share: a part for every tile (ldmatrix, mma, X), a
// part for every round (the entry's load, two stores to shared memory). Beside it stands the time of the packed weight
// in HBM. The constants fit a prototype of the same design on an H200 at 8192 x 8192, 70 to 95 % zeros, N = 8 to 64.
#include <algorithm>
#include <cmath>

#include "generator/scatter_family.h"

namespace sparsmith {
namespace {

constexpr double kFixedUs = 3.0;          // launch, first loads, sums across warps
constexpr double kTileNs = 39.0;          // ldmatrix and mma of 4,096 elements, barriers
constexpr double kTokenNs = 1.45;         // a token's part of 64 columns of X, and its mma
constexpr double kInputNs = 4.0;          // a further wait for X in a tile
constexpr double kRoundNs = 2.26;         // 32 entries: load, store, clear
constexpr double kPredicateNs = 0.05;     // asking whether a round is there
constexpr double kSkippedRoundNs = 0.25;  // a predicate that says no
constexpr double kLateRoundNs = 20.0;     // loaded when needed
constexpr double kClockKhz = 1.755e6;     // of the machine the constants are from

// How much of the best rate `warps` of a multiprocessor reach.
double rate(int warps) { return warps >= 16 ? 1.0 : warps >= 12 ? 0.95 : warps >= 8 ? 0.8 : 0.5; }

}  // namespace

ScatterRounds scatter_rounds(const ScatterConfig& config, const SparsityStatistics& statistics) {
  const double elements = static_cast<double>(statistics.rows) * static_cast<double>(statistics.cols);
  if (elements == 0) return {};
  const double density = static_cast<double>(statistics.nnz) / elements;
  const double rows = std::min<double>(config.tile_rows, static_cast<double>(statistics.rows));
  const double columns = std::min<double>(config.tile_columns(), static_cast<double>(statistics.cols));
  const double entries = rows * columns * density;
  // Entries fall into a tile by chance, and the rows of a block differ together.
  const double by_rows = entries * statistics.row_cov / std::sqrt(rows);
  ScatterRounds rounds;
  rounds.mean = entries / 32 + (config.entry == ScatterEntry::kByte ? 1.3 : 0.5);
  rounds.deviation = std::sqrt(entries * (1 - density) + by_rows * by_rows) / 32;
  return rounds;
}

double ScatterFamily::predict(const Config& config_, const Problem& problem,
                              const SparsityStatistics& statistics) const {
  const ScatterConfig config(config_);
  const ScatterRounds rounds = scatter_rounds(config, statistics);
  const double sms = std::max(problem.device.sm_count, 1);
  const double slower = kClockKhz / std::max(problem.device.clock_khz, 1000000);
  const double hbm = std::max(problem.device.memory_bandwidth, 1e11) / 1e6;  // bytes/us
  const double element = static_cast<double>(size_of(problem.spec.type));
  const double row_blocks = std::ceil(static_cast<double>(problem.spec.rows) / config.tile_rows);
  const double column_tiles = std::ceil(static_cast<double>(problem.spec.cols) / config.tile_columns());
  const double token_tiles = std::ceil(static_cast<double>(problem.tokens) / config.token_tile);

  const bool bytes = config.entry == ScatterEntry::kByte;
  const double held = std::max<double>(rounds.mean, config.min_rounds);
  // The mean of what a normal draw exceeds the registers by.
  const double above = (config.max_rounds - rounds.mean) / std::max(rounds.deviation, 0.1);
  const double late = std::max(rounds.deviation, 0.1) * (std::exp(-above * above / 2) / std::sqrt(2 * 3.14159265) -
                                                         above * 0.5 * std::erfc(above / std::sqrt(2.0)));
  const int more_inputs = config.tile_columns() / config.input_columns - 1;
  const double tile_ns = kTileNs + kTokenNs * config.token_tile * config.tile_columns() / 64 + kInputNs * more_inputs +
                         held * kRoundNs * (bytes ? 1.0 : 1.12) + late * kLateRoundNs +
                         (config.max_rounds - config.min_rounds) * kPredicateNs +
                         std::max(0.0, config.max_rounds - held) * kSkippedRoundNs;

  const double resident = std::max(1, 16 / config.warps);  // blocks of a multiprocessor
  const double blocks = row_blocks * token_tiles;
  const double together = std::min(resident, std::ceil(blocks / sms));
  const double busiest = std::ceil(blocks / sms / together) * together;
  const double shares =
      std::ceil(column_tiles / config.warps) * config.warps;  // tiles, as if all warps had equally many
  const double decode_us = busiest * shares * tile_ns / rate(static_cast<int>(together) * config.warps) * slower / 1000;

  const double weight_bytes = row_blocks * column_tiles * (held * 32 * (bytes ? 3 : 4) + 4);
  const double x_and_y =
      static_cast<double>(problem.spec.cols + problem.spec.rows) * static_cast<double>(problem.tokens) * element;
  const double memory_us = (weight_bytes * token_tiles + x_and_y) / (0.85 * hbm);
  return kFixedUs + std::max(decode_us, memory_us) + 0.1 * std::min(decode_us, memory_us);
}

}  // namespace sparsmith
