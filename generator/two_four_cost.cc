// The cost model of the two_four family: an order among configs, in microseconds, without running anything.
//
// Side by side run what streams (the weight from HBM; it and X from L2) and what a multiprocessor does with it:
// accesses of shared memory and L1, one at a time, and tensor cores. The longer hides most of the other. To them comes
// what every launch costs. What launches, exchanges and L2 take, and how much overlaps, follows searches at 4096 x 4096
// and 8192 x 8192 on an H200; the rest is the bitmap family's, and counts of instructions.
#include <algorithm>
#include <cmath>

#include "formats/two_four_layout.h"
#include "generator/device_speed.h"
#include "generator/kernel_parts.h"
#include "generator/operand_relayout.h"
#include "generator/two_four_family.h"

namespace sparsmith {
namespace {

constexpr double kFixedUs = 1.9;          // launch, first strips, last sums
constexpr double kSecondLaunchUs = 2.5;   // that adds up column parts
constexpr double kExchangeUs = 1.7;       // where a cluster does
constexpr double kUnhidden = 0.18;        // of the shorter
constexpr double kL2BytesPerUs = 13.4e6;  // over the device
constexpr double kMultiplyCycles = 1.6;   // of a mma.sp, on a multiprocessor

// Turns of shared memory and L1 for a strip of a warp.
double turns(const TwoFourConfig& config, bool by_vectors) {
  // 16 bytes a lane from 8 lines, and two exchanges, for each multiplication; element by element 32 loads; laid out,
  // whole lines.
  const double x = config.relayout ? 8 : by_vectors ? 20 : 68;
  const double tile = two_four::kTileBytes / 128.0;
  return config.token_tiles * x + config.tiles * tile * 2;  // written and read
}

}  // namespace

double TwoFourFamily::predict(const Config& config_, const Problem& problem,
                              const SparsityStatistics& /*statistics*/) const {
  const TwoFourConfig config(config_);
  const double sms = std::max(problem.device.sm_count, 1);
  const double clock_mhz = std::max(problem.device.clock_khz, 1000000) / 1000.0 * 0.9;
  const double hbm = std::max(problem.device.memory_bandwidth, 1e11) / 1e6;  // bytes/us
  const double l2 = kL2BytesPerUs * l2_speed(problem.device);
  const bool by_vectors = comes_by_vectors(problem.spec);
  const double columns = std::ceil(static_cast<double>(problem.spec.cols) / two_four::kStripColumns);  // of strips
  const double block_rows = std::ceil(static_cast<double>(problem.spec.rows) / config.rows());
  const double strips = block_rows * config.row_warps * columns;
  const double token_tiles = std::ceil(static_cast<double>(problem.tokens) / config.tokens());
  const double warps = config.row_warps * config.warps;

  // How far the fullest multiprocessor is above the mean, and how well its warps hide one another's latency.
  const double blocks = std::max(1.0, block_rows * token_tiles * config.column_parts);
  const double excess = std::ceil(blocks / sms) * sms / blocks;
  const double resident = std::min<double>(config.blocks_per_sm, std::ceil(blocks / sms));
  const double hiding = std::min(1.0, 0.55 + 0.45 * warps * resident / 16);
  const double in_flight = warps * resident * (config.stages_that_fit(problem.device) - 0.5) *
                           static_cast<double>(config.strip_bytes());  // bytes a multiprocessor

  // Warps side by side find X in L1. Feature-major X as it lies is half sectors.
  const double weight_bytes = strips * static_cast<double>(config.strip_bytes());
  const double x_bytes = block_rows * columns * two_four::kStripColumns * 2.0 * config.tokens() * token_tiles *
                         (config.relayout || by_vectors ? 1 : 2);
  const double l2_us = (weight_bytes * token_tiles + x_bytes) / l2;
  const double hbm_us = weight_bytes / (0.93 * hbm) * std::max({1.0, excess * 0.8, 48000 / in_flight});
  const double cycles = std::max(turns(config, by_vectors), 2 * config.tiles * config.token_tiles * kMultiplyCycles);
  const double work_us = strips * token_tiles * cycles / sms / clock_mhz * excess / hiding;

  double finish_us = std::ceil(blocks / (sms * resident)) * 0.03 * warps;  // sums of warps
  if (config.cluster) {
    finish_us += kExchangeUs;
  } else if (config.column_parts > 1) {
    const double outputs = static_cast<double>(problem.spec.rows) * static_cast<double>(problem.tokens);
    finish_us += kSecondLaunchUs + 8 * outputs * config.column_parts / l2 + launch_delay_us(problem.device);
  }
  if (config.relayout) finish_us += relayout_us(problem);
  const double stream_us = std::max(hbm_us, l2_us);
  return kFixedUs + launch_delay_us(problem.device) + std::max(stream_us, work_us) +
         kUnhidden * std::min(stream_us, work_us) + finish_us;
}

}  // namespace sparsmith
