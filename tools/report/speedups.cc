#include "tools/report/speedups.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "tools/report/analysis_table.h"

namespace sparsmith::tools {

double geometric_mean(const std::vector<double>& ratios) {
  if (ratios.empty()) return 0;
  double logarithms = 0;
  for (const double ratio : ratios) logarithms += std::log(ratio);
  return std::exp(logarithms / static_cast<double>(ratios.size()));
}

std::string times_text(double ratio) { return ratio > 0 ? fmt::format("{:.{}f}×", ratio, ratio < 100 ? 2 : 0) : "-"; }

std::string shape_text(std::int64_t rows, std::int64_t cols) { return fmt::format("{} × {}", rows, cols); }

std::string bytes_text(double bytes) { return bytes > 0 ? human_bytes(std::llround(bytes)) : "-"; }

std::string case_text(const ResultCase& one) {
  return fmt::format("{}, {}, {} zeros, N = {}: {} {:.2f} us", one.weight, shape_text(one.rows, one.cols),
                     percent(one.sparsity), one.tokens, one.family, one.us);
}

std::string family_of(const std::string& config) { return config.substr(0, config.find(' ')); }

Colour colour_of_family(const std::string& family) {
  static const std::map<std::string, Colour> kFamilies = {{"dense", Colour::kVermillion}, {"slots", Colour::kBlue},
                                                          {"panel", Colour::kPurple},     {"rows", Colour::kOrange},
                                                          {"gather", Colour::kSkyBlue},   {"bitmap", Colour::kGreen},
                                                          {"scatter", Colour::kYellow}};
  const auto found = kFamilies.find(family);
  return found == kFamilies.end() ? Colour::kNeutral : found->second;
}

}  // namespace sparsmith::tools
