#include "tools/report/speedups.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "tools/report/analysis_table.h"

namespace sparsmith::tools {

std::string file_name(const std::string& path) {
  const std::string trimmed = path.substr(0, path.find_last_not_of('/') + 1);
  return trimmed.substr(trimmed.find_last_of('/') + 1);
}

std::string source_text(const std::string& path) {
  return path.find('/') == std::string::npos ? "" : fmt::format("From {}.", path);
}

double geometric_mean(const std::vector<double>& ratios) {
  if (ratios.empty()) return 0;
  double logarithms = 0;
  for (const double ratio : ratios) logarithms += std::log(ratio);
  return std::exp(logarithms / static_cast<double>(ratios.size()));
}

std::string times_text(double ratio) { return ratio > 0 ? fmt::format("{:.{}f}x", ratio, ratio < 100 ? 2 : 0) : "-"; }

std::string shape_text(std::int64_t rows, std::int64_t cols) { return fmt::format("{} x {}", rows, cols); }

std::string bytes_text(double bytes) { return bytes > 0 ? human_bytes(std::llround(bytes)) : "-"; }

std::string case_text(const ResultCase& one) {
  return fmt::format("{}, {}, {} zeros, N = {}: {} {:.2f} us", one.weight, shape_text(one.rows, one.cols),
                     percent(one.sparsity), one.tokens, one.family, one.us);
}

std::string family_of(const std::string& config) {
  const std::string family = config.substr(0, config.find(' '));
  const bool stores_all = family == "bsr" && config.find(" all=1") != std::string::npos;
  return stores_all ? "dense tiles" : family;
}

Colour colour_of_family(const std::string& family) {
  static const std::map<std::string, Colour> kFamilies = {{"dense", Colour::kVermillion}, {"slots", Colour::kBlue},
                                                          {"panel", Colour::kPurple},     {"rows", Colour::kOrange},
                                                          {"gather", Colour::kSkyBlue},   {"bitmap", Colour::kGreen},
                                                          {"scatter", Colour::kYellow}};
  const auto found = kFamilies.find(family);
  return found == kFamilies.end() ? Colour::kNeutral : found->second;
}

}  // namespace sparsmith::tools
