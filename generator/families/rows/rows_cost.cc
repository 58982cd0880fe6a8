// The cost model of the rows family: an order among configs, in microseconds, without running anything.
//
// A run is bound by the slowest of five things, plus what cannot overlap:
//   HBM        the packed weight, Y, and X once
//   issue      instructions of the busiest multiprocessor: every warp goes as often round as its longest row asks
//   gathers    wavefronts of the L1 / shared-memory pipe: one a distinct line or bank row that a gather touches
//   L2         rows of X for every nonzero, where L1 cannot hold them
//   latency    the longest chain of dependent loads that a thread goes through, times the waves of blocks
// The constants are fitted to spaces that an H200 recorded (docs/results/search.md).
#include <algorithm>
#include <cmath>

#include "generator/device_speed.h"
#include "generator/families/rows/rows_family.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

constexpr double kLaunchUs = 2.2;          // a graph node with its ramp up and down
constexpr double kExtraLaunchUs = 2.1;     // each further one
constexpr double kLoadLatencyUs = 0.32;    // HBM, loaded
constexpr double kGatherLatencyUs = 0.28;  // L2
constexpr double kSharedLatencyUs = 0.03;
constexpr double kL2BytesPerUs = 5.3e6;
constexpr double kL2GatherBytesPerUs = 5.15e6;
constexpr double kL1Bytes = 200 * 1024;
constexpr double kL1Misses = 1.19;
constexpr double kIssued = 0.52;        // instructions a cycle of a scheduler, at best
constexpr double kExposedChain = 0.28;  // of the chain, that nothing hides
constexpr double kTailUs = 0.87;        // a round of the longest row, beyond those of the others
constexpr double kTokenInstructions = 1.14;
constexpr int kPoints = 48;  // at which the row lengths are integrated

// Row lengths as a warp meets them.
struct RowLoad {
  double steps_per_row = 0;  // rounds of the main loop that a thread group makes for a row, on average
  double longest_steps = 0;  // of the longest segment
  double segments = 0;
};

// Rounds for one segment of `length` nonzeros.
double steps(double length, const RowsConfig& config) {
  const double per_step =
      static_cast<double>(config.shuffle_lanes) * config.shared_parts * config.vector_width * config.unroll;
  return std::ceil(length / per_step);
}

// The mean over rows of the longest among `together` rows that run in lockstep, in rounds.
RowLoad row_load(const RowsConfig& config, const SparsityStatistics& statistics) {
  RowLoad load;
  const auto& quantiles = statistics.row_length_quantiles;
  if (quantiles.empty()) return load;
  const int groups_per_warp = std::max(1, 32 / config.group_threads());
  const double together = config.row_order == RowOrder::kNatural ? groups_per_warp * config.rows_per_group : 1.0;
  double total = 0;
  double pieces = 0;
  for (int i = 0; i < kPoints; ++i) {
    // Order statistics: the longest of k draws lies at quantile u^(1/k).
    const double rank = (i + 0.5) / kPoints;
    const double at = (together == 1 ? rank : std::pow(rank, 1.0 / together)) * static_cast<double>(quantiles.size());
    auto length = static_cast<double>(quantiles[std::min(static_cast<std::size_t>(at), quantiles.size() - 1)]);
    double cut = 1;
    if (config.split_length > 0 && length > static_cast<double>(config.split_length)) {
      cut = std::ceil(length / static_cast<double>(config.split_length));
      length = static_cast<double>(config.split_length);
    }
    total += cut * steps(length, config);
    pieces += cut;
  }
  const auto longest = static_cast<double>(quantiles.back());
  load.longest_steps =
      steps(config.split_length > 0 ? std::min(longest, static_cast<double>(config.split_length)) : longest, config);
  load.steps_per_row = total / kPoints;
  load.segments = static_cast<double>(statistics.rows) * pieces / kPoints;
  return load;
}

// Wavefronts that the L1 / shared-memory pipe spends on one warp-wide gather of a column's tokens.
double gather_wavefronts(const RowsConfig& config, const Problem& problem, const SparsityStatistics& statistics) {
  const double element = static_cast<double>(size_of(problem.spec.type));
  const double columns_in_flight = 32.0 / config.token_lanes;  // distinct columns that a warp gathers at once
  const double thread_bytes = element * config.tokens_per_thread;
  if (config.input == RowsConfig::Input::kShared) {
    // Random 4-byte banks: about 3.4 rounds for 32 lanes of one word; wide accesses go by quarter and half warps.
    const double words = std::max(1.0, thread_bytes / 4);
    return config.token_lanes >= 8 ? std::max(1.0, words * 1.1) : words * std::min(3.4, 1 + columns_in_flight / 12);
  }
  const bool scattered = problem.spec.layout == Layout::kTokenMajor && config.input == RowsConfig::Input::kGlobal;
  if (scattered) {
    // One access a token; each lane's token lies in another row of X.
    const double lines = static_cast<double>(statistics.cols) * element / 128;
    const double distinct = lines * (1 - std::pow(1 - 1 / std::max(lines, 1.0), columns_in_flight));
    return config.tokens_per_thread * std::max(1.0, distinct) * config.token_lanes;
  }
  const double line_bytes = thread_bytes * config.token_lanes;
  return columns_in_flight * std::max(1.0, line_bytes / 128);
}

}  // namespace

double predicted_rows_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const RowsConfig config(values);
  const OperatorSpec& spec = problem.spec;
  const double element = static_cast<double>(size_of(spec.type));
  const double tokens = static_cast<double>(problem.tokens);
  const auto [sms, clock_mhz, hbm] = DeviceRates(problem.device);
  const double l2 = kL2BytesPerUs * l2_speed(problem.device);
  const RowLoad load = row_load(config, statistics);
  const double tiles = std::ceil(tokens / config.token_tile());
  const bool cut = config.split_length > 0;

  const double padding = (config.alignment - 1) / 2.0 * load.segments;
  const double weight_bytes = (static_cast<double>(statistics.nnz) + padding) * (element + config.index_bits / 8.0) +
                              load.segments * (config.row_order == RowOrder::kNatural && !cut ? 8 : 12);
  const double x_bytes = static_cast<double>(spec.cols) * tokens * element;
  const double y_bytes = static_cast<double>(spec.rows) * tokens * element;
  const double memory_us = (weight_bytes + x_bytes + y_bytes) / (0.92 * hbm) + weight_bytes * (tiles - 1) / l2;

  // One round of a warp's main loop.
  const double products = static_cast<double>(config.vector_width) * config.unroll;
  const double token_cost =
      kTokenInstructions * config.tokens_per_thread * (spec.type == DataType::kFloat32 ? 1.0 : 2.0);
  const double gathers = problem.spec.layout == Layout::kTokenMajor && config.input == RowsConfig::Input::kGlobal
                             ? config.tokens_per_thread
                             : 1.0;
  const double issue_per_step = 8 + config.unroll * 4 + products * (4 + 2 * gathers + token_cost);
  const double pipe_per_step = products * gather_wavefronts(config, problem, statistics) + config.unroll * 4;
  const double warps_per_row = config.group_threads() / 32.0;
  const double warp_steps = load.steps_per_row * static_cast<double>(statistics.rows) * warps_per_row * tiles;
  const double combine = (std::log2(config.shuffle_lanes) * config.tokens_per_thread * 2 + 20 +
                          4 * config.tokens_per_thread + (config.shared_parts > 1 ? 40 + 4 * config.shared_parts : 0)) *
                         load.segments * warps_per_row * tiles;
  // Blocks, waves, and what a thread waits for one after the other.
  const double groups = static_cast<double>(config.threads_per_block) / config.group_threads();
  const double needed = std::ceil(load.segments / (groups * config.rows_per_group)) * tiles;
  const std::int64_t shared_bytes = config.panel_bytes(spec.cols, size_of(spec.type)) + config.sums_bytes() + 1024;
  double resident =
      std::min<double>(problem.device.max_blocks_per_sm,
                       std::min(0.75 * problem.device.max_threads_per_sm, 1536.0) / config.threads_per_block);
  resident = std::max(1.0, std::min(resident, static_cast<double>(problem.device.shared_bytes_per_sm) /
                                                  static_cast<double>(shared_bytes)));
  const double blocks = config.blocks_per_sm > 0 ? std::min(needed, config.blocks_per_sm * sms * tiles) : needed;
  const double rounds = config.blocks_per_sm > 0 ? std::ceil(needed / blocks) : 1.0;
  const double waves = std::max(1.0, blocks / (sms * resident));
  // A grid of fewer blocks leaves multiprocessors idle.
  const double busy = std::min(sms, blocks);
  const double hbm_us = memory_us * std::max(1.0, 0.6 * sms / busy);
  // Rows of X that L1 cannot hold come from L2, for every nonzero.
  const double tile_bytes = element * config.token_tile();
  const bool held = config.input == RowsConfig::Input::kShared ||
                    static_cast<double>(spec.cols) * std::max(tile_bytes, 32.0) < kL1Bytes;
  const double l2_us = held ? 0.0
                            : kL1Misses * static_cast<double>(statistics.nnz) * tiles * std::max(tile_bytes, 32.0) /
                                  (kL2GatherBytesPerUs * l2_speed(problem.device));
  const double issue_us = (warp_steps * issue_per_step + combine) / (busy * 4 * kIssued) / clock_mhz;
  const double pipe_us = warp_steps * pipe_per_step / busy / clock_mhz;

  const bool staged = config.input == RowsConfig::Input::kShared;
  const double mean_steps = load.steps_per_row * static_cast<double>(statistics.rows) / std::max(1.0, load.segments);
  const double chain_us =
      2 * kLoadLatencyUs + mean_steps * (kLoadLatencyUs + (staged ? kSharedLatencyUs : kGatherLatencyUs));
  const double staging_us = staged ? kLoadLatencyUs + static_cast<double>(spec.cols) * config.token_tile() * element *
                                                          std::min(blocks, sms * resident) / l2
                                   : 0.0;
  const double latency_us = waves * (chain_us * rounds + staging_us);
  // The longest row alone, when nothing cuts it.
  const double tail_us = std::max(0.0, (load.longest_steps - mean_steps) * kTailUs);

  double total =
      std::max({hbm_us, issue_us, pipe_us, l2_us, latency_us}) + kExposedChain * latency_us / waves + tail_us;
  total += kLaunchUs + launch_delay_us(problem.device);
  if (config.input == RowsConfig::Input::kRelayout) total += relayout_us(problem);
  if (cut) total += kExtraLaunchUs * (config.partial_sums == PartialSums::kAtomic ? 2 : 1);
  return total;
}

}  // namespace sparsmith
