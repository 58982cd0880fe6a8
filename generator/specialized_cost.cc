// The cost model of the specialized family: microseconds, without running anything.
//
// A multiprocessor goes through its tiles one cycle a turn at its shared memory: tensor cores read a tile of W in 64
// turns (a profile counts them at the same pipe as loads and stores), it is stored and cleared in as many as the packer
// counts, or cleared as a whole in 64; X is written once for the row tiles that share it and read for each. Beside that
// stand the producing warps, each of which makes a tile in some thousands of cycles, L2, HBM, and the exchange of sums
// in a cluster.
//
// Fitted to some 800 times on an H200, of five shapes, 50 to 95 % zeros and 8 to 128 tokens.
#include <algorithm>
#include <cmath>

#include "formats/scatter_layout.h"
#include "generator/device_speed.h"
#include "generator/specialized_family.h"

namespace sparsmith {
namespace {

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

// What a normal draw of the tile's rounds exceeds the registers by, in the mean.
double late_rounds(const SpecializedConfig& config, const ScatterRounds& rounds) {
  const double deviation = std::max(rounds.deviation, 0.1);
  const double above = (config.max_rounds - rounds.mean) / deviation;
  return deviation * (std::exp(-above * above / 2) / 2.507 - above * 0.5 * std::erfc(above / std::sqrt(2.0)));
}

// Cycles of a multiprocessor for a tile.
double tile_cycles(const SpecializedConfig& config, const ScatterRounds& rounds) {
  const bool bytes = config.entry == ScatterEntry::kByte;
  const bool whole = config.whole_tiles != 0;
  const double held = std::max<double>(rounds.mean, config.min_rounds);
  // Of uniform tiles: rounds to spare let the packer keep stores to one bank apart.
  const double density = rounds.mean * 32 / scatter::kTileElements;
  const double stores = std::max(held, rounds.mean * std::max(1.02, 2.15 - 4 * density) - 1.3 * (held - rounds.mean));
  const double turns = kTileReadTurns + stores * (whole ? 1 : 2) + (whole ? 64 : 0) + held * (bytes ? 0.75 : 1.0) +
                       config.token_tile * (1 + 1.0 / config.row_tiles);
  const double instructions =
      kTileInstructions + std::max<double>(held, config.max_rounds) * ((bytes ? 4.0 : 2.5) * (whole ? 1 : 1.75));
  const double producer = kProducerCycles + kProducerRoundCycles * std::max<double>(held, config.max_rounds) +
                          (config.tile_buffers > 1 ? 0 : kPlaceCycles);
  return std::max({turns * kBehindBound, instructions / 4 * kBehindBound, producer / config.producers}) +
         late_rounds(config, rounds) * kLateRoundCycles;
}

}  // namespace

double SpecializedFamily::predict(const Config& config_, const Problem& problem,
                                  const SparsityStatistics& statistics) const {
  const SpecializedConfig config(config_);
  const ScatterRounds rounds = scatter_rounds(config.packing(), statistics);
  const double sms = std::max(problem.device.sm_count, 1);
  const double clock = kSustainedClock * std::max(problem.device.clock_khz, 1000000) / 1000;  // cycles a microsecond
  const double hbm = kSustainedHbm * std::max(problem.device.memory_bandwidth, 1e11) / 1e6;   // bytes a microsecond
  const auto tokens = static_cast<double>(problem.tokens);
  const double row_panels = std::ceil(static_cast<double>(problem.spec.rows) / config.rows());
  const double column_tiles = std::ceil(static_cast<double>(problem.spec.cols) / SpecializedConfig::kTileRows);
  const double token_tiles = std::ceil(tokens / config.token_tile);

  const double busiest = std::ceil(row_panels * config.column_parts * token_tiles / sms);  // blocks
  const double tiles = std::ceil(column_tiles / config.column_parts) * config.row_tiles;
  const double decode_us = busiest * tiles * tile_cycles(config, rounds) / clock;

  const double held = std::max<double>(rounds.mean, config.min_rounds);
  const double weight_bytes =
      row_panels * config.row_tiles * column_tiles * (held * 32 * (config.entry == ScatterEntry::kByte ? 3 : 4) + 4);
  const double x_bytes = static_cast<double>(problem.spec.cols) * tokens * 2;
  const double y_bytes = static_cast<double>(problem.spec.rows) * tokens * 2;
  const double memory_us = (weight_bytes * token_tiles + x_bytes + y_bytes) / hbm;
  const double l2_us = (weight_bytes * token_tiles + x_bytes * row_panels) / (kL2BytesPerUs * l2_speed(problem.device));
  const double following_us = (busiest - 1) * (config.column_parts > 1 ? kFollowingClusterUs : kFollowingUs);
  return kFixedUs + launch_delay_us(problem.device) + following_us + std::max({decode_us, memory_us, l2_us}) +
         (config.column_parts > 1 ? kExchangeUs : 0);
}

}  // namespace sparsmith
