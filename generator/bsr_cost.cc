// The cost model of the bsr family: an order among configs, in microseconds, without running anything.
//
// After its launch a block of threads waits for its first blocks of W, then for X, as often as a warp loads anew; the
// waves of thread blocks come one after another. Beside that run the packed weight from HBM, what thread blocks ask of
// L2 (X for each row of blocks, W for each token tile), and the multiplications. Constants are estimates.
#include <algorithm>
#include <cmath>

#include "generator/bsr_family.h"

namespace sparsmith {
namespace {

constexpr double kLaunchUs = 1.7;
constexpr double kFirstLoadUs = 0.55;   // W, then X, where nothing else is under way
constexpr double kNextLoadsUs = 0.45;   // of a warp's next blocks: they are asked for one round ahead
constexpr double kSumsUs = 0.15;        // a barrier, the warps' sums, Y
constexpr double kSumOfWarpUs = 0.006;  // each warp's, where a thread adds up one output
constexpr double kL2BytesPerUs = 5.5e6;
constexpr double kListUs = 0.5;        // where a row's blocks begin, and their columns
constexpr double kElementWiseX = 2.5;  // more loads that X comes in, where it is not token-major

}  // namespace

double BsrFamily::predict(const Config& config_, const Problem& problem, const SparsityStatistics& statistics) const {
  const BsrConfig config(config_);
  const double sms = std::max(problem.device.sm_count, 1);
  const double hbm = std::max(problem.device.memory_bandwidth, 1e11) / 1e6;  // bytes/us
  const double block_rows = std::ceil(static_cast<double>(problem.spec.rows) / config.rows());
  const double row_width = std::ceil(static_cast<double>(problem.spec.cols) / 32);
  const double token_tiles = std::ceil(static_cast<double>(problem.tokens) / config.tokens());
  // Of 32 x 32 elements, the nearest that is counted; blocks of the bsr format are 16 R x 32.
  const double touched = config.all ? 1 : statistics.block_touched[config.tiles == 1 ? 2 : 3];
  const double blocks = std::max(1.0, block_rows * row_width * touched);
  const double block_bytes = config.rows() * 64.0;

  const double thread_blocks = std::max(1.0, block_rows * token_tiles);
  const double by_registers = std::floor(65536.0 / (config.registers() * config.threads()));
  const double resident = std::clamp(by_registers, 1.0, 2048.0 / config.threads());
  const double waves = std::ceil(thread_blocks / (sms * resident));
  const double shared_sm = std::max(1.0, std::min(resident, thread_blocks / sms));  // thread blocks side by side

  const double rounds = std::ceil(row_width * touched / (config.warps * config.ahead));
  const double outputs = std::ceil(config.rows() * config.tokens() / static_cast<double>(config.threads()));
  const bool by_vectors = problem.spec.layout == Layout::kTokenMajor && problem.spec.cols % 8 == 0;
  const double chain_us = kFirstLoadUs + (rounds - 1) * kNextLoadsUs + kSumsUs +
                          outputs * config.warps * kSumOfWarpUs * shared_sm + (config.all ? 0 : kListUs);

  const double busy = std::min(1.0, thread_blocks / sms);
  const double x_bytes = blocks * token_tiles * config.tokens() * 64.0 * (by_vectors ? 1 : kElementWiseX);
  const double l2_us = (x_bytes + blocks * block_bytes * (token_tiles - 1)) / (kL2BytesPerUs * busy);
  const double hbm_us = blocks * block_bytes / (0.9 * hbm * busy);
  return kLaunchUs + waves * chain_us + hbm_us + l2_us;
}

}  // namespace sparsmith
