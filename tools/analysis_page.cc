#include "tools/analysis_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tools/analysis_table.h"

namespace sparsmith::tools {
namespace {

constexpr const char* kStyle =
    "body{font:14px system-ui,sans-serif;margin:2em;color:#222}table{border-collapse:collapse}"
    "th,td{padding:.25em .7em;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}svg rect{fill:#3973ac}";

// Names come from files: nothing in them may become markup.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

// A bar a bin of the row-length histogram; the bin and its count appear when the pointer rests on it.
std::string histogram_svg(const std::vector<std::int64_t>& histogram) {
  constexpr int kBarWidth = 10;
  constexpr int kHeight = 32;
  const std::int64_t most =
      histogram.empty() ? 1 : std::max<std::int64_t>(1, *std::max_element(histogram.begin(), histogram.end()));
  std::string svg =
      fmt::format("<svg width=\"{}\" height=\"{}\">", static_cast<int>(histogram.size()) * kBarWidth, kHeight);
  for (std::size_t bin = 0; bin < histogram.size(); ++bin) {
    const std::int64_t height = (histogram[bin] * kHeight + most - 1) / most;
    fmt::format_to(std::back_inserter(svg),
                   "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{} nonzeros: {} rows</title></rect>",
                   static_cast<int>(bin) * kBarWidth, kHeight - height, kBarWidth - 1, height, histogram_bin_label(bin),
                   histogram[bin]);
  }
  return svg + "</svg>";
}

std::string row_of(const std::string& name, const SparsityStatistics& s) {
  const SparsityStatistics::FormatBytes best = smallest_format(s);
  return fmt::format(
      "<tr><td>{}</td><td>{} × {}</td><td>{}</td><td>{:.2f} %</td><td>{}</td><td>{:.3f}</td><td>{:.2f}</td><td>{:.1f} "
      "%</td>"
      "<td>{:.3f}</td><td>{:.3f} / {:.3f} / {:.3f} / {:.3f}</td><td>{:.1f} %</td><td>{} {}</td></tr>\n",
      escaped(name), s.rows, s.cols, short_name(s.data_type), 100 * s.sparsity, histogram_svg(s.row_length_histogram),
      s.row_cov, s.row_max_over_mean, 100 * s.empty_row_fraction, s.column_cov, s.block_fill[0], s.block_fill[1],
      s.block_fill[2], s.block_fill[3], 100 * s.two_four_legal, best.format, readable_bytes(best.bytes));
}

}  // namespace

std::string analysis_page(const ModelFile& file, const ModelAnalysis& analysis) {
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Sparsity of "
      "{0}</title><style>{1}</style></head>"
      "<body>\n<h1>Sparsity of {0}</h1>\n<table>\n<tr><th>weight</th><th>shape</th><th>dtype</th><th>sparsity</th>"
      "<th>row lengths</th><th>row CoV</th><th>max/mean</th><th>empty rows</th><th>column CoV</th><th>fill of 4 / 8 / "
      "16 / 32 blocks</th>"
      "<th>2:4 legal</th><th>smallest format</th></tr>\n",
      escaped(file.path()), kStyle);
  for (const AnalyzedWeight& weight : analysis.weights)
    page += row_of(file.tensors()[weight.index].name, weight.statistics);
  page += "</table>\n";
  if (!analysis.skipped.empty())
    page += "<h2>Skipped</h2>\n<table>\n<tr><th>tensor</th><th>type</th><th>reason</th></tr>\n";
  for (const SkippedTensor& tensor : analysis.skipped) {
    page += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", escaped(tensor.name),
                        escaped(tensor.description), escaped(tensor.reason));
  }
  if (!analysis.skipped.empty()) page += "</table>\n";
  return page + "</body></html>\n";
}

}  // namespace sparsmith::tools
