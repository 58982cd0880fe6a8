#include "generator/dense_family.h"

#include <fmt/format.h>

#include "generator/dense_cost.h"
#include "generator/kernel_parts.h"
#include "runtime/dense_matmul.h"
#include "runtime/tuned_file.h"

namespace sparsmith {
namespace {

constexpr int kTokensPerThread = 4;
constexpr const char* kProposal = "proposal";

std::int64_t proposal_of(const Config& config) {
  const auto found = config.values.find(kProposal);
  return found == config.values.end() ? 0 : found->second;
}

KernelText epilogue_text(const OperatorSpec& spec) {
  KernelText text;
  text.name = "dense_epilogue_" + spec_tag(spec);
  text.summary = "runs the epilog on W X, which a dense product left in fp32";
  text.threads = 256;
  text.headers = {"snippets/kernels/dense_epilogue.cuh"};
  text.lines = {output_type(spec)};
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

std::vector<Parameter> DenseFamily::parameters() const {
  return {{.name = kProposal,
           .abbreviation = "p",
           .values = {0, 1, 2, 3, 4, 5, 6, 7},
           .meaning = "which of the algorithms that cuBLASLt proposes for the bucket's tokens, best first",
           .later = true}};
}

std::string DenseFamily::packing(const Config& config, const Problem& problem) const {
  return packing_of_rows(config, problem);
}

std::string DenseFamily::packing_of_rows(const Config& /*config*/, const Problem& /*problem*/) const {
  return std::string(kDensePacking);
}

Result<Candidate> dense_with_epilogue(const OperatorSpec& spec) {
  const KernelText text = epilogue_text(spec);
  PlanStep step = launch_of(text);
  step.grid[0] = IntegerExpression::of(
      fmt::format("min(ceil_div({} * ceil_div(n, {}), {}), 65535)", spec.rows, kTokensPerThread, text.threads));
  Candidate candidate;
  candidate.packing = kDensePacking;
  candidate.plan.workspace_bytes = IntegerExpression::of(part_bytes(spec, 1));
  candidate.plan.steps = {matmul_step(std::string(kDenseArray), IntegerExpression(0)), std::move(step)};
  SPARSMITH_ASSIGN_OR_RETURN(KernelSource source, assemble(text));
  candidate.kernels.push_back(std::move(source));
  return candidate;
}

Result<Candidate> DenseFamily::generate(const Config& config, const Problem& problem,
                                        const PackedWeight& packed) const {
  if (packed.packing != kDensePacking)
    return invalid_argument(fmt::format("dense: {} is another packing", packed.packing));
  Candidate candidate;
  if (DenseMatmul::covers(problem.spec)) {
    candidate.plan.steps = {matmul_step(std::string(kDenseArray), std::nullopt)};
  } else {
    SPARSMITH_ASSIGN_OR_RETURN(candidate, dense_with_epilogue(problem.spec));
  }
  // The first is the library's best guess at any N.
  PlanStep& product = candidate.plan.steps.front();
  product.proposal = static_cast<int>(proposal_of(config));
  if (product.proposal > 0) product.proposed_for = problem.tokens;
  candidate.config = config;
  candidate.packing = packed.packing;
  return candidate;
}

double DenseFamily::predict(const Config& /*config*/, const Problem& problem,
                            const SparsityStatistics& /*statistics*/) const {
  const double product_us = predicted_dense_us(problem);
  return DenseMatmul::covers(problem.spec) ? product_us : product_us + predicted_dense_epilogue_us(problem);
}

}  // namespace sparsmith
