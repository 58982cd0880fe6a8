#include "tools/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
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
  if (!axis.ticks.empty()) object["ticks"] = numbers(axis.ticks);
  if (axis.low) object["low"] = *axis.low;
  if (axis.high) object["high"] = *axis.high;
  return object;
}

json json_of(const Series& series) {
  static constexpr std::array kNames = {"line", "steps", "points", "bars", "band", "cells", "heat"};
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
  return object;
}

std::string paragraph(const std::string& text) {
  return text.empty() ? std::string() : fmt::format("<p>{}</p>\n", escaped(text));
}

std::string html_of(const Table& table) {
  std::string html = "<div class=\"table\">\n<table>\n";
  if (!table.title.empty()) html += fmt::format("<caption>{}</caption>\n", escaped(table.title));
  const auto cell = [&](const char* element, std::size_t column, const std::string& text) {
    const bool right = column < table.columns.size() && is_right(table.columns[column]);
    html += fmt::format("<{0}{1}>{2}</{0}>", element, right ? " class=\"number\"" : "", escaped(text));
  };
  html += "<thead><tr>";
  for (std::size_t i = 0; i < table.columns.size(); ++i) cell("th", i, title_of(table.columns[i]));
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) cell("td", i, row[i]);
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table>\n</div>\n";
}

// Adds the figures to `figures`, by whose positions the page's script finds them.
std::string html_of(const Block& block, json& figures) {
  const bool small = block.figures.size() > 1;
  std::string html = paragraph(block.text);
  if (!block.figures.empty()) html += fmt::format("<div class=\"{}\">\n", small ? "grid" : "pair");
  for (const Figure& figure : block.figures) {
    html += fmt::format("<figure data-figure=\"{}\">\n<h3>{}</h3>\n<div class=\"plot\"></div>\n", figures.size(),
                        escaped(figure.title));
    if (!figure.caption.empty()) html += fmt::format("<figcaption>{}</figcaption>\n", escaped(figure.caption));
    html += "</figure>\n";
    figures.push_back(json_of(figure, small));
  }
  if (small) html += "</div>\n";
  if (block.table) html += html_of(*block.table);
  if (!small && !block.figures.empty()) html += "</div>\n";
  return html;
}

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
  json figures = json::array();
  std::string body = fmt::format("<h1>{}</h1>\n{}", escaped(page.title), paragraph(page.text));
  for (const Section& section : page.sections) {
    body += fmt::format("<section>\n<h2>{}</h2>\n{}", escaped(section.title), paragraph(section.text));
    for (const Block& block : section.blocks) body += html_of(block, figures);
    body += "</section>\n";
  }
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"generator\" content=\"sparsmith\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n<script>\n{}</script>\n</head>\n<body>\n{}"
      "<script id=\"figures\" type=\"application/json\">{}</script>\n"
      "<script>\n{}</script>\n<script>\n{}{}{}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
      valid_utf8(escaped(page.title)), text_of(kPageStyle), text_of(kPageErrorsScript), valid_utf8(body),
      replaced(dumped(figures), {{'<', "\\u003c"}}), text_of(kChartLibrary), text_of(kScalesScript),
      text_of(kMarksScript), text_of(kChartScript), text_of(kPageScript));
}

}  // namespace sparsmith::tools
