// `sparsmith synth`: draws weights and writes them as a model file.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/split.h"
#include "matrix/safetensors.h"
#include "matrix/smtx.h"
#include "matrix/synthesis.h"
#include "matrix/text_fields.h"
#include "tools/command.h"
#include "tools/output_files.h"
#include "tools/print.h"

namespace sparsmith::tools {
namespace {

struct Options {
  std::string out;
  std::string shape;
  double sparsity = 0.9;
  std::string pattern = "uniform";
  std::uint64_t seed = 0;
  std::string data_type = "fp32";
  std::string name = "weight";
  std::vector<std::string> weights;
  bool force = false;
  bool json = false;
};

struct NamedSpec {
  std::string name;
  SynthesisSpec spec;
};

// name:MxK:sparsity:pattern, where the pattern may hold a colon itself.
Result<NamedSpec> parse_weight(const std::string& text) {
  const std::vector<std::string_view> fields = split(text, ":");
  if (fields.size() < 4)
    return invalid_argument(fmt::format("'{}' is not of the form name:MxK:sparsity:pattern", text));
  NamedSpec weight;
  weight.name = fields[0];
  SPARSMITH_RETURN_IF_ERROR(parse_shape(fields[1], weight.spec));
  const auto sparsity = parse_number<double>(fields[2]);
  if (!sparsity) return invalid_argument(fmt::format("'{}' is no sparsity", fields[2]));
  weight.spec.sparsity = *sparsity;
  SPARSMITH_ASSIGN_OR_RETURN(weight.spec.pattern, parse_synthesis_pattern(text.substr(fields[3].data() - text.data())));
  return weight;
}

Result<std::vector<NamedSpec>> parse_specs(const Options& options) {
  const std::optional<DataType> type = data_type_from_short_name(options.data_type);
  if (!type)
    return invalid_argument(fmt::format("unknown --dtype '{}'; expected fp32, fp16 or bf16", options.data_type));
  std::vector<NamedSpec> specs;
  if (!options.shape.empty()) {
    NamedSpec& single = specs.emplace_back(NamedSpec{options.name, {.sparsity = options.sparsity}});
    SPARSMITH_RETURN_IF_ERROR(parse_shape(options.shape, single.spec));
    SPARSMITH_ASSIGN_OR_RETURN(single.spec.pattern, parse_synthesis_pattern(options.pattern));
  }
  for (const std::string& text : options.weights) {
    SPARSMITH_ASSIGN_OR_RETURN(NamedSpec weight, parse_weight(text));
    specs.push_back(std::move(weight));
  }
  if (specs.empty())
    return invalid_argument("nothing to draw: give --shape MxK, or --weight name:MxK:sparsity:pattern");
  // Each weight draws from a seed of its own, or equal shapes would be equal weights.
  for (std::size_t i = 0; i < specs.size(); ++i) {
    specs[i].spec.data_type = *type;
    specs[i].spec.seed = options.seed + i;
  }
  return specs;
}

// What was drawn, for the report.
nlohmann::ordered_json description_of(const std::string& name, const CsrMatrix& matrix) {
  log_info("{}: {} x {}, {} nonzeros, {:.2f} % zero", name, matrix.rows, matrix.cols, matrix.nnz(),
           100 * matrix.sparsity());
  return {{"name", name},
          {"M", matrix.rows},
          {"K", matrix.cols},
          {"nnz", matrix.nnz()},
          {"sparsity", matrix.sparsity()},
          {"dtype", short_name(matrix.data_type)}};
}

Status write_smtx(const std::string& path, const std::vector<NamedSpec>& specs, nlohmann::ordered_json& weights) {
  if (specs.size() != 1) return invalid_argument(fmt::format("{}: .smtx holds one matrix, not {}", path, specs.size()));
  SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, synthesize(specs[0].spec));
  weights.push_back(description_of(specs[0].name, matrix));
  return write_file_atomically(path, smtx_text(matrix));
}

Status write_model(const std::string& path, const std::vector<NamedSpec>& specs, std::uint64_t seed,
                   nlohmann::ordered_json& weights) {
  std::vector<std::string> bytes;
  std::vector<SafetensorsPart> parts;
  bytes.reserve(specs.size());  // parts point into it
  for (const NamedSpec& weight : specs) {
    const Result<CsrMatrix> matrix = synthesize(weight.spec);
    if (!matrix.ok()) return matrix.status().annotate(weight.name);
    bytes.push_back(dense_bytes(*matrix));
    parts.push_back({weight.name,
                     std::string(safetensors_name(matrix->data_type)),
                     {matrix->rows, matrix->cols},
                     std::as_bytes(std::span(bytes.back()))});
    weights.push_back(description_of(weight.name, *matrix));
  }
  return write_safetensors(path, parts, {{"source", fmt::format("sparsmith synth, seed {}", seed)}});
}

Result<ExitCode> run(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<NamedSpec> specs, parse_specs(options));
  const std::string extension = std::filesystem::path(options.out).extension().string();
  nlohmann::ordered_json weights = nlohmann::ordered_json::array();
  const OutputKind kind = extension == ".smtx" ? OutputKind::kPattern : OutputKind::kDrawnModel;
  SPARSMITH_RETURN_IF_ERROR(check_outputs({}, {{"--output", options.out, kind}}, options.force));
  if (extension == ".smtx") {
    SPARSMITH_RETURN_IF_ERROR(write_smtx(options.out, specs, weights));
  } else if (extension == ".safetensors") {
    SPARSMITH_RETURN_IF_ERROR(write_model(options.out, specs, options.seed, weights));
  } else {
    return invalid_argument(fmt::format("{}: the extension must be .safetensors or .smtx", options.out));
  }
  print_result(options.json, nlohmann::ordered_json{{"file", options.out}, {"weights", weights}}, options.out + "\n");
  return kDone;
}

}  // namespace

void add_synth_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("synth", "Generate random pruned weights");
  command->add_option("-o,--output", options->out, "File to write: .safetensors, or .smtx for positions only")
      ->required();
  command->add_option("--shape", options->shape, "Rows x columns, such as 8192x8192");
  add_shown(*command, "--sparsity", options->sparsity, "Share of zeros, from 0 to 1");
  add_shown(*command, "--pattern", options->pattern,
            "Distribution of the zeros: uniform, lognormal:S, power:A, block:B, block:RxC, 2:4 or 2:4-transposable; "
            "+uniform:P behind it "
            "scatters a share P of elements");
  add_shown(*command, "--seed", options->seed, "Seed; equal seeds give equal weights on every machine");
  add_shown(*command, "--dtype", options->data_type, "fp32, fp16 or bf16");
  add_shown(*command, "--name", options->name, "Name of the weight of --shape");
  command->add_option("--weight", options->weights, "NAME:MxK:SPARSITY:PATTERN, one weight of the file (repeatable)")
      ->allow_extra_args(false);
  add_force_option(*command, options->force);
  command->add_flag("--json", options->json, "Print JSON");
  set_action(*command, action, options, run);
}

}  // namespace sparsmith::tools
