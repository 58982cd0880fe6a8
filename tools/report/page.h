// A report page: figures as data, tables and text, in one HTML file that asks nothing of a network.
//
// A page is built as plain values and written once. Its figures are drawn in the browser by chart.js with D3; tables
// and texts are HTML, and are read without a script too. All texts may come from files: they are escaped here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sparsmith::tools {

enum class Scale : std::uint8_t {
  kLinear,
  kLog,         // positive values
  kSparsity,    // shares of zeros below 1, spread out towards 1: logarithmic in the share of nonzeros
  kCategories,  // 0, 1, ... for the names in `categories`
};

struct Axis {
  std::string label{};  // with its unit
  Scale scale = Scale::kLinear;
  std::vector<std::string> categories{};
  std::vector<double> ticks{};  // empty: as the scale has them
  std::optional<double> low{};  // the axis covers at least [low, high] and the data
  std::optional<double> high{};
};

// Colours that the colour-blind can tell apart (M. Okabe, K. Ito, "Color Universal Design", 2008), in the order of
// page.css. Marks differ in shape as well, lines in their dashes where the colours do not say all.
enum class Colour : std::uint8_t { kBlue, kVermillion, kGreen, kPurple, kOrange, kSkyBlue, kNeutral, kYellow };
inline constexpr int kColours = 8;

// Marks of one kind and colour. Positions that are not finite are left out; vectors other than x and y may be empty.
struct Series {
  enum class Kind : std::uint8_t {
    kLine,
    kSteps,   // a line that keeps its height up to the next x
    kPoints,  // with a whisker from `low` to `high` where there are these
    kBars,    // from the bottom of the plot, or from `low`, to y
    kBand,    // between `low` and `high`; no y
    kCells,   // squares of two category axes, with their labels inside
    kHeat,    // a grid of `columns` values y a row, each in [0, 1], over the whole plot; no x
  };
  Kind kind = Kind::kLine;
  std::string name{};  // in the legend; empty: not there
  Colour colour = Colour::kBlue;
  bool dashed = false;
  std::vector<double> x{};
  std::vector<double> y{};
  std::vector<double> low{};
  std::vector<double> high{};
  std::vector<std::string> labels{};  // of marks: shown when the pointer rests on one
  std::int64_t columns = 0;           // of kHeat
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
  std::string caption{};  // what it says, and how to read it
  Axis x;
  Axis y;
  std::vector<Series> series{};
  std::vector<Rule> rules{};
  std::vector<Note> notes{};
};

struct HtmlTable {
  struct Column {
    std::string title;
    bool right = false;  // aligned to the right: numbers
  };
  std::string title{};
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows{};  // as many cells as columns
};

// A figure with its table beside it, or several small figures in a grid and the table below. A table alone is fine.
struct Block {
  std::string text{};
  std::vector<Figure> figures{};
  std::optional<HtmlTable> table{};
};

struct Section {
  std::string title;
  std::string text{};
  std::vector<Block> blocks{};
};

struct Page {
  std::string title;
  std::string text{};
  std::vector<Section> sections{};
};

// The whole page. Bytes that are no UTF-8 are replaced.
std::string html_of(const Page& page);

// `text` with nothing in it that HTML reads as markup, inside an element or a quoted attribute.
std::string escaped(const std::string& text);

}  // namespace sparsmith::tools
