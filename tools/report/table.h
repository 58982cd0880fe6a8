// A table of texts, for a terminal, Markdown, or a page.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sparsmith::tools {

struct Table {
  std::string title{};                           // on pages
  std::vector<std::string> columns;              // titles; one with '>' (">us") is aligned to the right, for numbers
  std::vector<std::vector<std::string>> rows{};  // as many cells as columns
  // On pages: rows that the row of the same index sums up, shown when it is opened. Empty: none of any row.
  std::vector<std::vector<std::vector<std::string>>> folded{};
  // On pages: bars above the text of a cell, by row and column, each a share of the cell's width.
  std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> bars{};

  template <class... Cells>
  void add(const Cells&... cells) {
    rows.push_back({fmt::format("{}", cells)...});
  }

  // Aligned text, with bold titles, and green or red speed-ups and verdicts where there are colours. Control characters
  // in a cell are spelled out, so a row is always one line.
  std::string plain() const;
  std::string markdown() const;
};

// Colour, where stdout is a terminal that has it: not with NO_COLOR, and always with CLICOLOR_FORCE. print_text() lets
// these sequences through and spells out any other.
enum class Style : std::uint8_t { kPlain, kBold, kDim, kGood, kBad };
inline constexpr std::array<std::string_view, 5> kStyles = {"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m"};
bool has_colours();
std::string styled(std::string_view text, Style style);

inline bool is_right(const std::string& column) { return column.starts_with('>'); }
inline std::string title_of(const std::string& column) { return column.substr(is_right(column) ? 1 : 0); }

// A time as "2.50"; "-" when it is not known.
std::string us_text(double us);

// A unit of time that suits a size.
struct TimeUnit {
  const char* name;     // "ns", "us", "ms"
  double microseconds;  // of one
};
TimeUnit time_unit(double us);
// "45 ns", "3.912 us", "1.2 ms": in the unit that suits it, four digits; "-" when it is not known.
std::string time_text(double us);
// "1.50 MB", "812 B": units are powers of 1000.
std::string human_bytes(std::int64_t bytes);
// "95.0 %" of a share.
std::string percent(double share, int digits = 1);

// One character for each value, from the lowest bar to the highest: "▁▃█". More than `width` values are averaged in
// groups. Values that are not finite become blanks.
std::string sparkline(const std::vector<double>& values, std::size_t width);

}  // namespace sparsmith::tools
