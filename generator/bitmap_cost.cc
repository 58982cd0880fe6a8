// The cost model of the bitmap family: an order among configs, in microseconds, without running anything.
//
// Two things run side by side, and the slower one hides most of the other: the packed weight from HBM, and the work of
// a tile, which is instructions of the decode plus operands of X from L2. To both comes what every launch costs. The
// constants follow a prototype measured on an H200 at 50 to 95 % and N = 1 to 64; they rank, they do not promise.
#include <algorithm>
#include <cmath>

#include "generator/bitmap_family.h"

namespace sparsmith {
namespace {

constexpr double kFixedUs = 3.2;         // launch, first strips, last sums
constexpr double kUnhidden = 0.35;       // of the shorter of the two
constexpr double kL2BytesPerUs = 7.0e6;  // of X operands, over the device
constexpr double kSumsUs = 0.05;         // a warp's sums, added at the end

// Warp instructions for a tile of 16 x 64 that are issued whatever N is.
double decode_instructions(const BitmapConfig& config, double density) {
  const double offsets = config.stored_offsets ? 9.0 : 34.0;
  const double elements = 32 * (2.2 + 1.0 * std::min(1.0, 2 * density));
  const double strip = 46.0 / config.tiles;  // copies, bounds, waits
  return elements + 16 + offsets + strip;
}

}  // namespace

double BitmapFamily::predict(const Config& config_, const Problem& problem,
                             const SparsityStatistics& statistics) const {
  const BitmapConfig config(config_);
  const double sms = std::max(problem.device.sm_count, 1);
  const double clock_mhz = std::max(problem.device.clock_khz, 1000000) / 1000.0 * 0.9;
  const double hbm = std::max(problem.device.memory_bandwidth, 1e11) / 1e6;  // bytes/us
  const double row_tiles = std::ceil(static_cast<double>(problem.spec.rows) / config.rows());
  const double strips = row_tiles * std::ceil(static_cast<double>(problem.spec.cols) / 64);
  const double token_tiles = std::ceil(static_cast<double>(problem.tokens) / config.tokens());
  const double density = 1 - statistics.sparsity;

  // How far the fullest multiprocessor is above the mean, and how well its warps hide one another's latency.
  const double blocks = std::max(1.0, row_tiles * token_tiles);
  const double excess = std::ceil(blocks / sms) * sms / blocks;
  const double strip_bytes = config.tiles * (128.0 * (config.stored_offsets ? 2 : 1) + 2048 * density) + 64;
  const double resident = std::min<double>(config.blocks_per_sm, std::ceil(blocks / sms));
  const int stages = config.stages_that_fit(static_cast<std::int64_t>(strip_bytes), problem.device);
  const double hiding = std::min(1.0, 0.55 + 0.45 * config.warps * resident / 16);

  const double instructions = decode_instructions(config, density) + config.token_tiles * (10.0 + 44.0 / config.tiles);
  const double issue_us =
      strips * config.tiles * token_tiles * instructions / (4 * 0.85) / sms / clock_mhz * excess / hiding;
  const double x_us = row_tiles * static_cast<double>(problem.spec.cols) * 2 * static_cast<double>(config.tokens()) *
                      token_tiles / kL2BytesPerUs * (problem.spec.layout == Layout::kTokenMajor ? 1.0 : 1.5);
  const double in_flight = config.warps * resident * (stages - 0.5) * strip_bytes;  // bytes a multiprocessor
  const double hbm_us =
      (strips * (strip_bytes + 8 - 64)) * token_tiles / (0.93 * hbm) * std::max({1.0, excess * 0.8, 40000 / in_flight});
  const double work_us = issue_us + x_us;
  const double rounds = std::ceil(blocks / (sms * resident));
  return kFixedUs + std::max(hbm_us, work_us) + kUnhidden * std::min(hbm_us, work_us) +
         rounds * kSumsUs * config.warps + 0.1 * (stages - 2);
}

}  // namespace sparsmith
