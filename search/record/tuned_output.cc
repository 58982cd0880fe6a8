#include "search/record/tuned_output.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "generator/two_four_pruner.h"
#include "generator/value_writer.h"

namespace sparsmith {
namespace {

TunedChoice tuned_choice(const BucketChoice& bucket) {
  TunedChoice choice;
  choice.tokens = bucket.tokens;
  choice.packing = bucket.candidate.packing;
  choice.config = bucket.candidate.config.text();
  choice.plan = bucket.candidate.plan;
  choice.evidence =
      bucket.evidence == "measured" ? TunedChoice::Evidence::kMeasured : TunedChoice::Evidence::kPredicted;
  choice.median_us = bucket.us();
  choice.dense_us = bucket.dense_us;
  choice.reason = bucket.reason;
  return choice;
}

}  // namespace

TunedContents tuned_contents(const TuneReport& report, const TunedProvenance& provenance) {
  TunedContents contents;
  contents.provenance = provenance;
  for (const WeightResult& result : report.weights) {
    TunedWeight& weight = contents.weights.emplace_back();
    weight.name = result.name;
    weight.rows = result.rows;
    weight.cols = result.cols;
    weight.type = result.type;
    weight.nnz = result.nnz;
    weight.pattern_hash = result.pattern_hash;
    weight.value_hash = result.value_hash;
    weight.members = result.members;
    for (const PackedWeight& packed : result.packings) {
      TunedPacking& packing = weight.packings.emplace_back(view_of(packed));
      for (ValueWriter& writer : value_writers(packed.packing, weight.type))
        packing.writers.push_back({writer.source, std::move(writer.plan)});
    }
    for (ValueWriter& pruner : two_four_pruners(weight.rows, weight.cols, weight.type, result.packings))
      weight.pruners.push_back({pruner.source, std::move(pruner.plan)});
    for (const std::span<const BucketChoice> choices : result.operators()) {
      TunedOperator& op = weight.operators.emplace_back();
      op.spec = choices.front().spec;
      for (const BucketChoice& bucket : choices) op.choices.push_back(tuned_choice(bucket));
    }
  }
  for (const KernelImages& image : report.images) {
    TunedKernel& kernel = contents.kernels.emplace_back();
    kernel.name = image.kernel.name;
    kernel.closure_hash = image.kernel.closure_hash;
    kernel.max_shared_bytes = image.kernel.max_shared_bytes;
    kernel.source = image.kernel.source;
    for (const KernelImages::Binary& binary : image.binaries)
      kernel.binaries.push_back({binary.architecture, binary.cubin});
  }
  return contents;
}

Result<CompiledCandidate> loaded_choice(const TunedContents& contents, const TunedChoice& choice,
                                        int compute_capability) {
  CompiledCandidate loaded;
  loaded.plan = choice.plan;
  loaded.packing = choice.packing;
  std::set<std::string> seen;
  for (const PlanStep& step : choice.plan.steps) {
    if (step.kind != PlanStep::Kind::kLaunch || !seen.insert(step.kernel).second) continue;
    const TunedKernel* kernel = contents.kernel(step.kernel);
    if (kernel == nullptr) return invalid_input("the tuned file has no kernel " + step.kernel);
    const TunedKernel::Binary* binary = kernel->binary_for(compute_capability);
    if (binary == nullptr) {
      std::string held;
      for (const auto& each : kernel->binaries) held += (held.empty() ? "" : ", ") + each.architecture;
      return unsupported(fmt::format("{} has no binary for sm_{} (it has: {}); tune with --arch sm_{}", kernel->name,
                                     compute_capability, held.empty() ? "none" : held, compute_capability));
    }
    loaded.kernels.push_back(
        {kernel->name, "", {binary->cubin.begin(), binary->cubin.end()}, kernel->max_shared_bytes});
  }
  return loaded;
}

}  // namespace sparsmith
