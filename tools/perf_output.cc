#include "tools/perf_output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/report/page.h"
#include "tools/text_table.h"

namespace sparsmith::tools {
namespace {

std::string interval(const Estimate& estimate) {
  return fmt::format("{:.3f} [{:.3f}, {:.3f}]", estimate.center, estimate.low, estimate.high);
}

TextTable table_of(const Comparison& c, bool all) {
  TextTable table(
      {{"verdict"}, {"case"}, {"operator"}, {"base us"}, {"head us"}, {"change", true}, {"p", true}, {"cause"}});
  for (const ComparisonRow& row : c.rows) {
    if (row.verdict == Verdict::kSame && !all) continue;
    const Finding& f = row.finding;
    table.add({std::string(verdict_name(row.verdict)) + (row.accepted ? " (accepted)" : ""), row.key.name,
               row.key.operator_name, row.measured ? interval(f.base) : "-", row.measured ? interval(f.head) : "-",
               row.measured ? fmt::format("{:+.2f} %", 100 * f.change) : "-",
               row.measured ? fmt::format("{:.2g}", f.p) : "-", cause_name(row.cause)});
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

nlohmann::json json_of(const ComparisonRow& row) {
  nlohmann::json object = {{"case", json_of(row.key)},
                           {"verdict", verdict_name(row.verdict)},
                           {"cause", cause_name(row.cause)},
                           {"reason", row.reason},
                           {"suspected", row.suspected},
                           {"unsure", row.unsure},
                           {"more_rounds", row.unsure ? row.finding.more_rounds : 0},
                           {"base_rounds", row.base_rounds},
                           {"head_rounds", row.head_rounds},
                           {"first", row.measured ? json_of(row.finding) : nlohmann::json()},
                           {"again", row.again ? json_of(*row.again) : nlohmann::json()},
                           {"snippets", row.snippets},
                           {"command", row.command},
                           {"accepted", row.accepted ? nlohmann::json(row.accepted->reason) : nlohmann::json()}};
  object["differences"] = nlohmann::json::array();
  for (const Difference& difference : row.differences)
    object["differences"].push_back({{"what", difference.what}, {"base", difference.base}, {"head", difference.head}});
  return object;
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

std::string comparison_headline(const Comparison& c) {
  int suspected = 0;
  int unsure = 0;
  for (const ComparisonRow& row : c.rows) {
    suspected += row.suspected ? 1 : 0;
    unsure += row.unsure ? 1 : 0;
  }
  std::string open;
  if (suspected > 0) open = fmt::format("{} to be measured again", suspected);
  if (unsure > 0) open += fmt::format("{}{} in need of more rounds", open.empty() ? "" : ", ", unsure);
  return fmt::format("{} SLOW, {} FAST, {} AMBIGUOUS{}, {} SAME", c.count(Verdict::kSlow), c.count(Verdict::kFast),
                     c.count(Verdict::kAmbiguous), open.empty() ? "" : fmt::format(" ({})", open),
                     c.count(Verdict::kSame));
}

std::vector<std::string> comparison_footnotes(const Comparison& c) {
  std::vector<std::string> lines;
  int measured = 0;
  for (const ComparisonRow& row : c.rows) measured += row.measured ? 1 : 0;
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
  if (row.unsure) lines.push_back(fmt::format("{} more rounds a side would tell", row.finding.more_rounds));
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
  const TextTable table = table_of(c, all);
  if (!table.empty()) text += fmt::format("\n{}", table.plain());
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
  const TextTable table = table_of(c, all);
  if (!table.empty()) text += fmt::format("\n{}", table.markdown());
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

std::string comparison_json(const Comparison& c) {
  nlohmann::json object = {{"base", c.base},
                           {"head", c.head},
                           {"counts",
                            {{"SLOW", c.count(Verdict::kSlow)},
                             {"FAST", c.count(Verdict::kFast)},
                             {"AMBIGUOUS", c.count(Verdict::kAmbiguous)},
                             {"SAME", c.count(Verdict::kSame)}}},
                           {"geometric_mean", c.geometric_mean},
                           {"unchanged_measured", c.unchanged_measured},
                           {"unchanged_alarms", c.unchanged_alarms}};
  object["rows"] = nlohmann::json::array();
  for (const ComparisonRow& row : c.rows) object["rows"].push_back(json_of(row));
  object["only_base"] = nlohmann::json::array();
  for (const CaseKey& key : c.only_base) object["only_base"].push_back(json_of(key));
  object["only_head"] = nlohmann::json::array();
  for (const CaseKey& key : c.only_head) object["only_head"].push_back(json_of(key));
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
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
