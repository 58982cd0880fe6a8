#include "generator/two_four_family.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "formats/two_four_layout.h"
#include "generator/catalogue.h"
#include "generator/operand_relayout.h"
#include "generator/strip_rules.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kBlockReservedBytes = 1024;  // of shared memory, that the driver takes a block
constexpr std::int64_t kMaxStages = 4;              // BulkStripRing::kMaxStages
constexpr std::int64_t kInFlightBytes = 48 << 10;   // on a multiprocessor: half as much again as hides HBM's latency
constexpr std::int64_t kMostInFlightBytes = 144 << 10;

std::int64_t block_rows(const RuleInput& in) {
  return ceil_div(in.problem.spec.rows, 16 * in["tiles"] * in["row_warps"]);
}
std::int64_t warps_of_block(const RuleInput& in) { return in["row_warps"] * in["warps"]; }
// Of a warp, at least.
std::int64_t strips_of_warp(const RuleInput& in) {
  return ceil_div(in.problem.spec.cols, two_four::kStripColumns) / (in["warps"] * in["column_parts"]);
}

// A kernel with such a config would be wrong or would not launch.
std::vector<Rule> legal_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kLegal,
       {"tiles"},
       "a group of four columns has more than two nonzeros",
       [](const RuleInput& in) { return in.statistics.two_four_legal == 1.0; }},
      {Kind::kLegal,
       {"tiles"},
       "sparse tensor cores take 16-bit values",
       [](const RuleInput& in) { return size_of(in.problem.spec.type) == 2; }},
      {Kind::kLegal,
       {"tiles"},
       "sparse tensor cores exist from sm_80 on",
       [](const RuleInput& in) { return in.problem.device.compute_capability >= 80; }},
      {Kind::kLegal,
       {"row_warps", "warps"},
       "a block is at most 16 warps",
       [](const RuleInput& in) { return warps_of_block(in) <= 16; }},
      {Kind::kLegal,
       {"tiles", "token_tiles", "row_warps", "warps", "stages", "bulk_copies", "blocks_per_sm", "column_parts", "sum",
        "input"},
       "rings of one strip, or the warps' sums, exceed the shared memory of a block",
       [](const RuleInput& in) {
         return TwoFourConfig(in.config).shared_bytes(1) <= in.problem.device.shared_bytes_per_block;
       }},
  };
}

// What another config does with less, or what spills.
std::vector<Rule> worthwhile_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kWorthwhile,
       {"tiles"},
       "two values in four columns are worth it from 15 % nonzeros up",
       [](const RuleInput& in) { return in.statistics.sparsity <= 0.85; }},
      {Kind::kWorthwhile,
       {"row_warps"},
       "warps side by side where there are tokens enough that X takes long to load",
       [](const RuleInput& in) { return in["row_warps"] == 1 || in.problem.tokens > 8; }},
      {Kind::kWorthwhile,
       {"input"},
       kInputWorthwhile,
       [](const RuleInput& in) {
         return in["input"] == 0 || in.problem.tokens > 8 || !comes_by_vectors(in.problem.spec);
       }},
      {Kind::kWorthwhile,
       {"row_warps", "warps", "blocks_per_sm"},
       "8 to 32 warps on a multiprocessor",
       [](const RuleInput& in) {
         const std::int64_t warps = warps_of_block(in) * in["blocks_per_sm"];
         return warps >= 8 && warps <= 32;
       }},
      {Kind::kWorthwhile,
       {"warps", "column_parts"},
       "a strip for each warp, several where K is cut",
       [](const RuleInput& in) { return strips_of_warp(in) >= (in["column_parts"] > 1 ? 2 : 1); }},
      {Kind::kWorthwhile,
       {"tiles", "row_warps", "column_parts"},
       "blocks for half of the multiprocessors, where smaller ones would fill more",
       [](const RuleInput& in) {
         return in["tiles"] * in["row_warps"] == 1 ||
                2 * block_rows(in) * in["column_parts"] >= in.problem.device.sm_count;
       }},
      {Kind::kWorthwhile,
       {"tiles", "row_warps", "column_parts"},
       "parts of K only where rows leave multiprocessors idle",
       [](const RuleInput& in) {
         return in["column_parts"] == 1 || block_rows(in) * in["column_parts"] <= in.problem.device.sm_count * 5 / 4;
       }},
      {Kind::kWorthwhile,
       {"tiles", "row_warps", "blocks_per_sm"},
       "no more blocks on a multiprocessor than there are for it",
       [](const RuleInput& in) {
         return in["blocks_per_sm"] <= std::max<std::int64_t>(ceil_div(block_rows(in), in.problem.device.sm_count), 1);
       }},
      {Kind::kWorthwhile,
       {"tiles", "row_warps", "warps", "stages", "blocks_per_sm", "column_parts"},
       "strips enough on their way to hide the latency of HBM, and not many more",
       [](const RuleInput& in) {
         const std::int64_t strips = warps_of_block(in) * in["blocks_per_sm"] * in["tiles"] * two_four::kTileBytes;
         const std::int64_t most = std::min(std::max<std::int64_t>(strips_of_warp(in), 1), kMaxStages);
         if (in["stages"] > most) return false;
         if (in["stages"] > 2 && (in["stages"] - 1) * strips >= kMostInFlightBytes) return false;
         return in["stages"] * strips >= kInFlightBytes || in["stages"] == most;
       }},
      {Kind::kWorthwhile,
       {"tiles", "token_tiles", "row_warps", "warps", "blocks_per_sm", "input"},
       "sums and operands fit the registers of a thread",
       [](const RuleInput& in) {
         Config config = in.config;
         for (const char* other : {"stages", "bulk_copies", "column_parts", "sum"}) config.values.try_emplace(other, 0);
         const TwoFourConfig two_four(config);
         const std::int64_t left =
             in.problem.device.registers_per_sm / (two_four.threads() * two_four.blocks_per_sm) / 8 * 8;
         return two_four.registers(in.problem.spec.layout == Layout::kTokenMajor) <= std::min<std::int64_t>(left, 255);
       }},
  };
}

}  // namespace

TwoFourConfig::TwoFourConfig(const Config& config)
    : tiles(static_cast<int>(config.at("tiles"))),
      token_tiles(static_cast<int>(config.at("token_tiles"))),
      row_warps(static_cast<int>(config.at("row_warps"))),
      warps(static_cast<int>(config.at("warps"))),
      stages(static_cast<int>(config.at("stages"))),
      bulk_copies(config.at("bulk_copies") != 0),
      blocks_per_sm(static_cast<int>(config.at("blocks_per_sm"))),
      column_parts(static_cast<int>(config.at("column_parts"))),
      cluster(config.at("sum") != 0),
      relayout(config.at("input") != 0) {}

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
  const std::int64_t share = device.shared_bytes_per_sm / blocks_per_sm - kBlockReservedBytes;
  const std::int64_t room = std::min(share, device.shared_bytes_per_block);
  int fit = stages;
  while (fit > 1 && shared_bytes(fit) > room) --fit;
  return fit;
}

int TwoFourConfig::registers(bool token_major) const {
  const int sums = 4 * tiles * token_tiles;
  const int x = (token_major || relayout ? 10 : 16) * token_tiles;
  return 44 + sums + x + 5 * tiles;
}

std::vector<Parameter> TwoFourFamily::parameters() const {
  return {
      {"tiles", "r", tuned("TwoFourTiles", "kTiles"),
       "16-row tiles a warp: use of an X operand against blocks and registers"},
      {"token_tiles", "j", tuned("FragmentSums", "kTokenTiles"),
       "8-token tiles a block: use of a strip against registers"},
      {"row_warps", "h", tuned("TwoFourKernel", "kRowWarps"),
       "warps side by side over rows: use of X in L1 against blocks"},
      {"warps", "w", tuned("TwoFourKernel", "kWarps"), "warps that share out K: latency hiding against sums to add"},
      {"stages", "s", {1, 2, 3, 4}, "strips in flight a warp: latency hiding against shared memory"},
      {"bulk_copies", "c", {0, 1}, "who copies strips to shared memory", {"async", "bulk"}},
      {"blocks_per_sm", "g", {1, 2, 3}, "blocks that a multiprocessor has room for: occupancy against registers"},
      {"column_parts", "k", tuned("ClusterSums", "kParts"),
       "parts of K: blocks for a weight of few rows against sums to add"},
      {"sum", "m", {0, 1}, "who adds up the sums of parts", {"launch", "cluster"}},
      input_parameter(false),
  };
}

std::vector<Rule> TwoFourFamily::rules() const {
  std::vector<Rule> rules;
  for (const std::vector<Rule>& some :
       {legal_rules(), legal_strip_rules(), worthwhile_rules(), worthwhile_strip_rules()})
    rules.insert(rules.end(), some.begin(), some.end());
  return rules;
}

std::string TwoFourFamily::packing_of_rows(const Config& /*config*/, const Problem& /*problem*/) const {
  return kTwoFourPacking;
}

}  // namespace sparsmith
