#include "tools/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

namespace sparsmith::tools {
namespace {

using nlohmann::json;

// Made by the build from the files they are named after.
constexpr unsigned char kPageStyle[] = {
#include "page.css.inc"
};
constexpr unsigned char kPageErrorsScript[] = {
#include "page_errors.js.inc"
};
constexpr unsigned char kChartLibrary[] = {
#include "d3.min.js.inc"
#include "d3_license.js.inc"
};
constexpr unsigned char kScalesScript[] = {
#include "scales.js.inc"
};
constexpr unsigned char kMarksScript[] = {
#include "marks.js.inc"
};
constexpr unsigned char kChartScript[] = {
#include "chart.js.inc"
};
constexpr unsigned char kPageScript[] = {
#include "page.js.inc"
};

template <std::size_t kSize>
std::string_view text_of(const unsigned char (&bytes)[kSize]) {
  return {reinterpret_cast<const char*>(bytes), kSize};
}

// Six digits are more than a plot shows.
json numbers(const std::vector<double>& values) {
  json array = json::array();
  for (const double value : values) {
    if (!std::isfinite(value)) {
      array.push_back(nullptr);
    } else if (value == std::round(value) && std::abs(value) < 1e15) {
      array.push_back(static_cast<std::int64_t>(value));
    } else {
      array.push_back(std::stod(fmt::format("{:.6g}", value)));
    }
  }
  return array;
}

// Shades as two hexadecimal digits each: grids are large.
std::string heat_text(const std::vector<double>& values) {
  std::string text;
  text.reserve(2 * values.size());
  for (const double value : values) {
    const double shade = std::isfinite(value) ? std::clamp(value, 0.0, 1.0) : 0;
    fmt::format_to(std::back_inserter(text), "{:02x}", static_cast<int>(std::lround(255 * shade)));
  }
  return text;
}

json json_of(const Axis& axis) {
  static constexpr std::array kNames = {"linear", "log", "sparsity", "categories"};
  json object = {{"label", axis.label}, {"scale", kNames[static_cast<std::size_t>(axis.scale)]}};
  if (!axis.categories.empty()) object["categories"] = axis.categories;
  if (axis.thinned) object["thinned"] = true;
  if (!axis.ticks.empty()) object["ticks"] = numbers(axis.ticks);
  if (axis.low) object["low"] = *axis.low;
  if (axis.high) object["high"] = *axis.high;
  return object;
}

json json_of(const Series& series) {
  static constexpr std::array kNames = {"line", "steps", "points", "bars", "band", "cells", "heat", "tiles"};
  json object = {{"kind", kNames[static_cast<std::size_t>(series.kind)]},
                 {"name", series.name},
                 {"colour", static_cast<int>(series.colour)},
                 {"dashed", series.dashed},
                 {"x", numbers(series.x)}};
  if (series.kind == Series::Kind::kHeat) {
    object["heat"] = heat_text(series.y);
  } else {
    object["y"] = numbers(series.y);
  }
  if (!series.low.empty()) object["low"] = numbers(series.low);
  if (!series.high.empty()) object["high"] = numbers(series.high);
  if (!series.shades.empty()) object["shades"] = numbers(series.shades);
  if (!series.labels.empty()) object["labels"] = series.labels;
  if (series.columns > 0) object["columns"] = series.columns;
  return object;
}

json json_of(const Figure& figure, bool small) {
  json object = {{"title", figure.title}, {"small", small}, {"x", json_of(figure.x)}, {"y", json_of(figure.y)}};
  object["series"] = json::array();
  for (const Series& series : figure.series) object["series"].push_back(json_of(series));
  object["rules"] = json::array();
  for (const Rule& rule : figure.rules) {
    json& added = object["rules"].emplace_back(json{{"text", rule.text}});
    if (rule.x) added["x"] = *rule.x;
    if (rule.y) added["y"] = *rule.y;
  }
  object["notes"] = json::array();
  for (const Note& note : figure.notes) object["notes"].push_back({{"x", note.x}, {"y", note.y}, {"text", note.text}});
  if (!figure.shades.empty()) object["shades"] = figure.shades;
  return object;
}

// Escaped, and broken only behind the punctuation of names: "layers.<wbr>12.<wbr>mlp", but not inside "0.95".
std::string breakable(const std::string& text) {
  const auto is_digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  std::string html;
  std::size_t from = 0;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (std::string_view("._/").find(text[i]) == std::string_view::npos) continue;
    if (i == 0 || text[i + 1] == ' ' || (is_digit(i - 1) && is_digit(i + 1))) continue;
    html += escaped(text.substr(from, i + 1 - from)) + "<wbr>";
    from = i + 1;
  }
  return html + escaped(text.substr(from));
}

std::string paragraph(const std::string& text) {
  return text.empty() ? std::string() : fmt::format("<p>{}</p>\n", breakable(text));
}

// The figures of a page by part and title, the first of each, and which of them a table of that part names.
struct Links {
  using Key = std::pair<std::ptrdiff_t, std::string>;
  std::map<Key, std::size_t> figures{};
  std::set<Key> named{};

  explicit Links(const Page& page) {
    std::size_t index = 0;
    const auto for_blocks = [&](const auto& visit) {
      std::ptrdiff_t part = 0;
      for (const Section& section : page.sections) {
        part += section.below ? 0 : 1;
        for (const Block& block : section.blocks) visit(block, part);
      }
    };
    for_blocks([&](const Block& block, std::ptrdiff_t part) {
      for (const Figure& figure : block.figures) figures.try_emplace({part, figure.title}, index++);
    });
    for_blocks([&](const Block& block, std::ptrdiff_t part) {
      if (!block.table) return;
      for (const auto& row : block.table->rows)
        if (!row.empty() && figures.contains({part, row[0]})) named.insert({part, row[0]});
    });
  }
};

class Writer {
 public:
  explicit Writer(const Page& page) : links_(page), parts_(std::ranges::count(page.sections, false, &Section::below)) {
    body_ = fmt::format("<header>\n<h1>{}</h1>\n{}</header>\n", breakable(page.title), paragraph(page.text));
    write_contents(page);
    for (std::size_t i = 0; i < page.sections.size(); ++i) write(page.sections[i], i);
  }

  const std::string& body() const { return body_; }
  const json& figures() const { return figures_; }

 private:
  // Sections below others are as high as these on a page of one part, which has the page's title.
  int level(const Section& section) const { return section.below && parts_ > 1 ? 3 : 2; }

  void write_contents(const Page& page) {
    constexpr std::ptrdiff_t kWorthIt = 3;
    const auto is_listed = [&](const Section& section) { return !section.title.empty() && level(section) == 2; };
    if (std::ranges::count_if(page.sections, is_listed) < kWorthIt) return;
    body_ += "<nav aria-label=\"Sections\">";
    for (std::size_t i = 0; i < page.sections.size(); ++i)
      if (is_listed(page.sections[i]))
        body_ += fmt::format("<a href=\"#section-{}\">{}</a> ", i, breakable(page.sections[i].title));
    body_ += "</nav>\n";
  }

  void write(const Section& section, std::size_t index) {
    part_ += section.below ? 0 : 1;
    body_ += fmt::format("<section id=\"section-{}\">\n", index);
    const int heading = level(section);
    if (!section.title.empty()) body_ += fmt::format("<h{0}>{1}</h{0}>\n", heading, breakable(section.title));
    if (section.card) write(*section.card);
    body_ += paragraph(section.text);
    for (const Block& block : section.blocks) write(block, heading + 1);
    body_ += "</section>\n";
  }

  void write(const Card& card) {
    body_ += "<div class=\"card\">\n";
    if (!card.tag.empty())
      body_ += fmt::format("<p class=\"tag{}\">{}</p>\n", card.warns ? " warns" : "", breakable(card.tag));
    if (!card.facts.empty()) body_ += "<dl>\n";
    for (const auto& [name, value, remark] : card.facts) {
      body_ += fmt::format("<div><dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value));
      if (!remark.empty()) body_ += fmt::format("<dd class=\"remark\">{}</dd>", escaped(remark));
      body_ += "</div>\n";
    }
    if (!card.facts.empty()) body_ += "</dl>\n";
    for (const std::string& line : card.lines) body_ += paragraph(line);
    body_ += "</div>\n";
  }

  void write(const Block& block, int heading) {
    const bool small = block.figures.size() > 1;
    body_ += paragraph(block.text);
    if (!block.figures.empty()) body_ += fmt::format("<div class=\"{}\">\n", small ? "grid" : "pair");
    for (const Figure& figure : block.figures) write(figure, small, heading);
    if (small) body_ += "</div>\n";
    if (block.table) write(*block.table);
    if (!small && !block.figures.empty()) body_ += "</div>\n";
  }

  // The page's script finds a figure by its position in figures().
  void write(const Figure& figure, bool small, int heading) {
    const std::size_t index = figures_.size();
    const std::string title = breakable(figure.title);
    const bool first = links_.figures.at({part_, figure.title}) == index;
    body_ += fmt::format("<figure id=\"figure-{0}\" data-figure=\"{0}\">\n<h{1}>", index, heading);
    body_ += first && links_.named.contains({part_, figure.title})
                 ? fmt::format("<a href=\"#row-{}\" title=\"to the table\">{}</a>", index, title)
                 : title;
    body_ += fmt::format("</h{}>\n<div class=\"plot\"></div>\n", heading);
    if (!figure.caption.empty()) body_ += fmt::format("<figcaption>{}</figcaption>\n", breakable(figure.caption));
    body_ += "</figure>\n";
    figures_.push_back(json_of(figure, small));
  }

  void write(const Table& table) {
    // The keyboard scrolls what has the focus.
    body_ += fmt::format("<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table>\n",
                         escaped(table.title.empty() ? "Table" : table.title));
    if (!table.title.empty()) body_ += fmt::format("<caption>{}</caption>\n", breakable(table.title));
    body_ += "<thead><tr>";
    for (const std::string& column : table.columns)
      body_ += fmt::format("<th scope=\"col\"{}>{}</th>", class_of(column), escaped(title_of(column)));
    body_ += "</tr></thead>\n<tbody>\n";
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      write_row(table, row);
      if (row >= table.folded.size() || table.folded[row].empty()) continue;
      body_ += "</tbody>\n<tbody class=\"folded\">\n";
      for (const auto& cells : table.folded[row]) {
        body_ += "<tr>";
        for (std::size_t i = 0; i < cells.size(); ++i) write_cell(table.columns[i], "", html_of(table, i, cells[i]));
        body_ += "</tr>\n";
      }
      body_ += "</tbody>\n<tbody>\n";
    }
    body_ += "</tbody>\n</table>\n</div>\n";
  }

  void write_row(const Table& table, std::size_t row) {
    const std::vector<std::string>& cells = table.rows[row];
    const bool linked = !cells.empty() && links_.named.contains({part_, cells[0]});
    const std::size_t figure = linked ? links_.figures.at({part_, cells[0]}) : 0;
    const bool target = linked && targets_.insert(figure).second;  // of the figure's link back
    body_ += target ? fmt::format("<tr id=\"row-{}\">", figure) : "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string text = html_of(table, i, cells[i]);
      const auto bars = table.bars.find({row, i});
      write_cell(table.columns[i], bars == table.bars.end() ? "" : html_of(bars->second),
                 linked && i == 0 ? fmt::format("<a href=\"#figure-{}\">{}</a>", figure, text) : text);
    }
    body_ += "</tr>\n";
  }

  void write_cell(const std::string& column, const std::string& bars, const std::string& html) {
    body_ += fmt::format("<td{}>{}{}</td>", class_of(column), bars, html);
  }

  // Names and remarks, which stand first and last, may be broken; browsers break other cells too, where they could.
  static std::string html_of(const Table& table, std::size_t column, const std::string& text) {
    return column == 0 || column + 1 == table.columns.size() ? breakable(text) : escaped(text);
  }

  static const char* class_of(const std::string& column) { return is_right(column) ? " class=\"number\"" : ""; }

  // The first bar is what the others are compared with. The text of the cell says the same.
  static std::string html_of(const std::vector<double>& bars) {
    std::string html = "<span class=\"bars\" aria-hidden=\"true\">";
    for (std::size_t i = 0; i < bars.size(); ++i)
      html += fmt::format("<span class=\"c{}\" style=\"width:{:.1f}%\"></span>", i == 0 ? 6 : 0, 100 * bars[i]);
    return html + "</span>";
  }

  Links links_;
  std::ptrdiff_t parts_;
  std::ptrdiff_t part_ = 0;  // the one that is written
  std::set<std::size_t> targets_{};
  std::string body_{};
  json figures_ = json::array();
};

// `text` with each of the characters in `from` replaced.
std::string replaced(const std::string& text, const std::map<char, std::string>& from) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const auto found = from.find(c);
    if (found == from.end())
      result += c;
    else
      result += found->second;
  }
  return result;
}

// JSON as it is printed: bytes that are no UTF-8, as names of files may hold, become U+FFFD.
std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string valid_utf8(const std::string& text) { return json::parse(dumped(text)).get<std::string>(); }

}  // namespace

std::string escaped(const std::string& text) {
  return replaced(text, {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}});
}

std::string html_of(const Page& page) {
  const Writer writer(page);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"generator\" content=\"sparsmith\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n<script>\n{}</script>\n</head>\n<body>\n{}"
      "<script id=\"figures\" type=\"application/json\">{}</script>\n"
      "<script>\n{}</script>\n<script>\n{}{}{}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
      valid_utf8(escaped(page.title)), text_of(kPageStyle), text_of(kPageErrorsScript), valid_utf8(writer.body()),
      replaced(dumped(writer.figures()), {{'<', "\\u003c"}}), text_of(kChartLibrary), text_of(kScalesScript),
      text_of(kMarksScript), text_of(kChartScript), text_of(kPageScript));
}

}  // namespace sparsmith::tools
