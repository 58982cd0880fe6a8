#include "search/weight_tuner.h"

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
#include "search/cached_choices.h"
#include "search/contenders.h"
#include "search/dense_cost.h"
#include "search/device_search.h"
#include "search/packings.h"
#include "search/predicted_race.h"
#include "search/search_points.h"
#include "search/space_recording.h"

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
    const bool known = options_.use_choices && same_goal && !context_.record && cached.complete();
    if (known && !options_.compare) {
      adopt(cached);
    } else {
      SPARSMITH_RETURN_IF_ERROR(search(cached, known));
    }
    for (const BucketChoice& bucket : weight_.buckets) SPARSMITH_RETURN_IF_ERROR(keep_packing(bucket));
    return std::move(weight_);
  }

 private:
  // One N on its way.
  struct Bucket {
    std::int64_t tokens = 1;
    double calls = 1;
    std::unique_ptr<Contenders> search;  // while it goes on
    std::vector<Contender> contenders;   // what came of it
    std::vector<VendorTiming> vendors;
    std::optional<Candidate> dense_epilogue;  // the kernel behind the product, where cuBLASLt lacks the epilogue
    std::optional<VendorTiming> dense_chain;  // both together
    double dense_us = 0;
    bool complete = true;
    std::int64_t considered = 0;  // configs that broke no rule

    // What would run the whole operator on the dense weight.
    const VendorTiming& dense() const { return dense_chain ? *dense_chain : vendors.front(); }
  };

  Status keep_packing(const BucketChoice& bucket) {
    const std::string name = bucket.kind == "generated" ? bucket.candidate.packing : std::string(kDensePacking);
    const bool kept = std::ranges::any_of(weight_.packings, [&](const PackedWeight& p) { return p.packing == name; });
    if (kept) return {};
    if (bucket.kind != "generated") {
      weight_.packings.push_back(dense_packing());
      return {};
    }
    Problem problem = problem_;
    problem.tokens = bucket.tokens;
    // The search may have dropped it to make room.
    SPARSMITH_ASSIGN_OR_RETURN(const PackedWeight* packed, packings_.get(bucket.candidate.config, problem));
    weight_.packings.push_back(*packed);
    return {};
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
    if (context_.predict) {
      limits.packings = 1;
      limits.family_doubt = 1;
      limits.candidates = std::min(limits.candidates, kPredictedCandidates);
    }
    CandidateSelection selection;
    if (!known) selection = select_candidates(problem_, options_.tokens, options_.calls, statistics_, limits);
    const bool hinted = !known && transfer(selection);
    for (const auto& [rule, count] : selection.cuts) report_.cuts[rule] += count;
    report_.considered += selection.considered;

    std::vector<Bucket> buckets;
    for (std::size_t i = 0; i < options_.tokens.size(); ++i) {
      SPARSMITH_ASSIGN_OR_RETURN(Bucket bucket, make_bucket(i, selection, cached));
      buckets.push_back(std::move(bucket));
    }
    SPARSMITH_RETURN_IF_ERROR(load_weight());
    SPARSMITH_RETURN_IF_ERROR(make_selected(buckets));
    for (Bucket& bucket : buckets) {
      if (context_.bucket_begins) context_.bucket_begins();
      SPARSMITH_RETURN_IF_ERROR(context_.predict ? predict(bucket) : measure(bucket));
      if (!known && !hinted && bucket.complete) remember(bucket);
    }
    // Choices that stand are not weighed again, not even against dense: what they take now is what is asked.
    return choose(buckets, cached, known && options_.keep_choices);
  }

  // The memory of the operator; nullptr where nothing is to be learnt.
  Transfer* memory() const {
    if (context_.transfer == nullptr || context_.predict || options_.strategy != StrategyKind::kRace) return nullptr;
    const ProblemKey key = problem_key(context_, weight_, 0);
    return &context_.transfer->try_emplace(key.operator_name, context_.cache, key).first->second;
  }

  // Whether a near weight made the selection short.
  bool transfer(CandidateSelection& selection) {
    Transfer* const from = memory();
    if (from == nullptr) return false;
    const Transfer::Hint hint = from->find(weight_.pattern_hash, profile_of(statistics_), options_.tokens);
    apply_hint(hint, problem_, statistics_, selection);
    if (hint.near) report_.transferred += static_cast<std::int64_t>(options_.tokens.size());
    return hint.near;
  }

  void remember(const Bucket& bucket) const {
    if (Transfer* const to = memory())
      to->remember(weight_.pattern_hash, profile_of(statistics_), bucket.tokens, bucket.contenders);
  }

  Result<Bucket> make_bucket(std::size_t index, const CandidateSelection& selection, const CachedChoices& cached) {
    Bucket bucket;
    bucket.tokens = options_.tokens[index];
    bucket.calls = options_.calls[index];
    Problem problem = problem_;
    problem.tokens = bucket.tokens;
    const BucketChoice* choice = cached.incumbent(bucket.tokens);
    std::optional<SearchSpace::Entry> incumbent;
    if (choice != nullptr && choice->kind == "generated")
      incumbent.emplace(choice->candidate.config, choice->candidate.predicted_us);
    const SearchScope scope{options_.strategy, options_.most_candidates(), options_.seed, context_.predict};
    const auto space = selection.spaces.find(bucket.tokens);
    if (space != selection.spaces.end()) bucket.considered = static_cast<std::int64_t>(space->second.entries.size());
    SearchPoints points = search_points(problem, selection, incumbent ? &*incumbent : nullptr, scope);
    bucket.search = std::make_unique<Contenders>(context_, packings_, problem, std::move(points), report_);
    if (!dense_serves_) SPARSMITH_RETURN_IF_ERROR(add_dense_chain(bucket));
    return bucket;
  }

  // The first contender, so that a search that is cut short has tried it. Where nothing is timed it does not race.
  Status add_dense_chain(Bucket& bucket) {
    SPARSMITH_ASSIGN_OR_RETURN(bucket.dense_epilogue, generate_dense_epilogue(context_, weight_.spec));
    bucket.dense_chain.emplace().name = kDenseEpilogue;
    bucket.dense_chain->weight_bytes = weight_.dense_bytes();
    if (context_.predict) return {};
    Contender contender;
    contender.candidate = *bucket.dense_epilogue;
    contender.dense = true;
    contender.identity = {kDenseEpilogue, contender.candidate.packing, 0, closure_hash_of(contender.candidate), 0};
    contender.loaded = loaded_candidate(contender.candidate);
    bucket.search->add_baseline(std::move(contender));
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
    Contender* const chain = bucket.search->baseline();
    if (chain == nullptr || bucket.vendors.front().supported) return;
    chain->state = Contender::State::kRejected;
    chain->reason = bucket.vendors.front().detail;
  }

  // Makes what the race will try, at all N, so that their kernels are compiled in one pool.
  Status make_selected(std::vector<Bucket>& buckets) {
    std::vector<const Candidate*> candidates;
    for (Bucket& bucket : buckets) {
      if (context_.predict || options_.strategy == StrategyKind::kRace)
        SPARSMITH_RETURN_IF_ERROR(bucket.search->make(bucket.search->points().selected));
      bucket.search->add_candidates(candidates);
    }
    if (context_.predict) return {};
    context_.kernels->ensure(candidates, [&](std::size_t done, std::size_t total) {
      if (context_.progress) context_.progress("compile", done, total);
    });
    for (Bucket& bucket : buckets) bucket.search->attach(bucket.search->points().selected);
    return {};
  }

  Status load_weight() {
    SPARSMITH_RETURN_IF_ERROR(context_.session->set_weight(matrix_, weight_.spec));
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

  Status measure(Bucket& bucket) {
    SPARSMITH_RETURN_IF_ERROR(context_.session->set_tokens(bucket.tokens, options_.seed));
    MeasurementLog log = log_for(bucket);
    std::vector<std::string> vendors = {kDense};
    for (const std::string& name : options_.vendors) {
      if (name != kDense) vendors.push_back(name);
    }
    bucket.vendors = measure_vendors(*context_.session, log, vendors, options_.timing);
    SPARSMITH_RETURN_IF_ERROR(context_.session->health());
    leave_out_dense_chain(bucket);

    const OutOfTime out_of_time([&] { return context_.interrupted() || context_.out_of_time(); });
    const CandidateLimit enough(options_.most_candidates());
    const std::unique_ptr<Strategy> strategy = make_strategy(options_.strategy, bucket.search->points(), options_.seed);
    const std::size_t total = options_.strategy == StrategyKind::kRace
                                  ? bucket.search->points().selected.size()
                                  : std::min(bucket.search->points().points.size(), options_.most_candidates());
    DeviceSearchOptions search;
    search.policy = options_.timing;
    search.recall = !context_.record;
    search.stop = {&out_of_time};
    if (options_.strategy != StrategyKind::kRace) search.stop.push_back(&enough);
    search.progress = [&](std::size_t done) {
      if (context_.progress) context_.progress(fmt::format("N = {}", bucket.tokens), std::min(done, total), total);
    };
    SPARSMITH_ASSIGN_OR_RETURN(
        bucket.complete, search_on_device(*context_.session, log, *bucket.search, *strategy, bucket.vendors, search));
    bucket.contenders = bucket.search->take();
    bucket.search.reset();
    if (context_.record) SPARSMITH_RETURN_IF_ERROR(record(bucket));
    take_dense_chain(bucket);
    // Where nothing runs the whole operator on the dense weight, the product alone still says what it would cost.
    const VendorTiming& dense = bucket.dense().supported ? bucket.dense() : bucket.vendors.front();
    if (dense.supported) bucket.dense_us = dense.timing.median_us;
    return {};
  }

  Status record(const Bucket& bucket) const {
    RecordedSpace space = recorded_space(context_, weight_, statistics_, bucket.tokens, bucket.considered,
                                         bucket.contenders, bucket.vendors);
    space.complete = bucket.complete;
    return context_.record(space);
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
    SPARSMITH_RETURN_IF_ERROR(bucket.search->load(bucket.search->points().selected));
    bucket.contenders = bucket.search->take();
    bucket.search.reset();
    MeasurementLog log = log_for(bucket);
    return run_predicted_race(context_, log, bucket.contenders);
  }

  std::vector<std::string> kept_packings(const std::vector<Bucket>& buckets, bool stand) {
    std::vector<BucketTimes> times;
    std::vector<std::string> all;
    for (const Bucket& bucket : buckets) {
      BucketTimes& each =
          times.emplace_back(BucketTimes{bucket.calls, bucket.dense().supported ? bucket.dense_us : 0, {}});
      for (const Contender& contender : bucket.contenders) {
        if (contender.state != Contender::State::kTimed) continue;
        all.push_back(contender.identity.packing);
        const auto [best, is_new] = each.best_us.emplace(contender.identity.packing, contender.timing.median_us);
        if (!is_new) best->second = std::min(best->second, contender.timing.median_us);
      }
    }
    if (stand) return all;
    return choose_packings(times, packings_.sizes(), options_.packings, weight_.dense_bytes(), options_.objective);
  }

  // With `stand`, the only contender of an N serves it.
  Status choose(std::vector<Bucket>& buckets, const CachedChoices& cached, bool stand) {
    const std::vector<std::string> kept = kept_packings(buckets, stand);
    for (Bucket& bucket : buckets) {
      for (const Contender& contender : bucket.contenders) {
        if (contender.state == Contender::State::kRejected) ++report_.rejected[rejection_class(contender)];
      }
      const bool stands = stand && std::ranges::any_of(bucket.contenders, [](const Contender& contender) {
                            return contender.state == Contender::State::kTimed;
                          });
      auto decision = decide(bucket.contenders, kept, stands ? nullptr : &bucket.dense());
      if (!decision) {
        return unsupported(fmt::format("no candidate for N = {} passes, and dense cannot serve: {}", bucket.tokens,
                                       bucket.dense().detail));
      }
      if (stands) decision->reason = "an earlier choice that was to be kept";
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
