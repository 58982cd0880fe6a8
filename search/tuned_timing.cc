#include "search/tuned_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "generator/search_space.h"
#include "search/record/regenerated_choice.h"
#include "search/record/tuned_output.h"
#include "search/trial/device_session.h"
#include "search/trial/kernel_store.h"
#include "search/trial/trial.h"

namespace sparsmith {
namespace {

// Enough to tell the library's algorithms apart; the fastest is timed again beside the choice.
constexpr double kMillisecondsOfAnAlgorithm = 20;

WeightResult result_of(const TunedWeight& weight) {
  WeightResult result;
  result.name = weight.name;
  result.rows = weight.rows;
  result.cols = weight.cols;
  result.type = weight.type;
  result.nnz = weight.nnz;
  const double elements = static_cast<double>(weight.rows) * static_cast<double>(weight.cols);
  result.sparsity = elements > 0 ? 1 - static_cast<double>(weight.nnz) / elements : 0;
  result.pattern_hash = weight.pattern_hash;
  result.value_hash = weight.value_hash;
  result.members = weight.members;
  return result;
}

class TunedTiming {
 public:
  TunedTiming(const TunedContents& contents, const TunedTimingOptions& which, const TuneOptions& options,
              const TuneResources& resources, DeviceSession session)
      : contents_(contents),
        which_(which),
        options_(options),
        session_(std::move(session)),
        kernels_(resources.compiler, resources.cache, fmt::format("sm_{}", session_.properties().compute_capability),
                 options.compile_threads) {}

  // Error: there is no device any more, or the weight cannot be unpacked.
  using Progress = std::function<bool(std::int64_t tokens)>;  // false: interrupted
  Status time(const TunedWeight& weight, const Progress& progress, TuneReport& report) {
    SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, matrix_of(weight));
    WeightResult result = result_of(weight);
    for (const TunedPacking& packing : weight.packings) result.packings.push_back(packed_weight_of(weight, packing));
    for (const TunedOperator& op : weight.operators) {
      if (!which_.kinds.empty() && std::ranges::find(which_.kinds, op.spec.kind) == which_.kinds.end()) continue;
      factor_ = multiplied(op.spec.kind, matrix);
      dense_ = {};
      SPARSMITH_RETURN_IF_ERROR(session_.set_weight(factor_, op.spec));
      std::vector<std::int64_t> tokens = which_.tokens;
      if (tokens.empty()) std::ranges::transform(op.choices, std::back_inserter(tokens), &TunedChoice::tokens);
      for (const std::int64_t n : tokens) {
        if (!progress(n)) break;
        const Status timed = time({weight, op.spec, op.choice_for(n), n, matrix}, result, report);
        SPARSMITH_RETURN_IF_ERROR(session_.health());
        if (!timed.ok()) report.skipped.push_back({weight.name, fmt::format("N = {}: {}", n, timed.message())});
      }
    }
    if (!result.buckets.empty()) report.weights.push_back(std::move(result));
    return {};
  }

  DeviceSession& session() { return session_; }

 private:
  struct Case {
    const TunedWeight& weight;
    const OperatorSpec& spec;
    const TunedChoice& choice;
    std::int64_t tokens;
    const CsrMatrix& matrix;
  };

  Status time(const Case& one, WeightResult& result, TuneReport& report) {
    BucketChoice bucket;
    bucket.spec = one.spec;
    bucket.tokens = one.tokens;
    bucket.reason = one.choice.reason;
    const auto packed = std::ranges::find(result.packings, one.choice.packing, &PackedWeight::packing);
    if (packed == result.packings.end()) return internal_error("the weight has no packing " + one.choice.packing);
    bucket.packer_version = packed->packer_version;
    const bool emulated = session_.properties().is_emulator;
    if (emulated)
      SPARSMITH_RETURN_IF_ERROR(check_emulated_memory(one.weight, one.spec, one.choice, one.tokens, which_.max_memory));
    SPARSMITH_ASSIGN_OR_RETURN(const CompiledCandidate loaded,
                               emulated
                                   ? regenerated_choice(contents_, one.weight, one.spec, one.choice)
                                   : loaded_choice(contents_, one.choice, session_.properties().compute_capability));
    describe(one.choice, loaded, bucket, report);
    if (!session_.has_packing(packed->packing)) SPARSMITH_RETURN_IF_ERROR(session_.add_packing(*packed));
    SPARSMITH_RETURN_IF_ERROR(session_.set_tokens(one.tokens, options_.seed));
    if (!emulated) bucket.vendors = session_.vendors(options_.vendors, options_.timing);
    SPARSMITH_ASSIGN_OR_RETURN(bucket.verification, session_.verify(loaded));
    if (!bucket.verification.ok) return internal_error("wrong result: " + bucket.verification.reason);
    bucket.evidence = emulated ? "verified" : "measured";
    if (!emulated) SPARSMITH_RETURN_IF_ERROR(time_beside_peers(one, loaded, bucket));
    result.buckets.push_back(std::move(bucket));
    return {};
  }

  // The choice as a candidate, and its binaries for the report.
  void describe(const TunedChoice& choice, const CompiledCandidate& loaded, BucketChoice& bucket,
                TuneReport& report) const {
    const auto config = Config::parse(choice.config);
    bucket.candidate.config = config.ok() ? *config : Config{.family = choice.config, .values = {}};
    bucket.candidate.packing = choice.packing;
    bucket.candidate.plan = choice.plan;
    for (const KernelImage& kernel : loaded.kernels) {
      const TunedKernel* const stored = contents_.kernel(kernel.name);
      KernelSource source;
      source.name = kernel.name;
      source.source = stored->source;
      source.closure_hash = stored->closure_hash;
      source.max_shared_bytes = kernel.max_shared_bytes;
      const auto known = std::ranges::find(report.images, source.closure_hash,
                                           [](const KernelImages& each) { return each.kernel.closure_hash; });
      if (known == report.images.end() && !kernel.cubin.empty())
        report.images.push_back({source, {{"", kernel.cubin}}});
      bucket.candidate.kernels.push_back(std::move(source));
    }
  }

  // Interleaved with the fastest algorithm of the baseline and the libraries.
  Status time_beside_peers(const Case& one, const CompiledCandidate& choice, BucketChoice& bucket) {
    std::vector<CompiledCandidate> timed = {choice};
    Trial dense = fastest_baseline(one);
    if (dense.state == Trial::State::kTimed) timed.push_back(dense.loaded);
    std::vector<std::string> names;
    for (const VendorTiming& vendor : bucket.vendors)
      if (vendor.supported) names.push_back(vendor.name);
    SPARSMITH_ASSIGN_OR_RETURN(std::vector<Timing> timings, session_.time_interleaved(timed, names, options_.timing));
    if (timings.size() != timed.size() + names.size()) return internal_error("a time is missing");
    bucket.timing = std::move(timings.front());
    for (std::size_t i = 0; i < names.size(); ++i)
      std::ranges::find(bucket.vendors, names[i], &VendorTiming::name)->timing = std::move(timings[timed.size() + i]);
    if (dense.state != Trial::State::kTimed) {
      if (!dense.reason.empty())
        log_warning("{}, N = {}: dense is not timed: {}", one.weight.name, one.tokens, dense.reason);
      return {};
    }
    VendorTiming baseline;
    baseline.name = dense.candidate.config.family;
    baseline.detail = dense.candidate.config.text();
    baseline.timing = std::move(timings[1]);
    if (gathers(dense.candidate)) {
      SPARSMITH_ASSIGN_OR_RETURN(timings, session_.time_unverified({product_of(dense.loaded)}, options_.timing));
      if (timings.size() != 1) return internal_error("the time of a dense gradient is missing");
      baseline.timing = std::move(timings.front());
    }
    baseline.verification = dense.verification;
    baseline.weight_bytes = dense_.bytes();
    bucket.dense_us = baseline.timing.median_us;
    bucket.vendors.insert(bucket.vendors.begin(), std::move(baseline));
    return {};
  }

  // The trial of the baseline's fastest config, verified and timed; not timed where there is none, with the reason.
  Trial fastest_baseline(const Case& one) {
    const Problem problem{one.spec, one.tokens, session_.properties()};
    std::vector<Trial> trials;
    for (const PredictedConfig& each : baseline_space(problem).configs) {
      const Family& made_by = *family(each.config.family);
      Trial& trial = trials.emplace_back();
      const Status made = [&]() -> Status {
        if (dense_.packing.empty()) {
          SPARSMITH_ASSIGN_OR_RETURN(dense_, made_by.pack(each.config, problem, one.matrix));
        }
        if (!session_.has_packing(dense_.packing)) SPARSMITH_RETURN_IF_ERROR(session_.add_packing(dense_));
        SPARSMITH_ASSIGN_OR_RETURN(trial.candidate,
                                   generate_candidate(each.config, problem, dense_, options_.timing.programmatic));
        return {};
      }();
      if (!made.ok()) trial.reject_unseen(made);
      trial.loaded = loaded_candidate(trial.candidate);
    }
    std::vector<const Candidate*> candidates;
    for (const Trial& trial : trials)
      if (trial.state == Trial::State::kWaiting) candidates.push_back(&trial.candidate);
    kernels_.ensure(candidates, KernelStore::Urgency::kNow);
    for (Trial& trial : trials)
      if (trial.state == Trial::State::kWaiting) time_baseline(problem.device, trial);
    const auto order = [](const Trial& trial) {
      return std::pair(trial.state != Trial::State::kTimed, trial.timing.median_us);
    };
    const auto best = std::ranges::min_element(trials, {}, order);
    return best == trials.end() ? Trial() : std::move(*best);
  }

  void time_baseline(const DeviceProperties& device, Trial& trial) {
    attach_binaries(kernels_, device, trial);
    if (trial.state == Trial::State::kRejected) return;
    auto verified = session_.verify(trial.loaded);
    if (!verified.ok()) return trial.reject(verified.status());
    trial.verification = *std::move(verified);
    if (!trial.verification.ok) return trial.reject(MeasurementStatus::kWrong, trial.verification.reason);
    TimingPolicy policy = options_.timing;
    policy.max_milliseconds = kMillisecondsOfAnAlgorithm;
    auto timing = session_.time(trial.loaded, policy);
    if (!timing.ok()) return trial.reject(timing.status());
    trial.timing = *std::move(timing);
    trial.state = Trial::State::kTimed;
  }

  const TunedContents& contents_;
  const TunedTimingOptions& which_;
  const TuneOptions& options_;
  DeviceSession session_;
  KernelStore kernels_;
  CsrMatrix factor_;    // the session refers to it,
  PackedWeight dense_;  // and to this
};

}  // namespace

Result<TuneReport> time_tuned(const TunedContents& contents, const TunedTimingOptions& which,
                              const TuneOptions& options, const TuneResources& resources) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<const TunedWeight*> weights;
  for (const TunedWeight& weight : contents.weights)
    if (selects(which.selection, weight.name)) weights.push_back(&weight);
  if (weights.empty()) return not_found("no weight of the tuned file is selected");
  if (resources.workers.empty()) return invalid_argument("a tuned file is timed on a device, and none is asked for");
  SPARSMITH_ASSIGN_OR_RETURN(DeviceSession session, DeviceSession::open(resources.workers.front()));
  TuneReport report;
  report.measured = !session.properties().is_emulator;
  if (report.measured) {
    const auto speeds = session.measure_speeds();
    if (speeds.ok()) session.set_speeds(*speeds);
    if (!speeds.ok()) log_warning("what the device reaches was not measured: {}", speeds.status().message());
  }
  report.device = session.properties();
  if (!report.measured) report.device.memory_bandwidth = 0;  // not known: no roofline
  TunedTiming run(contents, which, options, resources, std::move(session));
  for (std::size_t i = 0; i < weights.size() && !report.interrupted; ++i) {
    const auto progress = [&](std::int64_t tokens) {
      report.interrupted = resources.interrupted && resources.interrupted();
      if (resources.progress)
        resources.progress({i, i, weights.size(), weights[i]->name, fmt::format("N = {}", tokens), 0, 1});
      return !report.interrupted;
    };
    SPARSMITH_RETURN_IF_ERROR(run.time(*weights[i], progress, report));
  }
  report.complete = !report.interrupted;
  for (const WeightResult& weight : report.weights) {
    report.memory.dense_bytes += weight.dense_bytes();
    report.memory.bytes += weight.gpu_bytes();
    report.pairs += std::ssize(weight.buckets);
    for (const BucketChoice& bucket : weight.buckets) report.memory.us += bucket.us();
  }
  report.device_seconds = run.session().seconds();
  report.worker_restarts = run.session().restarts();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace sparsmith
