#include "generator/bsr_family.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "generator/catalogue.h"

namespace sparsmith {
namespace {

// Statistics-independent: a kernel with such a config would be wrong or would not launch.
std::vector<Rule> legal_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kLegal,
       {"tiles"},
       "tensor cores take 16-bit values",
       [](const RuleInput& in) { return size_of(in.problem.spec.type) == 2; }},
      {Kind::kLegal,
       {"tiles", "token_tiles", "warps"},
       "the warps' sums exceed the shared memory of a block",
       [](const RuleInput& in) {
         const std::int64_t sums = in["warps"] * 8 * in["token_tiles"] * (16 * in["tiles"] + 4) * 4;
         return sums <= in.problem.device.shared_bytes_per_block;
       }},
  };
}

// What another config does with less, or what spills.
std::vector<Rule> worthwhile_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kWorthwhile,
       {"all"},
       "every block is stored where few would be left out, and only there",
       [](const RuleInput& in) { return (in["all"] != 0) == (in.statistics.block_touched[2] > 0.7); }},
      {Kind::kWorthwhile,
       {"token_tiles"},
       "a token tile no larger than the tokens",
       [](const RuleInput& in) { return in["token_tiles"] <= ceil_div(in.problem.tokens, 8); }},
      {Kind::kWorthwhile,
       {"tiles"},
       "a block no higher than the weight",
       [](const RuleInput& in) { return in["tiles"] <= ceil_div(in.problem.spec.rows, 16); }},
      {Kind::kWorthwhile,
       {"warps"},
       "a block of the weight for each warp",
       [](const RuleInput& in) { return in["warps"] == 4 || in["warps"] <= ceil_div(in.problem.spec.cols, 32); }},
      {Kind::kWorthwhile,
       {"warps", "ahead"},
       "no more blocks ahead than a warp has",
       [](const RuleInput& in) {
         return in["ahead"] == 1 || in["warps"] * in["ahead"] < 2 * ceil_div(in.problem.spec.cols, 32);
       }},
      {Kind::kWorthwhile,
       {"tiles", "token_tiles", "warps", "ahead"},
       "sums, operands and blocks ahead fit the registers of a thread",
       [](const RuleInput& in) {
         Config config = in.config;
         config.values.try_emplace("all", 1);
         const BsrConfig bsr(config);
         return bsr.registers() <= std::min(240, 65536 / bsr.threads());
       }},
  };
}

}  // namespace

BsrConfig::BsrConfig(const Config& config)
    : tiles(static_cast<int>(config.at("tiles"))),
      token_tiles(static_cast<int>(config.at("token_tiles"))),
      warps(static_cast<int>(config.at("warps"))),
      ahead(static_cast<int>(config.at("ahead"))),
      all(config.at("all") != 0) {}

std::vector<Parameter> BsrFamily::parameters() const {
  return {
      {"tiles", "r", tuned("BsrBlocks", "kTiles"),
       "16-row tiles of a block: use of an X operand against blocks and zeros"},
      {"token_tiles", "j", tuned("FragmentSums", "kTokenTiles"),
       "8-token tiles of a thread block: use of W's operands against thread blocks"},
      {"warps", "w", tuned("BsrKernel", "kWarps"),
       "warps that share out a row: loads side by side against sums to add"},
      {"ahead", "a", tuned("BsrKernel", "kAhead"),
       "blocks that a warp loads together: loads side by side against registers"},
      {"all", "s", {0, 1}, "which blocks are stored", {"listed", "all"}},
  };
}

std::vector<Rule> BsrFamily::rules() const {
  std::vector<Rule> rules = legal_rules();
  for (Rule& rule : worthwhile_rules()) rules.push_back(std::move(rule));
  return rules;
}

std::string BsrFamily::packing_of_rows(const Config& config, const Problem& /*problem*/) const {
  return BsrConfig(config).packing().name();
}

}  // namespace sparsmith
