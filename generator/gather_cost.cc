// The cost model of the gather family: an order among configs, in microseconds, without running anything.
//
// After its first load from HBM a block is bound by the slowest of these:
//   lines    L1 looks up one 128-byte line a clock: one for each entry of a team
//   L2       bytes of X that L1 does not hold
//   issue    instructions for an entry of each lane, over the four schedulers
//   stream   the packed weight: from HBM once, from L2 for every further tile of tokens
//   chain    a step's gathers wait for L2, and the next step for them
// The constants are of the order measured on an H200 with a prototype; they rank, they do not promise.
#include <algorithm>
#include <cmath>

#include "formats/panel_words.h"
#include "generator/gather_family.h"

namespace sparsmith {
namespace {

constexpr double kLaunchUs = 2.0;
constexpr double kExtraLaunchUs = 1.6;
constexpr double kFirstLoadUs = 0.9;  // from the start of a block to its first entries
constexpr double kFinishUs = 0.6;     // barrier, sums of rows, stores
constexpr double kGatherLatencyUs = 0.45;
constexpr double kL2BytesPerUs = 9.5e6;
constexpr double kLineBytes = 128;
constexpr double kL1Bytes = 250 * 1024;  // with shared memory

// Entries that are stored for each nonzero.
double padding(const GatherConfig& config, const SparsityStatistics& statistics, int step) {
  const double lanes = config.segment_lanes;
  const double length = std::min(std::max(statistics.row_mean, 1.0), static_cast<double>(config.segment_length));
  // A task ends with a whole step; and its segments differ in length, the more the fewer rows a part has.
  const double segments = 32.0 / (config.token_lanes * lanes);
  const double rows = std::max(1.0, static_cast<double>(statistics.rows) / config.row_parts);
  return 1.02 + (lanes * step - 1) / 2.0 / length + 0.06 * std::sqrt(segments / rows);
}

// Where a launch's blocks run.
struct Grid {
  double tiles = 1;  // of tokens
  double blocks = 1;
  double busy = 1;       // multiprocessors
  double imbalance = 1;  // entries of the busiest multiprocessor over those of the average
  double waves = 1;
  double resident = 1;      // blocks on a multiprocessor
  double shared_bytes = 0;  // of a block
};

Grid grid_of(const GatherConfig& config, const Problem& problem, const SparsityStatistics& statistics) {
  const double tile = static_cast<double>(config.tile_tokens(problem.spec.type));
  const double sms = std::max(problem.device.sm_count, 1);
  const double warps = config.threads_per_block / 32.0;
  const double segments = 32.0 / (config.token_lanes * config.segment_lanes);
  const double pieces = std::max(1.0, statistics.row_mean / config.segment_length);
  Grid grid;
  grid.tiles = std::ceil(static_cast<double>(problem.tokens) / tile);
  grid.blocks = grid.tiles * config.row_parts;
  grid.busy = std::min(sms, grid.blocks);
  const double per_sm = grid.blocks / grid.busy;
  grid.imbalance = std::ceil(per_sm) / per_sm;
  grid.shared_bytes =
      (static_cast<double>(problem.spec.rows) / config.row_parts * pieces + warps * segments) * tile * 4;
  const double rows_registers = (problem.spec.type == DataType::kFloat32 ? 8.0 : 16.0) * (1 + config.ahead);
  const double registers = 36 + rows_registers + 4 * config.depth;
  const double most =
      std::min({static_cast<double>(problem.device.max_threads_per_sm) / config.threads_per_block,
                std::floor(65536 / (registers * config.threads_per_block)),
                std::floor(static_cast<double>(problem.device.shared_bytes_per_sm) / grid.shared_bytes)});
  grid.resident = std::clamp(most, 1.0, std::ceil(per_sm));
  grid.waves = std::ceil(grid.blocks / (grid.busy * grid.resident));
  return grid;
}

// Bytes that an entry asks L2 for, on average.
double missed_bytes(const GatherConfig& config, const Problem& problem, const Grid& grid, double stored) {
  const double element = static_cast<double>(size_of(problem.spec.type));
  const double sms = std::max(problem.device.sm_count, 1);
  const double row_bytes = element * static_cast<double>(problem.tokens);  // of X, of one column
  const double asked = std::min(16.0 * config.token_lanes, row_bytes);
  // L1 keeps whole lines, of which a narrow tile uses a part; L2 sends sectors of 32 bytes.
  const double kept = std::min(kLineBytes, std::max(asked, row_bytes));
  const double cols = std::max(1.0, static_cast<double>(problem.spec.cols));
  const double entries = stored / std::min<double>(config.row_parts, sms);  // of a tile on one multiprocessor
  const double tiles_at_once = std::max(1.0, grid.resident * sms / std::max<double>(config.row_parts, sms));
  const double room = std::max(0.0, kL1Bytes - grid.resident * grid.shared_bytes) / tiles_at_once;
  const double distinct = cols * (1 - std::exp(-entries / cols));
  const double again = 1 - distinct / std::max(1.0, entries);
  const double hits = again * std::min(1.0, room / (distinct * kept));
  return std::max(row_bytes < 32 ? asked : 32.0, asked) * (1 - hits);
}

}  // namespace

double GatherFamily::predict(const Config& config_, const Problem& problem,
                             const SparsityStatistics& statistics) const {
  const GatherConfig config(config_);
  const OperatorSpec& spec = problem.spec;
  const bool fp32 = spec.type == DataType::kFloat32;
  const double element = static_cast<double>(size_of(spec.type));
  const double clock_mhz = std::max(problem.device.clock_khz, 1000000) / 1000.0 * 0.9;
  const double hbm = std::max(problem.device.memory_bandwidth, 1e11) / 1e6;  // bytes/us
  const double warps = config.threads_per_block / 32.0;
  const Grid grid = grid_of(config, problem, statistics);

  const int step = panel::step_words(spec.type, config.token_lanes, spec.cols).entries();
  const double entries_a_warp = static_cast<double>(statistics.nnz) / (config.row_parts * warps);
  const double stored = static_cast<double>(statistics.nnz) * padding(config, statistics, step);
  const double entries = stored * grid.tiles / grid.busy * grid.imbalance;  // of a multiprocessor

  const double lines_us = entries / clock_mhz;
  const double l2_us = entries * grid.busy * missed_bytes(config, problem, grid, stored) / kL2BytesPerUs;
  const double instructions = (fp32 ? 12.0 : 25.0) + 12.0 / step;
  const double segments = static_cast<double>(spec.rows) * std::max(1.0, statistics.row_mean / config.segment_length) +
                          32.0 / config.token_lanes / config.segment_lanes * warps * config.row_parts;
  const double shuffled = (fp32 ? 4.0 : 8.0) * 4 * (1 - 1.0 / config.segment_lanes);
  const double put =
      segments * grid.tiles / grid.busy * config.segment_lanes * config.token_lanes / 32 * (20 + shuffled);
  const double issue_us = (entries * config.token_lanes / 32 * instructions + put) / (4 * 0.85) / clock_mhz;
  const double weight_bytes = stored * 16 / step;
  const double stream_us = (weight_bytes / (0.9 * hbm) + weight_bytes * (grid.tiles - 1) / kL2BytesPerUs) *
                           std::max(1.0, 0.6 * std::max(problem.device.sm_count, 1) / grid.busy);
  const double steps =
      std::ceil(entries_a_warp * stored / std::max<double>(statistics.nnz, 1) / (32.0 / config.token_lanes * step));
  const double chain_us = grid.waves * steps * kGatherLatencyUs * (config.ahead == 1 ? 0.6 : 1.0);

  const double x_bytes = static_cast<double>(spec.cols) * static_cast<double>(problem.tokens) * element;
  const double y_bytes = static_cast<double>(spec.rows) * static_cast<double>(problem.tokens) * element;
  double total = kLaunchUs + kFirstLoadUs + std::max({lines_us, l2_us, issue_us, stream_us, chain_us}) +
                 grid.waves * kFinishUs + y_bytes / kL2BytesPerUs;
  if (spec.layout == Layout::kTokenMajor) total += kExtraLaunchUs + 2 * x_bytes / kL2BytesPerUs;
  return total;
}

}  // namespace sparsmith
