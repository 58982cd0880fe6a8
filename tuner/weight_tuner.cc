#include "tuner/weight_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "matrix/sparsity_statistics.h"
#include "runtime/dense_matmul.h"
#include "runtime/tuned_file.h"
#include "tuner/cached_choices.h"
#include "tuner/dense_cost.h"
#include "tuner/packings.h"
#include "tuner/predicted_race.h"

namespace sparsmith {
namespace {

constexpr const char* kDense = "cublas";
constexpr int kPredictedCandidates = 8;

class WeightTuner {
 public:
  WeightTuner(const TuneContext& context, const std::string& name, const CsrMatrix& matrix, TuneReport& report)
      : context_(context), options_(*context.options), matrix_(matrix), report_(report), packings_(matrix) {
    weight_.name = name;
    weight_.spec = {matrix.rows, matrix.cols, options_.type.value_or(matrix.data_type), options_.layout,
                    options_.epilogue};
    weight_.nnz = matrix.nnz();
    weight_.sparsity = matrix.sparsity();
    weight_.pattern_hash = matrix.pattern_hash();
    weight_.value_hash = matrix.value_hash();
    problem_ = {weight_.spec, 1, context.device};
    dense_serves_ = DenseMatmul::covers(weight_.spec);
  }

  Result<WeightResult> run() {
    statistics_ = compute_statistics(matrix_);
    remember_weight();
    CachedChoices cached(context_, weight_, statistics_, packings_);
    // A cached choice was made for the least time; another objective searches among what was measured.
    const bool same_goal = options_.objective == Objective::kTime;
    const bool known = options_.use_choices && same_goal && cached.complete();
    if (known && !options_.compare) {
      adopt(cached);
    } else {
      SPARSMITH_RETURN_IF_ERROR(search(cached, known));
    }
    for (const BucketChoice& bucket : weight_.buckets) keep_packing(bucket);
    return std::move(weight_);
  }

 private:
  // One N on its way.
  struct Bucket {
    std::int64_t tokens = 1;
    double calls = 1;
    std::vector<Contender> contenders;
    std::vector<VendorTiming> vendors;
    std::optional<Candidate> dense_epilogue;  // the kernel behind the product, where cuBLASLt lacks the epilogue
    std::optional<VendorTiming> dense_chain;  // both together
    double dense_us = 0;
    bool complete = true;

    // What would run the whole operator on the dense weight.
    const VendorTiming& dense() const { return dense_chain ? *dense_chain : vendors.front(); }
  };

  void keep_packing(const BucketChoice& bucket) {
    const std::string name = bucket.kind == "generated" ? bucket.candidate.packing : std::string(kDensePacking);
    const bool kept = std::ranges::any_of(weight_.packings, [&](const PackedWeight& p) { return p.packing == name; });
    if (kept) return;
    weight_.packings.push_back(bucket.kind == "generated" ? *packings_.find(name) : dense_packing());
  }

  const PackedWeight& dense_packing() {
    if (!dense_packing_) dense_packing_ = pack_dense(matrix_, weight_.spec.type);
    return *dense_packing_;
  }

  void remember_weight() {
    if (context_.cache == nullptr) return;
    WeightRecord record{weight_.pattern_hash, weight_.value_hash,
                        matrix_.rows,         matrix_.cols,
                        matrix_.nnz(),        fmt::format("[{}]", fmt::join(statistics_.row_length_histogram, ","))};
    const Status status = context_.cache->put_weight(record);
    if (!status.ok()) log_debug("the cache was not written: {}", status.message());
  }

  void adopt(CachedChoices& cached) {
    weight_.buckets = cached.take();
    for (std::size_t i = 0; i < weight_.buckets.size(); ++i) weight_.buckets[i].calls = options_.calls[i];
    report_.cached += static_cast<std::int64_t>(weight_.buckets.size());
  }

  // With `known`, the cached choices alone are in the race.
  Status search(const CachedChoices& cached, bool known) {
    SelectionLimits limits = options_.selection;
    // Predictions alone decide there: other packings would be packed for nothing, and only the first few candidates are
    // looked at.
    if (context_.predict && !limits.exhaustive) {
      limits.packings = 1;
      limits.family_doubt = 1;
      limits.candidates = std::min(limits.candidates, kPredictedCandidates);
    }
    CandidateSelection selection;
    if (!known) selection = select_candidates(problem_, options_.tokens, options_.calls, statistics_, limits);
    for (const auto& [rule, count] : selection.cuts) report_.cuts[rule] += count;
    report_.considered += selection.considered;

    std::vector<Bucket> buckets;
    for (std::size_t i = 0; i < options_.tokens.size(); ++i) {
      SPARSMITH_ASSIGN_OR_RETURN(Bucket bucket, make_bucket(i, selection, cached));
      buckets.push_back(std::move(bucket));
    }
    if (!context_.predict) compile(buckets);
    SPARSMITH_RETURN_IF_ERROR(load_weight());
    for (Bucket& bucket : buckets) {
      if (context_.bucket_begins) context_.bucket_begins();
      SPARSMITH_RETURN_IF_ERROR(context_.predict ? predict(bucket) : race(bucket));
    }
    return choose(buckets, cached);
  }

  Result<Bucket> make_bucket(std::size_t index, const CandidateSelection& selection, const CachedChoices& cached) {
    Bucket bucket;
    bucket.tokens = options_.tokens[index];
    bucket.calls = options_.calls[index];
    if (!dense_serves_) SPARSMITH_RETURN_IF_ERROR(add_dense_chain(bucket));
    const auto entries = selection.entries.find(bucket.tokens);
    std::set<std::string> seen;
    if (const BucketChoice* incumbent = cached.incumbent(bucket.tokens)) {
      if (incumbent->kind == "generated") {
        add_contender(bucket, incumbent->candidate.config, incumbent->candidate.predicted_us, true);
        seen.insert(incumbent->candidate.config.text());
      }
    }
    if (entries != selection.entries.end()) {
      for (const SearchSpace::Entry& entry : entries->second) {
        if (seen.insert(entry.config.text()).second) add_contender(bucket, entry.config, entry.predicted_us, false);
      }
    }
    return bucket;
  }

  // The first contender, so that a search that is cut short has tried it. Where nothing is timed it does not race.
  Status add_dense_chain(Bucket& bucket) {
    SPARSMITH_ASSIGN_OR_RETURN(bucket.dense_epilogue, generate_dense_epilogue(context_, weight_.spec));
    bucket.dense_chain.emplace().name = kDenseEpilogue;
    bucket.dense_chain->weight_bytes = weight_.dense_bytes();
    if (context_.predict) return {};
    Contender& contender = bucket.contenders.emplace_back();
    contender.candidate = *bucket.dense_epilogue;
    contender.dense = true;
    contender.identity = {kDenseEpilogue, contender.candidate.packing, 0, closure_hash_of(contender.candidate), 0};
    contender.loaded = loaded_candidate(contender.candidate);
    return {};
  }

  // Ends the chain's race: from a contender it becomes what the others are compared with.
  static void take_dense_chain(Bucket& bucket) {
    const auto found = std::ranges::find(bucket.contenders, true, &Contender::dense);
    if (found == bucket.contenders.end()) return;
    VendorTiming& chain = *bucket.dense_chain;
    chain.supported = found->state == Contender::State::kTimed;
    chain.detail = chain.supported ? "W X in fp32, then " + found->candidate.kernels.front().name : found->reason;
    chain.timing = found->timing;
    chain.verification = found->verification;
    bucket.contenders.erase(found);
  }

  // Without the library there is nothing to try, and nothing to remember.
  static void leave_out_dense_chain(Bucket& bucket) {
    const auto found = std::ranges::find(bucket.contenders, true, &Contender::dense);
    if (found == bucket.contenders.end() || bucket.vendors.front().supported) return;
    found->state = Contender::State::kRejected;
    found->reason = bucket.vendors.front().detail;
  }

  // A config that cannot be packed or generated is a rejected candidate.
  void add_contender(Bucket& bucket, const Config& config, double predicted_us, bool incumbent) {
    Problem problem = problem_;
    problem.tokens = bucket.tokens;
    const auto packed = packings_.get(config, problem);
    auto candidate =
        packed.ok() ? generate_candidate(context_, config, problem, **packed) : Result<Candidate>(packed.status());
    if (!candidate.ok()) {
      ++report_.rejected["cannot be generated: " + candidate.status().message()];
      return;
    }
    ++report_.candidates;
    Contender& contender = bucket.contenders.emplace_back();
    contender.candidate = std::move(*candidate);
    contender.candidate.predicted_us = predicted_us;
    contender.incumbent = incumbent;
    contender.identity = {contender.candidate.config.text(), contender.candidate.packing, (*packed)->packer_version,
                          closure_hash_of(contender.candidate), predicted_us};
    contender.loaded = loaded_candidate(contender.candidate);
  }

  void compile(std::vector<Bucket>& buckets) {
    std::vector<const Candidate*> candidates;
    for (Bucket& bucket : buckets) {
      for (Contender& contender : bucket.contenders) candidates.push_back(&contender.candidate);
    }
    context_.kernels->ensure(candidates, [&](std::size_t done, std::size_t total) {
      if (context_.progress) context_.progress("compile", done, total);
    });
    for (Bucket& bucket : buckets) {
      for (Contender& contender : bucket.contenders) {
        const Status status = attach_binaries(*context_.kernels, context_.device, contender);
        if (status.ok()) continue;
        contender.state = Contender::State::kRejected;
        contender.status = MeasurementStatus::kFailed;
        contender.reason = status.message();
      }
    }
  }

  Status load_weight() {
    SPARSMITH_RETURN_IF_ERROR(context_.session->set_weight(matrix_, weight_.spec));
    for (const auto& packed : packings_.all()) SPARSMITH_RETURN_IF_ERROR(context_.session->add_packing(*packed));
    if (dense_serves_ || context_.predict) return {};
    return context_.session->add_packing(dense_packing());
  }

  MeasurementLog log_for(const Bucket& bucket) const {
    MeasurementRecord base;
    base.key = problem_key(context_, weight_, bucket.tokens);
    base.value_hash = weight_.value_hash;
    base.device_id = context_.device_id;
    base.environment_id = context_.environment_id;
    return {context_.cache, std::move(base)};
  }

  Status race(Bucket& bucket) {
    SPARSMITH_RETURN_IF_ERROR(context_.session->set_tokens(bucket.tokens, options_.seed));
    MeasurementLog log = log_for(bucket);
    std::vector<std::string> vendors = {kDense};
    for (const std::string& name : options_.vendors) {
      if (name != kDense) vendors.push_back(name);
    }
    bucket.vendors = measure_vendors(*context_.session, log, vendors, options_.timing);
    SPARSMITH_RETURN_IF_ERROR(context_.session->health());
    leave_out_dense_chain(bucket);

    RaceOptions race_options;
    race_options.policy = options_.timing;
    race_options.stop = [&] { return context_.interrupted() || context_.out_of_time(); };
    race_options.progress = [&](std::size_t done, std::size_t total) {
      if (context_.progress) context_.progress(fmt::format("N = {}", bucket.tokens), done, total);
    };
    SPARSMITH_ASSIGN_OR_RETURN(bucket.complete,
                               run_race(*context_.session, log, bucket.contenders, bucket.vendors, race_options));
    take_dense_chain(bucket);
    // Where nothing runs the whole operator on the dense weight, the product alone still says what it would cost.
    const VendorTiming& dense = bucket.dense().supported ? bucket.dense() : bucket.vendors.front();
    if (dense.supported) bucket.dense_us = dense.timing.median_us;
    return {};
  }

  Status predict(Bucket& bucket) {
    SPARSMITH_RETURN_IF_ERROR(context_.session->set_tokens(bucket.tokens, options_.seed));
    Problem problem = problem_;
    problem.tokens = bucket.tokens;
    const double product_us = predicted_dense_us(problem);
    const auto predicted = [&](const char* name, double us) {
      VendorTiming dense;
      dense.name = name;
      dense.detail = "predicted";
      dense.timing.median_us = dense.timing.q1_us = dense.timing.q3_us = us;
      dense.weight_bytes = weight_.dense_bytes();
      return dense;
    };
    bucket.vendors.push_back(predicted(kDense, product_us));
    if (bucket.dense_chain)
      bucket.dense_chain = predicted(kDenseEpilogue, product_us + predicted_dense_epilogue_us(problem));
    bucket.dense_us = bucket.dense().timing.median_us;
    MeasurementLog log = log_for(bucket);
    return run_predicted_race(context_, log, bucket.contenders);
  }

  Status choose(std::vector<Bucket>& buckets, const CachedChoices& cached) {
    std::vector<BucketTimes> times;
    std::map<std::string, std::int64_t> packing_bytes;
    for (const auto& packed : packings_.all()) packing_bytes[packed->packing] = packed->bytes();
    for (const Bucket& bucket : buckets) {
      BucketTimes& each =
          times.emplace_back(BucketTimes{bucket.calls, bucket.dense().supported ? bucket.dense_us : 0, {}});
      for (const Contender& contender : bucket.contenders) {
        if (contender.state != Contender::State::kTimed) continue;
        const auto [best, is_new] = each.best_us.emplace(contender.identity.packing, contender.timing.median_us);
        if (!is_new) best->second = std::min(best->second, contender.timing.median_us);
      }
    }
    const std::vector<std::string> kept =
        choose_packings(times, packing_bytes, options_.packings, weight_.dense_bytes(), options_.objective);
    for (Bucket& bucket : buckets) {
      for (const Contender& contender : bucket.contenders) {
        if (contender.state == Contender::State::kRejected) ++report_.rejected[rejection_class(contender)];
      }
      const auto decision = decide(bucket.contenders, kept, &bucket.dense());
      if (!decision) {
        return unsupported(fmt::format("no candidate for N = {} passes, and dense cannot serve: {}", bucket.tokens,
                                       bucket.dense().detail));
      }
      weight_.buckets.push_back(bucket_choice(bucket, *decision, cached));
      if (options_.objective == Objective::kTime) store_choice(context_, weight_, weight_.buckets.back());
    }
    return {};
  }

  static Trial trial_of(const Contender& contender) {
    Trial trial{contender.identity.config, contender.identity.predicted_us, 0, "not tried"};
    if (contender.state == Contender::State::kTimed) {
      trial.median_us = contender.timing.median_us;
      trial.outcome = "timed";
    } else if (contender.state == Contender::State::kRejected) {
      trial.outcome = rejection_class(contender);
    }
    return trial;
  }

  static std::string rejection_class(const Contender& contender) {
    switch (contender.status) {
      case MeasurementStatus::kWrong: return "wrong result";
      case MeasurementStatus::kCrashed: return "took the worker down";
      case MeasurementStatus::kTimeout: return "did not come back in time";
      default: return contender.reason.substr(0, contender.reason.find('\n'));
    }
  }

  BucketChoice bucket_choice(Bucket& bucket, const Decision& decision, const CachedChoices& cached) const {
    BucketChoice choice;
    choice.tokens = bucket.tokens;
    choice.calls = bucket.calls;
    choice.evidence = context_.predict ? "predicted" : "measured";
    choice.reason = decision.reason;
    choice.dense_us = bucket.dense_us;
    choice.complete = bucket.complete;
    choice.tried = static_cast<int>(bucket.contenders.size());
    choice.incumbent = match_quality_name(cached.quality(bucket.tokens));
    for (const Contender& contender : bucket.contenders) choice.trials.push_back(trial_of(contender));
    if (decision.winner != nullptr) {
      choice.kind = "generated";
      choice.candidate = decision.winner->candidate;
      choice.packer_version = decision.winner->identity.packer_version;
      choice.timing = decision.winner->timing;
      choice.verification = decision.winner->verification;
    } else {
      choice.kind = "vendor";
      choice.vendor = bucket.dense().name;
      choice.timing = bucket.dense().timing;
      choice.verification = bucket.dense().verification;
      if (bucket.dense_epilogue) choice.candidate = std::move(*bucket.dense_epilogue);
    }
    choice.vendors = std::move(bucket.vendors);
    if (bucket.dense_chain) choice.vendors.push_back(std::move(*bucket.dense_chain));
    return choice;
  }

  const TuneContext& context_;
  const TuneOptions& options_;
  const CsrMatrix& matrix_;
  TuneReport& report_;
  Packings packings_;
  WeightResult weight_;
  Problem problem_;
  SparsityStatistics statistics_;
  bool dense_serves_ = true;  // cuBLASLt computes the whole operator
  std::optional<PackedWeight> dense_packing_;
};

}  // namespace

Result<WeightResult> tune_weight(const TuneContext& context, const std::string& name, const CsrMatrix& matrix,
                                 TuneReport& report) {
  return WeightTuner(context, name, matrix, report).run();
}

}  // namespace sparsmith
