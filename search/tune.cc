#include "search/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <semaphore>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/stopwatch.h"
#include "search/byte_limit.h"
#include "search/choice/kernel_images.h"
#include "search/choice/training.h"
#include "search/record/tuned_output.h"
#include "search/schedule.h"
#include "search/trial/device_sessions.h"
#include "search/weight_search.h"
#include "tuner/process/environment_fault.h"

namespace sparsmith {
namespace {

Status check_options(std::span<const WeightInput> weights, const TuneOptions& options) {
  if (options.tokens.empty()) return invalid_argument("no number of tokens is given");
  if (!std::ranges::is_sorted(options.tokens, std::less_equal<>()) || options.tokens.front() < 1)
    return invalid_argument("numbers of tokens must be positive, ascending, and different");
  if (options.tokens.back() > std::numeric_limits<std::int32_t>::max())
    return invalid_argument(fmt::format("N = {} is more tokens than any kernel counts", options.tokens.back()));
  if (!options.calls.empty() && options.calls.size() != options.tokens.size())
    return invalid_argument(
        fmt::format("{} counts of calls for {} numbers of tokens", options.calls.size(), options.tokens.size()));
  if (std::ranges::any_of(options.calls, [](double calls) { return !(calls > 0); }))
    return invalid_argument("counts of calls must be positive");
  if (!(options.memory > 0) || options.model_bytes < 0) return invalid_argument("weights need some memory");
  for (std::size_t i = 0; i < options.kinds.size(); ++i)
    if (std::ranges::count(options.kinds, options.kinds[i]) > 1)
      return invalid_argument(fmt::format("the operator {} is asked for twice", operator_kind_name(options.kinds[i])));
  if (options.kinds.empty()) return invalid_argument("there is no operator to tune for");
  if (options.train && (options.kinds.size() != std::size(kOperatorKinds) || options.model_bytes > 0))
    return invalid_argument("training takes all operators, and has a bound of its own on memory");
  const auto check_specs = [&](const Epilogue& epilogue) -> Status {
    for (const OperatorSpec& spec : options.specs_of(0, 0, 0, DataType::kFloat16, epilogue))
      SPARSMITH_RETURN_IF_ERROR(spec.check());
    return {};
  };
  SPARSMITH_RETURN_IF_ERROR(check_specs(options.epilogue));
  for (const WeightInput& weight : weights)
    if (weight.epilogue) SPARSMITH_RETURN_IF_ERROR(check_specs(*weight.epilogue).annotate(weight.name));
  if (options.searches_per_device < 1) return invalid_argument("a device searches at least one weight at a time");
  return {};
}

// The device that choices are predicted for.
DeviceProperties predicted_device(const TuneOptions& options) {
  const int asked = options.architectures.empty() ? 0 : compute_capability_of(options.architectures.front());
  return typical_device(asked > 0 ? asked : 90);
}

// How many weights are prepared at once: much of it goes on one core.
std::size_t preparing_threads(std::size_t sessions) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::clamp<std::size_t>(cores / 2, sessions + 1, 8);
}

// On each device. What is recorded, or has a time of its own, has the device alone.
int searches_at_once(std::size_t weights, const TuneOptions& options, const TuneResources& resources) {
  if (options.budget_s > 0 || resources.record || resources.workers.empty()) return 1;
  const std::size_t devices = resources.workers.size();
  return static_cast<int>(
      std::min((weights + devices - 1) / devices, static_cast<std::size_t>(options.searches_per_device)));
}

class Run {
 public:
  Run(std::span<const WeightInput> weights, const TuneOptions& options, const TuneResources& resources,
      std::vector<DeviceSession> sessions)
      : weights_(weights),
        options_(options),
        resources_(resources),
        sessions_(std::move(sessions)),
        transfer_(resources.cache),
        full_preparations_(
            static_cast<std::ptrdiff_t>(sessions_.empty() ? preparing_threads(0) : resources.workers.size())),
        outcomes_(weights.size()) {
    run_.options = options;
  }

  Result<TuneReport> execute() {
    const auto begin = Budget::Clock::now();
    choose_device();
    SPARSMITH_RETURN_IF_ERROR(check_memory_of_all());
    KernelStore& kernels =
        kernels_.emplace(resources_.compiler, resources_.cache, fmt::format("sm_{}", run_.device.compute_capability),
                         options_.compile_threads);
    budget_.emplace(options_.budget_s, std::max<std::size_t>(1, resources_.workers.size()), promised_gains(),
                    resources_.now ? resources_.now : Budget::Now(Budget::Clock::now));
    share(kernels);
    const std::size_t preparers = preparing_threads(sessions_.size());
    schedule_.emplace(budget_->order(), sessions_.size() + preparers);
    sessions_left_ = sessions_.size();
    {
      const std::jthread watch([this](const std::stop_token& stop) { watch_for_interrupts(stop); });
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < preparers; ++i) threads.emplace_back([this] { prepare_weights(); });
      for (DeviceSession& session : sessions_) threads.emplace_back([this, &session] { search_weights(session); });
    }
    kernels.give_up();                                      // of weights that never had their turn
    if (!interrupted()) SPARSMITH_RETURN_IF_ERROR(error_);  // an interrupt may cost workers and compilers
    collect_outcomes();
    report_.device = run_.device;
    SPARSMITH_RETURN_IF_ERROR(bound_memory(weights_, options_, report_));
    if (options_.train) {
      SPARSMITH_ASSIGN_OR_RETURN(report_.training, training_use(report_, tuned_contents(report_, {})));
    }
    Status fault;
    report_.images = images_of(report_.weights, kernels, options_, resources_.compiler, resources_.cache, fault);
    if (!interrupted()) SPARSMITH_RETURN_IF_ERROR(fault);
    if (resources_.cache != nullptr) report_.cache_failures = resources_.cache->write_failures();
    report_.devices = resources_.workers.size();
    report_.interrupted = interrupted() && !report_.complete;  // one that came too late changed nothing
    report_.kernels = kernels.counts();
    for (const DeviceSession& session : sessions_) {
      report_.device_seconds.add(session.seconds());
      report_.worker_restarts += session.restarts();
    }
    report_.seconds = std::chrono::duration<double>(Budget::Clock::now() - begin).count();
    return std::move(report_);
  }

 private:
  struct Outcome {
    std::optional<WeightResult> result;
    std::string skipped;  // why
    std::vector<GroupMember> members;
  };

  bool interrupted() const { return resources_.interrupted && resources_.interrupted(); }

  // Threads that wait for kernels, or for what to do, do not look at the clock.
  void watch_for_interrupts(const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kPeriod{50};
    for (; !stop.stop_requested(); std::this_thread::sleep_for(kPeriod)) {
      if (!interrupted()) continue;
      kernels_->give_up();
      schedule_->stop();
    }
  }

  // REQUIRES: the weight's statistics are known.
  std::vector<OperatorSpec> specs_of(const WeightInput& weight) const {
    const SparsityStatistics& statistics = *weight.statistics;
    return options_.specs_of(statistics.rows, statistics.cols, statistics.nnz, statistics.data_type,
                             weight.epilogue.value_or(options_.epilogue));
  }

  // Before anything is prepared, of the weights whose shapes are known by now.
  Status check_memory_of_all() const {
    for (const WeightInput& weight : weights_) {
      if (!weight.statistics) continue;
      for (const OperatorSpec& spec : specs_of(weight)) {
        const Status fits = check_memory(spec, options_.tokens.back(), run_.device);
        if (!fits.ok()) return fits.annotate(weight.name);
      }
    }
    return {};
  }

  void choose_device() {
    run_.predict = sessions_.empty() || sessions_.front().properties().is_emulator;
    if (run_.predict) {
      run_.device = predicted_device(options_);
      return;
    }
    DeviceSession& first = sessions_.front();
    const auto speeds = speeds_of(first);
    if (speeds.ok()) first.set_speeds(*speeds);
    if (!speeds.ok()) log_warning("what the device reaches was not measured: {}", speeds.status().message());
    run_.device = first.properties();
  }

  // As an earlier run measured them, with the same driver, or by a probe.
  Result<DeviceSpeeds> speeds_of(DeviceSession& session) {
    Cache* const cache = resources_.cache;
    const std::string device = session.properties().probe_key();
    if (cache != nullptr) {
      const auto known = cache->find_speeds(device);
      if (known.ok() && *known)
        return DeviceSpeeds{(*known)->memory_bandwidth, (*known)->l2_bandwidth, (*known)->launch_us};
    }
    SPARSMITH_ASSIGN_OR_RETURN(const DeviceSpeeds speeds, session.measure_speeds());
    if (cache != nullptr) {
      const Status kept = cache->put_speeds(device, {speeds.memory_bandwidth, speeds.l2_bandwidth, speeds.launch_us});
      if (!kept.ok()) log_warning("what the device reaches is not remembered: {}", kept.message());
    }
    return speeds;
  }

  // Completes what the weights share.
  void share(KernelStore& kernels) {
    run_.kernels = &kernels;
    run_.budget = &*budget_;
    run_.full_preparations = &full_preparations_;
    run_.cache = resources_.cache;
    if (resources_.record) {
      run_.record = [this](const RecordedSpace& space) {
        const std::lock_guard lock(mutex_);
        return resources_.record(space);
      };
    }
    if (options_.transfer && options_.use_choices && !resources_.record) run_.transfer = &transfer_;
    run_.program_version = resources_.program_version;
    run_.interrupted = [this] { return interrupted(); };
    if (resources_.cache == nullptr) return;
    const DeviceProperties& device = run_.device;
    const auto device_id =
        resources_.cache->put_device({device.device_class(), device.name, device.compute_capability, device.sm_count,
                                      device.memory_bytes, run_.predict ? 0 : device.memory_bandwidth});
    const auto environment_id =
        resources_.cache->put_environment({driver_of_run(), kernels.nvrtc_version(), resources_.program_version});
    if (device_id.ok() && environment_id.ok()) {
      run_.device_id = *device_id;
      run_.environment_id = *environment_id;
    } else {
      const Status& status = device_id.ok() ? environment_id.status() : device_id.status();
      log_warning("the cache is not used in this run: {}", status.message());
      run_.cache = nullptr;
    }
  }

  // For the cache.
  std::string driver_of_run() const {
    if (sessions_.empty()) return "none";
    return run_.predict ? "emulator" : run_.device.driver_version;
  }

  // What each weight promises over all N, as far as that is known before anything is read. Where time has no end,
  // nobody asks.
  std::vector<std::optional<double>> promised_gains() const {
    std::vector<std::optional<double>> gains(weights_.size());
    if (options_.budget_s <= 0) return gains;
    std::map<std::string, double> known;  // the layers of a model are much alike
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (!weights_[i].statistics) continue;
      const SparsityStatistics& statistics = *weights_[i].statistics;
      const auto [place, is_new] =
          known.try_emplace(fmt::format("{} {} {:.2f} {}", statistics.rows, statistics.cols, statistics.sparsity,
                                        weights_[i].epilogue.value_or(options_.epilogue).name()),
                            0.0);
      for (const OperatorSpec& spec : is_new ? specs_of(weights_[i]) : std::vector<OperatorSpec>()) {
        // The statistics are those of the weight as it is.
        if (spec.kind == OperatorKind::kSpmmTransposed) continue;
        const std::vector<double> calls = calls_of(options_, spec, run_.device);
        for (std::size_t n = 0; n < calls.size(); ++n) {
          const Problem problem{spec, options_.tokens[n], run_.device};
          place->second += calls[n] * promised_gain_us(problem, search_space(problem, statistics));
        }
      }
      if (place->second > 0) gains[i] = place->second;
    }
    return gains;
  }

  void tell(std::size_t weight, const std::string& stage, std::size_t done, std::size_t total) {
    if (!resources_.progress) return;
    const std::lock_guard lock(mutex_);
    resources_.progress({weight, finished_, weights_.size(), weights_[weight].name, stage, done, total});
  }

  // A preparer's thread.
  void prepare_weights() {
    while (!interrupted()) {
      std::optional<Schedule::Turn> turn = schedule_->next_to_prepare();
      if (!turn) return;
      const Status status = prepare(*std::move(turn));
      if (!status.ok()) fail(status);
    }
    schedule_->stop();
  }

  // Whether a weight like this one is being searched, for one of its operators.
  bool must_wait(const WeightInput& input) const {
    if (!input.statistics || run_.transfer == nullptr || budget_->over()) return false;
    const WeightProfile profile = profile_of(*input.statistics);
    return std::ranges::any_of(
        specs_of(input), [&](const OperatorSpec& spec) { return run_.transfer->must_wait(profile, spec.name()); });
  }

  Status prepare(Schedule::Turn turn) {
    const WeightInput& input = weights_[turn.weight];
    if (turn.search == nullptr && must_wait(input)) {
      schedule_->put_off(std::move(turn));
      return {};
    }
    if (turn.search == nullptr) SPARSMITH_RETURN_IF_ERROR(read(turn));
    double seconds = 0;
    const auto need = timed(seconds, [&] { return turn.search->prepare(); });
    log_debug("{}: prepared in {:.2f} s", input.name, seconds);
    if (!need.ok() || *need == WeightSearch::Need::kNothing ||
        (*need == WeightSearch::Need::kDevice && sessions_.empty())) {
      auto tuned = need.ok() ? turn.search->finish(nullptr) : Result<WeightResult>(need.status());
      note(turn.weight, std::move(turn.search), std::move(tuned));
      schedule_->needs_no_search();
    } else if (*need == WeightSearch::Need::kPatience) {
      schedule_->put_off(std::move(turn));
    } else {
      schedule_->ready(std::move(turn));
    }
    return {};
  }

  Status read(Schedule::Turn& turn) {
    const std::size_t index = turn.weight;
    tell(index, "read", 0, 1);
    double seconds = 0;
    std::vector<GroupMember> members;
    auto matrix = timed(seconds, [&] { return read_weight(weights_[index], options_, members); });
    if (!matrix.ok()) return matrix.status();
    turn.search = std::make_unique<WeightSearch>(run_, index, weights_[index], *std::move(matrix),
                                                 [this, index](const std::string& stage, std::size_t done,
                                                               std::size_t total) { tell(index, stage, done, total); });
    const std::lock_guard lock(mutex_);
    report_.read_seconds += seconds;
    outcomes_[index].members = std::move(members);
    return {};
  }

  // A session's thread.
  void search_weights(DeviceSession& session) {
    while (!interrupted()) {
      double waited = 0;
      std::optional<Schedule::Turn> turn = timed(waited, [&] { return schedule_->next_to_search(); });
      session.add_waiting(waited);
      if (!turn) return;
      double seconds = 0;
      auto tuned = timed(seconds, [&] { return turn->search->finish(&session); });
      log_debug("{}: searched in {:.2f} s, behind {:.2f} s of waiting", weights_[turn->weight].name, seconds, waited);
      if (!tuned.ok() && !session.health().ok() && !interrupted()) {
        turn->search.reset();
        lose(session, turn->weight);
        return;
      }
      note(turn->weight, std::move(turn->search), std::move(tuned));
      schedule_->searched();
    }
    schedule_->stop();
  }

  // Another session does what this one was at; the last one's end is the run's.
  void lose(const DeviceSession& session, std::size_t weight) {
    const std::size_t left = --sessions_left_;
    if (left == 0) return fail(session.health());
    log_warning("a search has lost its device, {} left: {}", left, session.health().message());
    schedule_->give_back(weight);
  }

  void fail(const Status& status) {
    {
      const std::lock_guard lock(mutex_);
      if (error_.ok()) error_ = status;
    }
    schedule_->stop();
  }

  // What came of a weight. Its search ends here: others may wait for what it knows.
  void note(std::size_t weight, std::unique_ptr<WeightSearch> search, Result<WeightResult> tuned) {
    const TuneCounts counts = search->counts();
    search.reset();
    budget_->done(weight);
    const std::lock_guard lock(mutex_);
    report_.add(counts);
    ++finished_;
    Outcome& outcome = outcomes_[weight];
    if (!tuned.ok()) {
      if (interrupted()) return;  // as if it had not had its turn
      outcome.skipped = tuned.status().message();
      if (!is_environment_fault(tuned.status())) return;
      if (error_.ok()) error_ = tuned.status().annotate(weights_[weight].name);
      schedule_->stop();
      return;
    }
    tuned->members = std::move(outcome.members);
    outcome.result = *std::move(tuned);
    if (resources_.weight_is_done) resources_.weight_is_done(*outcome.result);
  }

  // In the order of the model.
  void collect_outcomes() {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      Outcome& outcome = outcomes_[i];
      if (!outcome.result) {
        const bool tried = !outcome.skipped.empty();
        report_.skipped.push_back({weights_[i].name, tried ? outcome.skipped : "interrupted before its turn"});
        report_.complete = report_.complete && tried;
        continue;
      }
      for (const BucketChoice& bucket : outcome.result->buckets) {
        ++report_.pairs;
        report_.complete = report_.complete && bucket.complete;
        report_.measured = report_.measured || bucket.evidence == "measured";
        report_.unverified += bucket.verification.ok ? 0 : 1;
      }
      report_.weights.push_back(*std::move(outcome.result));
    }
  }

  std::span<const WeightInput> weights_;
  const TuneOptions& options_;
  const TuneResources& resources_;
  std::vector<DeviceSession> sessions_;
  Transfer transfer_;
  std::counting_semaphore<> full_preparations_;
  std::optional<KernelStore> kernels_;
  std::optional<Budget> budget_;
  std::optional<Schedule> schedule_;
  TuneRun run_;
  std::atomic<std::size_t> sessions_left_ = 0;

  std::mutex mutex_;  // guards what follows, and keeps calls of the resources' functions apart
  std::vector<Outcome> outcomes_;
  TuneReport report_;
  Status error_;
  std::size_t finished_ = 0;
};

}  // namespace

Result<TuneReport> tune(std::span<const WeightInput> weights, const TuneOptions& options,
                        const TuneResources& resources) {
  SPARSMITH_RETURN_IF_ERROR(check_options(weights, options));
  std::vector<DeviceSession> sessions;
  if (!resources.workers.empty()) {
    SPARSMITH_ASSIGN_OR_RETURN(sessions,
                               open_sessions(resources.workers, searches_at_once(weights.size(), options, resources)));
  }
  return Run(weights, options, resources, std::move(sessions)).execute();
}

}  // namespace sparsmith
