#include "generator/dense_epilogue.h"

#include <fmt/format.h>

#include "generator/kernel_parts.h"
#include "runtime/tuned_file.h"

namespace sparsmith {
namespace {

constexpr int kTokensPerThread = 4;

KernelText epilogue_text(const OperatorSpec& spec) {
  KernelText text;
  text.name = "dense_epilogue_" + spec_tag(spec);
  text.summary = "runs the epilog on W X, which a dense product left in fp32";
  text.threads = 256;
  text.headers = {"snippets/kernels/dense_epilogue.cuh"};
  text.lines = {{fmt::format("using Value = {}", device_type(spec.type)), "of Y, bias and residual"}};
  add_output(spec, text);
  text.lines.push_back({fmt::format("using Kernel = DenseEpilogueKernel<Output, {}, {}, kThreads>",
                                    boolean(spec.layout == Layout::kTokenMajor), kTokensPerThread),
                        "token-major, tokens of a thread"});
  text.parameters = {{"const float*", "product"}, {"int", "rows"}, {"int", "n"}};
  add_output_parameters(text);
  text.body = std::string(kMakeOutput) + "Kernel::run(product, output, rows, n);";
  return text;
}

}  // namespace

Result<Candidate> dense_epilogue(const OperatorSpec& spec) {
  const KernelText text = epilogue_text(spec);
  PlanArguments arguments("dense epilogue");
  PlanStep step;
  step.kernel = text.name;
  step.grid = {arguments.expression(fmt::format("min(ceil_div({} * ceil_div(n, {}), {}), 65535)", spec.rows,
                                                kTokensPerThread, text.threads)),
               1, 1};
  step.block = {text.threads, 1, 1};
  step.arguments = {arguments.workspace("0"), arguments.int32(std::to_string(spec.rows)), arguments.int32("n")};
  add_output_arguments(step);
  Candidate candidate;
  candidate.config.family = "dense_epilogue";
  candidate.packing = kDensePacking;
  candidate.plan.workspace_bytes = arguments.expression(fmt::format("{} * n", spec.rows * 4));
  candidate.plan.steps.push_back(std::move(step));
  if (!arguments.error().ok()) return arguments.error();
  SPARSMITH_ASSIGN_OR_RETURN(KernelSource source, assemble(text));
  candidate.kernels.push_back(std::move(source));
  return candidate;
}

}  // namespace sparsmith
