#include "runtime/plan_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/places.h"
#include "runtime/plan_sizes.h"

namespace sparsmith {
namespace {

// A kernel with the statements of each of its binaries. The driver loads one of them.
struct KnownKernel {
  std::vector<CubinParameters> binaries;
  std::int64_t max_threads = kMaxThreadsPerBlock;
  std::int64_t max_shared_bytes = 0;
};
using KnownKernels = std::map<std::string_view, KnownKernel>;

std::int64_t parameter_bytes(PlanArgument::Kind kind) {
  switch (kind) {
    case PlanArgument::Kind::kInt32:
    case PlanArgument::Kind::kScalar: return 4;
    case PlanArgument::Kind::kTensorMap: return kTensorMapBytes;
    default: return 8;
  }
}

Result<KnownKernel> read_kernel(const TunedKernel& kernel) {
  KnownKernel known;
  known.max_shared_bytes = kernel.max_shared_bytes;
  if (known.max_shared_bytes > kMaxSharedBytes) {
    return invalid_input(
        fmt::format("{} bytes of shared memory; no GPU has more than {}", known.max_shared_bytes, kMaxSharedBytes));
  }
  for (const TunedKernel::Binary& binary : kernel.binaries) {
    Result<CubinParameters> read = read_cubin_parameters(binary.cubin, kernel.name);
    if (!read.ok()) return read.status().annotate(binary.architecture);
    if (read->max_threads > 0) known.max_threads = std::min(known.max_threads, read->max_threads);
    known.binaries.push_back(*std::move(read));
  }
  return known;
}

// Checks the steps for one number of tokens. Above the buckets a grid may become too large; then the run returns an
// error.
Status check_run(const LaunchPlan& plan, const OperatorSpec& spec, const Facts& facts, std::int64_t tokens,
                 bool check_launches, const KnownKernels& kernels) {
  IntegerVariables variables = variables_without_gaps(spec, tokens);
  variables.facts = &facts;
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t workspace, evaluate_workspace(plan.workspace_bytes, variables));
  for (const PlanStep& step : plan.steps) {
    if (step.kind == PlanStep::Kind::kZero) {
      SPARSMITH_RETURN_IF_ERROR(evaluate_zero(step, variables, workspace).status());
      continue;
    }
    if (step.kind == PlanStep::Kind::kMatmul) {
      if (step.product) SPARSMITH_RETURN_IF_ERROR(evaluate_product(step, spec, variables, workspace).status());
      if (step.weight) SPARSMITH_RETURN_IF_ERROR(evaluate_weight(step, spec, variables, workspace).status());
      continue;
    }
    if (!check_launches) continue;
    const KnownKernel& kernel = kernels.at(step.kernel);
    LaunchSizes sizes;
    Status status = evaluate_launch(step, variables, kernel.max_threads, kernel.max_shared_bytes, sizes);
    for (const PlanArgument& argument : step.arguments) {
      if (!status.ok()) break;
      status = evaluate_number(argument.kind, argument.value, variables, workspace).status();
    }
    if (!status.ok()) return status.annotate("kernel " + step.kernel);
  }
  return {};
}

// A tensor map reaches no further than its operand.
Status check_maps(const LaunchPlan& plan, const OperatorSpec& spec) {
  const std::vector<Operand> operands = spec.operands();
  for (const PlanStep& step : plan.steps) {
    for (const PlanArgument& argument : step.arguments) {
      if (argument.kind != PlanArgument::Kind::kTensorMap) continue;
      if (spec.layout != Layout::kTokenMajor || size_of(spec.type) != 2)
        return invalid_input(
            fmt::format("kernel {}: a tensor map; only token-major operands of 16 bits have one", step.kernel));
      const auto of = std::ranges::find(operands, argument.name, &Operand::name);
      if (of == operands.end() || of->access != Access::kIn || !of->present || !of->lines.is_tokens)
        return invalid_input(fmt::format("kernel {}: a tensor map of {:.100}, which is no input of n lines",
                                         step.kernel, argument.name));
      if (argument.value == IntegerExpression(of->length.fixed)) continue;
      return invalid_input(fmt::format("kernel {}: a tensor map of {} with {} elements a line, of {}", step.kernel,
                                       argument.name, argument.value.text(), of->length.fixed));
    }
  }
  return {};
}

// Checks that the arguments fit each binary of each kernel.
Status check_binaries(const LaunchPlan& plan, const KnownKernels& kernels) {
  for (const PlanStep& step : plan.steps) {
    if (step.kind != PlanStep::Kind::kLaunch) continue;
    for (const CubinParameters& binary : kernels.at(step.kernel).binaries)
      SPARSMITH_RETURN_IF_ERROR(check_arguments(step, binary));
  }
  return {};
}

Status check_choice(const TunedWeight& weight, const TunedOperator& op, std::size_t index,
                    const KnownKernels& kernels) {
  const TunedChoice& choice = op.choices[index];
  if (choice.plan.workspace_bytes.uses_strides()) {
    return invalid_input(fmt::format("the workspace {} depends on strides; its size is asked for by tokens alone",
                                     choice.plan.workspace_bytes.text()));
  }
  SPARSMITH_RETURN_IF_ERROR(check_maps(choice.plan, op.spec));
  SPARSMITH_RETURN_IF_ERROR(check_binaries(choice.plan, kernels));
  const Facts& facts = weight.packing(choice.packing)->facts;  // validate() has seen it
  const bool last = index + 1 == op.choices.size();
  const std::int64_t least = index == 0 ? 1 : op.choices[index - 1].tokens + 1;
  for (const std::int64_t tokens : {least, choice.tokens, choice.tokens + (last ? 1 : 0)}) {
    const Status status = check_run(choice.plan, op.spec, facts, tokens, tokens <= choice.tokens, kernels);
    if (!status.ok()) return invalid_input(fmt::format("with {} tokens: {}", tokens, status.message()));
  }
  return {};
}

Status check_writer(const Facts& facts, const LaunchPlan& plan, const KnownKernels& kernels) {
  SPARSMITH_RETURN_IF_ERROR(check_maps(plan, {}));
  SPARSMITH_RETURN_IF_ERROR(check_binaries(plan, kernels));
  const Status status = check_run(plan, {}, facts, 1, true, kernels);
  if (!status.ok()) return invalid_input(status.message());
  if (plan.workspace_bytes != IntegerExpression(0)) return invalid_input("it asks for workspace");
  return {};
}

// Those of writers, as if each nonzero had one place. Each update is checked with the true facts.
Facts writer_facts(const TunedWeight& weight, const TunedPacking& packing) {
  Facts facts = packing.facts;
  facts[kPlaces] = weight.nnz;
  facts[kPlaceRunBits] = 0;
  facts[kPlaceKind] = 0;
  facts[kPlaceCopies] = 0;
  for (const TunedArray& array : packing.arrays)
    facts[place_count_fact(array.name)] = static_cast<std::int64_t>(array.bytes.size() / size_of(weight.type));
  return facts;
}

}  // namespace

Status check_arguments(const PlanStep& step, const CubinParameters& kernel) {
  if (step.arguments.size() != kernel.parameters.size()) {
    return invalid_input(fmt::format("kernel {}: {} arguments; its cubin takes {}", step.kernel, step.arguments.size(),
                                     kernel.parameters.size()));
  }
  for (std::size_t i = 0; i < step.arguments.size(); ++i) {
    const std::int64_t bytes = parameter_bytes(step.arguments[i].kind);
    if (bytes == kernel.parameters[i].bytes) continue;
    return invalid_input(fmt::format("kernel {}: argument {} has {} bytes; its cubin takes {}", step.kernel, i, bytes,
                                     kernel.parameters[i].bytes));
  }
  return {};
}

Status check_plans(const TunedContents& contents) {
  KnownKernels kernels;
  for (const TunedKernel& kernel : contents.kernels) {
    Result<KnownKernel> known = read_kernel(kernel);
    if (!known.ok()) return known.status().annotate("kernel " + kernel.name);
    kernels.emplace(kernel.name, *std::move(known));
  }
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedPacking& packing : weight.packings) {
      for (const TunedWriter& writer : packing.writers) {
        SPARSMITH_RETURN_IF_ERROR(check_writer(writer_facts(weight, packing), writer.plan, kernels)
                                      .annotate(fmt::format("weight {}: writer of {}", weight.name, packing.packing)));
      }
    }
    for (const TunedWriter& pruner : weight.pruners)
      SPARSMITH_RETURN_IF_ERROR(
          check_writer({}, pruner.plan, kernels).annotate(fmt::format("weight {}: pruner", weight.name)));
    for (const TunedOperator& op : weight.operators) {
      for (std::size_t i = 0; i < op.choices.size(); ++i) {
        const Status status = check_choice(weight, op, i, kernels);
        if (status.ok()) continue;
        return status.annotate(fmt::format("weight {}: {}: choice for {} tokens", weight.name,
                                           operator_kind_name(op.spec.kind), op.choices[i].tokens));
      }
    }
  }
  return {};
}

}  // namespace sparsmith
