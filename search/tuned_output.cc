#include "search/tuned_output.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "formats/packed_format.h"
#include "generator/dense_epilogue.h"

namespace sparsmith {
namespace {

TunedChoice tuned_choice(const BucketChoice& bucket, const OperatorSpec& spec) {
  TunedChoice choice;
  choice.tokens = bucket.tokens;
  if (bucket.kind == "generated") {
    choice.kind = TunedChoice::Kind::kGenerated;
    choice.packing = bucket.candidate.packing;
    choice.config = bucket.candidate.config.text();
  } else {
    choice.kind = TunedChoice::Kind::kDense;
    choice.packing = kDensePacking;
  }
  choice.plan = bucket.candidate.plan;
  if (choice.plan.steps.empty()) choice.plan = dense_candidate(spec)->plan;  // cuBLASLt alone
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
    weight.spec = result.spec;
    weight.nnz = result.nnz;
    weight.pattern_hash = result.pattern_hash;
    weight.value_hash = result.value_hash;
    weight.members = result.members;
    for (const PackedWeight& packed : result.packings) weight.packings.push_back(view_of(packed));
    for (const BucketChoice& bucket : result.buckets) weight.choices.push_back(tuned_choice(bucket, weight.spec));
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

PackedWeight packed_weight_of(const TunedWeight& weight, const TunedPacking& packing) {
  PackedWeight packed;
  packed.packing = packing.packing;
  packed.packer_version = packing.packer_version;
  packed.rows = weight.spec.rows;
  packed.cols = weight.spec.cols;
  packed.nnz = weight.nnz;
  packed.value_type = weight.spec.type;
  packed.facts = packing.facts;
  for (const TunedArray& array : packing.arrays)
    packed.arrays.push_back({array.name, array.type, {array.bytes.begin(), array.bytes.end()}});
  return packed;
}

Result<CsrMatrix> matrix_of(const TunedWeight& weight) {
  if (weight.packings.empty()) return unsupported(weight.name + ": there is no packing to unpack");
  const Result<CsrMatrix> matrix = unpack(packed_weight_of(weight, weight.packings.front()));
  return matrix.ok() ? matrix : matrix.status().annotate(weight.name);
}

Result<LoadedCandidate> loaded_choice(const TunedContents& contents, const TunedChoice& choice,
                                      int compute_capability) {
  LoadedCandidate loaded;
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
