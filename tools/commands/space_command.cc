// `sparsmith space`: recorded search spaces: what is in them, joining them, searching them again without a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "matrix/model_file.h"
#include "search/record/simulation.h"
#include "search/record/space_prediction.h"
#include "tools/command.h"
#include "tools/output_files.h"
#include "tools/print.h"
#include "tools/report/sections.h"
#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

using nlohmann::json;

struct Options {
  std::vector<std::string> files;
  std::string output;
  std::vector<std::string> models;
  std::vector<std::string> strategies = {"race"};
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
    const Trial::Costs& cost = candidate.seconds;
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

Result<ExitCode> list(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<RecordedSpace> spaces, read_all(options));
  Table table{.columns = {"space", ">candidates", ">ok", ">of", ">kernels", ">best us", ">dense us", "device",
                          "best of each family, us"}};
  json array = json::array();
  for (const RecordedSpace& space : spaces) {
    const Contents contents = contents_of(space);
    std::vector<std::string> families;
    for (const auto& [name, us] : contents.best_us) families.push_back(fmt::format("{} {:.2f}", name, us));
    table.add(space.title(), space.candidates.size(), contents.ok, space.considered, contents.kernels.size(),
              fmt::format("{:.2f}", best_us(space)), fmt::format("{:.2f}", dense_us(space)), space.device_name,
              fmt::format("{}", fmt::join(families, ", ")));
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
  print_result(options.json, json{{"spaces", std::move(array)}}, table.plain());
  return kDone;
}

Status check_new(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  return invalid_argument(path + " is there already; choose another name");
}

Result<ExitCode> write_spaces(const std::vector<RecordedSpace>& spaces, const Options& options) {
  for (const RecordedSpace& space : spaces) SPARSMITH_RETURN_IF_ERROR(append_space(options.output, space));
  print_result(options.json, json{{"file", options.output}, {"spaces", spaces.size()}},
               fmt::format("{}: {} spaces\n", options.output, spaces.size()));
  return kDone;
}

Result<ExitCode> join(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<RecordedSpace> spaces, read_all(options));
  SPARSMITH_RETURN_IF_ERROR(check_new(options.output));
  return write_spaces(spaces, options);
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

Result<ExitCode> predict(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(std::vector<RecordedSpace> spaces, read_all(options));
  SPARSMITH_RETURN_IF_ERROR(check_new(options.output));
  std::set<std::string> patterns;
  for (const RecordedSpace& space : spaces) patterns.insert(space.pattern_hash);
  SPARSMITH_ASSIGN_OR_RETURN(const auto statistics, statistics_of(options, patterns));
  for (RecordedSpace& space : spaces) {
    const auto found = statistics.find(space.pattern_hash);
    if (found == statistics.end())
      return not_found(fmt::format("{}: no weight of the models has its pattern", space.title()));
    SPARSMITH_RETURN_IF_ERROR(predict_again(space, found->second));
  }
  return write_spaces(spaces, options);
}

// One file for each space, in a folder.
Result<ExitCode> export_t4(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<RecordedSpace> spaces, read_all(options));
  std::error_code error;
  std::filesystem::create_directories(options.output, error);
  std::vector<OutputFile> outputs;
  for (const RecordedSpace& space : spaces) {
    outputs.push_back({"--output",
                       fmt::format("{}/space{:02}_{}x{}_n{}.t4.json", options.output, outputs.size(), space.rows,
                                   space.cols, space.tokens),
                       OutputKind::kT4});
  }
  SPARSMITH_RETURN_IF_ERROR(check_outputs(options.files, outputs, options.force));
  json files = json::array();
  std::string text;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    SPARSMITH_RETURN_IF_ERROR(write_file_atomically(outputs[i].path, to_t4(spaces[i])));
    files.push_back(outputs[i].path);
    text += outputs[i].path + "\n";
  }
  print_result(options.json, json{{"files", std::move(files)}}, text);
  return kDone;
}

// One strategy over all its runs in one space.
SimulatedStrategy summarize(const RecordedSpace& space, const std::string& name, std::size_t budget,
                            const Options& options) {
  SimulatedStrategy summary{.name = name, .regret = 0, .worst = 0};
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

json json_of(const SimulatedStrategy& summary) {
  return {{"strategy", summary.name}, {"tried", summary.tried}, {"packings", summary.packings},
          {"regret", summary.regret}, {"worst", summary.worst}, {"best_found_over_best", summary.curve}};
}

// The means over all spaces, a line for each strategy.
std::string means_text(const SimulationResults& results) {
  std::vector<double> predicted;
  for (const SimulatedSpace& space : results.spaces) predicted.push_back(space.predicted);
  std::string text = fmt::format("  predicted choice: geometric mean {:.3f}, worst {:.3f}\n", geometric_mean(predicted),
                                 std::ranges::max(predicted));
  const std::vector<StrategyMean> means = strategy_means(results);
  for (std::size_t i = 0; i < means.size(); ++i) {
    double packings = 0;
    for (const SimulatedSpace& space : results.spaces) packings += space.strategies[i].packings;
    const auto first_beats = std::ranges::count_if(results.spaces, [i](const SimulatedSpace& space) {
      return space.strategies.front().regret <= space.strategies[i].regret;
    });
    const std::size_t spaces = results.spaces.size();
    text += fmt::format("  {}: geometric mean {:.3f}, worst run {:.3f}; {:.1f} candidates of {:.1f} packings",
                        means[i].name, means[i].regret, means[i].worst, means[i].tried,
                        packings / static_cast<double>(spaces));
    if (i > 0) text += fmt::format("; {} is no worse in {} of {} spaces", means[0].name, first_beats, spaces);
    text += "\n";
  }
  return text;
}

Result<ExitCode> simulate_all(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<RecordedSpace> spaces, read_all(options));
  Table table{.columns = {"space", ">ok", ">best us", ">predicted"}};
  for (const std::string& name : options.strategies) table.columns.insert(table.columns.end(), {">" + name, ">tried"});
  json array = json::array();
  SimulationResults results;
  for (const RecordedSpace& space : spaces) {
    const double best = best_us(space);
    if (best == 0) continue;
    SimulatedSpace& simulated = results.spaces.emplace_back();
    simulated.predicted = predicted_choice_us(space) / best;
    table.add(space.title(), contents_of(space).ok, fmt::format("{:.2f}", best),
              fmt::format("{:.3f}", simulated.predicted));
    json& entry = array.emplace_back(json{{"space", space.title()},
                                          {"candidates", space.candidates.size()},
                                          {"best_us", best},
                                          {"dense_us", dense_us(space)},
                                          {"predicted", simulated.predicted}});
    // All have the budget that the first one took.
    std::size_t budget = static_cast<std::size_t>(options.candidates);
    for (const std::string& name : options.strategies) {
      const SimulatedStrategy& summary = simulated.strategies.emplace_back(summarize(space, name, budget, options));
      if (simulated.strategies.size() == 1) budget = static_cast<std::size_t>(std::lround(summary.tried));
      std::vector<std::string>& row = table.rows.back();
      row.insert(row.end(), {fmt::format("{:.3f}", summary.regret), fmt::format("{:.0f}", summary.tried)});
      entry["strategies"].push_back(json_of(summary));
    }
  }
  if (results.spaces.empty()) return invalid_input("there is no space with a candidate that passed");
  print_result(options.json, json{{"simulated", std::move(array)}},
               fmt::format("{}\nchosen over best, {} spaces, {} runs each:\n{}", table.plain(), results.spaces.size(),
                           options.runs, means_text(results)));
  return kDone;
}

}  // namespace

void add_space_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("space", "List, join, convert and simulate recorded search spaces");
  command->require_subcommand(1);
  const auto add_verb = [&](const char* name, const char* description, Result<ExitCode> (*run)(const Options&)) {
    CLI::App* const verb = command->add_subcommand(name, description);
    verb->add_option("files", options->files, "Files of `tune --record`")->required();
    add_max_memory_option(*verb, options->max_memory);
    verb->add_flag("--json", options->json, "Print JSON");
    set_action(*verb, action, options, run);
    return verb;
  };
  add_verb("list", "List the recorded spaces", list);
  CLI::App* const joining = add_verb("join", "Join the spaces of several runs in one file", join);
  joining->add_option("-o,--output", options->output, "File to write, .jsonl.gz")->required();
  CLI::App* const prediction =
      add_verb("predict", "Replace the recorded predictions by those of this version", predict);
  prediction->add_option("--model", options->models, "Models with the searched weights (repeatable)")->required();
  prediction->add_option("-o,--output", options->output, "File to write, .jsonl.gz")->required();
  CLI::App* const t4 =
      add_verb("export-t4", "Write T4 JSON (the schema of Kernel Tuner), one file per space", export_t4);
  t4->add_option("-o,--output", options->output, "Folder to write to")->required();
  add_force_option(*t4, options->force);
  CLI::App* const simulation =
      add_verb("simulate", "Simulate search strategies on recorded spaces, without a GPU", simulate_all);
  add_shown(*simulation, "--strategy", options->strategies,
            "Strategies to compare; each may try as many candidates as the first one")
      ->delimiter(',')
      ->check(CLI::IsMember({"race", "exhaustive"}));
  add_shown(*simulation, "--candidates", options->candidates, "Candidates of the first round of race")
      ->check(CLI::Range(1, 100000));
  add_shown(*simulation, "--runs", options->runs, "Runs with different seeds")->check(CLI::Range(1, 10000));
}

}  // namespace sparsmith::tools
