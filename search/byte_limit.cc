#include "search/byte_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/parallel_for.h"
#include "formats/packed_format.h"
#include "generator/family.h"
#include "runtime/tuned_file.h"

namespace sparsmith {
namespace {

std::string packing_of(const BucketChoice& choice) {
  return choice.kind == "generated" ? choice.candidate.packing : std::string(kDensePacking);
}

double microseconds(const std::vector<BucketChoice>& buckets) {
  double sum = 0;
  for (const BucketChoice& bucket : buckets) sum += bucket.calls * bucket.us();
  return sum;
}

// The choices with `packing` alone, or with dense alone where it is empty; nothing where it does not serve every N.
std::vector<BucketChoice> choices_with(const std::vector<Bucket>& buckets, const std::string& packing, bool predicted) {
  std::vector<BucketChoice> choices;
  for (const Bucket& bucket : buckets) {
    const bool dense = packing.empty();
    const auto decision = dense ? decide({}, {}, &bucket.dense()) : decide(bucket.contenders, {packing}, nullptr);
    if (!decision) return {};
    choices.push_back(bucket_choice(bucket, *decision, predicted, ""));
  }
  return choices;
}

Status pack_again(const WeightInput& input, const TuneOptions& options, WeightResult& weight) {
  std::vector<GroupMember> members;
  SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, read_weight(input, options, members));
  weight.packings.clear();
  std::set<std::string> packed;
  for (const BucketChoice& choice : weight.buckets) {
    if (!packed.insert(packing_of(choice)).second) continue;
    SPARSMITH_ASSIGN_OR_RETURN(PackedWeight again, pack(packing_of(choice), matrix, weight.spec.type));
    weight.packings.push_back(std::move(again));
  }
  return {};
}

// What the fastest choices say besides is true of the others too: what was tried, and what the cache had.
void exchange(WeightResult& weight, Alternative& alternative) {
  for (std::size_t i = 0; i < weight.buckets.size(); ++i) {
    BucketChoice& old = weight.buckets[i];
    BucketChoice& choice = alternative.buckets[i];
    choice.reason = fmt::format(
        "kept small, to fit all weights into the bytes that they may take: {:.2f} us where the "
        "fastest takes {:.2f} us",
        choice.us(), old.us());
    choice.incumbent = std::move(old.incumbent);
    choice.trials = std::move(old.trials);
    choice.vendors = std::move(old.vendors);
  }
  weight.buckets = std::move(alternative.buckets);
}

}  // namespace

std::vector<Alternative> alternatives_of(const WeightResult& weight, const std::vector<Bucket>& buckets,
                                         const std::map<std::string, std::int64_t>& packing_bytes, bool predicted) {
  const auto bytes_of = [&](const std::vector<BucketChoice>& choices) {
    std::set<std::string> names;
    for (const BucketChoice& choice : choices) names.insert(packing_of(choice));
    std::int64_t bytes = 0;
    for (const std::string& name : names)
      bytes += name == kDensePacking ? weight.dense_bytes() : packing_bytes.at(name);
    return bytes;
  };
  std::vector<Alternative> all;
  const auto add = [&](std::vector<BucketChoice> choices) {
    if (choices.empty()) return;
    const ByteOption cost{bytes_of(choices), microseconds(choices)};
    all.push_back({cost, std::move(choices)});
  };
  add(weight.buckets);
  add(choices_with(buckets, "", predicted));
  for (const auto& [name, bytes] : packing_bytes) add(choices_with(buckets, name, predicted));

  std::vector<ByteOption> costs;
  for (const Alternative& each : all) costs.push_back(each.cost);
  std::vector<Alternative> best;
  for (const std::size_t i : best_tradeoffs(costs)) {
    if (i != 0) best.push_back(std::move(all[i]));
  }
  for (Alternative& each : best) {
    for (BucketChoice& choice : each.buckets) {
      choice.trials.clear();
      choice.vendors.clear();
    }
  }
  best.insert(best.begin(), Alternative{all.front().cost, {}});  // the present ones stand in the weight
  return best;
}

Status limit_bytes(std::span<const WeightInput> inputs, const TuneOptions& options, TuneReport& report) {
  std::vector<std::vector<ByteOption>> costs;
  for (const WeightResult& weight : report.weights) {
    std::vector<ByteOption>& each = costs.emplace_back();
    for (const Alternative& alternative : weight.alternatives) each.push_back(alternative.cost);
  }
  const std::vector<std::size_t> chosen = fit_bytes(costs, options.max_bytes);
  ByteLimit& limit = report.byte_limit.emplace();
  limit.most_bytes = options.max_bytes;
  std::vector<std::size_t> changed;
  for (std::size_t i = 0; i < report.weights.size(); ++i) {
    WeightResult& weight = report.weights[i];
    limit.bytes += costs[i][chosen[i]].bytes;
    limit.us += costs[i][chosen[i]].us;
    limit.fastest_us += microseconds(weight.buckets);
    if (chosen[i] != 0) {
      changed.push_back(i);
      exchange(weight, weight.alternatives[chosen[i]]);
    }
    weight.alternatives.clear();
  }
  std::vector<Status> packed(changed.size());
  parallel_for(static_cast<std::int64_t>(changed.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      WeightResult& weight = report.weights[changed[i]];
      const auto input = std::ranges::find(inputs, weight.name, &WeightInput::name);
      packed[i] = pack_again(*input, options, weight);
    }
  });
  for (const Status& status : packed) SPARSMITH_RETURN_IF_ERROR(status);
  return {};
}

}  // namespace sparsmith
