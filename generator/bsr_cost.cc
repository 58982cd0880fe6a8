// The cost model of the bsr family: an order among configs, in microseconds, without running anything.
//
// After its launch a block of threads waits for its first blocks of W, then for X, again for each further round of
// loads, and adds up its warps' sums; where thread blocks come in several waves, a part of that once a wave. Beside it
// a multiprocessor loads operands of X and multiplies, and the packed weight comes from HBM. Fitted to
// spaces that an H200 recorded (docs/results/h200-search.md).
#include <algorithm>
#include <cmath>

#include "generator/bsr_family.h"
#include "generator/device_speed.h"

namespace sparsmith {
namespace {

constexpr double kLaunchUs = 1.3;
constexpr double kFirstLoadsUs = 0.54;
constexpr double kNextLoadsUs = 0.33;
constexpr double kSumOfWarpUs = 0.02;     // where a thread adds up one output
constexpr double kFurtherWave = 0.44;     // of the above, that the wave before does not hide
constexpr double kMultiplyUs = 0.66e-3;   // a fragment of W by 8 tokens, on a multiprocessor
constexpr double kOperandUs = 2.0e-3;     // 32 columns of 8 tokens of X
constexpr double kElementWiseX = 2.9;     // times that, where they do not come as vectors: an estimate
constexpr double kL2BytesPerUs = 11.4e6;  // with L1
constexpr double kHbmShare = 1.1;         // reading, of what a copy reaches
constexpr double kTogether = 1.2;         // over the sum of the parts, by spaces recorded after these were fitted
constexpr double kListUs = 0.5;           // where a row's blocks begin, and their columns: an estimate

}  // namespace

double BsrFamily::predict(const Config& config_, const Problem& problem, const SparsityStatistics& statistics) const {
  const BsrConfig config(config_);
  const double sms = std::max(problem.device.sm_count, 1);
  const double hbm = std::max(problem.device.memory_bandwidth, 1e11) / 1e6;  // bytes/us
  const double block_rows = std::ceil(static_cast<double>(problem.spec.rows) / config.rows());
  const double token_tiles = std::ceil(static_cast<double>(problem.tokens) / config.tokens());
  // Of 16 x 16 or 32 x 32 elements, the nearest that are counted.
  const double touched = config.all ? 1 : statistics.block_touched[config.tiles == 1 ? 2 : 3];
  const double row_blocks = std::ceil(static_cast<double>(problem.spec.cols) / 32) * touched;
  const double block_bytes = config.rows() * 64.0;

  const double thread_blocks = std::max(1.0, block_rows * token_tiles);
  const double by_registers = std::floor(65536.0 / (config.registers() * config.threads()));
  const double resident = std::clamp(by_registers, 1.0, std::floor(2048.0 / config.threads()));
  const double waves = std::ceil(thread_blocks / (sms * resident));
  const double of_sm = std::ceil(thread_blocks / sms);  // thread blocks of the busiest multiprocessor
  const double side_by_side = std::min(resident, of_sm);
  const double busy = std::min(1.0, thread_blocks / sms);

  const double rounds = std::max(1.0, std::ceil(row_blocks / (config.warps * config.ahead)));
  const double outputs = std::ceil(config.rows() * config.tokens() / static_cast<double>(config.threads()));
  const double chain_us = kFirstLoadsUs + (rounds - 1) * kNextLoadsUs +
                          outputs * config.warps * kSumOfWarpUs * side_by_side + (config.all ? 0 : kListUs);
  const bool by_vectors = problem.spec.layout == Layout::kTokenMajor && problem.spec.cols % 8 == 0;
  const double operand_us = kOperandUs * (by_vectors ? 1 : kElementWiseX);
  const double work_us = of_sm * row_blocks * config.token_tiles * (2 * config.tiles * kMultiplyUs + operand_us) +
                         block_rows * row_blocks * token_tiles * (config.tokens() * 64.0 + block_bytes) /
                             (kL2BytesPerUs * l2_speed(problem.device) * busy);
  const double hbm_us = block_rows * row_blocks * block_bytes / (kHbmShare * hbm);
  return kTogether * (kLaunchUs + launch_delay_us(problem.device) + chain_us +
                      std::max(hbm_us, work_us + kFurtherWave * chain_us * (waves - 1)));
}

}  // namespace sparsmith
