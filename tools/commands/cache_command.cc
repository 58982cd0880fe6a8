// `sparsmith cache`: what earlier runs found out, moved and kept in order.
#include "cache/cache.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/commands/tune_table.h"
#include "tools/print.h"

namespace sparsmith::tools {
namespace {

struct Options {
  std::string path;
  std::vector<std::string> files;
  int seconds = 0;
  int days = 30;
  bool json = false;
};

Result<Cache> open(const Options& options, Cache::Mode mode) {
  if (!options.path.empty()) return Cache::open(options.path, mode);
  SPARSMITH_ASSIGN_OR_RETURN(const std::string path, Cache::default_path());
  return Cache::open(path, mode);
}

nlohmann::json json_of(const std::string& path, const Cache::Counts& counts, const std::vector<ChoiceRecord>& choices) {
  nlohmann::json object = {{"path", path},
                           {"devices", counts.devices},
                           {"weights", counts.weights},
                           {"kernels", counts.kernels},
                           {"binaries", counts.binaries},
                           {"binary_bytes", counts.binary_bytes},
                           {"measurements", counts.measurements},
                           {"running", counts.running},
                           {"crashed", counts.crashed}};
  object["choices"] = nlohmann::json::array();
  for (const ChoiceRecord& c : choices) {
    object["choices"].push_back({{"pattern_hash", c.key.pattern_hash},
                                 {"operator", c.key.operator_name},
                                 {"tokens", c.key.tokens},
                                 {"device_class", c.key.device_class},
                                 {"timing_policy", c.key.timing_policy},
                                 {"kind", c.kind},
                                 {"config", c.config},
                                 {"packing", c.packing},
                                 {"evidence", c.evidence},
                                 {"families", c.families},
                                 {"us", c.us},
                                 {"dense_us", c.dense_us},
                                 {"complete", c.complete},
                                 {"nvrtc", c.nvrtc_version},
                                 {"chosen_at", c.chosen_at}});
  }
  return object;
}

Result<ExitCode> list(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(Cache cache, open(options, Cache::Mode::kReadOnly));
  SPARSMITH_ASSIGN_OR_RETURN(const Cache::Counts counts, cache.counts());
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<ChoiceRecord> choices, cache.choices());
  if (options.json) {
    print_json(json_of(cache.path(), counts, choices));
    return kDone;
  }
  Table table{
      .columns = {"pattern", "operator", ">N", "device class", "choice", ">us", ">dense us", "evidence", "chosen at"}};
  for (const ChoiceRecord& c : choices) {
    table.add(c.key.pattern_hash.substr(0, 8), c.key.operator_name, c.key.tokens, c.key.device_class,
              short_config(c.config), fmt::format("{:.2f}", c.us), us_text(c.dense_us),
              c.evidence + (c.complete ? "" : ", cut short"), c.chosen_at.substr(0, 19));
  }
  if (!table.rows.empty()) print("{}\n", table.plain());
  print(
      "{}: {} choices, {} measurements ({} running, {} crashed), {} binaries of {} kernels ({}), {} weights, {} "
      "devices\n",
      cache.path(), counts.choices, counts.measurements, counts.running, counts.crashed, counts.binaries,
      counts.kernels, human_bytes(counts.binary_bytes), counts.weights, counts.devices);
  return kDone;
}

Result<ExitCode> verify(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(Cache cache, open(options, Cache::Mode::kReadWrite));
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<std::string> problems, cache.verify());
  print_result(options.json, nlohmann::json{{"path", cache.path()}, {"problems", problems}},
               problems.empty() ? cache.path() + ": sound\n" : fmt::format("{}\n", fmt::join(problems, "\n")));
  if (!problems.empty()) return io_error(fmt::format("{}: {} problems", cache.path(), problems.size()));
  return kDone;
}

Result<ExitCode> export_cache(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(Cache cache, open(options, Cache::Mode::kReadOnly));
  SPARSMITH_RETURN_IF_ERROR(cache.export_to(options.files.front(), options.seconds));
  print_result(options.json, nlohmann::json{{"exported", options.files.front()}},
               fmt::format("exported {} to {}\n", cache.path(), options.files.front()));
  return kDone;
}

Result<ExitCode> merge(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(Cache cache, open(options, Cache::Mode::kReadWrite));
  nlohmann::json result = {{"merged", nlohmann::json::array()}};
  for (const std::string& file : options.files) {
    SPARSMITH_ASSIGN_OR_RETURN(const Cache::Merged merged, cache.merge_from(file));
    result["merged"].push_back({{"file", file},
                                {"choices", merged.choices},
                                {"measurements", merged.measurements},
                                {"binaries", merged.binaries},
                                {"damaged", merged.damaged}});
    if (options.json) continue;
    print("{}: {} choices, {} measurements, {} binaries taken over{}\n", file, merged.choices, merged.measurements,
          merged.binaries, merged.damaged > 0 ? fmt::format("; {} damaged rows left", merged.damaged) : "");
  }
  if (options.json) print_json(result);
  return kDone;
}

Result<ExitCode> collect(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(Cache cache, open(options, Cache::Mode::kReadWrite));
  SPARSMITH_ASSIGN_OR_RETURN(const Cache::Collected collected, cache.collect_garbage(options.days));
  print_result(options.json,
               nlohmann::json{{"binaries", collected.binaries},
                              {"measurements", collected.measurements},
                              {"bytes_before", collected.bytes_before},
                              {"bytes_after", collected.bytes_after}},
               fmt::format("{}: {} binaries and {} measurements dropped; {} before, {} after\n", cache.path(),
                           collected.binaries, collected.measurements, human_bytes(collected.bytes_before),
                           human_bytes(collected.bytes_after)));
  return kDone;
}

}  // namespace

void add_cache_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("cache", "List, check, export, import and clean the cache");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* description, Result<ExitCode> (*run)(const Options&)) {
    CLI::App* const sub = command->add_subcommand(name, description);
    sub->add_option("--cache", options->path, "Cache file; default: $XDG_CACHE_HOME/sparsmith/cache.db");
    sub->add_flag("--json", options->json, "Print JSON");
    set_action(*sub, action, options, run);
    return sub;
  };
  add("ls", "List the choices, and count kernels and measurements", list);
  add("verify", "Check the file and every hash; drop damaged rows", verify);
  CLI::App* const exporting = add("export", "Write a compact copy to a new file", export_cache);
  exporting->add_option("file", options->files, "File to write")->required()->expected(1);
  exporting
      ->add_option("--seconds", options->seconds,
                   "Only what was found or used in the last so many seconds; default: all")
      ->check(CLI::PositiveNumber);
  add("import", "Add the contents of an exported file", merge)
      ->add_option("file", options->files, "Exported file")
      ->required()
      ->expected(1);
  add("merge", "Add the contents of other caches", merge)
      ->add_option("files", options->files, "Cache files")
      ->required();
  add("gc", "Drop rows that were not used for a long time, and compact the file", collect)
      ->add_option("--days", options->days, "Drop rows that were not used for this many days")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
}

}  // namespace sparsmith::tools
