#include "generator/kernel_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "formats/packed_format.h"
#include "generator/device_speed.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kWorkspaceAlignment = 256;
constexpr const char* kActivationTypes[] = {"NoActivation", "Relu", "Gelu", "Silu", "GeluTanh"};  // by Activation

const char* activation_type(const OperatorSpec& spec) {
  return kActivationTypes[static_cast<std::size_t>(spec.epilogue.activation)];
}

// `expression` with `stride`, a formula, in place of Y's leading dimension.
IntegerExpression with_stride_of_y(const IntegerExpression& expression, const std::string& stride) {
  static constexpr std::string_view kStrideOfY = "ld.y";
  std::string text = expression.text();
  for (std::size_t at = text.find(kStrideOfY); at != std::string::npos; at = text.find(kStrideOfY, at))
    text.replace(at, kStrideOfY.size(), stride);
  return IntegerExpression::of(text);
}

}  // namespace

PlanStep& PlannedKernels::launch(KernelText text) {
  plan.steps.push_back(launch_of(text));
  texts.push_back(std::move(text));
  return plan.steps.back();
}

std::string_view device_type(DataType type) {
  switch (type) {
    case DataType::kFloat16: return "half";
    case DataType::kBFloat16: return "bfloat16";
    case DataType::kInt8: return "i8";
    default: return "float";
  }
}

KernelText::Line stored_type(DataType type) { return {fmt::format("using Stored = {}", device_type(type)), "of W"}; }

KernelText::Line input_type(const OperatorSpec& spec) {
  return {fmt::format("using InputType = {}", device_type(spec.type)), "of X"};
}

KernelText::Line output_type(const OperatorSpec& spec) {
  return {fmt::format("using OutputType = {}", device_type(spec.type)), "of Y, bias and residual"};
}

std::string_view boolean(bool value) { return value ? "true" : "false"; }
std::string_view token_major(const OperatorSpec& spec) { return boolean(spec.layout == Layout::kTokenMajor); }

KernelText::Line coding_type(const Coding* coding) {
  static const std::map<std::string_view, std::string_view> kSnippets = {{"mxint8", "MxInt8"}};
  const std::string_view snippet = coding == nullptr ? "PlainCoding<Stored>" : kSnippets.at(coding->name);
  return {fmt::format("using Coding = {}", snippet), "of W's values"};
}

std::string make_coding(const Coding* coding, const OperatorSpec& spec, KernelText& text) {
  if (coding == nullptr) return "const Coding coding{};\n";
  text.parameters.push_back({"const u8*", "scales", packed_array(kScales)});
  text.parameters.push_back({"int", "scales_of_row", integer(coding->scales_of_row(spec.cols))});
  return "const Coding coding{scales, static_cast<u32>(scales_of_row)};\n";
}

std::string spec_tag(const OperatorSpec& spec) {
  std::string epilogue = spec.epilogue.name();
  std::replace(epilogue.begin(), epilogue.end(), '+', '_');
  return fmt::format("{}_{}_{}", short_name(spec.type), spec.layout == Layout::kTokenMajor ? "tm" : "fm", epilogue);
}

std::string_view row_products_type(const OperatorSpec& spec) {
  return spec.accumulation == Accumulation::kFp16Chains ? "Fp16Chains" : "Fp32Products<InputType>";
}

void add_output(const OperatorSpec& spec, KernelText& text) {
  text.headers.push_back("snippets/epilog/store_output.cuh");
  text.lines.push_back({fmt::format("using Output = StoreOutput<OutputType, {}, {}, {}, {}, {}>", token_major(spec),
                                    activation_type(spec), boolean(spec.epilogue.bias), boolean(spec.epilogue.beta),
                                    boolean(spec.epilogue.residual)),
                        "token-major, activation, + bias, + beta * Y, + residual"});
}

void add_part_output(const OperatorSpec& spec, bool split, KernelText& text) {
  if (!split) return add_output(spec, text);
  text.headers.push_back("snippets/epilog/store_output.cuh");
  text.lines.push_back(
      {fmt::format("using Output = StoreOutput<float, {}, NoActivation, false, false, false>", token_major(spec)),
       "partial sums of a column part, in Y's layout"});
}

std::string make_part_output(const OperatorSpec& spec, bool split, const std::string& partials, KernelText& text) {
  if (!split) {
    add_output_parameters(text);
    return kMakeOutput;
  }
  text.parameters.push_back({"float*", "partials", workspace(partials)});
  text.parameters.push_back({"i64", "ldp", spec.layout == Layout::kTokenMajor ? integer(spec.rows) : integer("n")});
  return "float* part = partials + static_cast<i64>(block_index_z()) * rows * n;\n"
         "const Output output{part, ldp, nullptr, nullptr, 0, 1.0F, 0.0F};\n";
}

std::string make_part_range(int parts, const std::string& unit, const std::string& count, KernelText& text) {
  if (parts == 1) return fmt::format("const int first_{0} = 0;\nconst int end_{0} = {1};\n", unit, count);
  const auto total = std::ranges::find(text.parameters, count, &KernelText::Parameter::name);
  text.parameters.push_back({"int", fmt::format("part_{}s", unit),
                             integer(fmt::format("ceil_div({}, {})", total->argument.value.text(), parts))});
  return fmt::format(
      "const int first_{0} = block_index_z() * part_{0}s;\n"
      "const int end_{0} = first_{0} + part_{0}s < {1} ? first_{0} + part_{0}s : {1};\n",
      unit, count);
}

std::vector<Rule> legal_box_rules() {
  return legal({
      {{"token_tile"}, "tensor cores take 16-bit values", [](auto& in) { return size_of(in.spec.type) == 2; }},
      {{"token_tile"},
       "only devices of compute capability 9.0 have wgmma",
       [](auto& in) { return in.device.compute_capability == 90; }},
      {{"token_tile"},
       "boxes of X have tokens as lines",
       [](auto& in) { return in.spec.layout == Layout::kTokenMajor; }},
  });
}

std::vector<Rule> worthwhile_box_rules() {
  return {
      {{"token_tile"},
       "lines of X without gaps are aligned to 16 bytes",
       [](auto& in) { return in.spec.cols % 8 == 0; }},
      {{"token_tile"},
       "so few tokens that most of a tile of them is empty",
       [](auto& in) { return in["token_tile"] == 64 || 2 * in.problem.tokens > in["token_tile"]; }},
  };
}

void add_finisher(const OperatorSpec& spec, const std::string& elements, KernelText::Line kernel, KernelText text,
                  PlannedKernels& kernels) {
  text.name += "_" + spec_tag(spec);
  text.threads = 256;
  text.lines = {output_type(spec)};
  add_output(spec, text);
  text.lines.push_back(std::move(kernel));
  add_output_parameters(text);
  text.body = kMakeOutput + text.body;
  const int threads = text.threads;
  kernels.launch(std::move(text)).grid[0] = formula("min(ceil_div({}, {}), 65535)", elements, threads);
}

void add_finish_parts(const OperatorSpec& spec, int parts, const std::string& partials, PlannedKernels& kernels) {
  KernelText text;
  text.name = "finish_parts";
  text.summary = "adds up the partial sums of column parts, and runs the epilog";
  text.headers = {"snippets/kernels/finish.cuh"};
  text.parameters = {{"const float*", "partials", workspace(partials)},
                     {"int", "part_count", integer(parts)},
                     {"int", "rows", integer(spec.rows)},
                     {"int", "n", integer("n")}};
  text.body = "Kernel::run(partials, output, part_count, rows, n);";
  const KernelText::Line kernel = {
      fmt::format("using Kernel = FinishPartsKernel<Output, {}, kThreads>", token_major(spec)), "token-major"};
  add_finisher(spec, fmt::format("{} * n", spec.rows), kernel, std::move(text), kernels);
}

void add_gated(const OperatorSpec& spec, bool sums, const std::string& offset, PlannedKernels& kernels) {
  const std::int64_t rows = spec.output_rows();
  const DataType product = sums ? DataType::kFloat32 : spec.type;
  const bool bias = sums && spec.epilogue.bias;
  int width = spec.layout == Layout::kTokenMajor ? 4 : 1;  // outputs of a thread
  while (rows % width != 0) width /= 2;
  KernelText text;
  text.name = fmt::format("gated_{}_{}_v{}", spec_tag(spec), sums ? "sums" : "values", width);
  text.summary = "the activations of the first half of the rows, times the second half";
  text.threads = 256;
  text.headers = {"snippets/epilog/store_output.cuh", "snippets/kernels/gated.cuh"};
  text.lines = {{fmt::format("using Product = {}", device_type(product)), "of W X"},
                output_type(spec),
                {fmt::format("using Kernel = GatedKernel<Product, OutputType, {}, {}, {}, {}, kThreads>",
                             activation_type(spec), token_major(spec), boolean(bias), width),
                 "activation, token-major, + bias, outputs of a thread"}};
  text.parameters = {{"const Product*", "product", workspace(offset)},
                     {"const OutputType*", "bias", bias ? operand("bias") : null_pointer()},
                     {"OutputType*", "y", operand("y")},
                     {"i64", "ldy", integer("ld.y")},
                     {"int", "rows", integer(rows)},
                     {"int", "n", integer("n")}};
  if (sums) text.parameters.push_back({"float", "alpha", scalar("alpha")});
  text.body = fmt::format("Kernel::run(product, bias, {}, y, ldy, rows, n);", sums ? "alpha" : "1.0F");
  const int threads = text.threads;
  kernels.launch(std::move(text)).grid[0] = formula("min(ceil_div({} * n, {}), 65535)", rows / width, threads);
}

void gate_output(const OperatorSpec& spec, PlannedKernels& kernels) {
  LaunchPlan& plan = kernels.plan;
  const std::string offset =
      fmt::format("ceil_div({}, {}) * {}", plan.workspace_bytes.text(), kWorkspaceAlignment, kWorkspaceAlignment);
  const std::string stride = spec.layout == Layout::kTokenMajor ? std::to_string(spec.rows) : "n";
  for (PlanStep& step : plan.steps) {
    for (PlanArgument& argument : step.arguments) {
      if (argument.kind == PlanArgument::Kind::kOperand && argument.name == "y") {
        argument = workspace(offset);
      } else {
        argument.value = with_stride_of_y(argument.value, stride);
      }
    }
  }
  plan.workspace_bytes = formula("{} + {} * n", offset, spec.rows * static_cast<std::int64_t>(size_of(spec.type)));
  add_gated(spec, false, offset, kernels);
}

void leave_sums(const OperatorSpec& spec, const std::string& offset, PlannedKernels& kernels) {
  for (std::size_t i = 0; i < kernels.texts.size(); ++i) {
    KernelText& text = kernels.texts[i];
    const std::size_t made = text.body.find(kMakeOutput);
    if (made == std::string::npos) continue;  // sums of parts, for the next kernel
    text.name += "_sums";
    std::ranges::find_if(text.lines, [](const KernelText::Line& line) {
      return line.declaration.starts_with("using OutputType");
    })->declaration = "using OutputType = float";
    KernelText outputs;
    add_output_parameters(outputs);
    std::erase_if(text.parameters, [&](const KernelText::Parameter& parameter) {
      return std::ranges::count(outputs.parameters, parameter.name, &KernelText::Parameter::name) > 0;
    });
    text.parameters.push_back({"float*", "sums", workspace(offset)});
    text.parameters.push_back({"i64", "ld_sums", integer(spec.rows)});
    text.body.replace(made, std::string_view(kMakeOutput).size(),
                      "const Output output{sums, ld_sums, nullptr, nullptr, 0, 1.0F, 0.0F};\n");
    PlanStep launched = launch_of(text);
    kernels.plan.steps[i].kernel = std::move(launched.kernel);
    kernels.plan.steps[i].arguments = std::move(launched.arguments);
  }
}

std::string part_bytes(const OperatorSpec& spec, int parts) { return fmt::format("{} * n", spec.rows * parts * 4); }

IntegerExpression token_blocks(std::int64_t tokens) { return formula("min(ceil_div(n, {}), 65535)", tokens); }

void add_shared_bytes(std::int64_t bytes, std::string_view counted, KernelText& text) {
  text.max_shared_bytes = bytes;
  text.lines.push_back({fmt::format("static_assert({} == {})", counted, bytes), "dynamic shared memory"});
}

void add_input_parameters(const OperatorSpec& spec, KernelText& text) {
  text.parameters.insert(text.parameters.end(), {{"const InputType*", "x", operand("x")},
                                                 {"i64", "ldx", integer("ld.x")},
                                                 {"int", "cols", integer(spec.cols)},
                                                 {"int", "n", integer("n")}});
}

void add_output_parameters(KernelText& text) {
  text.parameters.insert(text.parameters.end(), {{"OutputType*", "y", operand("y")},
                                                 {"const OutputType*", "bias", operand("bias")},
                                                 {"const OutputType*", "residual", operand("residual")},
                                                 {"i64", "ldy", integer("ld.y")},
                                                 {"i64", "ldr", integer("ld.residual")},
                                                 {"float", "alpha", scalar("alpha")},
                                                 {"float", "beta", scalar("beta")}});
}

void add_relayout(const OperatorSpec& spec, PlannedKernels& kernels) {
  KernelText text;
  text.name = fmt::format("relayout_{}", short_name(spec.type));
  text.summary = "token-major X to feature-major Xt";
  text.threads = 128;
  text.headers = {"snippets/kernels/relayout.cuh"};
  text.lines = {input_type(spec), {"using Kernel = RelayoutKernel<InputType>", ""}};
  text.parameters = {{"const InputType*", "x", operand("x")}, {"i64", "ldx", integer("ld.x")},
                     {"InputType*", "xt", workspace()},       {"i64", "ldt", integer(kRelayoutStride)},
                     {"int", "cols", integer(spec.cols)},     {"int", "n", integer("n")}};
  text.body = "Kernel::run(x, ldx, xt, ldt, cols, n);";
  const std::int64_t side = 16 / static_cast<std::int64_t>(size_of(spec.type));
  const std::int64_t columns = text.threads / 8 * side;  // of a block, as relayout.cuh has it
  kernels.launch(std::move(text)).grid = {spec.cols / columns + 1, token_blocks(8 * side), 1};
}

std::string relayout_bytes(const OperatorSpec& spec) {
  return fmt::format("({} * ({}) + 255) / 256 * 256", (spec.cols + 1) * static_cast<std::int64_t>(size_of(spec.type)),
                     kRelayoutStride);
}

double relayout_us(const Problem& problem) {
  // Measured on an H200 from 0.5 to 134 MB moved. The next kernel's launch and first loads hide behind it.
  constexpr double kLaunchUs = 0.9;
  constexpr double kBytesPerUs = 3.6e6;
  const double x_bytes = static_cast<double>(problem.spec.cols) * static_cast<double>(problem.tokens) *
                         static_cast<double>(size_of(problem.spec.type));
  return kLaunchUs + launch_delay_us(problem.device) + 2 * x_bytes / kBytesPerUs;
}

Result<Candidate> make_candidate(const Config& config, const Problem& problem, const PackedWeight& packed,
                                 PlannedKernels planned) {
  std::map<std::string_view, std::int64_t> shared_bytes;
  for (const PlanStep& step : planned.plan.steps) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t bytes,
                               step.shared_bytes.evaluate({.n = problem.tokens, .facts = &packed.facts}));
    shared_bytes[step.kernel] = bytes;
    if (bytes <= problem.device.shared_bytes_per_block) continue;
    return unsupported(fmt::format("more shared memory than a block has: {} asks for {} bytes, of {}", step.kernel,
                                   bytes, problem.device.shared_bytes_per_block));
  }
  Candidate candidate{.config = config, .packing = packed.packing, .kernels = {}, .plan = {}};
  for (const KernelText& text : planned.texts) {
    SPARSMITH_ASSIGN_OR_RETURN(KernelSource source, assemble(text));
    source.max_shared_bytes = shared_bytes.at(text.name);
    candidate.kernels.push_back(std::move(source));
  }
  candidate.plan = std::move(planned.plan);
  return candidate;
}

}  // namespace sparsmith
