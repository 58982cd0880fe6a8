// `sparsmith space`: recorded search spaces: what is in them, joining them, searching them again without a GPU.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "matrix/model_file.h"
#include "search/simulation.h"
#include "search/space_prediction.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/output_files.h"
#include "tools/print.h"
#include "tools/text_table.h"

namespace sparsmith::tools {
namespace {

using nlohmann::json;

struct Options {
  std::vector<std::string> files;
  std::string output;
  std::vector<std::string> models;
  std::vector<std::string> strategies = {"race", "random", "basin-hopping"};
  int candidates = SelectionLimits{}.candidates;
  int runs = 20;
  std::int64_t max_memory = 0;
  bool force = false;
  bool json = false;
};

Result<std::vector<RecordedSpace>> read_all(const Options& options) {
  const std::int64_t max_bytes = options.max_memory > 0 ? options.max_memory : default_max_memory();
  std::vector<RecordedSpace> all;
  for (const std::string& file : options.files) {
    SPARSMITH_ASSIGN_OR_RETURN(std::vector<RecordedSpace> spaces, read_spaces(file, max_bytes));
    std::ranges::move(spaces, std::back_inserter(all));
  }
  return join_spaces(std::move(all));
}

struct Contents {
  std::size_t ok = 0;
  std::set<std::string> kernels;
  std::map<std::string, double> best_us;  // of each family
  double seconds = 0;                     // that its candidates took
};

Contents contents_of(const RecordedSpace& space) {
  Contents contents;
  for (const RecordedCandidate& candidate : space.candidates) {
    contents.kernels.insert(candidate.kernels.begin(), candidate.kernels.end());
    const Contender::Costs& cost = candidate.seconds;
    contents.seconds += cost.pack + cost.compile + cost.verify + cost.time;
    if (!candidate.ok()) continue;
    ++contents.ok;
    const auto [best, is_new] = contents.best_us.emplace(candidate.config.family, candidate.median_us());
    if (!is_new) best->second = std::min(best->second, candidate.median_us());
  }
  return contents;
}

// 0: not measured.
double dense_us(const RecordedSpace& space) {
  if (space.vendors.empty() || space.vendors.front().samples_us.empty()) return 0;
  return median_of(space.vendors.front().samples_us);
}

int list(const Options& options) {
  const auto spaces = read_all(options);
  if (!spaces.ok()) return report(spaces.status());
  TextTable table({{"space"},
                   {"candidates", true},
                   {"ok", true},
                   {"of", true},
                   {"kernels", true},
                   {"best us", true},
                   {"dense us", true},
                   {"device"},
                   {"best of each family, us"}});
  json array = json::array();
  for (const RecordedSpace& space : *spaces) {
    const Contents contents = contents_of(space);
    std::string families;
    for (const auto& [name, us] : contents.best_us)
      families += fmt::format("{}{} {:.2f}", families.empty() ? "" : ", ", name, us);
    table.add({space.title(), std::to_string(space.candidates.size()), std::to_string(contents.ok),
               std::to_string(space.considered), std::to_string(contents.kernels.size()),
               fmt::format("{:.2f}", best_us(space)), fmt::format("{:.2f}", dense_us(space)), space.device_name,
               families});
    array.push_back({{"space", space.title()},
                     {"operator", space.operator_name},
                     {"candidates", space.candidates.size()},
                     {"ok", contents.ok},
                     {"considered", space.considered},
                     {"kernels", contents.kernels.size()},
                     {"best_us", best_us(space)},
                     {"dense_us", dense_us(space)},
                     {"device", space.device_name},
                     {"best_us_of_families", contents.best_us},
                     {"seconds", contents.seconds}});
  }
  if (options.json) {
    print_json(array);
  } else {
    print("{}", table.plain());
  }
  return kDone;
}

int join(const Options& options) {
  const auto spaces = read_all(options);
  if (!spaces.ok()) return report(spaces.status());
  if (std::filesystem::exists(options.output))
    return report(invalid_argument(options.output + " is there already; choose another name"));
  for (const RecordedSpace& space : *spaces) {
    const Status written = append_space(options.output, space);
    if (!written.ok()) return report(written);
  }
  print("{}: {} spaces\n", options.output, spaces->size());
  return kDone;
}

// By pattern: the statistics of every weight that a space was recorded of.
Result<std::map<std::string, SparsityStatistics>> statistics_of(const Options& options,
                                                                const std::set<std::string>& patterns) {
  std::map<std::string, SparsityStatistics> statistics;
  for (const std::string& path : options.models) {
    SPARSMITH_ASSIGN_OR_RETURN(const ModelFile model, ModelFile::open(path, {.max_memory = options.max_memory}));
    for (std::size_t i = 0; i < model.tensors().size(); ++i) {
      SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, model.read(i));
      const std::string pattern = matrix.pattern_hash();
      if (patterns.contains(pattern)) statistics[pattern] = compute_statistics(matrix);
    }
  }
  return statistics;
}

int predict(const Options& options) {
  auto spaces = read_all(options);
  if (!spaces.ok()) return report(spaces.status());
  if (std::filesystem::exists(options.output))
    return report(invalid_argument(options.output + " is there already; choose another name"));
  std::set<std::string> patterns;
  for (const RecordedSpace& space : *spaces) patterns.insert(space.pattern_hash);
  const auto statistics = statistics_of(options, patterns);
  if (!statistics.ok()) return report(statistics.status());
  for (RecordedSpace& space : *spaces) {
    const auto found = statistics->find(space.pattern_hash);
    if (found == statistics->end())
      return report(not_found(fmt::format("{}: no weight of the models has its pattern", space.title())));
    const Status predicted = predict_again(space, found->second);
    if (!predicted.ok()) return report(predicted);
  }
  for (const RecordedSpace& space : *spaces) {
    const Status written = append_space(options.output, space);
    if (!written.ok()) return report(written);
  }
  print("{}: {} spaces\n", options.output, spaces->size());
  return kDone;
}

// One file for each space, in a folder.
int export_t4(const Options& options) {
  const auto spaces = read_all(options);
  if (!spaces.ok()) return report(spaces.status());
  std::error_code error;
  std::filesystem::create_directories(options.output, error);
  std::vector<OutputFile> outputs;
  for (const RecordedSpace& space : *spaces) {
    outputs.push_back({"--output",
                       fmt::format("{}/space{:02}_{}x{}_n{}.t4.json", options.output, outputs.size(), space.rows,
                                   space.cols, space.tokens),
                       OutputKind::kT4});
  }
  const Status checked = check_outputs(options.files, outputs, options.force);
  if (!checked.ok()) return report(checked);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Status written = write_file_atomically(outputs[i].path, to_t4((*spaces)[i]));
    if (!written.ok()) return report(written);
    print("{}\n", outputs[i].path);
  }
  return kDone;
}

// One strategy over all its runs in one space.
struct Summary {
  std::string strategy;
  double tried = 0;     // mean
  double packings = 0;  // that these read, likewise
  double regret = 0;    // geometric mean of chosen over best
  double worst = 0;
  std::vector<double> curve;  // geometric mean of the best so far over the best, after each candidate
};

Summary summarize(const RecordedSpace& space, const std::string& name, std::size_t budget, const Options& options) {
  Summary summary;
  summary.strategy = name;
  const double best = best_us(space);
  for (int run = 0; run < options.runs; ++run) {
    SimulationOptions simulation;
    simulation.strategy = strategy_of_name(name);
    simulation.selection.candidates = options.candidates;
    simulation.budget = budget;
    simulation.seed = static_cast<std::uint64_t>(run) + 1;
    const SimulatedSearch search = simulate(space, simulation);
    // Where nothing passed, dense would stay; it counts as the worst that was recorded.
    const double chosen = search.chosen_us > 0 ? search.chosen_us : best * 10;
    summary.tried += static_cast<double>(search.tried) / options.runs;
    summary.packings += static_cast<double>(search.packings) / options.runs;
    summary.regret += std::log(chosen / best) / options.runs;
    summary.worst = std::max(summary.worst, chosen / best);
    if (summary.curve.size() < search.path.size()) summary.curve.resize(search.path.size());
    for (std::size_t i = 0; i < search.path.size(); ++i)
      summary.curve[i] += std::log(search.path[i] > 0 ? search.path[i] / best : 10) / options.runs;
  }
  summary.regret = std::exp(summary.regret);
  for (double& each : summary.curve) each = std::exp(each);
  return summary;
}

json json_of(const Summary& summary) {
  return {{"strategy", summary.strategy}, {"tried", summary.tried}, {"packings", summary.packings},
          {"regret", summary.regret},     {"worst", summary.worst}, {"best_found_over_best", summary.curve}};
}

int simulate_all(const Options& options) {
  const auto spaces = read_all(options);
  if (!spaces.ok()) return report(spaces.status());
  std::vector<TextTable::Column> columns = {{"space"}, {"ok", true}, {"best us", true}, {"predicted", true}};
  for (const std::string& name : options.strategies) {
    columns.push_back({name, true});
    columns.push_back({"tried", true});
  }
  TextTable table(columns);
  json array = json::array();
  struct Total {
    double regret = 0;
    double worst = 0;
    double tried = 0;
    double packings = 0;
    int first_beats = 0;  // spaces in which the first strategy does no worse
  };
  std::map<std::string, Total> totals;
  int counted = 0;
  for (const RecordedSpace& space : *spaces) {
    const double best = best_us(space);
    if (best == 0) continue;
    ++counted;
    const double predicted = predicted_choice_us(space) / best;
    totals["predicted"].regret += std::log(predicted);
    totals["predicted"].worst = std::max(totals["predicted"].worst, predicted);
    std::vector<std::string> row = {space.title(), std::to_string(contents_of(space).ok), fmt::format("{:.2f}", best),
                                    fmt::format("{:.3f}", predicted)};
    json entry = {{"space", space.title()},
                  {"candidates", space.candidates.size()},
                  {"best_us", best},
                  {"dense_us", dense_us(space)},
                  {"predicted", predicted}};
    // All have the budget that the first one took.
    std::size_t budget = static_cast<std::size_t>(options.candidates);
    double first = 0;
    for (const std::string& name : options.strategies) {
      const Summary summary = summarize(space, name, budget, options);
      if (first == 0) {
        first = summary.regret;
        budget = static_cast<std::size_t>(std::lround(summary.tried));
      }
      Total& total = totals[name];
      total.regret += std::log(summary.regret);
      total.worst = std::max(total.worst, summary.worst);
      total.tried += summary.tried;
      total.packings += summary.packings;
      total.first_beats += first <= summary.regret ? 1 : 0;
      row.push_back(fmt::format("{:.3f}", summary.regret));
      row.push_back(fmt::format("{:.0f}", summary.tried));
      entry["strategies"].push_back(json_of(summary));
    }
    table.add(row);
    array.push_back(std::move(entry));
  }
  if (counted == 0) return report(invalid_input("there is no space with a candidate that passed"));
  if (options.json) {
    print_json(json{{"simulated", std::move(array)}});
    return kDone;
  }
  print("{}\nchosen over best, {} spaces, {} runs each:\n", table.plain(), counted, options.runs);
  print("  predicted choice: geometric mean {:.3f}, worst {:.3f}\n", std::exp(totals["predicted"].regret / counted),
        totals["predicted"].worst);
  for (const std::string& name : options.strategies) {
    const Total& total = totals[name];
    print("  {}: geometric mean {:.3f}, worst run {:.3f}; {:.1f} candidates of {:.1f} packings", name,
          std::exp(total.regret / counted), total.worst, total.tried / counted, total.packings / counted);
    if (name != options.strategies.front())
      print("; {} is no worse in {} of {} spaces", options.strategies.front(), total.first_beats, counted);
    print("\n");
  }
  return kDone;
}

CLI::App* add_verb(CLI::App& parent, const std::shared_ptr<Options>& options, Action& action, const std::string& name,
                   const std::string& what, int (*run)(const Options&)) {
  CLI::App* const verb = parent.add_subcommand(name, what);
  verb->add_option("files", options->files, "Files that `tune --record` wrote")->required();
  add_max_memory_option(*verb, options->max_memory);
  verb->callback([options, &action, run] { action = [options, run] { return run(*options); }; });
  return verb;
}

}  // namespace

void add_space_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("space", "Recorded search spaces: list, join, simulate searches");
  command->require_subcommand(1);
  CLI::App* const listing = add_verb(*command, options, action, "list", "What is in them", list);
  listing->add_flag("--json", options->json, "Print as JSON");
  CLI::App* const joining =
      add_verb(*command, options, action, "join", "Make one file, spaces that several runs recorded joined", join);
  joining->add_option("-o,--output", options->output, "The file to write, .jsonl.gz")->required();
  CLI::App* const prediction =
      add_verb(*command, options, action, "predict",
               "Make one file with this version's predictions instead of those recorded", predict);
  prediction->add_option("--model", options->models, "Files with the weights that were searched; patterns are compared")
      ->required();
  prediction->add_option("-o,--output", options->output, "The file to write, .jsonl.gz")->required();
  CLI::App* const t4 = add_verb(*command, options, action, "export-t4",
                                "Write the results as T4 JSON (Kernel Tuner's schema), one file a space", export_t4);
  t4->add_option("-o,--output", options->output, "The folder to write to")->required();
  add_force_option(*t4, options->force);
  CLI::App* const simulation =
      add_verb(*command, options, action, "simulate", "Search them without a GPU, strategy by strategy", simulate_all);
  simulation
      ->add_option("--strategy", options->strategies,
                   "Of race, random, basin-hopping, exhaustive; all have the candidates that the first one takes")
      ->delimiter(',')
      ->check(CLI::IsMember({"race", "exhaustive", "random", "basin-hopping"}))
      ->capture_default_str();
  simulation->add_option("--candidates", options->candidates, "That the race begins with, about")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  simulation->add_option("--runs", options->runs, "With different seeds")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  simulation->add_flag("--json", options->json, "Print as JSON, with best found against candidates tried");
}

}  // namespace sparsmith::tools
