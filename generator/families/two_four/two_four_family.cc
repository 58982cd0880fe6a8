#include "generator/families/two_four/two_four_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "formats/two_four_layout.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/kernel_parts.h"
#include "generator/operand_relayout.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kMaxStages = 4;             // BulkStripRing::kMaxStages
constexpr std::int64_t kInFlightBytes = 48 << 10;  // on a multiprocessor: half as much again as hides HBM's latency
constexpr std::int64_t kMostInFlightBytes = 144 << 10;

std::int64_t block_rows(const RuleInput& in) { return ceil_div(in.spec.rows, 16 * in["tiles"] * in["row_warps"]); }
std::int64_t warps_of_block(const RuleInput& in) { return in["row_warps"] * in["warps"]; }
// Of a warp, at least.
std::int64_t strips_of_warp(const RuleInput& in) {
  return ceil_div(in.spec.cols, two_four::kStripColumns) / (in["warps"] * in["column_parts"]);
}

std::vector<Parameter> parameters() {
  return {
      {"tiles", "r", tuned("TwoFourTiles", "kTiles"),
       "16-row tiles a warp: use of an X operand against blocks and registers"},
      {"token_tiles", "j", tuned("FragmentSums", "kTokenTiles"),
       "8-token tiles a block: use of a strip against registers"},
      {"row_warps", "h", tuned("TwoFourKernel", "kRowWarps"),
       "warps side by side over rows: use of X in L1 against blocks"},
      {"warps", "w", tuned("TwoFourKernel", "kWarps"), "warps that share out K: latency hiding against sums to add"},
      {"stages", "s", {1, 2, 3, 4}, "strips in flight a warp: latency hiding against shared memory"},
  };
}

// A kernel with such a config would be wrong or would not launch.
std::vector<Rule> legal_rules() {
  return legal({
      {{"tiles"},
       "a group of four columns has more than two nonzeros",
       [](auto& in) { return in.statistics.two_four_legal == 1.0; }},
      {{"tiles"}, "sparse tensor cores take 16-bit values", [](auto& in) { return size_of(in.spec.type) == 2; }},
      {{"tiles"},
       "sparse tensor cores exist from sm_80 on",
       [](auto& in) { return in.device.compute_capability >= 80; }},
      {{"row_warps", "warps"}, "a block is at most 16 warps", [](auto& in) { return warps_of_block(in) <= 16; }},
      {{},
       "rings of one strip, or the warps' sums, exceed the shared memory of a block",
       [](auto& in) { return TwoFourConfig(in.config).shared_bytes(1) <= in.device.shared_bytes_per_block; }},
  });
}

// What another config does with less, or what spills.
std::vector<Rule> worthwhile_rules() {
  return {
      {{"tiles"},
       "two values in four columns are worth it from 15 % nonzeros up",
       [](auto& in) { return in.statistics.sparsity <= 0.85; }},
      {{"row_warps"},
       "warps side by side where there are tokens enough that X takes long to load",
       [](auto& in) { return in["row_warps"] == 1 || in.problem.tokens > 8; }},
      {{"input"},
       kInputWorthwhile,
       [](auto& in) { return in["input"] == 0 || in.problem.tokens > 8 || !comes_by_vectors(in.problem.spec); }},
      {{"row_warps", "warps", "blocks_per_sm"},
       "8 to 32 warps on a multiprocessor",
       [](auto& in) {
         const std::int64_t warps = warps_of_block(in) * in["blocks_per_sm"];
         return warps >= 8 && warps <= 32;
       }},
      {{"warps", "column_parts"},
       "a strip for each warp, several where K is cut",
       [](auto& in) { return strips_of_warp(in) >= (in["column_parts"] > 1 ? 2 : 1); }},
      {{"tiles", "row_warps", "column_parts"},
       "blocks for half of the multiprocessors, where smaller ones would fill more",
       [](auto& in) {
         return in["tiles"] * in["row_warps"] == 1 || 2 * block_rows(in) * in["column_parts"] >= in.device.sm_count;
       }},
      {{"tiles", "row_warps", "column_parts"},
       "parts of K only where rows leave multiprocessors idle",
       [](auto& in) {
         return in["column_parts"] == 1 || block_rows(in) * in["column_parts"] <= in.device.sm_count * 5 / 4;
       }},
      {{"tiles", "row_warps", "blocks_per_sm"},
       "no more blocks on a multiprocessor than there are for it",
       [](auto& in) {
         return in["blocks_per_sm"] <= std::max<std::int64_t>(ceil_div(block_rows(in), in.device.sm_count), 1);
       }},
      {{"tiles", "row_warps", "warps", "stages", "blocks_per_sm", "column_parts"},
       "strips enough on their way to hide the latency of HBM, and not many more",
       [](auto& in) {
         const std::int64_t strips = warps_of_block(in) * in["blocks_per_sm"] * in["tiles"] * two_four::kTileBytes;
         const std::int64_t most = std::min(std::max<std::int64_t>(strips_of_warp(in), 1), kMaxStages);
         if (in["stages"] > most) return false;
         if (in["stages"] > 2 && (in["stages"] - 1) * strips >= kMostInFlightBytes) return false;
         return in["stages"] * strips >= kInFlightBytes || in["stages"] == most;
       }},
      {{"tiles", "token_tiles", "row_warps", "warps", "blocks_per_sm", "input"},
       "sums and operands fit the registers of a thread",
       [](auto& in) {
         Config config = in.config;
         for (const char* other : {"stages", "bulk_copies", "column_parts", "sum"}) config.values.try_emplace(other, 0);
         const TwoFourConfig two_four(config);
         const std::int64_t left = in.device.registers_per_sm / (two_four.threads() * two_four.blocks_per_sm) / 8 * 8;
         return two_four.registers(in.spec.layout == Layout::kTokenMajor) <= std::min<std::int64_t>(left, 255);
       }},
  };
}

void add_snippets(const TwoFourConfig& config, const OperatorSpec& spec, KernelText& text) {
  text.headers = {config.bulk_copies ? "snippets/prolog/bulk_strip_ring.cuh" : "snippets/prolog/strip_ring.cuh",
                  "snippets/prolog/two_four_tiles.cuh",
                  config.relayout ? "snippets/prolog/laid_out_operands.cuh" : "snippets/prolog/paired_input.cuh",
                  "snippets/reduction/fragment_sums.cuh", "snippets/kernels/two_four.cuh"};
  text.lines = {
      stored_type(spec.type),
      input_type(spec),
      output_type(spec),
      {fmt::format("constexpr int kWarps = {}", config.warps), "that share out K"},
      {fmt::format("using Tiles = TwoFourTiles<Stored, {}>", config.tiles), "of 16 rows, of a warp"},
      {fmt::format("using Ring = {}<TwoFourBounds<Tiles, kWarps>>", config.bulk_copies ? "BulkStripRing" : "StripRing"),
       "strips of W to shared memory, a ring a warp"},
      strip_input(config, spec, "PairedInput"),
      {fmt::format("using Sums = FragmentSums<InputType, {}, {}, kWarps>", config.tiles, config.token_tiles),
       "16-row tiles, 8-token tiles"},
  };
}

OperandRelayout relayout_of(const TwoFourConfig& config) {
  return {OperandOrder::kPaired, "fact.strips", config.token_tiles};
}

KernelText two_four_text(const TwoFourConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  const int stages = config.stages_that_fit(problem.device);
  const std::string parts = config.splits() ? "_k" : config.cluster ? fmt::format("_k{}", config.column_parts) : "";
  text.name = fmt::format("two_four_{}_r{}_j{}_h{}_w{}_{}_g{}{}{}", spec_tag(spec), config.tiles, config.token_tiles,
                          config.row_warps, config.warps, config.bulk_copies ? "bulk" : "async", config.blocks_per_sm,
                          parts, config.relayout ? "_operands" : "");
  text.summary =
      fmt::format("Y = W X for {} weights with two nonzeros in four, by sparse tensor cores: {} rows by {} tokens",
                  short_name(spec.type), config.rows(), config.tokens());
  text.threads = config.threads();
  text.min_blocks_per_sm = config.blocks_per_sm;
  text.max_shared_bytes = config.shared_bytes(stages);
  add_snippets(config, spec, text);
  add_part_output(spec, config.splits(), text);
  text.lines.push_back({fmt::format("using Kernel = TwoFourKernel<Ring, Input, Sums, Output, {}, kWarps, {}>",
                                    config.row_warps, config.cluster_blocks()),
                        "warps side by side; parts of K that a cluster adds up"});
  text.parameters = {{"const u8*", "tiles", packed_array("tiles")},
                     {"int", "strips", integer("fact.strips")},
                     {"int", "stages", integer(stages)},
                     {"int", "sent_offset", integer(config.sent_offset(stages))},
                     {"int", "barriers_offset", integer(config.barriers_offset(stages))},
                     {"int", "rows", integer(spec.rows)}};
  add_strip_body(config, spec, relayout_of(config), "strips",
                 "Ring ring({tiles, strips}, Tiles::kBytes, stages, shared,\n"
                 "          reinterpret_cast<BulkBarrier*>(shared + barriers_offset));\n",
                 "Kernel::run(ring, input, output, {rows, first_strip, end_strip, n},\n"
                 "            reinterpret_cast<float*>(shared), shared + sent_offset);",
                 text);
  return text;
}

Result<PlannedKernels> two_four_kernels(const Config& values, const Problem& problem, const PackedWeight& /*packed*/) {
  const TwoFourConfig config(values);
  return strip_kernels(config, problem.spec, relayout_of(config), two_four_text(config, problem),
                       std::max<std::int64_t>(ceil_div(problem.spec.rows, config.rows()), 1),
                       config.shared_bytes(config.stages_that_fit(problem.device)));
}

// The cost model of the two_four family: an order among configs, in microseconds, without running anything.
//
// Side by side run what streams (the weight from HBM; it and X from L2) and what a multiprocessor does with it:
// accesses of shared memory and L1, one at a time, and tensor cores. The longer hides most of the other. To them comes
// what every launch costs. What launches, exchanges and L2 take, and how much overlaps, follows searches at 4096 x 4096
// and 8192 x 8192 on an H200; the rest is the bitmap family's, and counts of instructions.

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

double predicted_two_four_us(const Config& values, const Problem& problem, const SparsityStatistics& /*statistics*/) {
  const TwoFourConfig config(values);
  const auto [sms, most_mhz, hbm] = DeviceRates(problem.device);
  const double clock_mhz = most_mhz * 0.9;
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

  const double finish_us = strip_finish_us(config, problem, std::ceil(blocks / (sms * resident)) * 0.03 * warps,
                                           kExchangeUs, kSecondLaunchUs, l2);
  const double stream_us = std::max(hbm_us, l2_us);
  return kFixedUs + launch_delay_us(problem.device) + std::max(stream_us, work_us) +
         kUnhidden * std::min(stream_us, work_us) + finish_us;
}

}  // namespace

std::int64_t TwoFourConfig::strip_bytes() const { return std::int64_t{tiles} * two_four::kTileBytes; }

std::int64_t TwoFourConfig::sent_offset(int ring_stages) const {
  const std::int64_t sums =
      std::int64_t{row_warps} * warps * tokens() * (warp_rows() + 4) * 4;  // FragmentSums::kSharedBytes
  return std::max(sums, row_warps * warps * ring_stages * strip_bytes());
}

std::int64_t TwoFourConfig::barriers_offset(int ring_stages) const {
  return sent_offset(ring_stages) + (cluster ? std::int64_t{rows()} * tokens() * 4 : 0);
}

std::int64_t TwoFourConfig::shared_bytes(int ring_stages) const {
  return barriers_offset(ring_stages) + (bulk_copies ? row_warps * warps * kMaxStages * 8 : 0);
}

int TwoFourConfig::stages_that_fit(const DeviceProperties& device) const {
  const std::int64_t room = shared_room(device);
  int fit = stages;
  while (fit > 1 && shared_bytes(fit) > room) --fit;
  return fit;
}

int TwoFourConfig::registers(bool token_major) const {
  const int sums = 4 * tiles * token_tiles;
  const int x = (token_major || relayout ? 10 : 16) * token_tiles;
  return 44 + sums + x + 5 * tiles;
}

const Family& two_four_family() {
  static const Family kFamily = {
      .name = "two_four",
      .multiplied_share = 0.5,
      .parameters = joined({parameters(), strip_parameters(false)}),
      .rules = joined({legal_rules(), legal_strip_rules(), worthwhile_rules(), worthwhile_strip_rules()}),
      .packing_of_rows = [](const Config&, const Problem&) -> std::string { return kTwoFourPacking; },
      .kernels = two_four_kernels,
      .predict = predicted_two_four_us,
  };
  return kFamily;
}

}  // namespace sparsmith
