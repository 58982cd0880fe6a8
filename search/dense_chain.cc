#include "search/dense_chain.h"

#include <algorithm>
#include <utility>

#include "runtime/tuned_file.h"
#include "search/cached_choices.h"
#include "search/dense_cost.h"
#include "search/packings.h"

namespace sparsmith {
namespace {

VendorTiming predicted(const char* name, double us, std::int64_t dense_bytes) {
  VendorTiming dense;
  dense.name = name;
  dense.detail = "predicted";
  dense.timing.median_us = dense.timing.q1_us = dense.timing.q3_us = us;
  dense.weight_bytes = dense_bytes;
  return dense;
}

}  // namespace

Status add_dense(const TuneContext& context, const OperatorSpec& spec, std::int64_t dense_bytes, Bucket& bucket) {
  if (!spec.multiplies_weight()) return {};
  SPARSMITH_ASSIGN_OR_RETURN(bucket.dense_candidate, generate_dense(context, spec));
  if (bucket.dense_candidate.kernels.empty()) return {};
  bucket.dense_chain.emplace().name = kDenseEpilogue;
  bucket.dense_chain->weight_bytes = dense_bytes;
  if (context.predict) return {};
  Contender contender;
  contender.candidate = bucket.dense_candidate;
  contender.dense = true;
  contender.identity = {kDenseEpilogue, contender.candidate.packing, 0, closure_hash_of(contender.candidate), 0};
  contender.loaded = loaded_candidate(contender.candidate);
  bucket.search->add_baseline(std::move(contender));
  return {};
}

void take_dense_chain(Bucket& bucket) {
  const auto found = std::ranges::find(bucket.contenders, true, &Contender::dense);
  if (found == bucket.contenders.end()) return;
  VendorTiming& chain = *bucket.dense_chain;
  chain.supported = found->state == Contender::State::kTimed;
  chain.detail = chain.supported ? "W X in fp32, then " + found->candidate.kernels.front().name : found->reason;
  chain.timing = found->timing;
  chain.verification = found->verification;
  bucket.contenders.erase(found);
}

void predict_dense(const Problem& problem, std::int64_t dense_bytes, Bucket& bucket) {
  const double product_us = predicted_dense_us(problem);
  bucket.vendors.push_back(predicted(kDenseVendor, product_us, dense_bytes));
  if (product_us <= 0) {
    bucket.vendors.back().supported = false;
    bucket.vendors.back().detail = "it has no dense choice";
    return;
  }
  if (bucket.dense_chain)
    bucket.dense_chain = predicted(kDenseEpilogue, product_us + predicted_dense_epilogue_us(problem), dense_bytes);
  bucket.dense_us = bucket.dense().timing.median_us;
}

}  // namespace sparsmith
