// The cost model of the gather family: an order among configs, in microseconds, without running anything.
//
// After its first load from HBM a block is bound by these together, the slowest above all:
//   lines    L1 looks up one 128-byte line a clock: one for each entry of a team
//   L2       bytes of X that L1 does not hold
//   issue    instructions for an entry of each lane, over the four schedulers
//   stream   the packed weight: from HBM once, from L2 for every further tile of tokens
//   chain    a step's gathers wait for L2, less where all of them are asked for together, and the next step for them
// The constants are fitted to spaces that an H200 recorded (docs/results/h200-search.md).
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "formats/panel_words.h"
#include "generator/device_speed.h"
#include "generator/gather_family.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

constexpr double kLaunchUs = 2.3;
constexpr double kFirstLoadUs = 0.95;  // from the start of a block to its first entries
constexpr double kFinishUs = 0.76;     // barrier, sums of rows, stores
constexpr double kL1LatencyUs = 0.054;
constexpr double kL2LatencyUs = 0.62;  // more
constexpr double kL2BytesPerUs = 10.5e6;
constexpr double kIssued = 0.78;        // instructions a cycle of a scheduler, at best
constexpr double kAheadShare = 0.6;     // of a chain, where gathers are a step ahead
constexpr double kTogetherShare = 0.7;  // where all of a step are asked for together
constexpr double kHalfInstructions = 25.0;
constexpr double kChainInstructions = 18.0;
constexpr double kFp32Instructions = 12.0;
constexpr double kLineBytes = 128;
constexpr double kL1Bytes = 250 * 1024;  // with shared memory

// Bounds that nearly, but not wholly, overlap: a little more than the largest.
double together(std::initializer_list<double> bounds_us) {
  double sum = 0;
  for (const double bound : bounds_us) sum += std::pow(bound, 4);
  return std::pow(sum, 0.25);
}

// The tasks that a packing makes of the rows.
struct Tasks {
  double pieces = 0;   // of rows, in the whole weight
  double puts = 0;     // sums of a segment that go to shared memory
  double stored = 0;   // entries, padding counted
  double balance = 1;  // steps of the longest share over those of the average
};

Tasks tasks_of(const GatherConfig& config, const SparsityStatistics& statistics, std::int64_t cols, int step) {
  const double nnz = static_cast<double>(statistics.nnz);
  const double warps = config.threads_per_block / 32.0;
  const double segments = 32.0 / (config.token_lanes * config.segment_lanes);
  const double mean = std::max(statistics.row_mean, 1.0);
  const double length = std::min(mean, static_cast<double>(config.segment_length));
  const double a_step = static_cast<double>(config.segment_lanes) * step;
  Tasks tasks;
  tasks.pieces = static_cast<double>(statistics.rows) * mean / length;
  const double of_part = std::max(1.0, tasks.pieces / config.row_parts);
  if (config.sweep_columns == 0) {
    // A task ends with a whole step; and its segments differ in length, the more the fewer rows a part has.
    tasks.stored = nnz * (1.02 + (a_step - 1) / 2 / length + 0.06 * std::sqrt(segments / of_part));
    tasks.puts = tasks.pieces + segments * warps * config.row_parts;
  } else {
    // The same for what a piece has in a block of columns, of which a warp has only its own to choose from.
    const double blocks = static_cast<double>(cols) / config.sweep_columns;
    const double choice = segments * warps / of_part;
    tasks.stored = nnz * (1 + (a_step - 1) / 2 * blocks / length + 0.9 * choice / (1 + 0.5 * choice));
    tasks.puts = tasks.pieces * std::min(blocks, length);
    tasks.balance = 1 + 0.9 * warps / of_part;
  }
  return tasks;
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

Grid grid_of(const GatherConfig& config, const Problem& problem, const Tasks& tasks) {
  const double tile = static_cast<double>(config.tile_tokens(problem.spec.type));
  const double sms = std::max(problem.device.sm_count, 1);
  const double warps = config.threads_per_block / 32.0;
  const double segments = 32.0 / (config.token_lanes * config.segment_lanes);
  Grid grid;
  grid.tiles = std::ceil(static_cast<double>(problem.tokens) / tile);
  grid.blocks = grid.tiles * config.row_parts;
  grid.busy = std::min(sms, grid.blocks);
  const double per_sm = grid.blocks / grid.busy;
  grid.imbalance = std::ceil(per_sm) / per_sm;
  grid.shared_bytes =
      (tasks.pieces / config.row_parts + (config.sweep_columns == 0 ? warps * segments : 0.0)) * tile * 4;
  // As ptxas says for sm_90.
  const bool fp32 = problem.spec.type == DataType::kFloat32;
  const double registers = (fp32 ? 46 : 56) + 2 * config.depth + (fp32 ? 14 : 34) * config.ahead;
  const double most =
      std::min({static_cast<double>(problem.device.max_threads_per_sm) / config.threads_per_block,
                std::floor(65536 / (registers * config.threads_per_block)),
                std::floor(static_cast<double>(problem.device.shared_bytes_per_sm) / grid.shared_bytes)});
  grid.resident = std::clamp(most, 1.0, std::ceil(per_sm));
  grid.waves = std::ceil(grid.blocks / (grid.busy * grid.resident));
  return grid;
}

// The share of gathers that L1 does not hold.
double misses(const GatherConfig& config, const Problem& problem, const Grid& grid, double nnz) {
  const double sms = std::max(problem.device.sm_count, 1);
  const double row_bytes = static_cast<double>(size_of(problem.spec.type)) * static_cast<double>(problem.tokens);
  const double asked = std::min(16.0 * config.token_lanes, row_bytes);
  // L1 keeps whole lines, of which a narrow tile uses a part.
  const double kept = std::min(kLineBytes, std::max(asked, row_bytes));
  const double cols = std::max(1.0, static_cast<double>(problem.spec.cols));
  const double entries = nnz / std::min<double>(config.row_parts, sms);  // of a tile on one multiprocessor
  const double tiles_at_once = std::max(1.0, grid.resident * sms / std::max<double>(config.row_parts, sms));
  const double room = std::max(0.0, kL1Bytes - grid.resident * grid.shared_bytes) / tiles_at_once;
  const double distinct = cols * (1 - std::exp(-entries / cols));
  const double again = 1 - distinct / std::max(1.0, entries);
  const double window = config.sweep_columns == 0 ? distinct : std::min(distinct, 1.1 * config.sweep_columns);
  return 1 - again * std::min(1.0, room / (window * kept));
}

// Bytes that L2 sends for a gather that L1 does not hold: sectors of 32, unless rows of X are shorter.
double missed_bytes(const GatherConfig& config, const Problem& problem) {
  const double row_bytes = static_cast<double>(size_of(problem.spec.type)) * static_cast<double>(problem.tokens);
  return std::min(row_bytes, std::max(32.0, 16.0 * config.token_lanes));
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
  const double l2 = kL2BytesPerUs * l2_speed(problem.device);
  const double warps = config.threads_per_block / 32.0;
  const int step = panel::step_words(spec.type, config.token_lanes, spec.cols).entries();
  const Tasks tasks = tasks_of(config, statistics, spec.cols, step);
  const Grid grid = grid_of(config, problem, tasks);

  // Of the busiest multiprocessor; a lane without an entry takes instructions, but asks for nothing. A row is one
  // block's.
  const double nnz = static_cast<double>(statistics.nnz);
  const double mean_share = grid.tiles / grid.busy * grid.imbalance;
  const double longest_row = static_cast<double>(statistics.row_max) / std::max(nnz, 1.0);
  const double share = std::max(mean_share, longest_row);
  const double lines_us = nnz * share / clock_mhz;
  const double missed = misses(config, problem, grid, nnz);
  const double l2_us = nnz * mean_share * grid.busy * missed * missed_bytes(config, problem) / l2;
  const bool chains = spec.accumulation == Accumulation::kFp16Chains;
  const double instructions = (fp32     ? kFp32Instructions
                               : chains ? kChainInstructions
                                        : kHalfInstructions) +
                              12.0 / step;
  const double shuffled = (fp32 ? 4.0 : 8.0) * 4 * (1 - 1.0 / config.segment_lanes);
  const double put = config.segment_lanes * ((config.sweep_columns == 0 ? 20.0 : 28.0) + shuffled);
  const double issue_us = (tasks.stored * tasks.balance * instructions + tasks.puts * put) * share *
                          config.token_lanes / 32 / (4 * kIssued) / clock_mhz;
  const double weight_bytes = tasks.stored * tasks.balance * 16 / step;
  const double stream_us = (weight_bytes / (0.9 * hbm) + weight_bytes * (grid.tiles - 1) / l2) *
                           std::max(1.0, 0.6 * std::max(problem.device.sm_count, 1) / grid.busy);
  const double step_gathers = 32.0 / config.token_lanes * step;
  const double of_a_part = std::max(1.0 / config.row_parts, longest_row);
  const double steps = std::ceil(tasks.stored * tasks.balance * of_a_part / warps / step_gathers);
  const double latency_us = kL1LatencyUs + kL2LatencyUs * (1 - std::pow(1 - missed, step_gathers));
  const bool asked_together = step > 2 && config.token_lanes >= 4;  // as GatherKernel does
  const double waited = config.ahead == 1 ? kAheadShare : asked_together ? kTogetherShare : 1.0;
  const double chain_us = grid.waves * steps * latency_us * waited;

  const double y_bytes = static_cast<double>(spec.rows) * static_cast<double>(problem.tokens) * element;
  double total = kLaunchUs + launch_delay_us(problem.device) + kFirstLoadUs +
                 together({lines_us, l2_us, issue_us, stream_us, chain_us}) + grid.waves * kFinishUs + y_bytes / l2;
  if (spec.layout == Layout::kTokenMajor) {
    // Stores of one element a lane, half a line or a line of Y at a time.
    constexpr double kStoredPerUs = 1.6e6;
    total += relayout_us(problem) + static_cast<double>(spec.rows) * static_cast<double>(problem.tokens) / kStoredPerUs;
  }
  return total;
}

}  // namespace sparsmith
