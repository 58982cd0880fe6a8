#include "search/record/regenerated_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/memory_limit.h"
#include "generator/family.h"
#include "matrix/sparsity_statistics.h"

namespace sparsmith {
namespace {

constexpr const char* kWhatToDo =
    "the emulator runs only source that this version generates itself: tune the model again";

Result<Candidate> generate(const TunedContents& contents, const TunedWeight& weight, const OperatorSpec& spec,
                           const TunedChoice& choice) {
  SPARSMITH_ASSIGN_OR_RETURN(const Config config, Config::parse(choice.config));
  const Family* of = family(config.family);
  if (of == nullptr) return unsupported(fmt::format("this version has no kernel family {}", config.family));
  const auto device = device_of_class(contents.provenance.device_class);
  if (!device)
    return invalid_input(fmt::format("the tuned file names no device class, as \"sm_90 132 SMs\" is: {}", kWhatToDo));
  SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, matrix_of(weight));
  const Problem problem{spec, choice.tokens, *device};
  SPARSMITH_RETURN_IF_ERROR(of->check(config, problem, compute_statistics(multiplied(spec.kind, matrix))));
  // Not the packing of the file: what a plan takes from a packing is then true of this weight.
  SPARSMITH_ASSIGN_OR_RETURN(const PackedWeight packed, of->pack(config, problem, matrix));
  return of->generate(config, problem, packed);
}

// As each way to launch that a tuning run knows has it.
bool is_plan_of(const LaunchPlan& stored, LaunchPlan generated) {
  if (stored == generated) return true;
  for (const bool first_too : {false, true}) {
    launch_programmatically(generated, first_too);
    if (stored == generated) return true;
  }
  return false;
}

}  // namespace

Result<CompiledCandidate> regenerated_choice(const TunedContents& contents, const TunedWeight& weight,
                                             const OperatorSpec& spec, const TunedChoice& choice) {
  auto candidate = generate(contents, weight, spec, choice);
  if (!candidate.ok()) return candidate.status().annotate(fmt::format("{}: N = {}", weight.name, choice.tokens));
  const auto differs = [&](const std::string& what) {
    return unsupported(
        fmt::format("{}: N = {}: {} differs from what this version generates for the choice's config; {}", weight.name,
                    choice.tokens, what, kWhatToDo));
  };
  if (candidate->packing != choice.packing) return differs("the packing");
  if (!is_plan_of(choice.plan, candidate->plan)) return differs("the launch plan");
  CompiledCandidate loaded;
  loaded.plan = choice.plan;
  loaded.packing = choice.packing;
  for (KernelSource& kernel : candidate->kernels) {
    const TunedKernel* stored = contents.kernel(kernel.name);
    if (stored == nullptr || stored->source != kernel.source)
      return differs(fmt::format("the source of kernel {}", kernel.name));
    loaded.kernels.push_back({kernel.name, std::move(kernel.source), {}, kernel.max_shared_bytes});
  }
  return loaded;
}

Status check_emulated_memory(const TunedWeight& weight, const OperatorSpec& spec, const TunedChoice& choice,
                             std::int64_t tokens, std::int64_t max_memory) {
  const auto rows = static_cast<double>(weight.rows);
  const auto cols = static_cast<double>(weight.cols);
  const auto n = static_cast<double>(tokens);
  const Facts& facts = weight.packing(choice.packing)->facts;
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t workspace,
                             choice.plan.workspace_bytes.evaluate({.n = tokens, .facts = &facts}));
  const double matrix = 8 * (rows + 1) + 8 * static_cast<double>(weight.nnz);
  const double values = 40 * static_cast<double>(spec.nnz);
  const double bytes = 4 * matrix + 3 * static_cast<double>(weight.packed_bytes()) + 40 * std::max(rows, cols) * n +
                       12 * std::min(rows, cols) * n + values + 2 * static_cast<double>(workspace);
  return check_memory(fmt::format("{} at N = {} in the emulator", weight.name, tokens), bytes,
                      max_memory > 0 ? max_memory : default_max_memory());
}

}  // namespace sparsmith
