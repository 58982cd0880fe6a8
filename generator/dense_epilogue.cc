#include "generator/dense_epilogue.h"

#include <fmt/format.h>

#include "generator/kernel_parts.h"
#include "runtime/dense_matmul.h"
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
  text.parameters = {
      {"const float*", "product", workspace()}, {"int", "rows", integer(spec.rows)}, {"int", "n", integer("n")}};
  add_output_parameters(text);
  text.body = std::string(kMakeOutput) + "Kernel::run(product, output, rows, n);";
  return text;
}

}  // namespace

Result<Candidate> dense_epilogue(const OperatorSpec& spec) {
  const KernelText text = epilogue_text(spec);
  PlanStep step = launch_of(text);
  step.grid[0] = IntegerExpression::of(
      fmt::format("min(ceil_div({} * ceil_div(n, {}), {}), 65535)", spec.rows, kTokensPerThread, text.threads));
  Candidate candidate;
  candidate.config.family = kDensePacking;
  candidate.packing = kDensePacking;
  candidate.plan.workspace_bytes = IntegerExpression::of(part_bytes(spec, 1));
  candidate.plan.steps = {matmul_step(std::string(kDenseArray), IntegerExpression(0)), std::move(step)};
  SPARSMITH_ASSIGN_OR_RETURN(KernelSource source, assemble(text));
  candidate.kernels.push_back(std::move(source));
  return candidate;
}

Result<Candidate> dense_candidate(const OperatorSpec& spec) {
  if (!DenseMatmul::covers(spec)) return dense_epilogue(spec);
  Candidate candidate;
  candidate.config.family = kDensePacking;
  candidate.packing = kDensePacking;
  candidate.plan.steps = {matmul_step(std::string(kDenseArray), std::nullopt)};
  return candidate;
}

}  // namespace sparsmith
