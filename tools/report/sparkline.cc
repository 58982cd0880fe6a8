#include "tools/report/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace sparsmith::tools {
namespace {

std::vector<double> averaged(const std::vector<double>& values, std::size_t groups) {
  std::vector<double> averages;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::size_t begin = group * values.size() / groups;
    const std::size_t end = (group + 1) * values.size() / groups;
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += values[i];
    averages.push_back(sum / static_cast<double>(end - begin));
  }
  return averages;
}

}  // namespace

std::string sparkline(const std::vector<double>& values, std::size_t width) {
  static constexpr std::array kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::vector<double> shown = values.size() > width ? averaged(values, width) : values;
  double least = HUGE_VAL;
  double most = -HUGE_VAL;
  for (const double value : shown) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  std::string text;
  for (const double value : shown) {
    if (!std::isfinite(value)) {
      text += ' ';
      continue;
    }
    const double part = most > least ? (value - least) / (most - least) : 0;
    text += kBars[static_cast<std::size_t>(std::min(7.0, std::floor(part * 8)))];
  }
  return text;
}

}  // namespace sparsmith::tools
