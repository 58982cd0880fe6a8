#include "search/choice/training.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "formats/packed_reader.h"
#include "runtime/dense_matmul.h"
#include "runtime/plan_sizes.h"
#include "runtime/training_memory.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kMasterBytes = 4;
constexpr std::int64_t kMomentBytes = 8;  // two of Adam
constexpr std::int64_t kMaskBytes = 1;

std::int64_t bytes_of(DataType type) { return static_cast<std::int64_t>(size_of(type)); }

// As a run asks for it. The plan has run with these tokens.
std::int64_t workspace_bytes(const WeightResult& weight, const BucketChoice& bucket) {
  const LaunchPlan& plan = bucket.candidate.plan;
  IntegerVariables variables = variables_without_gaps(bucket.spec, bucket.tokens);
  const PackedWeight* const packed = weight.packing_of(bucket);
  if (packed != nullptr) variables.facts = &packed->facts;
  const std::int64_t library = plan.has_matmul() ? static_cast<std::int64_t>(DenseMatmul::kScratchBytes) : 0;
  const Result<std::int64_t> own = evaluate_workspace(plan.workspace_bytes, variables);
  return own.value() + library;
}

}  // namespace

std::int64_t masked_dense_bytes(std::int64_t rows, std::int64_t cols, DataType type) {
  const std::int64_t value = type == DataType::kFloat32 ? 0 : bytes_of(type);
  return rows * cols * (value + bytes_of(type) + kMasterBytes + kMomentBytes + kMaskBytes);
}

std::int64_t sparse_state_bytes(std::int64_t nnz, DataType type) {
  return nnz * (bytes_of(type) + kMasterBytes + kMomentBytes);
}

std::int64_t training_room(const WeightResult& weight) {
  return std::max<std::int64_t>(
      0, masked_dense_bytes(weight.rows, weight.cols, weight.type) - sparse_state_bytes(weight.nnz, weight.type));
}

Result<TrainingUse> training_use(const TuneReport& report, const TunedContents& contents) {
  TrainingUse use;
  std::vector<std::pair<const TunedWeight*, const TunedPacking*>> packings;
  for (const TunedWeight& weight : contents.weights)
    for (const TunedPacking& packing : weight.packings) packings.emplace_back(&weight, &packing);
  std::vector<TrainingMemory> memory(packings.size());
  SPARSMITH_RETURN_IF_ERROR(check_each(std::ssize(packings), 1, 0, [&](std::int64_t i) -> Status {
    SPARSMITH_ASSIGN_OR_RETURN(memory[i], training_memory(*packings[i].first, *packings[i].second));
    return {};
  }));
  for (const TrainingMemory& each : memory) {
    use.packing_bytes += each.packing;
    use.place_bytes += each.places;
  }
  std::map<std::int64_t, TrainingUse::Step> steps;  // by N
  for (std::size_t i = 0; i < report.weights.size(); ++i) {
    const WeightResult& weight = report.weights[i];
    const TunedWeight& tuned = contents.weights[i];
    use.dense_bytes += masked_dense_bytes(weight.rows, weight.cols, weight.type);
    use.state_bytes += sparse_state_bytes(weight.nnz, weight.type);
    for (const BucketChoice& bucket : weight.buckets) {
      TrainingUse::Step& step = steps.try_emplace(bucket.tokens, TrainingUse::Step{bucket.tokens, 0, 0}).first->second;
      step.us += bucket.us();
      step.dense_us = bucket.dense_us > 0 && step.dense_us >= 0 ? step.dense_us + bucket.dense_us : -1;
      const std::int64_t values = values_in_workspace(tuned, *tuned.packing(bucket.candidate.packing));
      use.workspace_bytes = std::max(use.workspace_bytes, workspace_bytes(weight, bucket) + values);
    }
  }
  for (auto& [tokens, step] : steps) {
    step.dense_us = std::max(step.dense_us, 0.0);
    use.steps.push_back(step);
  }
  return use;
}

}  // namespace sparsmith
