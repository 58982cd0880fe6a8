// `sparsmith show`: the choices of a tuned file, why they were made, and their kernels' source.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <ranges>
#include <string>
#include <system_error>
#include <vector>

#include "base/enum_names.h"
#include "base/file.h"
#include "search/record/tuned_output.h"
#include "tools/command.h"
#include "tools/commands/tune_table.h"
#include "tools/commands/why.h"
#include "tools/output_files.h"
#include "tools/print.h"

namespace sparsmith::tools {
namespace {

struct Options {
  std::string file;
  std::string tensor;
  std::int64_t tokens = 0;
  bool source = false;
  std::string source_folder;
  bool force = false;
  bool why = false;
  std::string cache;
  bool json = false;
  bool trusted = false;
};

const char* evidence_text(const TunedChoice& choice) {
  return choice.evidence == TunedChoice::Evidence::kMeasured ? "measured" : "predicted";
}

// Adds the kernels of a choice, each once.
void add_kernels(const TunedContents& contents, const TunedChoice& choice, std::vector<const TunedKernel*>& kernels) {
  for (const PlanStep& step : choice.plan.steps) {
    const TunedKernel* const kernel = step.kind == PlanStep::Kind::kLaunch ? contents.kernel(step.kernel) : nullptr;
    if (kernel != nullptr && std::ranges::find(kernels, kernel) == kernels.end()) kernels.push_back(kernel);
  }
}

std::vector<const TunedKernel*> kernels_of(const TunedContents& contents, const TunedChoice& choice) {
  std::vector<const TunedKernel*> kernels;
  add_kernels(contents, choice, kernels);
  return kernels;
}

void print_overview(const TunedContents& contents) {
  Table table{.columns = {"weight", "shape", "operator", ">N", "choice", ">GPU bytes", ">us", ">dense us", "evidence"}};
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedOperator& op : weight.operators) {
      for (const TunedChoice& choice : op.choices) {
        table.add(weight.name, fmt::format("{}x{}", weight.rows, weight.cols), op.spec.name(), choice.tokens,
                  short_config(choice.config), human_bytes(weight.packing(choice.packing)->bytes()),
                  fmt::format("{:.2f}", choice.median_us), us_text(choice.dense_us), evidence_text(choice));
      }
    }
  }
  print("{}", table.plain());
  for (const TunedWeight& weight : contents.weights) {
    if (!weight.members.empty())
      print("{}", fmt::format("group {}: {}\n", weight.name,
                              fmt::join(weight.members | std::views::transform(&GroupMember::name), ", ")));
  }
  if (contents.ranks > 1) print("rank {} of {}\n", contents.rank, contents.ranks);
  const TunedProvenance& from = contents.provenance;
  print("tuned for {} ({}), by sparsmith {}, NVRTC {}, from {}\n", from.device_class, from.device_name,
        from.sparsmith_version, from.compiler_version.empty() ? "none" : from.compiler_version, from.source_file);
}

void print_choice(const TunedContents& contents, const TunedWeight& weight, const TunedChoice& choice) {
  print("N up to {}: {}\n", choice.tokens, short_config(choice.config));
  print("  why       {}\n", choice.reason);
  print("  time      {:.2f} us, {}{}\n", choice.median_us, evidence_text(choice),
        choice.dense_us > 0 ? fmt::format("; dense {:.2f} us", choice.dense_us) : "");
  print("  config    {}\n  key       {}\n", readable_config(choice.config), choice.config);
  const TunedPacking* packing = weight.packing(choice.packing);
  print("  packing   {}, {}\n", choice.packing, human_bytes(packing == nullptr ? 0 : packing->bytes()));
  for (const TunedKernel* kernel : kernels_of(contents, choice)) {
    const auto architectures = kernel->binaries | std::views::transform([](const auto& b) { return b.architecture; });
    print("  kernel    {} ({})\n", kernel->name,
          kernel->binaries.empty() ? "no binary" : fmt::format("{}", fmt::join(architectures, ", ")));
  }
}

// "rows, units 3 to 5 of 8".
std::string cut_text(const WeightCut& cut, int rank) {
  std::string text = fmt::format("{}, units {} to {} of {}", name_in(kCutDimensions, cut.dimension),
                                 cut.boundaries[rank], cut.boundaries[rank + 1] - 1, cut.units());
  if (!cut.whole) return text;
  const bool rows = cut.dimension == WeightCut::Dimension::kRows;
  return text + (rows ? "; outputs of all ranks are gathered" : "; inputs are whole, and each rank takes its part");
}

// tokens 0: for every N.
void print_weight(const TunedContents& contents, const TunedWeight& weight, std::int64_t tokens) {
  print("{} {}x{}, {}, {} nonzeros: {} on the GPU, {} dense\n", weight.name, weight.rows, weight.cols,
        short_name(weight.type), weight.nnz, human_bytes(weight.packed_bytes()), human_bytes(weight.dense_bytes()));
  for (const GroupMember& member : weight.members) {
    print("  rows {} to {}  {}\n", member.first_row, member.first_row + member.rows - 1, member.name);
  }
  if (weight.cut) print("  rank {} of {}: {}\n", contents.rank, contents.ranks, cut_text(*weight.cut, contents.rank));
  for (const TunedOperator& op : weight.operators) {
    print("{}\n", op.spec.name());
    for (const TunedChoice& choice : op.choices) {
      if (tokens == 0 || &choice == &op.choice_for(tokens)) print_choice(contents, weight, choice);
    }
    if (tokens > op.choices.back().tokens)
      print("N = {} lies outside of the tuned buckets: \"never slower than dense\" is not promised there\n", tokens);
  }
}

nlohmann::json json_of(const TunedContents& contents, const TunedOperator& op, bool source) {
  nlohmann::json object = {{"operator", op.spec.name()}, {"choices", nlohmann::json::array()}};
  for (const TunedChoice& choice : op.choices) {
    nlohmann::json each = {
        {"tokens", choice.tokens},       {"packing", choice.packing},         {"config", choice.config},
        {"median_us", choice.median_us}, {"evidence", evidence_text(choice)}, {"dense_us", choice.dense_us},
        {"reason", choice.reason}};
    each["kernels"] = nlohmann::json::array();
    for (const TunedKernel* kernel : kernels_of(contents, choice)) {
      nlohmann::json one = {{"name", kernel->name}};
      for (const auto& binary : kernel->binaries) one["architectures"].push_back(binary.architecture);
      if (source) one["source"] = std::string(kernel->source);
      each["kernels"].push_back(std::move(one));
    }
    object["choices"].push_back(std::move(each));
  }
  return object;
}

nlohmann::json json_of(const TunedContents& contents, const TunedWeight& weight, bool source) {
  nlohmann::json object = {{"name", weight.name},
                           {"M", weight.rows},
                           {"K", weight.cols},
                           {"nnz", weight.nnz},
                           {"type", short_name(weight.type)},
                           {"gpu_bytes", weight.packed_bytes()},
                           {"dense_bytes", weight.dense_bytes()}};
  for (const GroupMember& member : weight.members) {
    object["members"].push_back({{"name", member.name}, {"first_row", member.first_row}, {"rows", member.rows}});
  }
  if (weight.cut)
    object["split"] = {{"dimension", name_in(kCutDimensions, weight.cut->dimension)},
                       {"boundaries", weight.cut->boundaries},
                       {"whole", weight.cut->whole}};
  for (const TunedOperator& op : weight.operators)
    object["operators"][operator_kind_name(op.spec.kind)] = json_of(contents, op, source);
  return object;
}

// Each kernel of the weight's choices once.
std::vector<const TunedKernel*> distinct_kernels(const TunedContents& contents, const TunedWeight& weight,
                                                 std::int64_t tokens) {
  std::vector<const TunedKernel*> kernels;
  for (const TunedOperator& op : weight.operators) {
    for (const TunedChoice& choice : op.choices)
      if (tokens == 0 || &choice == &op.choice_for(tokens)) add_kernels(contents, choice, kernels);
  }
  return kernels;
}

// A kernel's text is a translation unit of its own.
void print_sources(const std::vector<const TunedKernel*>& kernels) {
  for (const TunedKernel* kernel : kernels) {
    if (kernels.size() > 1) print("// ==== {}.cu\n", kernel->name);
    print("{}\n", kernel->source);
  }
}

Status write_sources(const std::vector<const TunedKernel*>& kernels, const Options& options) {
  const std::string& folder = options.source_folder;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return io_error(fmt::format("{}: cannot be made: {}", folder, error.message()));
  std::vector<OutputFile> outputs;
  for (const TunedKernel* kernel : kernels)
    outputs.push_back({"--source-folder", fmt::format("{}/{}.cu", folder, kernel->name), OutputKind::kSource});
  SPARSMITH_RETURN_IF_ERROR(check_outputs({options.file}, outputs, options.force));
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    SPARSMITH_RETURN_IF_ERROR(write_file_atomically(outputs[i].path, std::string(kernels[i]->source)));
    print("{}\n", outputs[i].path);
  }
  return {};
}

Result<ExitCode> run(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const TunedFile file, TunedFile::open(options.file, {.trusted = options.trusted}));
  const TunedContents& contents = file.contents();
  if (options.tensor.empty()) {
    if (options.source || !options.source_folder.empty() || options.why)
      return invalid_argument("--source, --source-folder and --why need --tensor");
    if (options.json) {
      nlohmann::json object = {{"device_class", contents.provenance.device_class}};
      if (contents.ranks > 1) object.update({{"rank", contents.rank}, {"ranks", contents.ranks}});
      object["weights"] = nlohmann::json::array();
      for (const TunedWeight& weight : contents.weights) object["weights"].push_back(json_of(contents, weight, false));
      print_json(object);
    } else {
      print_overview(contents);
    }
    return kDone;
  }
  const auto found = contents.find_weight(options.tensor);
  if (!found.ok()) return found.status().annotate(options.file);
  const TunedWeight& weight = **found;
  std::vector<ExplainedChoice> explained;
  if (options.why) {
    SPARSMITH_ASSIGN_OR_RETURN(explained, explained_choices(contents, weight, options.tokens, options.cache));
  }
  if (options.json) {
    nlohmann::json object = json_of(contents, weight, options.source);
    for (const ExplainedChoice& each : explained) {
      for (nlohmann::json& choice : object["operators"][operator_kind_name(each.kind)]["choices"]) {
        if (choice["tokens"] == each.choice->tokens) choice["why"] = why_json(each.explanation);
      }
    }
    print_json(object);
  } else if (!options.source_folder.empty()) {
    SPARSMITH_RETURN_IF_ERROR(write_sources(distinct_kernels(contents, weight, options.tokens), options));
  } else if (options.source) {
    print_sources(distinct_kernels(contents, weight, options.tokens));
  } else {
    print_weight(contents, weight, options.tokens);
    for (const ExplainedChoice& each : explained) print_why(each);
  }
  return kDone;
}

}  // namespace

void add_show_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("show", "Show the choices of a tuned file, their reasons, or the source of kernels");
  command->add_option("file", options->file, "A tuned file")->required();
  command->add_option("--tensor", options->tensor, "Name of the weight; default: a table of all weights");
  command->add_option("--tokens", options->tokens, "Only the choice that runs for this N")
      ->check(CLI::Range(1, 1 << 30));
  command->add_flag("--source", options->source,
                    "Print the CUDA source of the chosen kernels; nvcc compiles each by itself");
  command->add_option("--source-folder", options->source_folder,
                      "Write the CUDA source of each chosen kernel to a file in this folder");
  add_force_option(*command, options->force);
  command->add_flag(
      "--why", options->why,
      "Explain each choice: margin, limits, best candidate of each family, rejected and excluded configs");
  command->add_option("--cache", options->cache, "Cache with the measurements for --why; default: the default cache");
  command->add_flag("--trusted", options->trusted,
                    "Do not check the packed arrays of a tuned file that you made yourself");
  command->add_flag("--json", options->json, "Print JSON");
  set_action(*command, action, options, run);
}

}  // namespace sparsmith::tools
