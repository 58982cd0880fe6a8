#include "generator/kernel_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/plant.h"
#include "formats/packed_format.h"
#include "generator/device_speed.h"
#include "generator/planted_faults.h"

namespace sparsmith {
namespace {

std::string_view activation_type(Activation activation) {
  switch (activation) {
    case Activation::kNone: return "NoActivation";
    case Activation::kRelu: return "Relu";
    case Activation::kGelu: return "Gelu";
    case Activation::kSilu: return "Silu";
  }
  return "?";
}

// assemble(), and in a build that plants faults, these. Kernels that many families share (a relayout of X, the sum of
// parts) are spared: one of them would be a fault of most candidates.
Result<KernelSource> assembled(const KernelText& text, const Config& config, LaunchPlan& plan) {
  if constexpr (kPlants) {
    KernelText planted = text;
    if (text.name.starts_with(config.family + "_")) plant_fault(planted, plan);
    return assemble(planted);
  } else {
    return assemble(text);
  }
}

}  // namespace

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

KernelText::Line coding_type(const Coding* coding) {
  static const std::map<std::string_view, std::string_view> kSnippets = {{"mxint8", "MxInt8"}};
  const std::string_view snippet = coding == nullptr ? "PlainCoding<Stored>" : kSnippets.at(coding->name);
  return {fmt::format("using Coding = {}", snippet), "of W's values"};
}

std::string make_coding(const Coding* coding, const OperatorSpec& spec, KernelText& text) {
  if (coding == nullptr) return "const Coding coding{};\n";
  text.parameters.push_back({"const u8*", "scales", packed_array(kScales)});
  return fmt::format("const Coding coding{{scales, {}}};\n", coding->scales_of_row(spec.cols));
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
  text.lines.push_back(
      {fmt::format("using Output = StoreOutput<OutputType, {}, {}, {}, {}, {}>",
                   boolean(spec.layout == Layout::kTokenMajor), activation_type(spec.epilogue.activation),
                   boolean(spec.epilogue.bias), boolean(spec.epilogue.beta), boolean(spec.epilogue.residual)),
       "token-major, activation, + bias, + beta * Y, + residual"});
}

void add_part_output(const OperatorSpec& spec, bool split, KernelText& text) {
  if (!split) return add_output(spec, text);
  text.headers.push_back("snippets/epilog/store_output.cuh");
  text.lines.push_back({fmt::format("using Output = StoreOutput<float, {}, NoActivation, false, false, false>",
                                    boolean(spec.layout == Layout::kTokenMajor)),
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

KernelText finish_parts_text(const OperatorSpec& spec, int parts, const std::string& partials) {
  KernelText text;
  text.name = "finish_parts_" + spec_tag(spec);
  text.summary = "adds up the partial sums of column parts, and runs the epilog";
  text.threads = 256;
  text.headers = {"snippets/kernels/finish_parts.cuh"};
  text.lines = {output_type(spec)};
  add_output(spec, text);
  text.lines.push_back({fmt::format("using Kernel = FinishPartsKernel<Output, {}, kThreads>",
                                    boolean(spec.layout == Layout::kTokenMajor)),
                        "token-major"});
  text.parameters = {{"const float*", "partials", workspace(partials)},
                     {"int", "part_count", integer(parts)},
                     {"int", "rows", integer(spec.rows)},
                     {"int", "n", integer("n")}};
  add_output_parameters(text);
  text.body = std::string(kMakeOutput) + "Kernel::run(partials, output, part_count, rows, n);";
  return text;
}

PlanStep finish_parts_step(const OperatorSpec& spec, const KernelText& text) {
  PlanStep step = launch_of(text);
  step.grid[0] = IntegerExpression::of(fmt::format("min(ceil_div({} * n, {}), 65535)", spec.rows, text.threads));
  return step;
}

std::string part_bytes(const OperatorSpec& spec, int parts) { return fmt::format("{} * n", spec.rows * parts * 4); }

IntegerExpression token_blocks(std::int64_t tokens) {
  return IntegerExpression::of(fmt::format("min(ceil_div(n, {}), 65535)", tokens));
}

void add_shared_bytes(std::int64_t bytes, std::string_view counted, KernelText& text) {
  text.max_shared_bytes = bytes;
  text.lines.push_back({fmt::format("static_assert({} == {})", counted, bytes), "dynamic shared memory"});
}

void add_output_parameters(KernelText& text) {
  const KernelText::Parameter parameters[] = {{"OutputType*", "y", operand("y")},
                                              {"const OutputType*", "bias", operand("bias")},
                                              {"const OutputType*", "residual", operand("residual")},
                                              {"i64", "ldy", integer("ld.y")},
                                              {"i64", "ldr", integer("ld.residual")},
                                              {"float", "alpha", scalar("alpha")},
                                              {"float", "beta", scalar("beta")}};
  text.parameters.insert(text.parameters.end(), std::begin(parameters), std::end(parameters));
}

KernelText relayout_text(const OperatorSpec& spec) {
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
  return text;
}

PlanStep relayout_step(const OperatorSpec& spec, const KernelText& text) {
  PlanStep step = launch_of(text);
  const std::int64_t side = 16 / static_cast<std::int64_t>(size_of(spec.type));
  const std::int64_t columns = text.threads / 8 * side;  // of a block, as relayout.cuh has it
  step.grid = {spec.cols / columns + 1, token_blocks(8 * side), 1};
  return step;
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

Status check_packing(const Config& config, const std::string& packing, const PackedWeight& packed) {
  if (without_coding(without_transposed(packed.packing)) == packing) return {};
  return internal_error(fmt::format("{}: config reads packing {}, not {}", config.family, packing, packed.packing));
}

Result<Candidate> make_candidate(const Config& config, const Problem& problem, const PackedWeight& packed,
                                 LaunchPlan plan, std::span<const KernelText> texts) {
  std::map<std::string_view, std::int64_t> shared_bytes;
  for (const PlanStep& step : plan.steps) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t bytes,
                               step.shared_bytes.evaluate({.n = problem.tokens, .facts = &packed.facts}));
    shared_bytes[step.kernel] = std::max(shared_bytes[step.kernel], bytes);
    if (bytes <= problem.device.shared_bytes_per_block) continue;
    return unsupported(fmt::format("more shared memory than a block has: {} asks for {} bytes, of {}", step.kernel,
                                   bytes, problem.device.shared_bytes_per_block));
  }
  Candidate candidate;
  candidate.config = config;
  candidate.packing = packed.packing;
  candidate.plan = std::move(plan);
  for (const KernelText& text : texts) {
    const auto launched = shared_bytes.find(text.name);
    if (launched == shared_bytes.end()) continue;
    SPARSMITH_ASSIGN_OR_RETURN(KernelSource source, assembled(text, config, candidate.plan));
    source.max_shared_bytes = launched->second;
    candidate.kernels.push_back(std::move(source));
  }
  return candidate;
}

}  // namespace sparsmith
