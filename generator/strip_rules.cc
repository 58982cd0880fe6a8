#include "generator/strip_rules.h"

#include <algorithm>
#include <cstdint>

namespace sparsmith {

std::vector<Rule> legal_strip_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kLegal,
       {"bulk_copies"},
       "bulk copies exist from sm_90 on",
       [](const RuleInput& in) { return in["bulk_copies"] == 0 || in.problem.device.compute_capability >= 90; }},
      {Kind::kLegal,
       {"column_parts", "sum"},
       "clusters exist from sm_90 on, and add up several parts",
       [](const RuleInput& in) {
         return in["sum"] == 0 || (in["column_parts"] > 1 && in.problem.device.compute_capability >= 90);
       }},
  };
}

std::vector<Rule> worthwhile_strip_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kWorthwhile,
       {"token_tiles"},
       "a token tile no larger than the tokens, nor smaller up to 64",
       [](const RuleInput& in) {
         const std::int64_t wanted = std::min<std::int64_t>((in.problem.tokens + 7) / 8, 8);
         return in["token_tiles"] < 2 * wanted && in["token_tiles"] >= wanted;
       }},
      {Kind::kWorthwhile,
       {"bulk_copies"},
       "bulk copies wherever there are any",
       [](const RuleInput& in) { return in["bulk_copies"] == 1 || in.problem.device.compute_capability < 90; }},
  };
}

}  // namespace sparsmith
