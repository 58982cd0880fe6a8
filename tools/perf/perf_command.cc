// `sparsmith perf`: what each commit reaches, what became slower, and why.
#include <memory>

#include "tools/command.h"
#include "tools/perf/perf_options.h"

namespace sparsmith::tools {
namespace {

void add_record_options(CLI::App& command, PerfOptions& options) {
  command.add_option("suite", options.suite, "Suite to measure: a JSON file of weights, N and types");
  command
      .add_option("--bench", options.bench,
                  "Output of `sparsmith bench --json`, one round per file; - is stdin (repeatable)")
      ->allow_extra_args(false);
  command
      .add_option("--google-benchmark", options.google_benchmark,
                  "JSON of Google Benchmark, one round per repetition (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--commit", options.run.commit, "Full hash of the measured commit")->required();
  command.add_option("--parents", options.run.parents, "Hashes of its parents, separated by blanks");
  command.add_option("--committed-at", options.run.committed_at,
                     "Date of the commit, as `git show -s --format=%cI` prints it; orders the history");
  command.add_option("--branch", options.run.branch, "Branch of the commit");
  command.add_option("--session", options.run.session,
                     "Name of a series in which commits are measured in turns; commits that share a session are "
                     "compared by its rounds only");
  command.add_flag("--again", options.run.again, "Store the rounds as confirmation of suspected cases");
  command.add_option("--clocks", options.clocks, "Clock setting of the GPU; default: the highest clock of the device");
  command.add_option("--rounds", options.rounds, "Rounds of the suite; default: the suite's own number, or 15")
      ->check(CLI::Range(1, 1000));
  command.add_option("--only", options.only, "Only the case of this name (repeatable)")->allow_extra_args(false);
  command.add_option("--cases", options.cases, "Only the cases listed in this file, one per line");
  command.add_option("--against", options.against,
                     "After the first round, skip cases that run the same code as this recorded commit");
  CLI::Option* const cache =
      command.add_option("--cache", options.cache, "Cache for tuning; default: a new one for this run");
  command
      .add_flag("--keep-choices", options.keep_choices,
                "Measure the choices of that cache without a search, even if their code has changed")
      ->needs(cache);
}

void add_compare_options(CLI::App& command, PerfOptions& options) {
  command.add_option("base", options.base, "Base commit: a hash, its first digits, or a branch; or COMMIT@SESSION")
      ->required();
  command.add_option("head", options.head, "Head commit, in the same forms")->required();
  command.add_option("--case", options.case_name, "Only the case of this name");
  command.add_flag("--all", options.all, "Also list unchanged cases");
  command.add_flag("--markdown", options.markdown, "Print Markdown, for a pull request");
  command.add_option("--junit", options.junit, "Also write JUnit XML to this file");
  add_page_options(command, options.html, options.force);
  command.add_option("--suspects", options.suspects, "Write the names of cases to measure again to this file");
  command.add_option("--unsure", options.unsure, "Write the names of cases that need more rounds to this file");
  command
      .add_option("--fail-on", options.fail_on,
                  "Exit with 5 on: slow, any slower case; kernel, only cases with an unchanged choice")
      ->check(CLI::IsMember({"slow", "kernel"}));
  command.add_flag("--once", options.once, "Do not ask for a confirmation; more false alarms");
  add_shown(command, "--smallest", options.smallest_change, "Smallest change that counts, in percent")
      ->check(CLI::Range(0.1, 100.0));
}

}  // namespace

void add_perf_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<PerfOptions>();
  CLI::App* const command = app.add_subcommand("perf", "Record performance over commits, and find regressions");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* description, Result<ExitCode> (*run)(const PerfOptions&)) {
    CLI::App* const sub = command->add_subcommand(name, description);
    add_shown(*sub, "--db", options->database, "Performance history: a file, or postgresql://USER@HOST/DATABASE");
    sub->add_flag("--json", options->json, "Print JSON");
    set_action(*sub, action, options, run);
    return sub;
  };
  add_record_options(*add("record", "Measure a suite, or read results of other programs, and store them", perf_record),
                     *options);
  add_compare_options(*add("compare", "Compare two commits: slower and faster cases, with causes", perf_compare),
                      *options);
  CLI::App* const history = add("history", "Show cases over commits, with their change points", perf_history);
  history->add_option("--branch", options->branch, "Only commits of this branch");
  history->add_option("--case", options->case_name, "Only the case of this name");
  add_page_options(*history, options->html, options->force);
  CLI::App* const mark = add("mark", "Accept a change, with a reason", perf_mark);
  mark->add_option("commit", options->mark.commit, "Commit with the change")->required();
  mark->add_option("--reason", options->mark.reason, "Reason")->required();
  mark->add_option("--case", options->mark.case_name, "Only the case of this name; default: every case");
  mark->add_option("--author", options->mark.author, "Name of the person who accepts the change");
}

}  // namespace sparsmith::tools
