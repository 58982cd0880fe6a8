// The cost model of the bitmap family: an order among configs, in microseconds, without running anything.
//
// Three things run side by side, and the slowest hides most of the others: the packed weight from HBM; the warps'
// instructions, by what they weigh in times; and the accesses of shared memory, one at a time on a
// multiprocessor, of which a load makes more where its lanes' values lie further apart. To them come operands of X from
// L2 and what every launch costs. The constants are fitted to spaces that an H200 recorded
// (docs/results/h200-search.md); they rank, they do not promise.
#include <algorithm>
#include <cmath>

#include "generator/bitmap_family.h"
#include "generator/device_speed.h"
#include "generator/operand_relayout.h"

namespace sparsmith {
namespace {

constexpr double kFixedUs = 4.0;               // launch, first strips, last sums
constexpr double kSecondLaunchUs = 2.3;        // that adds up column parts
constexpr double kExchangeUs = 1.24;           // where a cluster does
constexpr double kUnhidden = 0.11;             // of the shorter of HBM and work
constexpr double kIssued = 0.87;               // instructions a cycle of a scheduler, at best
constexpr double kL2BytesPerUs = 6.5e6;        // of X operands, over the device
constexpr double kOperandBytesPerUs = 13.2e6;  // the same, laid out: whole lines, as in the two_four family
constexpr double kStripInstructions = 27;
constexpr double kInputInstructions = 56;     // a strip's operands for 8 tokens
constexpr double kOperandInstructions = 5;    // the same, laid out: two loads, and the search for Inf
constexpr double kElementInstructions = 130;  // the same, element by element
constexpr double kTokenInstructions = 9.3;    // a further token tile: its mma, and what they wait
constexpr double kWaves = 1.2;                // of what multiprocessors without a block in the last wave cost
constexpr double kHiding = 0.64;              // of a multiprocessor's rate, that 16 warps have and none would not
constexpr double kUnhiddenX = 0.53;           // of their time: they are loaded a strip ahead

// How operands of X come: a strip's, for 8 tokens.
struct InputCost {
  double instructions;
  double turns;  // of L1
  double bytes_per_us;
};
InputCost input_cost(const BitmapConfig& config, const Problem& problem) {
  if (config.relayout) return {kOperandInstructions, 4, kOperandBytesPerUs};
  if (comes_by_vectors(problem.spec)) return {kInputInstructions, 8, kL2BytesPerUs};
  return {kElementInstructions, 8, kL2BytesPerUs / 1.5};
}

// Warp instructions for a tile of 16 x 64.
double instructions(const BitmapConfig& config, const InputCost& input) {
  const double starts = config.stored_offsets ? (config.run_bits == 4 ? 124 : 145) : (config.run_bits == 4 ? 167 : 172);
  const double pairs = config.token_tiles > 1 ? 20 : 0;  // values are merged
  const double strip = kStripInstructions + input.instructions * config.token_tiles + (config.bulk_copies ? 0 : 60);
  return starts + pairs + kTokenInstructions * (config.token_tiles - 1) + strip / config.tiles;
}

// Accesses of shared memory for the same. Lanes whose values lie within 128 bytes meet different banks.
double accesses(const BitmapConfig& config, const InputCost& input, double density) {
  const double per_load = config.run_bits == 4 ? 1 + 2.0 * std::clamp(density - 0.4, 0.0, 0.4)
                                               : 1 + 3.1 * std::clamp(density - 0.2, 0.0, 0.4);
  const double shuffles = config.stored_offsets ? 2 : (config.run_bits == 4 ? 10 : 6);
  return 32 * per_load + 3 + shuffles + input.turns * config.token_tiles / config.tiles;
}

}  // namespace

double BitmapFamily::predict(const Config& config_, const Problem& problem,
                             const SparsityStatistics& statistics) const {
  const BitmapConfig config(config_);
  const double sms = std::max(problem.device.sm_count, 1);
  const double clock_mhz = std::max(problem.device.clock_khz, 1000000) / 1000.0 * 0.9;
  const double hbm = std::max(problem.device.memory_bandwidth, 1e11) / 1e6;  // bytes/us
  const double l2 = l2_speed(problem.device);
  const double row_tiles = std::ceil(static_cast<double>(problem.spec.rows) / config.rows());
  const double strips = row_tiles * std::ceil(static_cast<double>(problem.spec.cols) / 64);
  const double token_tiles = std::ceil(static_cast<double>(problem.tokens) / config.tokens());
  const double density = 1 - statistics.sparsity;
  const InputCost input = input_cost(config, problem);

  // How far the fullest multiprocessor is above the mean, and how well its warps hide one another's latency.
  const double blocks = std::max(1.0, row_tiles * token_tiles * config.column_parts);
  const auto room =
      static_cast<double>(multiprocessors_for_clusters(config.cluster ? config.column_parts : 1, problem.device));
  const double excess = 1 + kWaves * (std::ceil(blocks / room) * sms / blocks - 1);
  const double header = 128.0 * (config.stored_offsets ? 1 + 8 / config.run_bits : 1) + 64.0 / config.run_bits;
  const double strip_bytes = config.tiles * (header + 2048 * density) + 8;
  const double resident = std::min<double>(config.blocks_per_sm, std::ceil(blocks / sms));
  const int stages = config.stages_that_fit(static_cast<std::int64_t>(strip_bytes), problem.device);
  const double hiding = std::min(1.0, 1 - kHiding + kHiding * config.warps * resident / 16);

  const double cycles = std::max(instructions(config, input) / (4 * kIssued), accesses(config, input, density));
  const double tiles = strips * config.tiles * token_tiles;
  const double decode_us = tiles * cycles / sms / clock_mhz * excess / hiding;
  const double x_us = row_tiles * static_cast<double>(problem.spec.cols) * 2 * static_cast<double>(config.tokens()) *
                      token_tiles / (input.bytes_per_us * l2);
  const double in_flight = config.warps * resident * (stages - 0.5) * strip_bytes;  // bytes a multiprocessor
  const double hbm_us =
      (strips * (strip_bytes + 4)) * token_tiles / (0.93 * hbm) * std::max({1.0, excess * 0.7, 40000 / in_flight});
  const double work_us = decode_us + kUnhiddenX * x_us;
  double finish_us = std::ceil(blocks / (sms * resident)) * 0.03 * config.warps;  // sums of warps
  if (config.cluster) {
    finish_us += kExchangeUs;
  } else if (config.column_parts > 1) {
    const double outputs = static_cast<double>(problem.spec.rows) * static_cast<double>(problem.tokens);
    finish_us +=
        kSecondLaunchUs + 8 * outputs * config.column_parts / (kL2BytesPerUs * l2) + launch_delay_us(problem.device);
  }
  if (config.relayout) finish_us += relayout_us(problem);
  return kFixedUs + launch_delay_us(problem.device) + std::max(hbm_us, work_us) +
         kUnhidden * std::min(hbm_us, work_us) + finish_us + 0.1 * (stages - 2);
}

}  // namespace sparsmith
