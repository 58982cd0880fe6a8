// The cost model of the panel family: an order among configs, in microseconds, without running anything.
//
// A block fills its panel and then works on its share of the entries; that is bound by the slowest of three things:
//   shared   phases of gathers: 8 entries each, a little more with what conflicts are left
//   issue    instructions for 32 entries, over the four schedulers
//   stream   the packed weight: from HBM once, from L2 once for each block's panels
// The constants are fitted to what an H200 took (docs/internals/kernels/panel.md).
#include <algorithm>
#include <cmath>

#include "formats/panel_words.h"
#include "generator/device_speed.h"
#include "generator/families/panel/panel_family.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

constexpr double kLaunchUs = 1.0;
constexpr double kSecondPassUs = 0.9;             // its launch hides behind the first pass
constexpr double kPartialSumsBytesPerUs = 3.5e6;  // written by the first pass, read by the second
constexpr double kLatencyUs = 0.32;               // from the start of a block to its first data
// Of panels that one block fills, and of Y; of panels that the blocks of several row parts fill at about the same time;
// of W, which the blocks of many panels read so.
constexpr double kL2BytesPerUs = 3.9e6;
constexpr double kSharedFillBytesPerUs = 7.8e6;
constexpr double kStreamBytesPerUs = 9.4e6;
constexpr double kFillBytesPerClock = 50;  // of one multiprocessor
// For each byte of a panel, the bytes that would be sent in the time that it takes: where the 16 bytes of a column of
// feature-major X are half a sector of a line of their own; where a block takes those of several panels, which are
// neighbours.
constexpr double kApart = 5.1;
constexpr double kBeside = 4.3;
// Panels that two blocks of a cluster fill.
constexpr double kPartnerBytesPerClock = 7.6;  // to the other block's shared memory, of one multiprocessor
constexpr double kPairUs = 0.69;               // blocks that wait for each other
constexpr double kPartUs = 1.57;               // a part more: wait for the slowest warp, store sums, first steps
constexpr double kSweepUs = 0.32;              // a part of K more, of a block that goes through them
constexpr double kPhaseConflicts = 1.02;       // accesses over the least, as packers count them
// Instructions for 32 entries. Tensor products issue 9, yet take 5 cycles of a multiprocessor for 32 entries; sparse
// ones issue 8 and take less, where there are warps enough for four of them to wait for each other in each.
constexpr double kTensorInstructions = 21.4;
constexpr double kSparseTensorInstructions = 16.7;
constexpr double kSparseStepUs = 0.077;
constexpr double kPlainInstructions = 18.8;
constexpr double kChainInstructions = 14.3;
constexpr double kFp32Instructions = 6.6;
constexpr double kEntryInstructions = 3.2;  // of these, what several panels of a block share
constexpr double kStepInstructions = 4.3;   // for a step of several entries a lane
constexpr double kIssued = 0.85;            // instructions a cycle of a scheduler, at best
constexpr double kStepWaitUs = 0.45;        // of a warp for a step that was asked for when it was needed
constexpr double kTensorTaskUs = 0.14;      // of a warp among 32, for the end of a task of tensor products
constexpr double kStoreCycles = 1.54;       // of a row of a panel that four lanes store together
constexpr double kFinishUs = 0.61;          // of a block: barrier, sums of cut rows, stores
constexpr double kWarpUs = 0.05;            // and for each of its warps, whose share cuts rows and may be the last
constexpr double kOverlap = 4.9;            // how sharply the slowest of the three hides the others

// Entries that are stored for each nonzero.
double padding(const PanelConfig& config, const SparsityStatistics& statistics, double entries_a_warp, int step) {
  const double lanes = config.segment_lanes;
  const double of_row = statistics.row_mean / (config.sweeps() ? config.column_parts : 1);
  const double length = std::min(std::max(of_row, 1.0), static_cast<double>(config.segment_length));
  // A task ends with a whole step, and a share too.
  const double stored = 1.03 + (step - 1) / 2.0 * lanes / length + step * 16.0 / std::max(entries_a_warp, 1.0);
  if (!config.sweeps()) return stored;
  // Tasks are whole, and warps wait for the one that has more of them, or the longest.
  const double longest = std::min<double>(config.segment_length, static_cast<double>(statistics.row_max));
  const double entries_a_task = 32 / lanes;
  return stored * std::max(1 + length * entries_a_task / 2 / entries_a_warp, longest * entries_a_task / entries_a_warp);
}

// For each byte of a panel, the bytes that would be sent in the time that it takes.
double sent_bytes(const PanelConfig& config, Layout layout, double panels) {
  using Input = PanelConfig::Input;
  if (config.input == Input::kRelayout || config.input == Input::kNeighbours) return 1;
  const double apart = config.panels == 1 ? kApart : kBeside;
  const double each = !config.turns(layout) && panels > 1 ? apart : 1;
  return config.input == Input::kShared ? each / 2 : each;
}

// `blocks` fill a panel each, at once.
double fill_us(const PanelConfig& config, const Problem& problem, double panels, double blocks, double busy,
               double clock_mhz) {
  const double filled = static_cast<double>(config.panel_bytes(problem.spec.cols)) * blocks;
  const double sent = filled * sent_bytes(config, problem.spec.layout, panels);
  const double l2 = (config.row_parts > 1 ? kSharedFillBytesPerUs : kL2BytesPerUs) * l2_speed(problem.device);
  const double us = std::max(sent / l2, sent / busy / kFillBytesPerClock / clock_mhz);
  if (!config.pairs()) return kLatencyUs + us;
  return kLatencyUs + kPairUs + std::max(us, filled / 2 / busy / kPartnerBytesPerClock / clock_mhz);
}

}  // namespace

double predicted_panel_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const PanelConfig config(values);
  const OperatorSpec& spec = problem.spec;
  const double element = static_cast<double>(size_of(spec.type));
  const double width = static_cast<double>(panel_tokens(spec.type));
  const auto [sms, most_mhz, hbm] = DeviceRates(problem.device);
  const double clock_mhz = most_mhz * 0.9;
  const double l2 = kL2BytesPerUs * l2_speed(problem.device);
  const double panels = std::ceil(static_cast<double>(problem.tokens) / width);
  const double warps = config.threads_per_block / 32.0;
  const double token_blocks = static_cast<double>(config.token_blocks(problem));
  const double sweeps = config.sweeps() ? config.column_parts : 1;  // of a block
  const double blocks = token_blocks * config.row_parts * config.column_parts / sweeps;
  const double panel_bytes = static_cast<double>(config.panel_bytes(spec.cols));
  const double resident =
      config.sweeps()
          ? 1.0
          : std::clamp(std::floor(static_cast<double>(problem.device.shared_bytes_per_sm) / (panel_bytes + 9216)), 1.0,
                       std::max(1.0, static_cast<double>(PanelConfig::kThreadsAtOnce) / config.threads_per_block));
  const double waves = std::ceil(blocks / (sms * resident));
  const double busy = std::min(sms, blocks);

  const double nnz = static_cast<double>(statistics.nnz);
  const double entries_a_warp = std::max(nnz, 1.0) / (config.row_parts * config.column_parts * warps);
  const panel::StepWords words = panel::step_words(spec.type, 0, spec.cols);
  const int step = words.entries();
  const double stored = nnz * padding(config, statistics, entries_a_warp, step);
  // Of the busiest multiprocessor. A row is one block's.
  const double longest_row = static_cast<double>(statistics.row_max) / std::max(nnz, 1.0);
  const double mean_share = token_blocks / busy * std::max(1.0, waves * sms * resident / std::max(blocks, sms));
  const double share = std::max(mean_share, longest_row * sweeps / config.column_parts);
  const double gathers = stored / 32 * config.panels * share;

  const bool tensor = config.products == PanelConfig::Products::kTensor;
  const bool sparse = tensor && panel::tensor_order(config.segment_lanes) == panel::LaneOrder::kSparseTensor;
  const double products = sparse                            ? kSparseTensorInstructions
                          : tensor                          ? kTensorInstructions
                          : spec.type == DataType::kFloat32 ? kFp32Instructions
                          : config.chains(spec)             ? kChainInstructions
                                                            : kPlainInstructions;
  const double entry = kEntryInstructions + (kStepInstructions + 2.0 / config.depth) / step;
  const double issue_us = gathers * (products - kEntryInstructions + entry / config.panels) / (4 * kIssued) / clock_mhz;
  const double shared_us = gathers * 4 * kPhaseConflicts / clock_mhz;
  const double weight_bytes = stored * 4 * static_cast<double>(words.step()) / (words.lanes * step);
  const double stream_us = std::max(weight_bytes / (0.9 * hbm),
                                    weight_bytes * token_blocks / (kStreamBytesPerUs * l2_speed(problem.device))) *
                           std::max(1.0, 0.6 * sms / busy);
  // A warp waits for its first steps, and for every one that is not loaded early enough.
  const double steps = entries_a_warp * std::max(1.0, longest_row * config.row_parts) / (32.0 * step);
  const double latency_us = steps * waves * sweeps * (kStepWaitUs / config.depth + (sparse ? kSparseStepUs : 0));

  // Rows in tasks of 32 lanes; the fewer warps there are, the less the ends of their tasks hide behind each other.
  const double segments = static_cast<double>(spec.rows) * std::max(1.0, statistics.row_mean / config.segment_length);
  const double tasks = segments * config.segment_lanes / 32 / config.row_parts / warps;
  const double ends_us = tensor ? kTensorTaskUs * tasks * waves * sweeps * 32 / warps : 0;

  const double filling =
      waves * sweeps * fill_us(config, problem, panels, std::min(blocks, sms * resident), busy, clock_mhz);
  // A part has as many rows as there is room for what they leave.
  const bool whole_rows = config.packing(problem).whole_rows();
  const double cut_slots = config.sweeps() ? 0 : (whole_rows ? 2 : 1) * warps * 32.0 / config.segment_lanes;
  const double rows = static_cast<double>(spec.rows) / config.row_parts;
  const double slots_a_row = !whole_rows ? 1 : config.store == panel::RowStore::kStaged ? 0.5 : 0;
  const double room = std::max(1.0, config.packing(problem).max_slots - cut_slots);
  const double parts = std::max(1.0, std::ceil(rows * slots_a_row / room));
  const double slots = cut_slots + rows * slots_a_row;
  const double finish_us = waves * (kFinishUs + warps * kWarpUs + (parts - 1) * kPartUs + (sweeps - 1) * kSweepUs +
                                    slots * config.panels * sweeps / clock_mhz);

  double total = kLaunchUs + launch_delay_us(problem.device) + filling +
                 together({issue_us, shared_us, stream_us, latency_us}, kOverlap) + ends_us + finish_us;
  if (tensor && config.store == panel::RowStore::kDirect)
    total += static_cast<double>(spec.rows) * panels / busy * kStoreCycles / clock_mhz;
  const double y_bytes = static_cast<double>(spec.rows) * static_cast<double>(problem.tokens) * element;
  total += y_bytes / l2;
  if (config.input == PanelConfig::Input::kRelayout) total += relayout_us(problem);
  if (config.column_parts > 1 && !config.sweeps())
    total += kSecondPassUs + 2 * config.column_parts * y_bytes * 4 / element / kPartialSumsBytesPerUs;
  return total;
}

}  // namespace sparsmith
