#include "search/choice/tune_report.h"

#include <algorithm>

namespace sparsmith {

std::int64_t WeightResult::dense_bytes() const { return rows * cols * static_cast<std::int64_t>(size_of(type)); }

std::vector<std::span<const BucketChoice>> WeightResult::operators() const {
  std::vector<std::span<const BucketChoice>> all;
  for (std::size_t begin = 0; begin < buckets.size();) {
    std::size_t end = begin + 1;
    while (end < buckets.size() && buckets[end].spec.kind == buckets[begin].spec.kind) ++end;
    all.push_back(std::span(buckets).subspan(begin, end - begin));
    begin = end;
  }
  return all;
}

std::int64_t WeightResult::gpu_bytes() const {
  std::int64_t total = 0;
  for (const PackedWeight& packed : packings) total += packed.bytes();
  return total;
}

void TuneCounts::add(const TuneCounts& other) {
  for (const auto& [reason, count] : other.rejected) rejected[reason] += count;
  for (const auto& [rule, count] : other.cuts) cuts[rule] += count;
  transferred += other.transferred;
  unjudged += other.unjudged;
  cached += other.cached;
  considered += other.considered;
  candidates += other.candidates;
  read_seconds += other.read_seconds;
  select_seconds += other.select_seconds;
  pack_seconds += other.pack_seconds;
}

const PackedWeight* WeightResult::packing_of(const BucketChoice& bucket) const {
  const auto found = std::ranges::find(packings, bucket.candidate.packing, &PackedWeight::packing);
  return found == packings.end() ? nullptr : &*found;
}

double WeightResult::bytes_moved(const BucketChoice& bucket) const {
  const PackedWeight* const packed = packing_of(bucket);
  const std::int64_t weight = packed == nullptr ? dense_bytes() : packed->read_bytes();
  std::int64_t operands = 0;  // those of Y or dY, X and sddmm's output; bias and residual do not count
  for (const Operand& operand : bucket.spec.operands()) {
    if (operand.name == "bias" || operand.name == "residual") continue;
    operands += operand.lines.of(bucket.tokens) * operand.length.of(bucket.tokens) *
                static_cast<std::int64_t>(size_of(operand.type));
  }
  return static_cast<double>(weight + operands);
}

}  // namespace sparsmith
