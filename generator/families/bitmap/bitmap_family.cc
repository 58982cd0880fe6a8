#include "generator/families/bitmap/bitmap_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "formats/bitmap_layout.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/kernel_parts.h"
#include "generator/operand_relayout.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kBulkAlignment = 128;  // of where bulk copies are fast

std::int64_t row_tiles(const RuleInput& in) { return ceil_div(in.spec.rows, 16 * in["tiles"]); }

std::vector<Parameter> parameters() {
  return {
      {"tiles", "r", tuned("BitmapValues", "kTiles"),
       "16-row tiles a block: use of an X operand against blocks and registers"},
      {"token_tiles", "j", tuned("FragmentSums", "kTokenTiles"),
       "8-token tiles a block: use of a decoded fragment against registers"},
      {"warps", "w", tuned("BitmapKernel", "kWarps"), "warps that share out K: latency hiding against sums to add"},
      {"stages", "s", {2, 3, 4}, "strips in flight a warp: latency hiding against shared memory"},
      {"run_bits", "b", tuned("BitmapValues", "kRunBits"),
       "bits of a word whose values lie together: bank conflicts against offsets to count"},
      {"stored_offsets", "o", {0, 1}, "a scan a strip against a bit an element", {"scanned", "stored"}},
  };
}

// Statistics-independent: a kernel with such a config would be wrong or would not launch.
std::vector<Rule> legal_rules() {
  return legal({
      {{"tiles"}, "tensor cores take 16-bit values", [](auto& in) { return size_of(in.spec.type) == 2; }},
      {{"tiles", "token_tiles", "warps", "stages", "run_bits", "stored_offsets", "bulk_copies", "blocks_per_sm", "sum"},
       "rings of one full strip, or the warps' sums, exceed the shared memory of a block",
       [](auto& in) {
         const BitmapConfig config(in.config);
         const std::int64_t strip = bitmap::max_strip_bytes(config.tiles, config.run_bits, config.stored_offsets);
         return config.shared_bytes(strip, 1) <= in.device.shared_bytes_per_block;
       }},
  });
}

// What another config does with less, or what spills.
std::vector<Rule> worthwhile_rules() {
  return {
      {{"tiles"},
       "a bit an element is worth it from 5 % nonzeros up",
       [](auto& in) { return in.statistics.sparsity <= 0.95; }},
      {{"tiles", "token_tiles", "warps", "run_bits", "blocks_per_sm", "input"},
       "sums, operands and a fragment fit the registers of a thread",
       [](auto& in) {
         // Compilers for sm_100 take some more.
         const std::int64_t left = in.device.registers_per_sm / (32 * in["warps"] * in["blocks_per_sm"]) -
                                   (in.device.compute_capability >= 100 ? 8 : 0);
         const BitmapConfig config(in.config);
         const bool token_major = in.spec.layout == Layout::kTokenMajor;
         return config.registers(token_major) <= std::min<std::int64_t>(left, config.relayout ? 254 : 240);
       }},
      {{"input"}, kInputWorthwhile, [](auto& in) { return in["input"] == 0 || worth_laying_out(in.problem); }},
      {{"run_bits"},
       "runs of 4 bits from 25 % nonzeros up",
       [](auto& in) { return in["run_bits"] == 8 || in.statistics.sparsity <= 0.75; }},
      {{"run_bits", "stored_offsets"},
       "a bit an element for offsets, not two",
       [](auto& in) { return in["run_bits"] == 8 || in["stored_offsets"] == 0; }},
      {{"warps", "blocks_per_sm"},
       "8 to 32 warps on a multiprocessor",
       [](auto& in) {
         const std::int64_t warps = in["warps"] * in["blocks_per_sm"];
         return warps >= 8 && warps <= 32;
       }},
      {{"warps"},
       "several strips a warp",
       [](auto& in) { return in["warps"] == 4 || in.spec.cols >= 64 * 2 * in["warps"]; }},
      {{"tiles", "column_parts"},
       "blocks for half of the multiprocessors, where smaller ones would fill more",
       [](auto& in) { return in["tiles"] == 1 || 2 * row_tiles(in) * in["column_parts"] >= in.device.sm_count; }},
      {{"tiles", "warps", "column_parts"},
       "parts of K only where rows leave multiprocessors idle, and with several strips a warp",
       [](auto& in) {
         return in["column_parts"] == 1 || (row_tiles(in) * in["column_parts"] <= in.device.sm_count * 5 / 4 &&
                                            in.spec.cols >= 64 * 2 * in["warps"] * in["column_parts"]);
       }},
      {{"tiles", "blocks_per_sm"},
       "blocks enough that several share a multiprocessor",
       [](auto& in) { return in["blocks_per_sm"] == 1 || row_tiles(in) > in.device.sm_count; }},
  };
}

OperandRelayout relayout_of(const BitmapConfig& config) {
  return {OperandOrder::kStrip, "fact.strips", config.token_tiles};
}

KernelText bitmap_text(const BitmapConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  const std::string parts = config.splits() ? "_k" : config.cluster ? fmt::format("_k{}", config.column_parts) : "";
  text.name = fmt::format("bitmap_{}_r{}_j{}_w{}_b{}_{}_{}_g{}{}{}", spec_tag(spec), config.tiles, config.token_tiles,
                          config.warps, config.run_bits, config.stored_offsets ? "stored" : "scanned",
                          config.bulk_copies ? "bulk" : "async", config.blocks_per_sm, parts,
                          config.relayout ? "_operands" : "");
  text.summary =
      fmt::format("Y = W X for {} weights as bitmap and values, decoded for tensor cores: {} rows by {} tokens a block",
                  short_name(spec.type), config.rows(), config.tokens());
  text.threads = config.threads();
  text.min_blocks_per_sm = config.blocks_per_sm;
  text.headers = {config.bulk_copies ? "snippets/prolog/bulk_strip_ring.cuh" : "snippets/prolog/strip_ring.cuh",
                  "snippets/prolog/strip_bounds.cuh",
                  config.relayout ? "snippets/prolog/laid_out_operands.cuh" : "snippets/prolog/strip_input.cuh",
                  "snippets/prolog/bitmap_values.cuh",
                  "snippets/reduction/fragment_sums.cuh",
                  "snippets/kernels/bitmap.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      {fmt::format("constexpr int kWarps = {}", config.warps), "of a block: they share out K"},
      {fmt::format("using Ring = {}<StripBounds<kWarps>>", config.bulk_copies ? "BulkStripRing" : "StripRing"),
       "strips of W to shared memory, a ring a warp"},
      strip_input(config, spec, "StripInput"),
      {fmt::format("using Values = BitmapValues<{}, {}, {}>", config.tiles, config.run_bits,
                   boolean(config.stored_offsets)),
       "16-row tiles of a strip, bits of a run, stored offsets"},
      {fmt::format("using Sums = FragmentSums<InputType, {}, {}, kWarps>", config.tiles, config.token_tiles),
       "16-row tiles, 8-token tiles"},
  };
  add_part_output(spec, config.splits(), text);
  text.lines.push_back({fmt::format("using Kernel = BitmapKernel<Ring, Input, Values, Sums, Output, kWarps, {}>",
                                    config.cluster_blocks()),
                        "parts of K that a cluster adds up"});
  const StripSizes sizes = config.strip_sizes(problem.device);
  text.parameters = {{"const u8*", "strips", packed_array("strips")},
                     {"const u32*", "strip_offsets", packed_array("strip_offsets")},
                     {"const u32*", "row_parts", packed_array("row_parts")},
                     {"int", "slot_bytes", integer(sizes.slot_bytes)},
                     {"int", "stages", integer(sizes.stages)},
                     {"int", "extras_offset", integer(sizes.extras_offset)},
                     {"int", "rows", integer(spec.rows)},
                     {"int", "row_tiles", integer("fact.row_tiles")},
                     {"int", "row_strips", integer("fact.strips")},
                     {"int", "first_strips", integer("fact.first_strips")},
                     {"int", "first_units", integer("fact.first_units")}};
  add_strip_body(
      config, spec, relayout_of(config), "row_strips",
      "float* extras = reinterpret_cast<float*>(shared + extras_offset);\n"
      "Ring ring({strips, strip_offsets, row_strips, first_strips, first_units}, slot_bytes, stages, shared,\n"
      "          reinterpret_cast<BulkBarrier*>(shared + extras_offset + Kernel::kExtraBytes));\n",
      "Kernel::run(ring, input, output, row_parts, rows, row_tiles, first_strip, end_strip, n,\n"
      "            reinterpret_cast<float*>(shared), extras);",
      text);
  return text;
}

Result<PlannedKernels> bitmap_kernels(const Config& values, const Problem& problem, const PackedWeight& /*packed*/) {
  const BitmapConfig config(values);
  return strip_kernels(config, problem.spec, relayout_of(config), bitmap_text(config, problem),
                       formula("max(fact.row_tiles, 1)"),
                       IntegerExpression::of(config.strip_sizes(problem.device).shared_bytes));
}

// The cost model of the bitmap family: an order among configs, in microseconds, without running anything.
//
// Three things run side by side, and the slowest hides most of the others: the packed weight from HBM; the warps'
// instructions, by what they weigh in times; and the accesses of shared memory, one at a time on a
// multiprocessor, of which a load makes more where its lanes' values lie further apart. To them come operands of X from
// L2 and what every launch costs. The constants are fitted to spaces that an H200 recorded
// (docs/results/search.md); they rank, they do not promise.

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

double predicted_bitmap_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const BitmapConfig config(values);
  const auto [sms, most_mhz, hbm] = DeviceRates(problem.device);
  const double clock_mhz = most_mhz * 0.9;
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
  const double finish_us = strip_finish_us(config, problem, std::ceil(blocks / (sms * resident)) * 0.03 * config.warps,
                                           kExchangeUs, kSecondLaunchUs, kL2BytesPerUs * l2);
  return kFixedUs + launch_delay_us(problem.device) + std::max(hbm_us, work_us) +
         kUnhidden * std::min(hbm_us, work_us) + finish_us + 0.1 * (stages - 2);
}

}  // namespace

std::int64_t BitmapConfig::extras_offset(std::int64_t strip_bytes, int ring_stages) const {
  return std::max(warps * ring_stages * slot_bytes(strip_bytes), sums_bytes());
}

std::int64_t BitmapConfig::slot_bytes(std::int64_t strip_bytes) const {
  return bulk_copies ? ceil_div(strip_bytes, kBulkAlignment) * kBulkAlignment : strip_bytes;
}

int BitmapConfig::stages_that_fit(std::int64_t strip_bytes, const DeviceProperties& device) const {
  const std::int64_t stage = std::max<std::int64_t>(warps * slot_bytes(strip_bytes), 1);
  return static_cast<int>(std::clamp<std::int64_t>(ring_room(device) / stage, 1, stages));
}

std::int64_t BitmapConfig::ring_room(const DeviceProperties& device) const {
  return std::max<std::int64_t>(shared_room(device) - extras_bytes() - barriers_bytes(), 0);
}

StripSizes BitmapConfig::strip_sizes(const DeviceProperties& device) const {
  const std::string strip = "fact.max_strip_bytes";
  const std::string slot =
      bulk_copies ? fmt::format("ceil_div({}, {}) * {}", strip, kBulkAlignment, kBulkAlignment) : strip;
  const std::string count =
      fmt::format("max(min({} / max({} * ({}), 1), {}), 1)", ring_room(device), warps, slot, stages);
  const std::string extras = fmt::format("max({} * {} * ({}), {})", warps, count, slot, sums_bytes());
  return {slot, count, extras, fmt::format("{} + {}", extras, extras_bytes() + barriers_bytes())};
}

int BitmapConfig::registers(bool token_major) const {
  const int sums = 4 * tiles * token_tiles;
  // Laid out, one address serves all operands.
  if (relayout) return sums + 6 * token_tiles + 4 * tiles + (run_bits == 4 ? 64 : 60);
  // Feature-major X comes element by element, with addresses of their own.
  const int operands = (token_major ? 10 : 16) * token_tiles + (token_major ? 0 : 18);
  return sums + operands + 4 * tiles + (run_bits == 4 ? 64 : 56);
}

const Family& bitmap_family() {
  static const Family kFamily = {
      .name = "bitmap",
      .multiplied_share = 1,
      .parameters = joined({parameters(), strip_parameters(true)}),
      .rules = joined({legal_rules(), legal_strip_rules(), worthwhile_rules(), worthwhile_strip_rules()}),
      .packing_of_rows = packing_name<BitmapConfig>,
      .kernels = bitmap_kernels,
      .predict = predicted_bitmap_us,
  };
  return kFamily;
}

}  // namespace sparsmith
