// Columns of text: aligned for a terminal, or as Markdown.
#pragma once

#include <string>
#include <vector>

namespace sparsmith::tools {

class TextTable {
 public:
  struct Column {
    std::string title;
    bool right = false;  // aligned to the right: numbers
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Control characters in a cell are spelled out: a row stays one line. REQUIRES: as many cells as columns.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  std::string plain() const;
  std::string markdown() const;

 private:
  std::vector<std::size_t> widths() const;
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                   const std::string& separator) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace sparsmith::tools
