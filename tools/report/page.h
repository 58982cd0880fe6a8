// A report page: figures as data, tables and text, in one HTML file that needs no network.
//
// A page is built as plain values and written once. In the browser chart.js draws the figures with D3. Tables and texts
// are HTML and need no script. All texts may come from files, so they are escaped here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/report/table.h"

namespace sparsmith::tools {

enum class Scale : std::uint8_t {
  kLinear,
  kLog,         // positive values
  kSparsity,    // shares of zeros below 1; logarithmic in the share of nonzeros
  kCategories,  // 0, 1, ... for the names in `categories`
};

struct Axis {
  std::string label{};  // with its unit
  Scale scale = Scale::kLinear;
  // A second line, behind '\n', is shown below the first.
  std::vector<std::string> categories{};
  bool thinned = false;         // names that do not fit are left out; otherwise they are turned
  std::vector<double> ticks{};  // empty: the scale's ticks
  std::optional<double> low{};  // the axis covers at least [low, high] and the data
  std::optional<double> high{};
};

// Colours that colour-blind readers can distinguish (M. Okabe, K. Ito, "Color Universal Design", 2008), in the order of
// page.css. Marks also differ in shape, and lines in their dashes where colours are not enough.
enum class Colour : std::uint8_t { kBlue, kVermillion, kGreen, kPurple, kOrange, kSkyBlue, kNeutral, kYellow };
inline constexpr int kColours = 8;

// The colour of the series at `index`, for colours without a meaning.
constexpr Colour colour_of(std::size_t index) { return static_cast<Colour>(index % kColours); }

// Marks of one kind and colour. Positions that are not finite are left out; vectors other than x and y may be empty.
struct Series {
  enum class Kind : std::uint8_t {
    kLine,
    kSteps,   // a line that keeps its height up to the next x
    kPoints,  // with a whisker from `low` to `high`, if given
    kBars,    // from the bottom of the plot, or from `low`, to y
    kBand,    // between `low` and `high`; no y
    kCells,   // squares on two category axes, with their labels inside
    kHeat,    // a grid of `columns` values y a row, each in [0, 1], over the whole plot; no x
    kTiles,   // rectangles on two category axes, each with its shade
  };
  Kind kind = Kind::kLine;
  std::string name{};  // in the legend; empty: not in it
  Colour colour = Colour::kBlue;
  bool dashed = false;
  std::vector<double> x{};
  std::vector<double> y{};
  std::vector<double> low{};
  std::vector<double> high{};
  std::vector<double> shades{};       // of kTiles: in [0, 1]
  std::vector<std::string> labels{};  // of marks: shown when the pointer is on the mark
  std::int64_t columns = 0;           // of kHeat

  template <class X>  // X: also an integer type
  void add(X at_x, double at_y) {
    x.push_back(static_cast<double>(at_x));
    y.push_back(at_y);
  }
  template <class X>
  void add(X at_x, double at_y, std::string label) {
    add(at_x, at_y);
    labels.push_back(std::move(label));
  }
  void add_interval(double from, double to) {  // for the last x
    low.push_back(from);
    high.push_back(to);
  }
};

// A line across the plot: at x from bottom to top, or at y from left to right; or between two points.
struct Rule {
  std::string text;
  std::optional<double> x{};
  std::optional<double> y{};
};

// A text at a point.
struct Note {
  double x = 0;
  double y = 0;
  std::string text;
};

struct Figure {
  std::string title;
  std::string caption{};  // the result, and how to read the figure
  Axis x;
  Axis y;
  std::vector<Series> series{};
  std::vector<Rule> rules{};
  std::vector<Note> notes{};
  std::vector<std::string> shades{};  // of kTiles: the texts of shade 0 and of shade 1

  // A series without positions is left out.
  void add(Series added) {
    if (!added.x.empty()) series.push_back(std::move(added));
  }
};

// One figure with the table beside it, or several small figures in a grid with the table below. A block may be only a
// table.
struct Block {
  std::string text{};
  std::vector<Figure> figures{};
  std::optional<Table> table{};
};

// The answer in figures, large.
struct Card {
  struct Fact {
    std::string name;      // "N = 8"
    std::string value;     // "81 us → 40 us"
    std::string remark{};  // "2.02x"
  };
  std::string tag{};   // "measured on NVIDIA H200"
  bool warns = false;  // of the tag
  std::vector<Fact> facts{};
  std::vector<std::string> lines{};  // sentences
};

struct Section {
  std::string title;   // may be empty, where the page's title says all
  bool below = false;  // a part of the section before
  std::string text{};
  std::optional<Card> card{};
  std::vector<Block> blocks{};

  // Leaves out figures without series, tables without rows, and blocks with neither.
  void add(Block block) {
    std::erase_if(block.figures, [](const Figure& figure) { return figure.series.empty(); });
    if (block.table && block.table->rows.empty()) block.table.reset();
    if (block.table || !block.figures.empty()) blocks.push_back(std::move(block));
  }
};

struct Page {
  std::string title;
  std::string text{};
  std::vector<Section> sections{};
};

// The whole page. Bytes that are not UTF-8 are replaced. A first cell of a table that is the title of a
// figure in the same part links to the figure, and the figure back to the cell.
std::string html_of(const Page& page);

// `text` with HTML markup characters escaped, for use inside an element or a quoted attribute.
std::string escaped(const std::string& text);

}  // namespace sparsmith::tools
