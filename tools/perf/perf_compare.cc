// `sparsmith perf compare`.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/file.h"
#include "history/comparison.h"
#include "tools/command.h"
#include "tools/output_files.h"
#include "tools/perf/perf_options.h"
#include "tools/perf/perf_output.h"
#include "tools/perf/perf_pages.h"
#include "tools/print.h"

namespace sparsmith::tools {
namespace {

// COMMIT or COMMIT@SESSION.
struct Selection {
  std::string commit;
  std::string session;
};

Result<Selection> select(PerfStore& store, const std::string& text) {
  const std::size_t at = text.find('@');
  Selection selection;
  SPARSMITH_ASSIGN_OR_RETURN(selection.commit, store.resolve(text.substr(0, at)));
  if (at != std::string::npos) selection.session = text.substr(at + 1);
  return selection;
}

// Ok when the file does not exist, or every line of it names a case, as write_names() has it.
Status check_names(const std::string& path, const Comparison& comparison) {
  if (path.empty() || !std::filesystem::exists(path)) return {};
  SPARSMITH_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (std::ranges::none_of(comparison.rows, [&](const ComparisonRow& row) { return row.key.name == line; })) {
      return invalid_argument(fmt::format(
          "{}: the file exists and is no list of these cases; choose another name, or replace it with --force", path));
    }
  }
  return {};
}

// The names of the cases for which `wanted` holds, a line each.
Status write_names(const std::string& path, const Comparison& comparison, bool ComparisonRow::* wanted) {
  std::set<std::string> names;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.*wanted) names.insert(row.key.name);
  }
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return write_file_atomically(path, text);
}

bool fails(const ComparisonRow& row, const std::string& on) {
  if (on.empty() || row.verdict != Verdict::kSlow || row.accepted) return false;
  return on == "slow" || row.cause != Cause::kOtherChoice;
}

}  // namespace

Result<ExitCode> perf_compare(const PerfOptions& options) {
  SPARSMITH_RETURN_IF_ERROR(check_outputs({options.database},
                                          {{"--junit", options.junit, OutputKind::kJUnit},
                                           {"--html", options.html, OutputKind::kPage},
                                           {"--suspects", options.suspects, OutputKind::kNames},
                                           {"--unsure", options.unsure, OutputKind::kNames}},
                                          options.force));
  SPARSMITH_ASSIGN_OR_RETURN(PerfStore store, PerfStore::open(options.database, PerfStore::Mode::kReadOnly));
  SPARSMITH_ASSIGN_OR_RETURN(const Selection base, select(store, options.base));
  SPARSMITH_ASSIGN_OR_RETURN(const Selection head, select(store, options.head));
  ComparisonOptions how{.base_session = base.session, .head_session = head.session, .case_name = options.case_name};
  how.rules.smallest_change = options.smallest_change / 100;
  how.rules.confirm = !options.once;
  SPARSMITH_ASSIGN_OR_RETURN(const Comparison comparison, compare(store, base.commit, head.commit, how));
  for (const std::string& path : {options.suspects, options.unsure}) {
    if (!options.force) SPARSMITH_RETURN_IF_ERROR(check_names(path, comparison));
  }
  if (!options.junit.empty())
    SPARSMITH_RETURN_IF_ERROR(write_file_atomically(options.junit, comparison_junit(comparison)));
  if (!options.html.empty())
    SPARSMITH_RETURN_IF_ERROR(write_file_atomically(options.html, html_of(comparison_page(comparison))));
  if (!options.suspects.empty())
    SPARSMITH_RETURN_IF_ERROR(write_names(options.suspects, comparison, &ComparisonRow::suspected));
  if (!options.unsure.empty())
    SPARSMITH_RETURN_IF_ERROR(write_names(options.unsure, comparison, &ComparisonRow::unsure));
  if (options.json) {
    print_json(comparison_json(comparison));
  } else if (options.markdown) {
    print("{}", comparison_markdown(comparison, options.all));
  } else {
    print("{}", comparison_text(comparison, options.all));
  }
  const bool failed =
      std::ranges::any_of(comparison.rows, [&](const ComparisonRow& row) { return fails(row, options.fail_on); });
  return failed ? kRegressionFound : kDone;
}

}  // namespace sparsmith::tools
