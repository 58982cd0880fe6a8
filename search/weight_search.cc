#include "search/weight_search.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/stopwatch.h"
#include "search/record/space_recording.h"
#include "search/strategy/search_points.h"
#include "tuner/verify/reference_problem.h"

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

}  // namespace

WeightSearch::WeightSearch(const TuneRun& run, std::size_t index, const WeightInput& input, CsrMatrix matrix,
                           Progress progress)
    : run_(run),
      index_(index),
      progress_(std::move(progress)),
      matrix_(std::move(matrix)),
      predict_(run.predict),
      packings_(matrix_) {
  weight_.name = input.name;
  weight_.rows = matrix_.rows;
  weight_.cols = matrix_.cols;
  weight_.type = run_.options.type.value_or(matrix_.data_type);
  weight_.nnz = matrix_.nnz();
  weight_.sparsity = matrix_.sparsity();
  const Stopwatch stopwatch(counts_.read_seconds);
  weight_.pattern_hash = matrix_.pattern_hash();
  weight_.value_hash = matrix_.value_hash();
  const std::vector<OperatorSpec> specs = run_.options.specs_of(
      matrix_.rows, matrix_.cols, matrix_.nnz(), matrix_.data_type, input.epilogue.value_or(run_.options.epilogue));
  goal_ = goal_of(run_.options, specs);
  for (const OperatorSpec& spec : specs) {
    const bool turned = spec.kind == OperatorKind::kSpmmTransposed;
    if (turned) transposed_ = transposed(matrix_);
    SearchedOperator& op = operators_.emplace_back();
    op.spec = spec;
    op.statistics = input.statistics && !turned ? *input.statistics : compute_statistics(multiplied_matrix(spec));
    op.statistics.data_type = matrix_.data_type;
    op.profile = profile_of(op.statistics);
    op.key = problem_key(run_, weight_, spec, 0);
  }
  remember_weight();
}

WeightSearch::~WeightSearch() {
  if (run_.transfer == nullptr) return;
  for (const SearchedOperator& op : operators_) run_.transfer->finished(op.key);
}

Result<WeightSearch::Need> WeightSearch::prepare() {
  for (const SearchedOperator& op : operators_)
    SPARSMITH_RETURN_IF_ERROR(check_memory(op.spec, run_.options.tokens.back(), run_.device));
  // Nothing more is timed in this run: what is predicted to be best is verified, and that is it.
  hurried_ = !run_.predict && run_.budget->over();
  predict_ = run_.predict || hurried_;
  for (SearchedOperator& op : operators_)
    op.cached.emplace(run_, predict_, goal_, weight_, op.spec, op.statistics, packings_);
  for (const auto& [packing, bytes] : packings_.sizes()) counts_.pack_seconds += packings_.seconds(packing);
  // What fits a whole model is chosen anew, among what was measured.
  const bool adopts = run_.options.use_choices && run_.options.model_bytes == 0 && !run_.record;
  known_ = adopts && std::ranges::all_of(operators_, [&](const SearchedOperator& op) {
             return hurried_ ? op.cached->at_hand() : op.cached->complete();
           });
  if (known_ && !run_.options.compare) return Need::kNothing;
  bool near = true;  // all of them
  for (SearchedOperator& op : operators_) {
    if (!known_ && adopts) op.new_families = op.cached->new_families();
    if (!known_ && learns() && !op.hint) {
      op.hint = run_.transfer->ask(op.key, op.profile, run_.options.tokens, !hurried_);
      if (!op.hint) return Need::kPatience;
      op.hint = of_families(*std::move(op.hint), limits(op).families);
    }
    near = near && op.near();
  }
  const Admission admission(near || known_ ? nullptr : run_.full_preparations);
  for (const SearchedOperator& op : operators_) SPARSMITH_RETURN_IF_ERROR(make_buckets(op));
  if (predict_) {
    make_predicted();
  } else {
    prepare_searches();
  }
  return Need::kDevice;
}

Result<WeightResult> WeightSearch::finish(DeviceSession* session) {
  if (buckets_.empty()) {
    adopt();
  } else {
    session_ = session;
    SPARSMITH_RETURN_IF_ERROR(search());
  }
  for (const BucketChoice& bucket : weight_.buckets) SPARSMITH_RETURN_IF_ERROR(keep_packing(bucket));
  return std::move(weight_);
}

void WeightSearch::remember_weight() {
  if (run_.cache == nullptr) return;
  WeightRecord record{weight_.pattern_hash, weight_.value_hash,
                      matrix_.rows,         matrix_.cols,
                      matrix_.nnz(),        histogram_text(profile_of(operators_.front().statistics))};
  (void)run_.cache->put_weight(record);
}

bool WeightSearch::learns() const {
  return run_.transfer != nullptr && (!predict_ || hurried_) && run_.options.strategy == StrategyKind::kRace;
}

SelectionLimits WeightSearch::limits(const SearchedOperator& op) const {
  SelectionLimits limits = run_.options.selection;
  if (!op.new_families.empty()) limits.families = op.new_families;
  if (!dense_matters()) limits.dense_doubt = 0;
  if (run_.options.memory < 1 || run_.options.model_bytes > 0)  // there may be no room for dense
    limits.common_doubt = std::numeric_limits<double>::infinity();
  // Predictions alone decide there: a few packings are there for those that take too much memory, and only the first
  // few candidates are looked at.
  if (predict_) {
    limits.packings = hurried_ ? 1 : kPredictedPackings;
    limits.family_doubt = 1;
    limits.candidates = std::min(limits.candidates, hurried_ ? kHurriedCandidates : kPredictedCandidates);
  }
  return limits;
}

// Where the choices are known, they alone are in the race.
Status WeightSearch::make_buckets(const SearchedOperator& op) {
  CandidateSelection selection;
  {
    const Stopwatch stopwatch(counts_.select_seconds);
    const Problem problem{op.spec, 1, run_.device};
    if (!known_)
      selection = select_candidates(problem, run_.options.tokens, calls_of(run_.options, op.spec, run_.device),
                                    op.statistics, limits(op));
    if (op.hint) apply_hint(*op.hint, problem, op.statistics, selection);
  }
  if (op.near()) counts_.transferred += static_cast<std::int64_t>(run_.options.tokens.size());
  for (const auto& [rule, count] : selection.cuts) counts_.cuts[rule] += count;
  counts_.considered += selection.considered;
  for (std::size_t i = 0; i < run_.options.tokens.size(); ++i) buckets_.push_back(make_bucket(op, i, selection));
  return {};
}

// The bucket's operator.
const WeightSearch::SearchedOperator& WeightSearch::operator_of(const Bucket& bucket) const {
  return *std::ranges::find(operators_, bucket.spec.kind, [](const SearchedOperator& op) { return op.spec.kind; });
}

// The end of a search: by gain of what is left of the weight's time.
void WeightSearch::bucket_begins(std::size_t index) {
  double gains = 0;
  for (std::size_t i = index; i < buckets_.size(); ++i) gains += buckets_[i].gain_us;
  bucket_end_ = weight_end_;
  if (weight_end_ == Budget::Clock::time_point::max() || gains <= 0) return;
  const auto now = run_.budget->now();
  const std::chrono::duration<double> left = weight_end_ - now;
  bucket_end_ = now + std::chrono::duration_cast<Budget::Clock::duration>(left * (buckets_[index].gain_us / gains));
}

Status WeightSearch::search() {
  weight_end_ = run_.budget->end_of_search(index_);
  if (!searches_.empty()) searches_.front()->hurry();
  Status searched = predict_ ? predict() : measure();
  if (!searched.ok()) {  // what was tried counts nevertheless
    searches_.clear();
    for (Bucket& bucket : buckets_)
      if (bucket.search != nullptr) end_search(bucket);
    return searched;
  }
  SPARSMITH_RETURN_IF_ERROR(choose());
  for (std::size_t i = 0; i < buckets_.size(); ++i) remember(buckets_[i], weight_.buckets[i]);
  return {};
}

// What a search in full teaches others.
void WeightSearch::remember(const Bucket& bucket, const BucketChoice& choice) const {
  const SearchedOperator& op = operator_of(bucket);
  if (known_ || op.near() || hurried_ || !bucket.complete || !learns()) return;
  run_.transfer->remember(problem_key(run_, weight_, bucket.spec, bucket.tokens), op.profile, bucket.trials,
                          choice.candidate.config.text());
}

Bucket WeightSearch::make_bucket(const SearchedOperator& op, std::size_t index, const CandidateSelection& selection) {
  Bucket bucket;
  bucket.spec = op.spec;
  bucket.tokens = run_.options.tokens[index];
  bucket.calls = calls_of(run_.options, op.spec, run_.device)[index];
  const Problem problem{op.spec, bucket.tokens, run_.device};
  const BucketChoice* choice = op.cached->incumbent(bucket.tokens);
  std::optional<PredictedConfig> incumbent;
  if (choice != nullptr) incumbent.emplace(choice->candidate.config, choice->candidate.predicted_us);
  // Spaces have up to 30,000 configs. That a race after a hint looks beyond what the hint brought is rare.
  const std::size_t most = run_.options.strategy != StrategyKind::kRace ? run_.options.most_candidates
                           : op.near()                                  ? 1'000
                                                                        : 10'000;
  SearchScope scope{run_.options.strategy, most, run_.options.seed, predict_};
  if (learns())
    scope.baseline = run_.transfer->baseline(problem_key(run_, weight_, op.spec, bucket.tokens), op.profile);
  const auto space = selection.spaces.find(bucket.tokens);
  if (space != selection.spaces.end()) {
    bucket.considered = static_cast<std::int64_t>(space->second.configs.size());
    bucket.gain_us = bucket.calls * promised_gain_us(problem, space->second);
  }
  SearchPoints points = search_points(problem, selection, incumbent ? &*incumbent : nullptr, scope);
  if (op.near()) points.expected_us = op.hint->fastest_us.at(bucket.tokens);
  if (dense_matters()) points.dense_us = baseline_us(problem);
  bucket.search = std::make_unique<TrialSet>(*run_.kernels, packings_, problem, run_.options.timing.programmatic,
                                             std::move(points));
  return bucket;
}

// Selects, packs and generates what searches begin with; its kernels are compiled in the background.
void WeightSearch::prepare_searches() {
  const BucketSearch::Hooks hooks{progress_, [this] { return run_.budget->now() >= bucket_end_; }};
  for (Bucket& bucket : buckets_)
    searches_.push_back(std::make_unique<BucketSearch>(run_, bucket, log_for(bucket), prepared_, hooks));
  for (const auto& search : searches_) search->prepare_first();
  double packed = counts_.pack_seconds;
  for (const Bucket& bucket : buckets_) packed += bucket.search->pack_seconds();
  log_debug("{}: selected in {:.2f} s, packed in {:.2f} s", weight_.name, counts_.select_seconds, packed);
}

// What is only predicted is verified one by one.
void WeightSearch::make_predicted() {
  for (Bucket& bucket : buckets_) {
    const std::vector<std::size_t>& selected = bucket.search->points().selected;
    bucket.search->make(selected);
    if (hurried_) bucket.search->compile(selected, KernelStore::Urgency::kSoon);
  }
}

MeasurementLog WeightSearch::log_for(const Bucket& bucket) const {
  MeasurementRecord base;
  base.key = problem_key(run_, weight_, bucket.spec, bucket.tokens);
  base.value_hash = weight_.value_hash;
  base.device_id = run_.device_id;
  base.environment_id = run_.environment_id;
  return {run_.cache, std::move(base)};
}

// Has the device multiply for the bucket's operator.
Status WeightSearch::set_weight(const Bucket& bucket) {
  if (on_device_ == bucket.spec.kind) return {};
  on_device_ = bucket.spec.kind;
  return session_->set_weight(multiplied_matrix(bucket.spec), bucket.spec);
}

// All N of an operator together: the device tries candidates of one N while those of another N are packed and
// compiled. Where time or memory is short, one N after the other.
Status WeightSearch::measure() {
  for (std::size_t first = 0; first < buckets_.size(); first += run_.options.tokens.size()) {
    SPARSMITH_RETURN_IF_ERROR(set_weight(buckets_[first]));
    const std::size_t end = first + run_.options.tokens.size();
    std::vector<BucketSearch*> open;  // the search whose N is set comes first
    for (std::size_t begun = first; begun < end || !open.empty();) {
      const auto room_for_another = [&] {
        return open.empty() ||
               (weight_end_ == Budget::Clock::time_point::max() && packings_.bytes() <= Packings::kResidentBytes);
      };
      while (begun < end && room_for_another()) {
        bucket_begins(begun);
        open.push_back(searches_[begun].get());
        if (begun++ == first) open.front()->hurry();
      }
      BucketSearch* const search = first_prepared(open);
      SPARSMITH_ASSIGN_OR_RETURN(const bool over, search->advance(*session_));
      std::erase(open, search);
      if (over) {
        SPARSMITH_RETURN_IF_ERROR(close(search));
      } else {
        open.insert(open.begin(), search);  // where it is as ready as others, it goes on
      }
    }
  }
  return {};
}

// The first search whose candidates are ready. Until there is one, only one N's kernels are hurried, since other
// devices wait for kernels too.
BucketSearch* WeightSearch::first_prepared(const std::vector<BucketSearch*>& open) {
  const auto found = [&] { return std::ranges::find_if(open, &BucketSearch::prepared); };
  if (found() == open.end()) {
    open.front()->hurry();
    double waited = 0;
    timed(waited, [&] { prepared_.wait([&] { return found() != open.end(); }); });
    session_->add_waiting(waited);
    log_debug("{}: waited for kernels for {:.2f} s", weight_.name, waited);
  }
  return *found();
}

Status WeightSearch::close(const BucketSearch* search) {
  const auto place = std::ranges::find(searches_, search, &std::unique_ptr<BucketSearch>::get);
  Bucket& bucket = buckets_[place - searches_.begin()];
  place->reset();
  end_search(bucket);
  if (!run_.record) return {};
  RecordedSpace space = recorded_space(run_, weight_, bucket.spec, operator_of(bucket).statistics, bucket.tokens,
                                       bucket.considered, bucket.trials, bucket.vendors);
  space.complete = bucket.complete;
  return run_.record(space);
}

void WeightSearch::end_search(Bucket& bucket) {
  bucket.ungenerated = bucket.search->ungenerated();
  for (const Rejection& rejection : bucket.ungenerated) ++counts_.rejected[rejection.outcome];
  bucket.trials = bucket.search->take();
  counts_.candidates += std::ssize(bucket.trials);
  counts_.pack_seconds += bucket.search->pack_seconds();
  bucket.search.reset();
}

// The weight, or its transpose, as the operator multiplies it by X.
const CsrMatrix& WeightSearch::multiplied_matrix(const OperatorSpec& spec) const {
  return spec.kind == OperatorKind::kSpmmTransposed ? *transposed_ : matrix_;
}

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

}  // namespace sparsmith
