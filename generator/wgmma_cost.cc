// The cost model of the wgmma family: microseconds, without running anything.
//
// A multiprocessor goes through its tiles one cycle a turn at its shared memory, as the scatter family does
// (scatter_cost.cc): a tile of W is read by tensor cores in 64 turns, stored and cleared in as many as the packer
// counts, or cleared as a whole in 64; X of 64 tokens is written and read in 64 turns each, once for the row tiles that
// share it. Beside that stand tensor cores (128 cycles a tile, however few tokens), L2, which X comes from for every
// row panel anew, HBM, and where columns are cut into parts the second kernel or the exchange in a cluster. The
// constants are fitted to spaces that an H200 recorded (docs/results/h200-search.md).
#include <algorithm>
#include <cmath>

#include "formats/scatter_layout.h"
#include "generator/device_speed.h"
#include "generator/wgmma_family.h"

namespace sparsmith {
namespace {

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
  const bool bytes = config.entry == ScatterEntry::kByte;
  const bool whole = config.whole_tiles != 0;
  const double held = std::max<double>(rounds.mean, config.min_rounds);
  // Of uniform tiles: rounds to spare let the packer keep stores to one bank apart.
  const double density = rounds.mean * 32 / scatter::kTileElements;
  const double stores = std::max(held, rounds.mean * std::max(1.02, 2.15 - 4 * density) - 1.3 * (held - rounds.mean));
  const double turns =
      kTileReadTurns + stores * (whole ? 1 : 2) + (whole ? 64 : 0) + held * (bytes ? 0.75 : 1.0) +
      token_parts * (kInputTurns + (layout == Layout::kTokenMajor ? 0.0 : kElementTurns)) / config.row_tiles;
  const double per_round = (bytes ? 4.0 : 2.5) * (whole ? 1 : 1.75);
  const double loads = config.min_rounds * 0.2 + (config.max_rounds - config.min_rounds) * 2.0;  // some predicated
  const double instructions =
      kTileInstructions + std::max<double>(held, config.max_rounds) * per_round + loads + (whole ? 16 : 0);
  const double deviation = std::max(rounds.deviation, 0.1);
  const double above = (config.max_rounds - rounds.mean) / deviation;
  const double late =
      deviation * (std::exp(-above * above / 2) / 2.507 - above * 0.5 * std::erfc(above / std::sqrt(2.0)));
  return std::max(turns + kIssueShare * instructions / 4, kMultiplyCycles) +
         (config.max_rounds - config.min_rounds) * kPredicateCycles + late * kLateRoundCycles;
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

}  // namespace

double WgmmaFamily::predict(const Config& config_, const Problem& problem, const SparsityStatistics& statistics) const {
  const WgmmaConfig config(config_);
  const ScatterRounds rounds = scatter_rounds(config.packing(), statistics);
  const auto sms = static_cast<double>(config.multiprocessors(problem.device));
  const double clock = kSustainedClock * std::max(problem.device.clock_khz, 1000000) / 1000;  // cycles a microsecond
  const double hbm = kSustainedHbm * std::max(problem.device.memory_bandwidth, 1e11) / 1e6;   // bytes a microsecond
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
                           (kBestRate * rate(config)) / clock;

  const double held = std::max<double>(rounds.mean, config.min_rounds);
  const double weight_bytes =
      row_panels * config.row_tiles * column_tiles * (held * 32 * (config.entry == ScatterEntry::kByte ? 3 : 4) + 4);
  const double x_bytes = static_cast<double>(problem.spec.cols) * tokens * 2;
  const double y_bytes = static_cast<double>(problem.spec.rows) * tokens * 2;
  const double memory_us = (weight_bytes * token_tiles + x_bytes + y_bytes) / hbm;
  const double l2_us = (weight_bytes * token_tiles + x_bytes * row_panels) / (kL2BytesPerUs * l2_speed(problem.device));
  const double following_us = (busiest - 1) * (config.cluster() > 1 ? kFollowingClusterUs : kFollowingUs);
  const double spill_us = config.missing_registers(problem.device) > 0 ? kSpillUs : 0;
  return kFixedUs + launch_delay_us(problem.device) + following_us + std::max({decode_us, memory_us, l2_us}) +
         parts_us(config, problem) + spill_us;
}

}  // namespace sparsmith
