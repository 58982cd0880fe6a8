#include "generator/scatter_rules.h"

#include <algorithm>

#include "generator/catalogue.h"
#include "generator/scatter_family.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kMostRounds = 56;
constexpr double kNearlyAll = 1.64;  // deviations from the mean: 95 % of the tiles

std::vector<std::string> with(std::vector<std::string> parameters, const std::vector<std::string>& more) {
  parameters.insert(parameters.end(), more.begin(), more.end());
  return parameters;
}

}  // namespace

Parameter min_rounds_parameter() {
  return {"min_rounds", "i", tuned("ByteEntries", "kMinRounds"), "rounds of every tile: no predicates against padding"};
}

Parameter max_rounds_parameter() {
  return {"max_rounds", "a", tuned("ByteEntries", "kMaxRounds"),
          "rounds held in registers; those beyond are loaded when needed"};
}

std::vector<Rule> legal_scatter_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kLegal,
       {"entry"},
       "tensor cores take 16-bit values",
       [](const RuleInput& in) { return size_of(in.problem.spec.type) == 2; }},
      {Kind::kLegal,
       {"min_rounds", "max_rounds"},
       "rounds that every tile has are held in registers",
       [](const RuleInput& in) { return in["min_rounds"] <= in["max_rounds"]; }},
  };
}

std::vector<Rule> worthwhile_scatter_rules(const ScatterChoice& choice) {
  using Kind = Rule::Kind;
  return {
      {Kind::kWorthwhile,
       {"entry"},
       "so dense that dense is as fast, or so sparse that gathers are",
       [](const RuleInput& in) { return in.statistics.sparsity >= 0.45 && in.statistics.sparsity <= 0.985; }},
      {Kind::kWorthwhile, with(choice.parameters, {"min_rounds", "max_rounds"}),
       "the rounds that nearly all tiles have are not predicated, or none are",
       [choice](const RuleInput& in) {
         const ScatterRounds rounds = scatter_rounds(choice.packing(in), in.statistics);
         const double low = std::max(0.0, rounds.mean - kNearlyAll * rounds.deviation);
         const std::int64_t least = in["min_rounds"];
         static const std::vector<std::int64_t> kMinRounds = min_rounds_parameter().values;
         const auto between = std::ranges::count_if(
             kMinRounds, [&](std::int64_t value) { return value > least && static_cast<double>(value) <= low; });
         return (static_cast<double>(least) <= low && between < choice.values_below) ||
                (least == in["max_rounds"] && static_cast<double>(least) <= rounds.mean + 4);
       }},
      {Kind::kWorthwhile, with(choice.parameters, {"max_rounds"}),
       "registers hold what nearly all tiles have, and little more",
       [choice](const RuleInput& in) {
         const ScatterRounds rounds = scatter_rounds(choice.packing(in), in.statistics);
         const double high = rounds.mean + kNearlyAll * rounds.deviation;
         const auto most = static_cast<double>(in["max_rounds"]);
         return (most >= high - 2 && most < high + 6) || (most >= kMostRounds - 8 && high > kMostRounds - 4);
       }},
  };
}

}  // namespace sparsmith
