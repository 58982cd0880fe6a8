#include "generator/bitmap_family.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "formats/bitmap_layout.h"
#include "generator/catalogue.h"
#include "generator/operand_relayout.h"
#include "generator/strip_rules.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kBlockReservedBytes = 1024;  // of shared memory, that the driver takes a block
constexpr std::int64_t kBulkAlignment = 128;        // of where bulk copies are fast

std::int64_t row_tiles(const RuleInput& in) { return ceil_div(in.problem.spec.rows, 16 * in["tiles"]); }

// Statistics-independent: a kernel with such a config would be wrong or would not launch.
std::vector<Rule> legal_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kLegal,
       {"tiles"},
       "tensor cores take 16-bit values",
       [](const RuleInput& in) { return size_of(in.problem.spec.type) == 2; }},
      {Kind::kLegal,
       {"tiles", "token_tiles", "warps", "stages", "run_bits", "stored_offsets", "bulk_copies", "blocks_per_sm", "sum"},
       "rings of one full strip, or the warps' sums, exceed the shared memory of a block",
       [](const RuleInput& in) {
         const BitmapConfig config(in.config);
         const std::int64_t strip = bitmap::max_strip_bytes(config.tiles, config.run_bits, config.stored_offsets);
         return config.shared_bytes(strip, 1) <= in.problem.device.shared_bytes_per_block;
       }},
  };
}

// What another config does with less, or what spills.
std::vector<Rule> worthwhile_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kWorthwhile,
       {"tiles"},
       "a bit an element is worth it from 5 % nonzeros up",
       [](const RuleInput& in) { return in.statistics.sparsity <= 0.95; }},
      {Kind::kWorthwhile,
       {"tiles", "token_tiles", "warps", "run_bits", "blocks_per_sm", "input"},
       "sums, operands and a fragment fit the registers of a thread",
       [](const RuleInput& in) {
         // Compilers for sm_100 take some more.
         const std::int64_t left = in.problem.device.registers_per_sm / (32 * in["warps"] * in["blocks_per_sm"]) -
                                   (in.problem.device.compute_capability >= 100 ? 8 : 0);
         const BitmapConfig config(in.config);
         const bool token_major = in.problem.spec.layout == Layout::kTokenMajor;
         return config.registers(token_major) <= std::min<std::int64_t>(left, config.relayout ? 254 : 240);
       }},
      {Kind::kWorthwhile,
       {"input"},
       kInputWorthwhile,
       [](const RuleInput& in) { return in["input"] == 0 || worth_laying_out(in.problem); }},
      {Kind::kWorthwhile,
       {"run_bits"},
       "runs of 4 bits from 25 % nonzeros up",
       [](const RuleInput& in) { return in["run_bits"] == 8 || in.statistics.sparsity <= 0.75; }},
      {Kind::kWorthwhile,
       {"run_bits", "stored_offsets"},
       "a bit an element for offsets, not two",
       [](const RuleInput& in) { return in["run_bits"] == 8 || in["stored_offsets"] == 0; }},
      {Kind::kWorthwhile,
       {"warps", "blocks_per_sm"},
       "8 to 32 warps on a multiprocessor",
       [](const RuleInput& in) {
         const std::int64_t warps = in["warps"] * in["blocks_per_sm"];
         return warps >= 8 && warps <= 32;
       }},
      {Kind::kWorthwhile,
       {"warps"},
       "several strips a warp",
       [](const RuleInput& in) { return in["warps"] == 4 || in.problem.spec.cols >= 64 * 2 * in["warps"]; }},
      {Kind::kWorthwhile,
       {"tiles", "column_parts"},
       "blocks for half of the multiprocessors, where smaller ones would fill more",
       [](const RuleInput& in) {
         return in["tiles"] == 1 || 2 * row_tiles(in) * in["column_parts"] >= in.problem.device.sm_count;
       }},
      {Kind::kWorthwhile,
       {"tiles", "warps", "column_parts"},
       "parts of K only where rows leave multiprocessors idle, and with several strips a warp",
       [](const RuleInput& in) {
         return in["column_parts"] == 1 || (row_tiles(in) * in["column_parts"] <= in.problem.device.sm_count * 5 / 4 &&
                                            in.problem.spec.cols >= 64 * 2 * in["warps"] * in["column_parts"]);
       }},
      {Kind::kWorthwhile,
       {"tiles", "blocks_per_sm"},
       "blocks enough that several share a multiprocessor",
       [](const RuleInput& in) { return in["blocks_per_sm"] == 1 || row_tiles(in) > in.problem.device.sm_count; }},
  };
}

}  // namespace

BitmapConfig::BitmapConfig(const Config& config)
    : tiles(static_cast<int>(config.at("tiles"))),
      token_tiles(static_cast<int>(config.at("token_tiles"))),
      warps(static_cast<int>(config.at("warps"))),
      stages(static_cast<int>(config.at("stages"))),
      run_bits(static_cast<int>(config.at("run_bits"))),
      stored_offsets(config.at("stored_offsets") != 0),
      bulk_copies(config.at("bulk_copies") != 0),
      blocks_per_sm(static_cast<int>(config.at("blocks_per_sm"))),
      column_parts(static_cast<int>(config.at("column_parts"))),
      cluster(config.at("sum") != 0),
      relayout(config.at("input") != 0) {}

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
  const std::int64_t share = device.shared_bytes_per_sm / blocks_per_sm - kBlockReservedBytes;
  return std::max<std::int64_t>(std::min(share, device.shared_bytes_per_block) - extras_bytes() - barriers_bytes(), 0);
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

std::vector<Parameter> BitmapFamily::parameters() const {
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
      {"bulk_copies", "c", {0, 1}, "who copies strips to shared memory", {"async", "bulk"}},
      {"blocks_per_sm", "g", {1, 2, 3}, "blocks that a multiprocessor has room for: occupancy against registers"},
      {"column_parts", "k", tuned("ClusterSums", "kParts"),
       "parts of K: blocks for a weight of few rows against sums to add"},
      {"sum", "m", {0, 1}, "who adds up the sums of parts", {"launch", "cluster"}},
      input_parameter(true),
  };
}

std::vector<Rule> BitmapFamily::rules() const {
  std::vector<Rule> rules;
  for (const std::vector<Rule>& some :
       {legal_rules(), legal_strip_rules(), worthwhile_rules(), worthwhile_strip_rules()})
    rules.insert(rules.end(), some.begin(), some.end());
  return rules;
}

std::string BitmapFamily::packing_of_rows(const Config& config, const Problem& /*problem*/) const {
  return BitmapConfig(config).packing().name();
}

}  // namespace sparsmith
