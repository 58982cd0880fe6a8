// Kernels and launch plans of the rows family.
#include <fmt/format.h>

#include <algorithm>

#include "generator/kernel_text.h"
#include "generator/rows_family.h"

namespace sparsmith {
namespace {

using Kind = PlanArgument::Kind;

std::string_view device_type(DataType type) {
  switch (type) {
    case DataType::kFloat16: return "half";
    case DataType::kBFloat16: return "bfloat16";
    default: return "float";
  }
}

std::string_view activation_type(Activation activation) {
  switch (activation) {
    case Activation::kNone: return "NoActivation";
    case Activation::kRelu: return "Relu";
    case Activation::kGelu: return "Gelu";
    case Activation::kSilu: return "Silu";
  }
  return "?";
}

std::string_view partials_type(PartialSums partials) {
  switch (partials) {
    case PartialSums::kNone: return "NoPartials";
    case PartialSums::kAtomic: return "AtomicPartials";
    case PartialSums::kTwoPass: return "StoredPartials";
  }
  return "?";
}

std::string_view boolean(bool value) { return value ? "true" : "false"; }

// "fp16_tm_bias_relu": what of the operator decides a kernel's code.
std::string spec_tag(const OperatorSpec& spec) {
  std::string epilogue = spec.epilogue.name();
  std::replace(epilogue.begin(), epilogue.end(), '+', '_');
  return fmt::format("{}_{}_{}", short_name(spec.type), spec.layout == Layout::kTokenMajor ? "tm" : "fm", epilogue);
}

// The lines and parameters that every kernel with an epilog has.
void add_output(const OperatorSpec& spec, KernelText& text) {
  text.headers.push_back("snippets/epilog/store_output.cuh");
  text.lines.push_back(
      {fmt::format("using Output = StoreOutput<Value, {}, {}, {}, {}, {}>", boolean(spec.layout == Layout::kTokenMajor),
                   activation_type(spec.epilogue.activation), boolean(spec.epilogue.bias), boolean(spec.epilogue.beta),
                   boolean(spec.epilogue.residual)),
       "token-major, activation, + bias, + beta * Y, + residual"});
}

const std::vector<KernelText::Parameter>& output_parameters() {
  static const std::vector<KernelText::Parameter> parameters = {
      {"Value*", "y"},    {"const Value*", "bias"}, {"const Value*", "residual"}, {"i64", "ldy"}, {"i64", "ldr"},
      {"float", "alpha"}, {"float", "beta"}};
  return parameters;
}

std::vector<PlanArgument> output_arguments() {
  const auto variable = [](const char* name) { return IntegerExpression::parse(name).value(); };
  return {{Kind::kY, "", 0},
          {Kind::kBias, "", 0},
          {Kind::kResidual, "", 0},
          {Kind::kInt64, "", variable("ldy")},
          {Kind::kInt64, "", variable("ldr")},
          {Kind::kAlpha, "", 0},
          {Kind::kBeta, "", 0}};
}

constexpr const char* kMakeOutput = "const Output output{y, ldy, bias, residual, ldr, alpha, beta};\n";

KernelText rows_text(const RowsConfig& config, const OperatorSpec& spec) {
  const bool targets = config.row_order != RowOrder::kNatural || config.split_length > 0;
  const bool token_major_input = spec.layout == Layout::kTokenMajor && config.input != RowsConfig::Input::kRelayout;
  const bool shared = config.input == RowsConfig::Input::kShared;
  KernelText text;
  text.name = fmt::format("rows_{}_u{}_v{}_tl{}_tt{}_s{}_h{}_r{}_n{}_x{}_p{}{}_b{}", spec_tag(spec), config.index_bits,
                          config.vector_width, config.token_lanes, config.tokens_per_thread, config.shuffle_lanes,
                          config.shared_parts, config.rows_per_group, config.unroll,
                          std::string_view("gsr").substr(static_cast<std::size_t>(config.input), 1),
                          std::string_view("nat").substr(static_cast<std::size_t>(config.partial_sums), 1),
                          targets ? "t" : "", config.threads_per_block);
  text.summary = fmt::format("Y = W X for {} weights in csr, {} reduction lanes a row, {} tokens a tile",
                             short_name(spec.type), config.shuffle_lanes * config.shared_parts, config.token_tile());
  text.threads = config.threads_per_block;
  text.max_shared_bytes = config.panel_bytes(spec.cols, size_of(spec.type)) + config.sums_bytes();
  text.headers = {"snippets/prolog/csr_stream.cuh",
                  shared ? "snippets/prolog/shared_input.cuh" : "snippets/prolog/global_input.cuh",
                  "snippets/reduction/register_sums.cuh",
                  "snippets/reduction/shuffle_sum.cuh",
                  "snippets/reduction/shared_sum.cuh",
                  "snippets/reduction/partial_sums.cuh",
                  "snippets/kernels/rows.cuh"};
  text.lines = {
      {fmt::format("using Value = {}", device_type(spec.type)), "of W, X, Y, bias and residual"},
      {fmt::format("using Index = u{}", config.index_bits), "of a column"},
      {fmt::format("constexpr int kTokenLanes = {}", config.token_lanes), "lanes that share out a token tile"},
      {fmt::format("constexpr int kTokens = {}", config.tokens_per_thread), "tokens of a thread"},
      {fmt::format("constexpr int kShuffleLanes = {}", config.shuffle_lanes), "lanes of a row that combine by shuffle"},
      {fmt::format("constexpr int kSharedParts = {}", config.shared_parts),
       "parts of a row that combine through shared memory"},
      {fmt::format("using Stream = CsrStream<Value, Index, {}>", config.vector_width), "nonzeros a load"},
      {fmt::format("using Input = {}<Value, {}, kTokenLanes, kTokens, kThreads>",
                   shared ? "SharedInput" : "GlobalInput", boolean(token_major_input)),
       "X token-major"},
      {fmt::format("using Sums = RegisterSums<{}, kTokens>", config.rows_per_group), "rows of a thread group"},
      {"using Shuffle = ShuffleSum<kShuffleLanes, kTokenLanes>", ""},
      {"using Shared = SharedSum<kSharedParts, kShuffleLanes * kTokenLanes, kTokenLanes, kThreads>", ""},
      {fmt::format("using Partials = {}", partials_type(config.partial_sums)), "of rows that were cut"},
  };
  add_output(spec, text);
  text.lines.push_back({fmt::format("using Kernel = RowsKernel<Stream, Input, Sums, Shuffle, Shared, Partials, Output, "
                                    "kTokenLanes, {}, {}, kThreads>",
                                    config.unroll, boolean(targets)),
                        "vectors in flight, segments name their rows"});
  text.parameters = {{"const csr::Segment*", "segments"},
                     {"const u32*", "targets"},
                     {"const Index*", "columns"},
                     {"const Value*", "values"},
                     {"const Value*", "x"},
                     {"float*", "partials"},
                     {"int", "segment_count"},
                     {"int", "cols"},
                     {"int", "n"},
                     {"i64", "ldx"}};
  text.parameters.insert(text.parameters.end(), output_parameters().begin(), output_parameters().end());
  text.body = std::string("const Stream stream{columns, values};\n") + "Input input(x, ldx, cols, shared_memory());\n" +
              kMakeOutput +
              "Kernel::run(segments, targets, stream, input, output, partials, segment_count, n,\n"
              "            shared_memory() + Input::shared_bytes(cols));";
  return text;
}

KernelText finish_text(const OperatorSpec& spec) {
  KernelText text;
  text.name = "finish_rows_" + spec_tag(spec);
  text.summary = "adds up the partial sums of rows that were cut, and runs the epilog";
  text.threads = 256;
  text.headers = {"snippets/kernels/finish_rows.cuh"};
  text.lines = {{fmt::format("using Value = {}", device_type(spec.type)), "of Y, bias and residual"}};
  add_output(spec, text);
  text.lines.push_back({"using Kernel = FinishRowsKernel<Output, kThreads>", ""});
  text.parameters = {{"const u32*", "split_rows"},
                     {"const u32*", "slot_offsets"},
                     {"const float*", "partials"},
                     {"int", "split_row_count"},
                     {"int", "n"}};
  text.parameters.insert(text.parameters.end(), output_parameters().begin(), output_parameters().end());
  text.body = std::string(kMakeOutput) + "Kernel::run(split_rows, slot_offsets, partials, output, split_row_count, n);";
  return text;
}

KernelText relayout_text(const OperatorSpec& spec) {
  KernelText text;
  text.name = fmt::format("relayout_{}", short_name(spec.type));
  text.summary = "token-major X to feature-major Xt";
  text.threads = 256;
  text.max_shared_bytes = 32 * 33 * 4;
  text.headers = {"snippets/kernels/relayout.cuh"};
  text.lines = {{fmt::format("using Value = {}", device_type(spec.type)), "of X"},
                {"using Kernel = RelayoutKernel<Value>", ""}};
  text.parameters = {{"const Value*", "x"}, {"i64", "ldx"},  {"Value*", "xt"},
                     {"i64", "ldt"},        {"int", "cols"}, {"int", "n"}};
  text.body = "Kernel::run(x, ldx, xt, ldt, cols, n, shared_memory());";
  return text;
}

// Adds the steps of a plan one by one; a formula that does not parse is a bug, reported by build().
class PlanBuilder {
 public:
  PlanBuilder(const RowsConfig& config, const Problem& problem, const PackedWeight& packed)
      : config_(config), problem_(problem), packed_(packed) {}

  Result<LaunchPlan> build(const KernelText& rows, const KernelText& relayout, const KernelText& finish) {
    const OperatorSpec& spec = problem_.spec;
    const std::int64_t split_rows = packed_.facts.at("split_rows");
    const std::int64_t slots = packed_.facts.at("slots");
    const bool relaid = config_.input == RowsConfig::Input::kRelayout;
    const std::string xt_bytes = relaid ? fmt::format("({} * (ceil_div(n, 8) * 8) + 255) / 256 * 256",
                                                      spec.cols * static_cast<std::int64_t>(size_of(spec.type)))
                                        : "0";
    const std::string partial_bytes = fmt::format("{} * n", slots * 4);
    plan_.workspace_bytes = expression(fmt::format("{} + {}", xt_bytes, partial_bytes));
    if (relaid) add_relayout(relayout);
    if (split_rows > 0 && config_.partial_sums == PartialSums::kAtomic) {
      PlanStep zero;
      zero.kind = PlanStep::Kind::kZero;
      zero.zero_offset = expression(xt_bytes);
      zero.zero_bytes = expression(partial_bytes);
      plan_.steps.push_back(std::move(zero));
    }
    add_rows(rows, relaid, split_rows > 0 ? workspace(xt_bytes) : null());
    if (split_rows > 0) add_finish(finish, split_rows, workspace(xt_bytes));
    if (!error_.ok()) return error_;
    return std::move(plan_);
  }

 private:
  IntegerExpression expression(const std::string& text) {
    auto parsed = IntegerExpression::parse(text);
    if (!parsed.ok() && error_.ok()) error_ = internal_error("rows plan: " + parsed.status().message());
    return parsed.ok() ? *parsed : IntegerExpression(0);
  }
  PlanArgument packed(const char* name) { return {Kind::kPacked, name, 0}; }
  PlanArgument workspace(const std::string& offset) { return {Kind::kWorkspace, "", expression(offset)}; }
  PlanArgument null() { return {Kind::kInt64, "", 0}; }
  PlanArgument int32(const std::string& value) { return {Kind::kInt32, "", expression(value)}; }
  PlanArgument int64(const std::string& value) { return {Kind::kInt64, "", expression(value)}; }

  void add_relayout(const KernelText& text) {
    PlanStep step;
    step.kernel = text.name;
    step.grid = {(problem_.spec.cols + 31) / 32, expression("min(ceil_div(n, 32), 65535)"), 1};
    step.block = {text.threads, 1, 1};
    step.shared_bytes = text.max_shared_bytes;
    step.arguments = {{Kind::kX, "", 0},
                      int64("ldx"),
                      workspace("0"),
                      int64("ceil_div(n, 8) * 8"),
                      int32(std::to_string(problem_.spec.cols)),
                      int32("n")};
    plan_.steps.push_back(std::move(step));
  }

  void add_rows(const KernelText& text, bool relaid, const PlanArgument& partials) {
    const std::int64_t segments = packed_.facts.at("segments");
    const std::int64_t per_block =
        std::int64_t{config_.threads_per_block} / config_.group_threads() * config_.rows_per_group;
    std::int64_t blocks = std::max<std::int64_t>(1, (segments + per_block - 1) / per_block);
    if (config_.blocks_per_sm > 0)
      blocks =
          std::min<std::int64_t>(blocks, std::int64_t{config_.blocks_per_sm} * std::max(problem_.device.sm_count, 1));
    PlanStep step;
    step.kernel = text.name;
    step.grid = {blocks, expression(fmt::format("min(ceil_div(n, {}), 65535)", config_.token_tile())), 1};
    step.block = {text.threads, 1, 1};
    step.shared_bytes = text.max_shared_bytes;
    step.arguments = {packed("segments"),
                      packed_.facts.at("has_targets") != 0 ? packed("targets") : null(),
                      packed("columns"),
                      packed("values"),
                      relaid ? workspace("0") : PlanArgument{Kind::kX, "", 0},
                      partials,
                      int32(std::to_string(segments)),
                      int32(std::to_string(problem_.spec.cols)),
                      int32("n"),
                      int64(relaid ? "ceil_div(n, 8) * 8" : "ldx")};
    for (const PlanArgument& argument : output_arguments()) step.arguments.push_back(argument);
    plan_.steps.push_back(std::move(step));
  }

  void add_finish(const KernelText& text, std::int64_t split_rows, const PlanArgument& partials) {
    PlanStep step;
    step.kernel = text.name;
    step.grid = {expression(fmt::format("min(ceil_div({} * n, {}), 65535)", split_rows, text.threads)), 1, 1};
    step.block = {text.threads, 1, 1};
    step.arguments = {packed("split_rows"), packed("slot_offsets"), partials, int32(std::to_string(split_rows)),
                      int32("n")};
    for (const PlanArgument& argument : output_arguments()) step.arguments.push_back(argument);
    plan_.steps.push_back(std::move(step));
  }

  const RowsConfig& config_;
  const Problem& problem_;
  const PackedWeight& packed_;
  LaunchPlan plan_;
  Status error_;
};

}  // namespace

Result<Candidate> RowsFamily::generate(const Config& config, const Problem& problem, const PackedWeight& packed) const {
  const RowsConfig rows(config);
  if (packed.packing != rows.csr_packing().name())
    return internal_error(
        fmt::format("rows: config reads packing {}, not {}", rows.csr_packing().name(), packed.packing));
  const KernelText rows_kernel = rows_text(rows, problem.spec);
  const KernelText relayout_kernel = relayout_text(problem.spec);
  const KernelText finish_kernel = finish_text(problem.spec);
  Candidate candidate;
  candidate.config = config;
  candidate.packing = packed.packing;
  SPARSMITH_ASSIGN_OR_RETURN(candidate.plan,
                             PlanBuilder(rows, problem, packed).build(rows_kernel, relayout_kernel, finish_kernel));
  for (const KernelText* text : {&rows_kernel, &relayout_kernel, &finish_kernel}) {
    const bool used = std::any_of(candidate.plan.steps.begin(), candidate.plan.steps.end(),
                                  [&](const PlanStep& step) { return step.kernel == text->name; });
    if (!used) continue;
    SPARSMITH_ASSIGN_OR_RETURN(KernelSource source, assemble(*text));
    candidate.kernels.push_back(std::move(source));
  }
  return candidate;
}

}  // namespace sparsmith
