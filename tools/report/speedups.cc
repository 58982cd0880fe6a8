#include "tools/report/speedups.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace sparsmith::tools {

double geometric_mean(const std::vector<double>& ratios) {
  if (ratios.empty()) return 0;
  double logarithms = 0;
  for (const double ratio : ratios) logarithms += std::log(ratio);
  return std::exp(logarithms / static_cast<double>(ratios.size()));
}

std::string times_text(double ratio) {
  return ratio < 100 ? fmt::format("{:.2f}×", ratio) : fmt::format("{:.0f}×", ratio);
}

std::string case_text(const ResultCase& one) {
  return fmt::format("{}, {} × {}, {:.1f} % zeros, N = {}: {} {:.2f} us", one.weight, one.rows, one.cols,
                     100 * one.sparsity, one.tokens, one.family, one.us);
}

Colour colour_of_family(const std::string& family) {
  static constexpr std::array<std::pair<const char*, Colour>, 7> kColoursOfFamilies = {{{"dense", Colour::kVermillion},
                                                                                        {"slots", Colour::kBlue},
                                                                                        {"panel", Colour::kPurple},
                                                                                        {"rows", Colour::kOrange},
                                                                                        {"gather", Colour::kSkyBlue},
                                                                                        {"bitmap", Colour::kGreen},
                                                                                        {"scatter", Colour::kYellow}}};
  const auto* const found =
      std::ranges::find_if(kColoursOfFamilies, [&](const auto& entry) { return entry.first == family; });
  return found == kColoursOfFamilies.end() ? Colour::kNeutral : found->second;
}

std::vector<WeightCases> by_weight(const std::vector<ResultCase>& cases) {
  std::map<std::tuple<double, std::string, std::string>, WeightCases> groups;
  for (const ResultCase& one : cases) {
    WeightCases& group = groups[{one.sparsity, one.weight, one.operator_name}];
    group.weight = one.weight;
    group.sparsity = one.sparsity;
    group.cases.push_back(&one);
  }
  std::vector<WeightCases> result;
  for (auto& [key, group] : groups) {
    std::ranges::stable_sort(group.cases, {}, &ResultCase::tokens);
    result.push_back(std::move(group));
  }
  return result;
}

std::vector<WeightCases> evenly(const std::vector<WeightCases>& all, std::size_t most) {
  if (all.size() <= most) return all;
  std::vector<WeightCases> chosen;
  for (std::size_t i = 0; i < most; ++i) chosen.push_back(all[i * (all.size() - 1) / (most - 1)]);
  return chosen;
}

}  // namespace sparsmith::tools
