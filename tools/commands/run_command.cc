// `sparsmith run`: one operator of a tuned file on drawn input.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ranges>

#include "base/log.h"
#include "matrix/model_file.h"
#include "runtime/token_bucket.h"
#include "search/record/regenerated_choice.h"
#include "search/record/tuned_output.h"
#include "tools/command.h"
#include "tools/commands/tune_table.h"
#include "tools/print.h"
#include "tools/report/table.h"
#include "tuner/worker.h"

namespace sparsmith::tools {
namespace {

struct Options {
  std::string file;
  std::string tensor;
  std::string kind;  // of the operator
  std::int64_t tokens = 0;
  std::string device;
  std::string model;
  std::uint64_t seed = 1;
  std::int64_t max_memory = 0;
  bool check = false;
  bool json = false;
  bool trusted = false;
};

struct RunResult {
  std::string tensor;
  std::int64_t tokens = 0;
  std::int64_t bucket = 0;
  std::string device;
  std::string what;
  Verification verification;
  Timing timing;  // median 0: not timed
};

// The tensor of a model file as an operator of `rows` x `cols` has it: transposed where only that fits.
Result<CsrMatrix> read_as(const ModelFile& model, const std::string& name, std::int64_t rows, std::int64_t cols,
                          DataType type) {
  const auto index = model.find(name);
  if (!index) return not_found(fmt::format("{}: there is no tensor {}", model.path(), name));
  SPARSMITH_ASSIGN_OR_RETURN(CsrMatrix matrix, model.read(*index));
  if (matrix.rows != rows && matrix.rows == cols) matrix = transposed(matrix);
  if (matrix.rows != rows || matrix.cols != cols) {
    return invalid_input(fmt::format("{}: {} is {} x {}, in the tuned file {} x {}", model.path(), name, matrix.rows,
                                     matrix.cols, rows, cols));
  }
  return converted(matrix, type);
}

// What the output is checked against: the weight of the tuned file, or that of the model it was tuned from.
Result<CsrMatrix> reference_matrix(const Options& options, const TunedWeight& weight) {
  if (options.model.empty()) return matrix_of(weight);
  SPARSMITH_ASSIGN_OR_RETURN(const ModelFile model, ModelFile::open(options.model, {.max_memory = options.max_memory}));
  if (weight.members.empty()) return read_as(model, weight.name, weight.rows, weight.cols, weight.type);
  CsrMatrix group;
  group.cols = weight.cols;
  group.data_type = weight.type;
  for (const GroupMember& member : weight.members) {
    SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix,
                               read_as(model, member.name, member.rows, weight.cols, weight.type));
    SPARSMITH_RETURN_IF_ERROR(append_rows(group, matrix));
  }
  return group;
}

Result<const TunedWeight*> find_weight(const TunedContents& contents, const std::string& name,
                                       const std::string& file) {
  if (name.empty() && contents.weights.size() == 1) return &contents.weights.front();
  if (!name.empty()) {
    auto weight = contents.find_weight(name);
    return weight.ok() ? weight : weight.status().annotate(file);
  }
  std::string names;
  for (const TunedWeight& weight : contents.weights) {
    if (names.size() > 500) break;
    names += (names.empty() ? "" : ", ") + weight.name;
  }
  return not_found(fmt::format("{}: say which with --tensor; it holds {}", file, names));
}

Result<const TunedOperator*> find_operator(const TunedWeight& weight, const std::string& kind) {
  if (kind.empty()) return &weight.operators.front();
  const auto name_of = [](const TunedOperator& op) { return operator_kind_name(op.spec.kind); };
  const auto found = std::ranges::find(weight.operators, kind, name_of);
  if (found != weight.operators.end()) return &*found;
  return not_found(fmt::format("{} has no operator {}; it has {}", weight.name, kind,
                               fmt::join(weight.operators | std::views::transform(name_of), ", ")));
}

// The device asked for, or the first GPU. The emulator is never a silent substitute.
Result<std::unique_ptr<Worker>> start_worker(const Options& options) {
  if (!options.device.empty()) return Worker::start({.device = options.device, .program = ""});
  auto worker = Worker::start({.device = "cuda:0", .program = ""});
  if (worker.ok()) return worker;
  return no_device(fmt::format("no usable GPU: {}; --device emulator runs the operator on the CPU, slowly and untimed",
                               worker.status().message()));
}

Result<RunResult> run_operator(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const TunedFile file, TunedFile::open(options.file, {.trusted = options.trusted}));
  SPARSMITH_ASSIGN_OR_RETURN(const TunedWeight* weight, find_weight(file.contents(), options.tensor, options.file));
  RunResult result;
  result.tensor = weight->name;
  SPARSMITH_ASSIGN_OR_RETURN(const TunedOperator* op, find_operator(*weight, options.kind));
  result.tokens = options.tokens > 0 ? options.tokens : op->choices.front().tokens;
  const TunedChoice& choice = op->choice_for(result.tokens);
  result.bucket = choice.tokens;
  result.what = short_config(choice.config);

  result.device = options.device.empty() ? "cuda:0" : options.device;
  if (result.device == "emulator")
    SPARSMITH_RETURN_IF_ERROR(check_emulated_memory(*weight, op->spec, choice, result.tokens, options.max_memory));
  SPARSMITH_ASSIGN_OR_RETURN(const auto worker, start_worker(options));
  SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, reference_matrix(options, *weight));
  SPARSMITH_RETURN_IF_ERROR(worker->set_weight(multiplied(op->spec.kind, matrix), op->spec));
  const bool emulated = worker->properties().is_emulator;
  SPARSMITH_ASSIGN_OR_RETURN(const CompiledCandidate loaded,
                             emulated
                                 ? regenerated_choice(file.contents(), *weight, op->spec, choice)
                                 : loaded_choice(file.contents(), choice, worker->properties().compute_capability));
  const PackedWeight packed = packed_weight_of(*weight, *weight->packing(choice.packing));
  SPARSMITH_RETURN_IF_ERROR(worker->add_packing(packed));
  SPARSMITH_RETURN_IF_ERROR(worker->call(TokensCall{result.tokens, options.seed}));
  SPARSMITH_ASSIGN_OR_RETURN(result.verification, worker->call(VerifyCall{loaded}));
  if (emulated || !result.verification.ok) return result;
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<Timing> timings, worker->call(TimeCall{{loaded}, {}, {}}));
  result.timing = timings.front();
  return result;
}

nlohmann::json json_of(const RunResult& result) {
  nlohmann::json object = {{"tensor", result.tensor},
                           {"tokens", result.tokens},
                           {"bucket", result.bucket},
                           {"device", result.device},
                           {"choice", result.what},
                           {"ok", result.verification.ok},
                           {"max_error_over_bound", result.verification.max_error_over_bound},
                           {"norm_error", result.verification.norm_error},
                           {"reason", result.verification.reason}};
  if (result.timing.median_us > 0) object["median_us"] = result.timing.median_us;
  return object;
}

std::string text_of(const RunResult& result, bool check) {
  const Verification& checked = result.verification;
  std::string text = fmt::format("{} N = {} (bucket {}) on {}: {}\n", result.tensor, result.tokens, result.bucket,
                                 result.device, result.what);
  if (result.timing.median_us > 0)
    text += fmt::format("  {:.2f} us (quartiles {:.2f}, {:.2f})\n", result.timing.median_us, result.timing.q1_us,
                        result.timing.q3_us);
  if (!check && checked.ok) return text;
  // A kernel with a fault of its own, or that writes where it may not, has no error worth a number.
  const bool measured = checked.ok || checked.max_error_over_bound > 1;
  const std::string error =
      measured ? fmt::format("largest error {} of the allowed bound, relative error {:.2e} against fp64",
                             percent(checked.max_error_over_bound, 0), checked.norm_error)
               : "";
  return text + fmt::format("  {}: {}{}{}\n",
                            checked.ok ? styled("correct", Style::kGood) : styled("WRONG", Style::kBad), error,
                            checked.ok || !measured ? "" : ": ", checked.reason);
}

Result<ExitCode> run(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const RunResult result, run_operator(options));
  if (result.tokens > result.bucket)
    log_warning(
        "N = {} lies above the largest tuned bucket, {}: its choice runs, and \"never slower than dense\" is not "
        "promised; tune with --tokens up to {}",
        result.tokens, result.bucket, result.tokens);
  print_result(options.json, json_of(result), text_of(result, options.check));
  return result.verification.ok ? kDone : kFailed;
}

}  // namespace

void add_run_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("run", "Run one operator of a tuned file on random input, and verify it");
  command->add_option("file", options->file, "A tuned file")->required();
  command->add_option("--tensor", options->tensor, "Name of the weight; optional if the file has one weight");
  command->add_option("--operator", options->kind,
                      "spmm, spmm_transposed or sddmm; default: the first operator of the weight");
  command->add_option("--tokens", options->tokens, "Tokens per call (N); default: the smallest tuned N")
      ->check(CLI::Range(1, 1 << 24));
  command->add_option("--device", options->device, "cuda:0, or emulator; default: the first GPU");
  command->add_flag("--check", options->check, "Print the error against fp64");
  command->add_option("--model", options->model, "Compare with the weight of this model in place of the tuned file's");
  add_shown(*command, "--seed", options->seed, "Seed of the input");
  command->add_flag("--trusted", options->trusted,
                    "Do not check the packed arrays of a tuned file that you made yourself");
  command->add_flag("--json", options->json, "Print JSON");
  add_max_memory_option(*command, options->max_memory);
  set_action(*command, action, options, run);
}

}  // namespace sparsmith::tools
