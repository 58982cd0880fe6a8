#include "tools/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/printable.h"

namespace sparsmith::tools {

void TextTable::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(column.title.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

std::string TextTable::line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                            const std::string& separator) const {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) text += separator;
    text += columns_[i].right ? fmt::format("{:>{}}", cells[i], widths[i]) : fmt::format("{:<{}}", cells[i], widths[i]);
  }
  return text;
}

std::string TextTable::plain() const {
  const std::vector<std::size_t> width = widths();
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string one = line(cells, width, "  ");
    one.erase(one.find_last_not_of(' ') + 1);
    text += one + "\n";
  };
  add_line(titles);
  for (const auto& row : rows_) add_line(row);
  return text;
}

std::string TextTable::markdown() const {
  const std::vector<std::size_t> width = widths();
  std::vector<std::string> titles;
  std::string rule = "|";
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    rule += std::string(width[i] + 1, '-') + (columns_[i].right ? ":|" : "-|");
  }
  std::string text = "| " + line(titles, width, " | ") + " |\n" + rule + "\n";
  for (const auto& row : rows_) text += "| " + line(row, width, " | ") + " |\n";
  return text;
}

}  // namespace sparsmith::tools
