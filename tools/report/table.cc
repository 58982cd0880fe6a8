#include "tools/report/table.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <numeric>

#include "base/printable.h"

namespace sparsmith::tools {
namespace {

using Cells = std::vector<std::string>;

// The titles and all cells, padded to the width of their columns.
std::vector<Cells> padded(const Table& table) {
  std::vector<Cells> lines = {{}};
  for (const std::string& column : table.columns) lines[0].push_back(title_of(column));
  for (const Cells& row : table.rows) std::ranges::transform(row, std::back_inserter(lines.emplace_back()), printable);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::size_t width = 0;
    for (const Cells& line : lines) width = std::max(width, line[i].size());
    for (Cells& line : lines)
      line[i] =
          is_right(table.columns[i]) ? fmt::format("{:>{}}", line[i], width) : fmt::format("{:<{}}", line[i], width);
  }
  return lines;
}

constexpr double kSlower = 0.98;
constexpr double kFaster = 1.02;

Style style_of(const std::string& column, std::string_view cell) {
  const std::string title = title_of(column);
  if (title == "speedup" || title == "ratio") {
    const double ratio = std::atof(std::string(cell).c_str());
    return !cell.ends_with('x') ? Style::kPlain
           : ratio > kFaster    ? Style::kGood
           : ratio < kSlower    ? Style::kBad
                                : Style::kDim;
  }
  if (title == "verdict" || title == "there")
    return cell.starts_with("SLOW") || cell == "no"    ? Style::kBad
           : cell.starts_with("FAST") || cell == "yes" ? Style::kGood
                                                       : Style::kPlain;
  return Style::kPlain;
}

std::vector<double> averaged(const std::vector<double>& values, std::size_t groups) {
  std::vector<double> averages;
  for (std::size_t group = 0; group < groups; ++group) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(group * values.size() / groups);
    const auto end = values.begin() + static_cast<std::ptrdiff_t>((group + 1) * values.size() / groups);
    averages.push_back(std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin));
  }
  return averages;
}

}  // namespace

bool has_colours() {
  static const bool kHas = [] {
    const auto given = [](const char* name) {
      const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets it
      return std::string_view(value == nullptr ? "" : value);
    };
    if (!given("NO_COLOR").empty()) return false;
    if (!given("CLICOLOR_FORCE").empty() && given("CLICOLOR_FORCE") != "0") return true;
    return isatty(STDOUT_FILENO) != 0 && given("TERM") != "dumb" && !given("TERM").empty();
  }();
  return kHas;
}

std::string styled(std::string_view text, Style style) {
  if (style == Style::kPlain || !has_colours()) return std::string(text);
  return fmt::format("{}{}{}", kStyles[static_cast<std::size_t>(style)], text, kStyles[0]);
}

std::string Table::plain() const {
  std::string text;
  bool titles = true;
  for (Cells& cells : padded(*this)) {
    std::string& last = cells.back();
    last.erase(last.find_last_not_of(' ') + 1);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::size_t begin = std::min(cells[i].find_first_not_of(' '), cells[i].size());
      const std::size_t end = cells[i].find_last_not_of(' ') + 1;
      if (begin >= end) continue;
      const std::string word = cells[i].substr(begin, end - begin);
      cells[i].replace(begin, end - begin, styled(word, titles ? Style::kBold : style_of(columns[i], word)));
    }
    titles = false;
    std::string line = fmt::format("{}", fmt::join(cells, "  "));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string Table::markdown() const {
  std::string text;
  for (const Cells& cells : padded(*this)) {
    const bool titles = text.empty();
    text += fmt::format("| {} |\n", fmt::join(cells, " | "));
    if (!titles) continue;
    text += "|";
    for (std::size_t i = 0; i < cells.size(); ++i)
      text += std::string(cells[i].size() + 1, '-') + (is_right(columns[i]) ? ":|" : "-|");
    text += "\n";
  }
  return text;
}

std::string us_text(double us) { return us > 0 ? fmt::format("{:.2f}", us) : "-"; }

TimeUnit time_unit(double us) {
  if (us < 1) return {"ns", 1e-3};
  return us < 1000 ? TimeUnit{"us", 1} : TimeUnit{"ms", 1000};
}

std::string time_text(double us) {
  if (us <= 0) return "-";
  const TimeUnit unit = time_unit(us);
  return fmt::format("{:.4g} {}", us / unit.microseconds, unit.name);
}

std::string human_bytes(std::int64_t bytes) {
  static constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  auto shown = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; shown >= 1000 && unit + 1 < kUnits.size(); ++unit) shown /= 1000;
  return fmt::format("{:.{}f} {}", shown, unit == 0 ? 0 : 2, kUnits[unit]);
}

std::string percent(double share, int digits) { return fmt::format("{:.{}f} %", 100 * share, digits); }

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
    const double part = most > least ? (value - least) / (most - least) : 0;
    text += std::isfinite(value) ? kBars[static_cast<std::size_t>(std::min(7.0, std::floor(part * 8)))] : " ";
  }
  return text;
}

}  // namespace sparsmith::tools
