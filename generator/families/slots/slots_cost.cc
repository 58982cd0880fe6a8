// The cost model of the slots family: an order among configs, in microseconds, without running anything.
//
// A launch, the chain launch -> x and first tiles -> products -> sums of rows that nothing overlaps, and the slowest of
// HBM, gathers from shared memory and issue. The constants are fitted to spaces that an H200 recorded
// (docs/results/search.md).
#include <algorithm>
#include <cmath>

#include "formats/slots_layout.h"
#include "formats/slots_steps.h"
#include "generator/device_speed.h"
#include "generator/families/slots/slots_family.h"

namespace sparsmith {
namespace {

constexpr double kFixedUs = 2.2;  // launch, and the chain of one block
constexpr double kL2BytesPerUs = 6.7e6;
constexpr double kDirectWavefronts = 6.0;  // of a gather from global memory: nearly every lane has a line of its own
constexpr double kStridedInput = 0.74;  // times that x of a feature-major token takes for each token between elements
constexpr double kIssued = 0.6;         // instructions a cycle of a scheduler, at best
constexpr double kExposedPipe = 0.32;   // of gathers' time, that nothing hides
constexpr double kStagingShare = 0.25;  // of bringing x, that a block's first tiles do not hide
constexpr double kRowRoundUs = 0.19;    // of threads over the rows whose sums they add up
constexpr double kRowStepUs = 0.023;
constexpr double kTokenSums = 0.41;  // of that, for each further token of a pass
constexpr double kWaveUs = 1.3;
constexpr double kHeavyShare = 2.5;  // of HBM, over an equal one: what a multiprocessor reaches with a heavy part
constexpr double kLongRowUs = 0.2;   // of a block that adds up a long row: shuffles and a barrier
constexpr int kPoints = 32;          // at which the row lengths are integrated

// That the next nonzero is further away than `step`: gaps are geometric.
double longer_than(int step, double density) { return std::pow(1 - std::min(density, 1.0), step); }

// Nonzeros that a tile takes at this density, at most `width`: a distance over 8 bits ends it, and one over 3, 4 or 6
// bits takes a place, another for each time that it is as long again.
double tile_fill(SlotColumns columns, int width, double density) {
  if (columns == SlotColumns::kUint16 || columns == SlotColumns::kUint32 || density <= 0) return width;
  if (pads_long_steps(columns)) return 1 + (width - 1) * (1 - longer_than(longest_step(columns), density));
  if (columns == SlotColumns::kDelta8) {
    const double gap = longer_than(slots::kMaxStep, density);
    return gap < 1e-9 ? width : (1 - std::pow(1 - gap, width)) / gap;
  }
  // 1 + how many lie within reach of the first, Poisson, but at most width - 1.
  const double mean = slots::kMaxStep * density;
  double probability = std::exp(-mean);
  double below = 0;
  double fill = 1;
  for (int i = 0; i < width - 1; ++i) {
    below += probability;
    probability *= mean / (i + 1);
    fill += 1 - below;
  }
  return fill;
}

// By SlotColumns.
struct ColumnCost {
  double bytes;         // of a place in a tile's columns
  double base_bytes;    // of a tile
  double instructions;  // for a nonzero's address, value and share of the loop
};
// Distances in 4 bits come apart with 3 instructions for 8, those in 6 with 9 for 16, those in 3 with 17 for 32.
constexpr ColumnCost kColumns[] = {{2, 0, 3.0},   {4, 0, 2.5},    {1, 2, 3.0},    {1, 2, 3.0},
                                   {0.5, 2, 3.4}, {0.75, 2, 3.6}, {0.375, 2, 3.5}};

const ColumnCost& cost_of(SlotColumns columns) { return kColumns[static_cast<std::size_t>(columns)]; }

// Of a place, with its share of the base.
double column_bytes(SlotColumns columns, int width) {
  return cost_of(columns).bytes + cost_of(columns).base_bytes / width;
}

// Words that 32 gathers from shared memory ask of the fullest bank. Of distances to the column before only whole tiles
// change places, and the packer has the more to choose from, the more a row has: counted in what it makes, from 26 to
// 260 tiles. Of the places of wide tiles fewer fit.
double gather_wavefronts(SlotColumns columns, int width, double tiles_per_row) {
  const bool in_order = pads_long_steps(columns) || columns == SlotColumns::kDelta8;
  if (!in_order) return 1.7;
  return std::clamp(4.34 - 0.245 * std::log2(std::max(tiles_per_row, 1.0)), width > 16 ? 2.9 : 2.3, 3.5);
}

// The mean over rows of what `of_row` gives for their lengths.
template <class OfRow>
double mean_over_rows(const SparsityStatistics& statistics, const OfRow& of_row) {
  const auto& quantiles = statistics.row_length_quantiles;
  if (quantiles.empty()) return 0;
  double sum = 0;
  for (int i = 0; i < kPoints; ++i) {
    const auto at = static_cast<std::size_t>((i + 0.5) / kPoints * static_cast<double>(quantiles.size()));
    sum += of_row(static_cast<double>(quantiles[std::min(at, quantiles.size() - 1)]));
  }
  return sum / kPoints;
}

double density_of(double row_length, const SparsityStatistics& statistics) {
  return row_length / static_cast<double>(std::max<std::int64_t>(1, statistics.cols));
}

// The length of the row that so many are longer than. From one quantile to the next, which may be many rows away,
// lengths are taken to fall as a power of the rank.
double length_of_rank(const SparsityStatistics& statistics, double rank) {
  const auto& quantiles = statistics.row_length_quantiles;
  const std::size_t last = quantiles.size() - 1;
  if (last == 0) return static_cast<double>(quantiles.front());
  const double apart = static_cast<double>(statistics.rows - 1) / static_cast<double>(last);
  const auto before = std::min(static_cast<std::size_t>(rank / apart), last - 1);
  const auto longer = static_cast<double>(quantiles[last - before]);
  const auto shorter = static_cast<double>(quantiles[last - before - 1]);
  const double first = static_cast<double>(before) * apart + 1;
  const double share = std::log((rank + 1) / first) / std::log((first + apart) / first);
  return longer * std::pow(std::max(shorter, 1.0) / std::max(longer, 1.0), std::min(share, 1.0));
}

// Slots of a row.
double slots_of(double length, const SlotsConfig& config, const SparsityStatistics& statistics) {
  const double fill = tile_fill(config.columns, config.vector_width, density_of(length, statistics));
  return std::ceil(std::ceil(length / fill) / config.tiles_per_slot);
}

// With the lanes of the last group that are left over.
double whole_groups(double part_slots) { return std::ceil((part_slots + 1) / slots::kLanes) * slots::kLanes; }

}  // namespace

double slot_nonzero_bytes(SlotColumns columns, int width, DataType type, const SparsityStatistics& statistics) {
  const double tiles = mean_over_rows(
      statistics, [&](double length) { return length / tile_fill(columns, width, density_of(length, statistics)); });
  const double place = static_cast<double>(size_of(type)) + column_bytes(columns, width);
  return tiles * width * place / std::max(1e-9, mean_over_rows(statistics, [](double length) { return length; }));
}

SlotsEstimate::SlotsEstimate(const SlotsConfig& config, const Problem& problem, const SparsityStatistics& statistics) {
  const auto rows = static_cast<double>(statistics.rows);
  slots = rows * mean_over_rows(statistics, [&](double length) { return slots_of(length, config, statistics); });
  if (!statistics.row_length_quantiles.empty())
    longest_row = slots_of(static_cast<double>(statistics.row_length_quantiles.back()), config, statistics);
  const double wanted = config.packing(problem).parts;
  parts = wanted * std::max(1.0, std::ceil(slots / (wanted * static_cast<double>(SlotsPacking::kMaxPartSlots))));
  parts = std::clamp(parts, 1.0, std::max(1.0, rows));
  part_slots = whole_groups(std::max(slots / parts, longest_row));
  common_slots = part_slots;
  if (longest_row > slots / parts) cut_sizes(config, statistics);
  const double element = static_cast<double>(size_of(problem.spec.type));
  const double index = column_bytes(config.columns, config.vector_width);
  bytes = stored_slots() * config.vector_width * config.tiles_per_slot * (element + index) + rows * sizeof(slots::Row);
}

// As the packer does: each of the longest rows has a heavy part of its own, and the others share what is left.
void SlotsEstimate::cut_sizes(const SlotsConfig& config, const SparsityStatistics& statistics) {
  // The points that rows have been integrated at miss the few longest.
  const auto rows = static_cast<double>(statistics.rows);
  const double seen = rows * mean_over_rows(statistics, [](double length) { return length; });
  const double missed = std::max(0.0, static_cast<double>(statistics.nnz) - seen);
  slots += missed * longest_row / std::max(1.0, static_cast<double>(statistics.row_max));
  part_slots = whole_groups(std::max(slots / parts, longest_row));
  common_slots = part_slots;
  double left = slots;
  for (double heavy = 1; heavy < parts; ++heavy) {
    left -= slots_of(length_of_rank(statistics, heavy - 1), config, statistics);
    const double next = slots_of(length_of_rank(statistics, heavy), config, statistics);
    const double common = whole_groups(std::max(left / (parts - heavy), next));
    if (heavy * part_slots + (parts - heavy) * common < stored_slots()) {
      heavy_parts = heavy;
      common_slots = common;
    }
    if (next * (parts - heavy) <= left) break;  // nobody waits for the next
  }
}

std::int64_t SlotsEstimate::sums_bytes() const { return static_cast<std::int64_t>(part_slots) * 4; }

double predicted_slots_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const SlotsConfig config(values);
  const OperatorSpec& spec = problem.spec;
  const SlotsEstimate estimate(config, problem, statistics);
  const double element = static_cast<double>(size_of(spec.type));
  const auto [sms, clock_mhz, hbm] = DeviceRates(problem.device);
  const bool staged = config.input == SlotsConfig::Input::kShared;

  const double resident = std::min(estimate.parts / sms, static_cast<double>(config.blocks_per_sm));
  const double busy = std::min(sms, estimate.parts);
  const double warps = config.threads_per_block / 32.0;
  // A part's groups come to its warps in turn: the last round may be short.
  const double groups = estimate.part_slots / slots::kLanes;
  const double rounds = std::ceil(groups / warps);
  const double slot_length = static_cast<double>(config.vector_width) * config.tiles_per_slot;
  // Of the multiprocessor that has most.
  const double per_sm =
      (estimate.common_slots * estimate.parts / busy + estimate.part_slots - estimate.common_slots) * slot_length / 32;

  // HBM, slower where too few bytes are in flight.
  const double in_flight = std::max(resident, 1.0) * busy * config.threads_per_block * config.depth *
                           (config.vector_width * (element + 1.5)) *
                           std::min(1.0, estimate.common_slots / slots::kLanes / (warps * config.depth));
  const double wanted = hbm * 0.75;  // bytes under way at full bandwidth
  const double rate = hbm * std::min(1.0, std::pow(in_flight / wanted, 0.5));
  const double tokens = static_cast<double>(problem.tokens);
  const double passes = std::ceil(tokens / config.tokens_per_pass);
  const double y_bytes = static_cast<double>(spec.rows) * element * tokens;
  const double heavy_bytes =
      estimate.heavy_parts == 0 ? 0.0 : estimate.bytes * estimate.part_slots / std::max(1.0, estimate.stored_slots());
  const double hbm_us = std::max((estimate.bytes + y_bytes) / rate, heavy_bytes * sms / (kHeavyShare * rate));

  const double tiles_per_row =
      estimate.slots * config.tiles_per_slot / std::max(1.0, static_cast<double>(statistics.rows));
  const double wavefronts =
      staged ? gather_wavefronts(config.columns, config.vector_width, tiles_per_row) : kDirectWavefronts;
  const double pipe_us = per_sm * tokens * wavefronts / clock_mhz;
  // And for each token gather, conversion, product.
  const double instructions = cost_of(config.columns).instructions * passes + 4.0 * tokens;
  const double issue_us = per_sm * instructions / (4 * kIssued) / clock_mhz;

  // Blocks fill shared memory, or gather from L2; passes after the first find the weight there.
  const double blocks = estimate.parts * passes;
  // More blocks may fit than are asked for, which passes make use of. As ptxas says for sm_90 and several tokens.
  constexpr double kRegisters = 72;
  const double shared = static_cast<double>(config.vector_bytes(spec) + config.tokens_per_pass * estimate.sums_bytes());
  const double fitting =
      std::max(static_cast<double>(config.blocks_per_sm),
               std::floor(std::min({static_cast<double>(problem.device.max_threads_per_sm) / config.threads_per_block,
                                    65536 / (kRegisters * config.threads_per_block),
                                    static_cast<double>(problem.device.shared_bytes_per_sm) / (shared + 1024)})));
  const double at_once = std::min(blocks, sms * fitting);
  // Elements of a token of feature-major X lie N apart: each is a sector of its own, of which little is used.
  const double apart = spec.layout == Layout::kTokenMajor ? 1.0 : std::min(tokens, 32 / element);
  const double strided = 1 + kStridedInput * (apart - 1);
  const double x_bytes = static_cast<double>(spec.cols) * element * config.tokens_per_pass * strided;
  const double l2 = kL2BytesPerUs * l2_speed(problem.device);
  const double l2_us = ((staged ? blocks * x_bytes : 0.0) + (passes - 1) * estimate.bytes) / l2;
  const double staging_us = staged ? kStagingShare * x_bytes * at_once / l2 : 0.5;

  const double row_rounds =
      std::ceil(static_cast<double>(statistics.rows) / estimate.parts * config.row_lanes / config.threads_per_block);
  const double row_steps =
      std::ceil(estimate.slots / std::max(1.0, static_cast<double>(statistics.rows)) / config.row_lanes);
  double sums_us = row_rounds * (kRowRoundUs + kRowStepUs * row_steps + 0.015 * std::log2(config.row_lanes)) *
                   (1 + kTokenSums * (config.tokens_per_pass - 1));
  // Long rows are the block's where they are worth it: see SlotsConfig::adds_long_rows.
  if (estimate.heavy_parts > 0 && estimate.longest_row > slots::kLongRow * config.row_lanes) sums_us += kLongRowUs;
  // The sums of one block hide behind the stream of another.
  const double exposed_us = sums_us / std::clamp(resident, 1.0, 2.0);
  const double tail_us = 0.03 * (rounds - groups / warps) + 0.02 * rounds * config.tiles_per_slot / config.depth;

  const double waves = std::max(1.0, std::ceil(blocks / (sms * fitting)));
  const double body = std::max({hbm_us, pipe_us, issue_us, l2_us}) + kExposedPipe * pipe_us;
  return kFixedUs + launch_delay_us(problem.device) + body + staging_us + exposed_us + tail_us + (waves - 1) * kWaveUs;
}

}  // namespace sparsmith
