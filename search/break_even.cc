#include "search/break_even.h"

#include <fmt/format.h>

#include <algorithm>

namespace sparsmith {
namespace {

Status check_range(const BreakEvenRange& range) {
  if (!(range.low >= 0 && range.low < range.high && range.high <= 1))
    return invalid_argument(
        fmt::format("break-even is sought between two sparsities in [0, 1], the lower one first; "
                    "not between {} and {}",
                    range.low, range.high));
  if (range.points < 2) return invalid_argument("break-even needs two points to begin with: the ends of the range");
  if (!(range.tolerance >= 1e-4)) return invalid_argument("break-even has a tolerance of at least 0.0001");
  return {};
}

std::vector<double> evenly_spaced(const BreakEvenRange& range) {
  std::vector<double> sparsities;
  for (int i = 0; i < range.points; ++i)
    sparsities.push_back(range.low + (range.high - range.low) * i / (range.points - 1));
  return sparsities;
}

// The last change from dense to sparse among probes in ascending order.
void locate(BreakEven& found) {
  const auto last_dense = std::find_if(found.probes.rbegin(), found.probes.rend(),
                                       [](const BreakEvenProbe& probe) { return !probe.sparse; });
  const auto above = last_dense.base();
  found.dense_at.reset();
  found.sparse_at.reset();
  if (last_dense != found.probes.rend()) found.dense_at = last_dense->sparsity;
  if (above != found.probes.end()) found.sparse_at = above->sparsity;
  found.changes_once = std::none_of(found.probes.begin(), above, [](const auto& probe) { return probe.sparse; });
}

Status add_probes(std::span<const double> sparsities, const MeasureProbes& measure, BreakEven& found) {
  SPARSMITH_ASSIGN_OR_RETURN(std::vector<BreakEvenProbe> probes, measure(sparsities));
  if (probes.size() != sparsities.size())
    return internal_error(fmt::format("{} probes for {} sparsities", probes.size(), sparsities.size()));
  for (BreakEvenProbe& probe : probes) found.probes.push_back(std::move(probe));
  std::ranges::stable_sort(found.probes, {}, &BreakEvenProbe::sparsity);
  locate(found);
  return {};
}

Result<BreakEvenProbe> probe_of(const TuneReport& report, std::size_t index, double sparsity) {
  if (!report.skipped.empty())
    return unsupported(fmt::format("{} was not tuned: {}", report.skipped.front().name, report.skipped.front().reason));
  const WeightResult& weight = report.weights.at(index);
  const BucketChoice& bucket = weight.buckets.at(0);
  if (bucket.dense_us <= 0)
    return unsupported(fmt::format("{}: there is no dense product to compare with: {}", weight.name, bucket.reason));
  return BreakEvenProbe{sparsity,    !bucket.is_baseline(), bucket.candidate.config.text(),
                        bucket.us(), bucket.dense_us,       bucket.evidence};
}

}  // namespace

Result<BreakEven> find_break_even(const BreakEvenRange& range, const MeasureProbes& measure) {
  SPARSMITH_RETURN_IF_ERROR(check_range(range));
  BreakEven found;
  SPARSMITH_RETURN_IF_ERROR(add_probes(evenly_spaced(range), measure, found));
  // (A hair more than the tolerance, or rounding would ask for one probe more.)
  while (found.dense_at && found.sparse_at && *found.sparse_at - *found.dense_at > range.tolerance + 1e-9) {
    const double middle = (*found.dense_at + *found.sparse_at) / 2;
    SPARSMITH_RETURN_IF_ERROR(add_probes(std::span(&middle, 1), measure, found));
  }
  return found;
}

Result<BreakEven> break_even_of_drawn(const SynthesisSpec& weight, std::int64_t tokens, const TuneOptions& options,
                                      const BreakEvenRange& range, const TuneWeights& tune) {
  TuneOptions alone = options;
  alone.tokens = {tokens};
  alone.calls = {1};
  const MeasureProbes measure = [&](std::span<const double> sparsities) -> Result<std::vector<BreakEvenProbe>> {
    std::vector<WeightInput> inputs;
    for (const double sparsity : sparsities) {
      SynthesisSpec spec = weight;
      spec.sparsity = sparsity;
      inputs.push_back({fmt::format("{:.2f} % zeros", 100 * sparsity), [spec] { return synthesize(spec); }});
    }
    SPARSMITH_ASSIGN_OR_RETURN(const TuneReport report, tune(inputs, alone));
    std::vector<BreakEvenProbe> probes;
    for (std::size_t i = 0; i < sparsities.size(); ++i) {
      SPARSMITH_ASSIGN_OR_RETURN(BreakEvenProbe probe, probe_of(report, i, sparsities[i]));
      probes.push_back(std::move(probe));
    }
    return probes;
  };
  return find_break_even(range, measure);
}

}  // namespace sparsmith
