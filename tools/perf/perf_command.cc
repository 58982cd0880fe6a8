// `sparsmith perf`: what each commit reaches, what became slower, and why.
#include <memory>

#include "tools/command.h"
#include "tools/perf/perf_options.h"

namespace sparsmith::tools {
namespace {

void add_record_options(CLI::App& command, PerfOptions& options) {
  command.add_option("suite", options.suite, "A suite to measure: a JSON file of weights, N and types");
  command
      .add_option("--bench", options.bench, "Output of `sparsmith bench --json`, a round; - is stdin; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--google-benchmark", options.google_benchmark,
                  "Output of Google Benchmark as JSON, a round for each repetition; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--commit", options.run.commit, "The commit that is measured: its full hash")->required();
  command.add_option("--parents", options.run.parents, "Its parents, separated by blanks");
  command.add_option("--committed-at", options.run.committed_at,
                     "When it was made, as `git show -s --format=%cI` prints; orders commits");
  command.add_option("--branch", options.run.branch, "The branch it is on");
  command.add_option("--session", options.run.session,
                     "A name for what is measured in turns: commits that share one are compared by it alone");
  command.add_flag("--again", options.run.again, "These rounds confirm or refute what a comparison suspects");
  command.add_option("--clocks", options.clocks, "What the clocks were set to; default: the device's highest");
  command.add_option("--rounds", options.rounds, "Of the suite; default: as it says, or 15")
      ->check(CLI::Range(1, 1000));
  command.add_option("--only", options.only, "Only the case of this name; may be repeated")->allow_extra_args(false);
  command.add_option("--cases", options.cases, "Only the cases that a file names, one a line");
  command.add_option("--against", options.against,
                     "A recorded commit: after the first round, leave what runs the very same code as there");
  CLI::Option* const cache =
      command.add_option("--cache", options.cache, "The cache for tuning; default: none from before this run");
  command
      .add_flag("--keep-choices", options.keep_choices,
                "Measure what that cache's choices are now, though their code has changed since: no search")
      ->needs(cache);
}

void add_compare_options(CLI::App& command, PerfOptions& options) {
  command.add_option("base", options.base, "A commit (its hash, its first digits, or a branch), or COMMIT@SESSION")
      ->required();
  command.add_option("head", options.head, "Likewise")->required();
  command.add_option("--case", options.case_name, "Only the case of this name");
  command.add_flag("--all", options.all, "Also list cases that are the same");
  command.add_flag("--markdown", options.markdown, "Print Markdown, for a pull request");
  command.add_option("--junit", options.junit, "Also write JUnit XML to this file");
  add_page_options(command, options.html, options.force);
  command.add_option("--suspects", options.suspects,
                     "Write the names of cases that are to be measured again to this file");
  command.add_option("--unsure", options.unsure,
                     "Write the names of cases that need more rounds, for their noise, to this file");
  command
      .add_option("--fail-on", options.fail_on,
                  "Exit with 5 on: slow, any slower case; kernel, those whose choice is the same")
      ->check(CLI::IsMember({"slow", "kernel"}));
  command.add_flag("--once", options.once, "Believe one set of rounds; false alarms become more frequent");
  add_shown(command, "--smallest", options.smallest_change, "The smallest change that counts, in percent")
      ->check(CLI::Range(0.1, 100.0));
}

}  // namespace

void add_perf_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<PerfOptions>();
  CLI::App* const command = app.add_subcommand("perf", "Record what each commit reaches, and say what became slower");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* description, Result<ExitCode> (*run)(const PerfOptions&)) {
    CLI::App* const sub = command->add_subcommand(name, description);
    add_shown(*sub, "--db", options->database, "The performance history: a file, or postgresql://USER@HOST/DATABASE");
    sub->add_flag("--json", options->json, "Print as JSON");
    set_action(*sub, action, options, run);
    return sub;
  };
  add_record_options(*add("record", "Measure a suite, or take what other programs measured, and store it", perf_record),
                     *options);
  add_compare_options(*add("compare", "Say what is slower or faster in HEAD than in BASE, and why", perf_compare),
                      *options);
  CLI::App* const history = add("history", "Show cases over commits, and where they changed for good", perf_history);
  history->add_option("--branch", options->branch, "Only commits of this branch");
  history->add_option("--case", options->case_name, "Only the case of this name");
  add_page_options(*history, options->html, options->force);
  CLI::App* const mark = add("mark", "Accept a change, with the reason", perf_mark);
  mark->add_option("commit", options->mark.commit, "The commit that made the change")->required();
  mark->add_option("--reason", options->mark.reason, "Why it is accepted")->required();
  mark->add_option("--case", options->mark.case_name, "Only the case of this name; default: every case");
  mark->add_option("--author", options->mark.author, "Who accepts it");
}

}  // namespace sparsmith::tools
