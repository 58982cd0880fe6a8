#include "tools/perf/perf_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/print.h"
#include "tools/report/page.h"

namespace sparsmith::tools {
namespace {

std::string interval(const Estimate& estimate) {
  return fmt::format("{:.3f} [{:.3f}, {:.3f}]", estimate.center, estimate.low, estimate.high);
}

Table table_of(const Comparison& c, bool all) {
  Table table{.columns = {"verdict", "case", "operator", "base us", "head us", ">change", ">p", "cause"}};
  for (const ComparisonRow& row : c.rows) {
    if (row.verdict == Verdict::kSame && !all) continue;
    const Finding& f = row.first;
    const auto figure = [&](const std::string& text) { return row.measured ? text : "-"; };
    table.add(verdict_text(row), row.key.name, row.key.operator_name, figure(interval(f.base)),
              figure(interval(f.head)), figure(fmt::format("{:+.2f} %", 100 * f.change)),
              figure(fmt::format("{:.2g}", f.p)), cause_name(row.cause));
  }
  return table;
}

nlohmann::json json_of(const Estimate& estimate) {
  return {{"us", estimate.center}, {"low_us", estimate.low}, {"high_us", estimate.high}};
}

nlohmann::json json_of(const CaseKey& key) {
  return {{"name", key.name},
          {"operator", key.operator_name},
          {"weight", key.weight},
          {"device_class", key.device_class},
          {"cache_policy", key.cache_policy}};
}

nlohmann::json json_of(const Finding& finding) {
  return {{"verdict", verdict_name(finding.verdict)},
          {"base", json_of(finding.base)},
          {"head", json_of(finding.head)},
          {"change", finding.change},
          {"change_low", finding.change_low},
          {"change_high", finding.change_high},
          {"p", finding.p},
          {"paired", finding.paired}};
}

nlohmann::json json_of(const Difference& difference) {
  return {{"what", difference.what}, {"base", difference.base}, {"head", difference.head}};
}

template <class Value>
nlohmann::json json_list(const std::vector<Value>& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const Value& value : values) list.push_back(json_of(value));
  return list;
}

nlohmann::json json_of(const ComparisonRow& row) {
  return {{"case", json_of(row.key)},
          {"verdict", verdict_name(row.verdict)},
          {"cause", cause_name(row.cause)},
          {"reason", row.reason},
          {"suspected", row.suspected},
          {"unsure", row.unsure},
          {"more_rounds", row.unsure ? row.first.more_rounds : 0},
          {"base_rounds", row.base_rounds},
          {"head_rounds", row.head_rounds},
          {"first", row.measured ? json_of(row.first) : nlohmann::json()},
          {"again", row.again ? json_of(*row.again) : nlohmann::json()},
          {"snippets", row.snippets},
          {"command", row.command},
          {"accepted", row.accepted ? nlohmann::json(row.accepted->reason) : nlohmann::json()},
          {"differences", json_list(row.differences)}};
}

// Text of an XML attribute or element. Control characters, which XML cannot hold, become blanks.
std::string xml(const std::string& text) {
  std::string result = escaped(text);
  for (char& c : result) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return result;
}

// In a table or an item of Markdown.
std::string markdown(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (std::string_view("\\`*_{}[]<>#|~").find(c) != std::string_view::npos) result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

}  // namespace

std::string verdict_text(const ComparisonRow& row) {
  return fmt::format("{}{}", verdict_name(row.verdict), row.accepted ? " (accepted)" : "");
}

std::string comparison_headline(const Comparison& c) {
  const auto suspected = std::ranges::count_if(c.rows, &ComparisonRow::suspected);
  const auto unsure = std::ranges::count_if(c.rows, &ComparisonRow::unsure);
  std::string open;
  if (suspected > 0) open = fmt::format("{} to be measured again", suspected);
  if (unsure > 0) open += fmt::format("{}{} in need of more rounds", open.empty() ? "" : ", ", unsure);
  return fmt::format("{} SLOW, {} FAST, {} AMBIGUOUS{}, {} SAME", c.count(Verdict::kSlow), c.count(Verdict::kFast),
                     c.count(Verdict::kAmbiguous), open.empty() ? "" : fmt::format(" ({})", open),
                     c.count(Verdict::kSame));
}

std::vector<std::string> comparison_footnotes(const Comparison& c) {
  std::vector<std::string> lines;
  const auto measured = std::ranges::count_if(c.rows, &ComparisonRow::measured);
  if (measured > 0)
    lines.push_back(fmt::format("geometric mean of head over base: {:.4f} in {} cases", c.geometric_mean, measured));
  if (c.unchanged_measured > 0)
    lines.push_back(fmt::format("{} of {} cases that run the same code looked changed: that is the noise here",
                                c.unchanged_alarms, c.unchanged_measured));
  for (const CaseKey& key : c.only_base)
    lines.push_back(fmt::format("only in base: {} ({})", key.name, key.operator_name));
  for (const CaseKey& key : c.only_head)
    lines.push_back(fmt::format("only in head: {} ({})", key.name, key.operator_name));
  return lines;
}

std::vector<std::string> comparison_details(const ComparisonRow& row) {
  std::vector<std::string> lines = {row.reason};
  if (row.unsure) lines.push_back(fmt::format("{} more rounds a side would tell", row.first.more_rounds));
  if (row.cause == Cause::kOtherChoice && row.verdict != Verdict::kSame)
    lines.emplace_back("the tuner chooses otherwise: no kernel need have changed");
  for (const Difference& difference : row.differences)
    lines.push_back(fmt::format("{}: {} -> {}", difference.what, difference.base.empty() ? "-" : difference.base,
                                difference.head.empty() ? "-" : difference.head));
  if (row.cause == Cause::kKernel && !row.snippets.empty())
    lines.push_back(fmt::format("changed: {}", fmt::join(row.snippets, ", ")));
  if (row.accepted)
    lines.push_back(fmt::format("accepted{}: {}",
                                row.accepted->author.empty() ? "" : fmt::format(" by {}", row.accepted->author),
                                row.accepted->reason));
  if (!row.command.empty()) lines.push_back(fmt::format("measure it: {}", row.command));
  return lines;
}

std::string comparison_text(const Comparison& c, bool all) {
  std::string text = fmt::format("{}\n", comparison_headline(c));
  const Table table = table_of(c, all);
  if (!table.rows.empty()) text += fmt::format("\n{}", table.plain());
  for (const ComparisonRow& row : c.rows) {
    if (row.verdict == Verdict::kSame) continue;
    text += fmt::format("\n{} {}\n", verdict_name(row.verdict), row.key.name);
    for (const std::string& line : comparison_details(row)) text += fmt::format("  {}\n", line);
  }
  const std::vector<std::string> notes = comparison_footnotes(c);
  if (!notes.empty()) text += "\n";
  for (const std::string& line : notes) text += line + "\n";
  return text;
}

std::string comparison_markdown(const Comparison& c, bool all) {
  std::string text = fmt::format("### Performance: {}\n\n`{}` against `{}`\n", comparison_headline(c), c.head, c.base);
  const Table table = table_of(c, all);
  if (!table.rows.empty()) text += fmt::format("\n{}", table.markdown());
  for (const ComparisonRow& row : c.rows) {
    if (row.verdict == Verdict::kSame) continue;
    text += fmt::format("\n<details><summary>{} {}: {}</summary>\n\n", verdict_name(row.verdict), xml(row.key.name),
                        xml(row.reason));
    for (const std::string& line : comparison_details(row)) text += fmt::format("- {}\n", markdown(line));
    text += "\n</details>\n";
  }
  text += "\n";
  for (const std::string& line : comparison_footnotes(c)) text += fmt::format("- {}\n", markdown(line));
  return text;
}

nlohmann::json comparison_json(const Comparison& c) {
  nlohmann::json rows = nlohmann::json::array();
  for (const ComparisonRow& row : c.rows) rows.push_back(json_of(row));
  return {{"base", c.base},
          {"head", c.head},
          {"counts",
           {{"SLOW", c.count(Verdict::kSlow)},
            {"FAST", c.count(Verdict::kFast)},
            {"AMBIGUOUS", c.count(Verdict::kAmbiguous)},
            {"SAME", c.count(Verdict::kSame)}}},
          {"geometric_mean", c.geometric_mean},
          {"unchanged_measured", c.unchanged_measured},
          {"unchanged_alarms", c.unchanged_alarms},
          {"rows", rows},
          {"only_base", json_list(c.only_base)},
          {"only_head", json_list(c.only_head)}};
}

std::string comparison_junit(const Comparison& c) {
  int failures = 0;
  std::string cases;
  for (const ComparisonRow& row : c.rows) {
    cases += fmt::format("    <testcase classname=\"{}\" name=\"{} ({})\"", xml(row.key.device_class),
                         xml(row.key.name), xml(row.key.operator_name));
    const std::string text = xml(fmt::format("{}", fmt::join(comparison_details(row), "\n")));
    if (row.verdict == Verdict::kSlow && !row.accepted) {
      ++failures;
      cases += fmt::format(">\n      <failure type=\"SLOW\" message=\"{}\">{}</failure>\n    </testcase>\n",
                           xml(row.reason), text);
    } else if (row.verdict == Verdict::kAmbiguous) {
      cases += fmt::format(">\n      <skipped message=\"{}\"/>\n    </testcase>\n", xml(row.reason));
    } else {
      cases += fmt::format(">\n      <system-out>{}</system-out>\n    </testcase>\n", text);
    }
  }
  const int skipped = c.count(Verdict::kAmbiguous);
  const std::string counts =
      fmt::format("tests=\"{}\" failures=\"{}\" skipped=\"{}\"", c.rows.size(), failures, skipped);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {}>\n  <testsuite name=\"sparsmith perf {} .. {}\" {} "
      "errors=\"0\">\n{}  </testsuite>\n</testsuites>\n",
      counts, xml(c.base), xml(c.head), counts, cases);
}

}  // namespace sparsmith::tools
