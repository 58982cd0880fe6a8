#include "search/weight_tuner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/stopwatch.h"
#include "matrix/sparsity_statistics.h"
#include "search/bucket_search.h"
#include "search/byte_limit.h"
#include "search/cached_choices.h"
#include "search/packings.h"
#include "search/predicted_race.h"
#include "search/search_points.h"
#include "search/search_queue.h"
#include "search/space_recording.h"
#include "tuner/reference_problem.h"

namespace sparsmith {
namespace {

constexpr int kPredictedCandidates = 8;
constexpr int kPredictedPackings = 4;
constexpr int kHurriedCandidates = 2;

// One of those that a semaphore admits, as long as it lives; null: nobody asks.
class Admission {
 public:
  explicit Admission(std::counting_semaphore<>* turns) : turns_(turns) {
    if (turns_ != nullptr) turns_->acquire();
  }
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;
  ~Admission() {
    if (turns_ != nullptr) turns_->release();
  }

 private:
  std::counting_semaphore<>* const turns_;
};

// What is computed from the weight, on its way through a search.
struct SearchedOperator {
  OperatorSpec spec;
  SparsityStatistics statistics;  // of the matrix that is multiplied
  WeightProfile profile;
  ProblemKey key;                      // of no N
  std::optional<Transfer::Hint> hint;  // once there is an answer
  std::optional<CachedChoices> cached;
  // All that there is to search beside the cache's choices; empty: no such thing.
  std::vector<std::string> new_families;

  bool near() const { return hint && hint->near; }  // a near weight made the selection short
};

class Tuner : public WeightTuner {
 public:
  Tuner(TuneContext context, std::string name, CsrMatrix matrix, std::optional<SparsityStatistics> statistics)
      : context_(std::move(context)), options_(*context_.options), matrix_(std::move(matrix)), packings_(matrix_) {
    weight_.name = std::move(name);
    weight_.rows = matrix_.rows;
    weight_.cols = matrix_.cols;
    weight_.type = options_.type.value_or(matrix_.data_type);
    weight_.nnz = matrix_.nnz();
    weight_.sparsity = matrix_.sparsity();
    const Stopwatch stopwatch(counts_.read_seconds);
    weight_.pattern_hash = matrix_.pattern_hash();
    weight_.value_hash = matrix_.value_hash();
    for (const OperatorSpec& spec : options_.specs_of(matrix_.rows, matrix_.cols, matrix_.nnz(), matrix_.data_type)) {
      const bool turned = spec.kind == OperatorKind::kSpmmTransposed;
      if (turned) transposed_ = transposed(matrix_);
      SearchedOperator& op = operators_.emplace_back();
      op.spec = spec;
      op.statistics = statistics && !turned ? *statistics : compute_statistics(multiplied_matrix(spec));
      op.statistics.data_type = matrix_.data_type;
      op.profile = profile_of(op.statistics);
      op.key = problem_key(context_, weight_, spec, 0);
    }
    context_.out_of_time = [this] { return context_.budget != nullptr && context_.budget->now() >= bucket_end_; };
    remember_weight();
  }
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;
  ~Tuner() override {
    if (context_.transfer == nullptr) return;
    for (const SearchedOperator& op : operators_) context_.transfer->finished(op.key);
  }

  Result<Need> prepare() override {
    for (const SearchedOperator& op : operators_)
      SPARSMITH_RETURN_IF_ERROR(check_memory(op.spec, options_.tokens.back(), context_.device));
    // Nothing more is timed in this run: what is predicted to be best is verified, and that is it.
    hurried_ = !context_.predict && context_.budget != nullptr && context_.budget->over();
    if (hurried_) context_.predict = true;
    for (SearchedOperator& op : operators_) op.cached.emplace(context_, weight_, op.spec, op.statistics, packings_);
    for (const auto& [packing, bytes] : packings_.sizes()) counts_.pack_seconds += packings_.seconds(packing);
    // What fits a whole model is chosen anew, among what was measured.
    const bool adopts = options_.use_choices && options_.model_bytes == 0 && !context_.record;
    known_ = adopts && std::ranges::all_of(operators_, [&](const SearchedOperator& op) {
               return hurried_ ? op.cached->at_hand() : op.cached->complete();
             });
    if (known_ && !options_.compare) return Need::kNothing;
    bool near = true;  // all of them
    for (SearchedOperator& op : operators_) {
      if (!known_ && adopts) op.new_families = op.cached->new_families();
      if (!known_ && learns() && !op.hint) {
        op.hint = context_.transfer->ask(op.key, op.profile, options_.tokens, !hurried_);
        if (!op.hint) return Need::kPatience;
        op.hint = of_families(*std::move(op.hint), limits(op).families);
      }
      near = near && op.near();
    }
    const Admission admission(near || known_ ? nullptr : context_.full_preparations);
    for (const SearchedOperator& op : operators_) SPARSMITH_RETURN_IF_ERROR(make_buckets(op));
    if (context_.predict) {
      make_predicted();
    } else {
      prepare_searches();
    }
    return Need::kDevice;
  }

  Result<WeightResult> finish(DeviceSession* session) override {
    if (buckets_.empty()) {
      adopt();
    } else {
      context_.session = session;
      SPARSMITH_RETURN_IF_ERROR(search());
    }
    for (const BucketChoice& bucket : weight_.buckets) SPARSMITH_RETURN_IF_ERROR(keep_packing(bucket));
    return std::move(weight_);
  }

  const TuneCounts& counts() const override { return counts_; }

 private:
  Status keep_packing(const BucketChoice& bucket) {
    const std::string& name = bucket.candidate.packing;
    const bool kept = std::ranges::any_of(weight_.packings, [&](const PackedWeight& p) { return p.packing == name; });
    if (kept) return {};
    const Stopwatch stopwatch(counts_.pack_seconds);
    // The search may have dropped it to make room.
    const Problem problem{bucket.spec, bucket.tokens, context_.device};
    SPARSMITH_RETURN_IF_ERROR(packings_.get(bucket.candidate.config, problem).status());
    weight_.packings.push_back(packings_.take(name));
    return {};
  }

  void remember_weight() {
    if (context_.cache == nullptr) return;
    WeightRecord record{
        weight_.pattern_hash, weight_.value_hash,
        matrix_.rows,         matrix_.cols,
        matrix_.nnz(),        fmt::format("[{}]", fmt::join(operators_.front().statistics.row_length_histogram, ","))};
    (void)context_.cache->put_weight(record);
  }

  void adopt() {
    for (SearchedOperator& op : operators_) {
      std::vector<BucketChoice> choices = op.cached->take();
      for (std::size_t i = 0; i < choices.size(); ++i) choices[i].calls = options_.calls[i];
      std::ranges::move(choices, std::back_inserter(weight_.buckets));
    }
    counts_.cached += static_cast<std::int64_t>(weight_.buckets.size());
  }

  bool learns() const {
    return context_.transfer != nullptr && (!context_.predict || hurried_) && options_.strategy == StrategyKind::kRace;
  }

  // What dense is far ahead of is of no use, but for those who look into the space.
  bool dense_matters() const { return !context_.record; }

  SelectionLimits limits(const SearchedOperator& op) const {
    SelectionLimits limits = options_.selection;
    if (!op.new_families.empty()) limits.families = op.new_families;
    if (!dense_matters()) limits.dense_doubt = 0;
    // Predictions alone decide there: a few packings are there for those that take too much memory, and only the first
    // few candidates are looked at.
    if (context_.predict) {
      limits.packings = hurried_ ? 1 : kPredictedPackings;
      limits.family_doubt = 1;
      limits.candidates = std::min(limits.candidates, hurried_ ? kHurriedCandidates : kPredictedCandidates);
    }
    return limits;
  }

  // Where the choices are known, they alone are in the race.
  Status make_buckets(const SearchedOperator& op) {
    CandidateSelection selection;
    {
      const Stopwatch stopwatch(counts_.select_seconds);
      const Problem problem{op.spec, 1, context_.device};
      if (!known_) selection = select_candidates(problem, options_.tokens, options_.calls, op.statistics, limits(op));
      if (op.hint) apply_hint(*op.hint, problem, op.statistics, selection);
    }
    if (op.near()) counts_.transferred += static_cast<std::int64_t>(options_.tokens.size());
    for (const auto& [rule, count] : selection.cuts) counts_.cuts[rule] += count;
    counts_.considered += selection.considered;
    for (std::size_t i = 0; i < options_.tokens.size(); ++i) buckets_.push_back(make_bucket(op, i, selection));
    return {};
  }

  // The bucket's operator.
  const SearchedOperator& operator_of(const Bucket& bucket) const {
    return *std::ranges::find(operators_, bucket.spec.kind, [](const SearchedOperator& op) { return op.spec.kind; });
  }

  // The end of a search: by gain of what is left of the weight's time.
  void bucket_begins(std::size_t index) {
    double gains = 0;
    for (std::size_t i = index; i < buckets_.size(); ++i) gains += buckets_[i].gain_us;
    bucket_end_ = weight_end_;
    if (weight_end_ == Budget::Clock::time_point::max() || gains <= 0) return;
    const auto now = context_.budget->now();
    const std::chrono::duration<double> left = weight_end_ - now;
    bucket_end_ = now + std::chrono::duration_cast<Budget::Clock::duration>(left * (buckets_[index].gain_us / gains));
  }

  Status search() {
    weight_end_ =
        context_.budget != nullptr ? context_.budget->end_of_search(context_.index) : Budget::Clock::time_point::max();
    if (!searches_.empty()) searches_.front()->hurry();
    const Status searched = context_.predict ? predict() : measure();
    if (!searched.ok()) abandon();
    SPARSMITH_RETURN_IF_ERROR(searched);
    SPARSMITH_RETURN_IF_ERROR(choose());
    for (std::size_t i = 0; i < buckets_.size(); ++i) remember(buckets_[i], weight_.buckets[i]);
    return {};
  }

  // What was tried counts nevertheless.
  void abandon() {
    searches_.clear();
    for (Bucket& bucket : buckets_) {
      if (bucket.search != nullptr) end_search(bucket);
    }
  }

  // What a search in full teaches others.
  void remember(const Bucket& bucket, const BucketChoice& choice) const {
    const SearchedOperator& op = operator_of(bucket);
    if (known_ || op.near() || hurried_ || !bucket.complete || !learns()) return;
    context_.transfer->remember(problem_key(context_, weight_, bucket.spec, bucket.tokens), op.profile,
                                bucket.contenders, choice.candidate.config.text());
  }

  // Spaces have up to 30,000 configs. That a race after a hint looks beyond what the hint brought is rare.
  std::size_t most_points(bool near) const {
    if (options_.strategy != StrategyKind::kRace) return options_.most_candidates();
    return near ? 1'000 : 10'000;
  }

  Bucket make_bucket(const SearchedOperator& op, std::size_t index, const CandidateSelection& selection) {
    Bucket bucket;
    bucket.spec = op.spec;
    bucket.tokens = options_.tokens[index];
    bucket.calls = options_.calls[index];
    const Problem problem{op.spec, bucket.tokens, context_.device};
    const BucketChoice* choice = op.cached->incumbent(bucket.tokens);
    std::optional<SearchSpace::Entry> incumbent;
    if (choice != nullptr) incumbent.emplace(choice->candidate.config, choice->candidate.predicted_us);
    SearchScope scope{options_.strategy, most_points(op.near()), options_.seed, context_.predict};
    if (learns())
      scope.baseline = context_.transfer->baseline(problem_key(context_, weight_, op.spec, bucket.tokens), op.profile);
    const auto space = selection.spaces.find(bucket.tokens);
    if (space != selection.spaces.end()) {
      bucket.considered = static_cast<std::int64_t>(space->second.entries.size());
      bucket.gain_us = bucket.calls * promised_gain_us(problem, space->second);
    }
    SearchPoints points = search_points(problem, selection, incumbent ? &*incumbent : nullptr, scope);
    if (op.near()) points.expected_us = op.hint->fastest_us.at(bucket.tokens);
    if (dense_matters()) points.dense_us = baseline_us(problem);
    bucket.search = std::make_unique<Contenders>(context_, packings_, problem, std::move(points));
    return bucket;
  }

  // Selects, packs and generates what searches begin with; its kernels are compiled in the background.
  void prepare_searches() {
    for (Bucket& bucket : buckets_)
      searches_.push_back(std::make_unique<BucketSearch>(context_, bucket, log_for(bucket), prepared_));
    for (const auto& search : searches_) search->prepare_first();
    log_debug("{}: selected in {:.2f} s, packed in {:.2f} s", weight_.name, counts_.select_seconds, packed_seconds());
  }

  double packed_seconds() const {
    double seconds = counts_.pack_seconds;
    for (const Bucket& bucket : buckets_) seconds += bucket.search->counts().pack_seconds;
    return seconds;
  }

  // What is only predicted is verified one by one.
  void make_predicted() {
    for (Bucket& bucket : buckets_) {
      const std::vector<std::size_t>& selected = bucket.search->points().selected;
      bucket.search->make(selected);
      if (hurried_) bucket.search->compile(selected, KernelStore::Urgency::kSoon);
    }
  }

  MeasurementLog log_for(const Bucket& bucket) const {
    MeasurementRecord base;
    base.key = problem_key(context_, weight_, bucket.spec, bucket.tokens);
    base.value_hash = weight_.value_hash;
    base.device_id = context_.device_id;
    base.environment_id = context_.environment_id;
    return {context_.cache, std::move(base)};
  }

  // Has the device multiply for the bucket's operator.
  Status set_weight(const Bucket& bucket) {
    if (on_device_ == bucket.spec.kind) return {};
    on_device_ = bucket.spec.kind;
    return context_.session->set_weight(multiplied_matrix(bucket.spec), bucket.spec);
  }

  // All N of an operator together; where time or memory is short, one after the other.
  Status measure() {
    for (std::size_t first = 0; first < buckets_.size(); first += options_.tokens.size()) {
      SPARSMITH_RETURN_IF_ERROR(set_weight(buckets_[first]));
      std::vector<BucketSearch*> searches;
      for (std::size_t i = 0; i < options_.tokens.size(); ++i) searches.push_back(searches_[first + i].get());
      SearchQueue queue(
          *context_.session, prepared_, weight_.name,
          {[this] { return room_for_another(); }, [this, first](std::size_t index) { bucket_begins(first + index); },
           [this](const BucketSearch* search) { return close(search); }});
      SPARSMITH_RETURN_IF_ERROR(queue.run(searches));
    }
    return {};
  }

  bool room_for_another() const {
    return weight_end_ == Budget::Clock::time_point::max() && packings_.bytes() <= Packings::kResidentBytes;
  }

  Status close(const BucketSearch* search) {
    const auto place = std::ranges::find(searches_, search, &std::unique_ptr<BucketSearch>::get);
    Bucket& bucket = buckets_[place - searches_.begin()];
    place->reset();
    end_search(bucket);
    if (context_.record) SPARSMITH_RETURN_IF_ERROR(record(bucket));
    return {};
  }

  void end_search(Bucket& bucket) {
    bucket.ungenerated = bucket.search->ungenerated();
    bucket.contenders = bucket.search->take();
    counts_.add(bucket.search->counts());
    bucket.search.reset();
  }

  Status record(const Bucket& bucket) const {
    RecordedSpace space = recorded_space(context_, weight_, bucket.spec, operator_of(bucket).statistics, bucket.tokens,
                                         bucket.considered, bucket.contenders, bucket.vendors);
    space.complete = bucket.complete;
    return context_.record(space);
  }

  // By prediction alone: what that chooses is verified, and where it fails, chosen again without it.
  Status predict() {
    for (Bucket& bucket : buckets_) {
      end_search(bucket);
      if (hurried_) bucket.complete = false;
    }
    bool rejected = true;
    while (std::exchange(rejected, false)) {
      for (std::size_t i = 0; i < buckets_.size(); ++i) {
        Contender* contender = unverified_choice(buckets_[i]);
        if (contender == nullptr) continue;
        bucket_begins(i);
        SPARSMITH_RETURN_IF_ERROR(set_weight(buckets_[i]));
        SPARSMITH_RETURN_IF_ERROR(context_.session->set_tokens(buckets_[i].tokens, options_.seed));
        MeasurementLog log = log_for(buckets_[i]);
        for (; contender != nullptr; contender = unverified_choice(buckets_[i])) {
          SPARSMITH_RETURN_IF_ERROR(place(buckets_[i], *contender));
          if (contender->state == Contender::State::kWaiting)
            SPARSMITH_RETURN_IF_ERROR(verify_predicted(context_, log, *contender));
          rejected |= contender->state == Contender::State::kRejected;
        }
      }
    }
    return {};
  }

  // Puts what the contender reads on the device; one that reads what does not fit is rejected.
  Status place(const Bucket& bucket, Contender& contender) {
    if (context_.session->has_packing(contender.identity.packing)) return {};
    const auto packed = packings_.get(contender.candidate.config, {bucket.spec, bucket.tokens, context_.device});
    const Status placed = packed.ok() ? context_.session->add_packing(**packed) : packed.status();
    if (placed.ok()) return {};
    SPARSMITH_RETURN_IF_ERROR(context_.session->health());
    contender.state = Contender::State::kRejected;
    contender.status = MeasurementStatus::kFailed;
    contender.reason = placed.message();
    return {};
  }

  // A contender that predictions choose for the bucket, and that nobody has verified; null: there is none.
  Contender* unverified_choice(Bucket& bucket) {
    std::vector<BucketTimes> times;
    for (const Bucket& each : buckets_) times.push_back(times_of(each, true));
    std::vector<std::vector<std::string>> ways = {kept_packings(times, false)};
    if (options_.model_bytes > 0) {
      for (std::vector<std::string>& way : ways_to_keep(times, packings_.sizes(), weight_.dense_bytes()))
        ways.push_back(std::move(way));
    }
    for (const std::vector<std::string>& kept : ways) {
      const auto decision = decide(bucket.contenders, kept, /*beside_baseline=*/true, /*predicted=*/true);
      if (decision && decision->winner->state == Contender::State::kWaiting)
        return &bucket.contenders[static_cast<std::size_t>(decision->winner - bucket.contenders.data())];
    }
    return nullptr;
  }

  // What each N may take of the packings. Where choices stand, all that they have.
  std::vector<std::string> kept_packings(const std::vector<BucketTimes>& times, bool stand) {
    too_large_ = false;
    const auto most = static_cast<std::int64_t>(options_.most_memory() * static_cast<double>(weight_.dense_bytes()));
    const std::map<std::string, std::int64_t> bytes = packings_.sizes();
    if (!stand) {
      std::vector<std::string> kept = choose_packings(times, bytes, most);
      if (!kept.empty()) return kept;
      const std::int64_t least = least_bytes(times, bytes);
      too_large_ = true;
      if (least > 0) return choose_packings(times, bytes, least);
    }
    std::set<std::string> all;
    for (const BucketTimes& each : times)
      for (const auto& [packing, us] : each.best_us) all.insert(packing);
    return {all.begin(), all.end()};
  }

  // What met a fault of the machine each time might have won: the next run searches again.
  Status leave_open_what_is_unjudged() {
    SPARSMITH_RETURN_IF_ERROR(context_.kernels->health_of_all());
    for (Bucket& bucket : buckets_) {
      const auto unjudged = std::ranges::find(bucket.contenders, true, &Contender::unjudged);
      if (unjudged == bucket.contenders.end()) continue;
      bucket.complete = false;
      counts_.unjudged += std::ranges::count(bucket.contenders, true, &Contender::unjudged);
      const bool any_timed = std::ranges::any_of(bucket.contenders, [](const Contender& contender) {
        return contender.state == Contender::State::kTimed && !contender.baseline;
      });
      if (!any_timed)
        return io_error(
            fmt::format("N = {}: no candidate passed, and some were not judged: {}", bucket.tokens, unjudged->reason));
    }
    return {};
  }

  static std::string nothing_passes(const Bucket& bucket) {
    const auto dense = std::ranges::find(bucket.contenders, true, &Contender::baseline);
    return fmt::format("no candidate for N = {} passes, and dense cannot serve: {}", bucket.tokens,
                       dense == bucket.contenders.end() ? "no dense product computes the operator" : dense->reason);
  }

  Status choose() {
    SPARSMITH_RETURN_IF_ERROR(leave_open_what_is_unjudged());
    // Choices that are kept are not weighed again, not even against dense: what they take now is what is asked.
    const bool stand = known_ && options_.keep_choices;
    std::vector<BucketTimes> times;
    for (const Bucket& bucket : buckets_) times.push_back(times_of(bucket, context_.predict));
    const std::vector<std::string> kept = kept_packings(times, stand);
    for (const Bucket& bucket : buckets_) {
      const SearchedOperator& op = operator_of(bucket);
      for (const Contender& contender : bucket.contenders) {
        if (contender.state == Contender::State::kRejected)
          ++counts_.rejected[rejection_class(contender.status, contender.reason)];
      }
      const bool stands = stand && std::ranges::any_of(bucket.contenders, [](const Contender& contender) {
                            return contender.incumbent && contender.state == Contender::State::kTimed;
                          });
      auto decision = decide(bucket.contenders, kept, /*beside_baseline=*/!stands, context_.predict);
      if (!decision) return unsupported(nothing_passes(bucket));
      if (stands) decision->reason = "an earlier choice that was to be kept";
      weight_.buckets.push_back(
          bucket_choice(bucket, *decision, context_.predict, match_quality_name(op.cached->quality(bucket.tokens))));
      const auto families = op.cached->families_of_choice(bucket.tokens);
      if (options_.model_bytes == 0 && !too_large_ && families)
        store_choice(context_, weight_, weight_.buckets.back(), *families);
    }
    if (!stand) {
      weight_.alternatives = alternatives_of(options_, weight_, buckets_, kept, packings_.sizes(), context_.predict);
    }
    return {};
  }

  // The weight, or its transpose, as the operator multiplies it by X.
  const CsrMatrix& multiplied_matrix(const OperatorSpec& spec) const {
    return spec.kind == OperatorKind::kSpmmTransposed ? *transposed_ : matrix_;
  }

  TuneContext context_;
  const TuneOptions& options_;
  const CsrMatrix matrix_;               // the weight
  std::optional<CsrMatrix> transposed_;  // where an operator multiplies that
  TuneCounts counts_;
  Packings packings_;
  WeightResult weight_;
  std::vector<SearchedOperator> operators_;  // as the options have them; finish() gives `weight_` away
  std::vector<Bucket> buckets_;              // operator by operator, each N of it; empty: nothing is searched
  std::optional<OperatorKind> on_device_;    // that the session has the weight for
  bool known_ = false;                       // the cache has every choice
  bool hurried_ = false;                     // the run's time is over
  bool too_large_ = false;                   // no choice is within the memory that options_ allow
  Budget::Clock::time_point weight_end_ = Budget::Clock::time_point::max();
  Budget::Clock::time_point bucket_end_ = Budget::Clock::time_point::max();
  PreparedSignal prepared_;
  std::vector<std::unique_ptr<BucketSearch>> searches_;  // of the buckets. Last: they end before what they read
};

}  // namespace

Status check_memory(const OperatorSpec& spec, std::int64_t tokens, const DeviceProperties& device) {
  constexpr double kReferenceBytes = 28;  // an output: two sums, what is expected, and its bound
  const auto n = static_cast<double>(tokens);
  const auto rows = static_cast<double>(spec.rows);
  const auto size = static_cast<double>(size_of(spec.type));
  const auto most_looked_at = static_cast<double>(ProblemOptions().most_outputs);
  const auto nnz = static_cast<double>(spec.nnz);  // of sddmm, whose outputs they are
  const double on_device = (n * (rows + static_cast<double>(spec.cols)) + nnz) * size;
  const double on_host =
      on_device + (spec.multiplies_weight() ? std::min(n * rows, most_looked_at) : nnz) * kReferenceBytes;
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (on_device <= static_cast<double>(device.memory_bytes) && on_host <= memory) return {};
  return out_of_memory(fmt::format(
      "N = {} with a weight of {} x {}: inputs and outputs take {:.1f} GB of the device's {:.1f} GB, and {:.1f} GB of "
      "this machine's {:.1f} GB; give fewer --tokens",
      tokens, spec.rows, spec.cols, on_device / 1e9, static_cast<double>(device.memory_bytes) / 1e9, on_host / 1e9,
      memory / 1e9));
}

std::unique_ptr<WeightTuner> make_weight_tuner(TuneContext context, std::string name, CsrMatrix matrix,
                                               std::optional<SparsityStatistics> statistics) {
  return std::make_unique<Tuner>(std::move(context), std::move(name), std::move(matrix), std::move(statistics));
}

}  // namespace sparsmith
