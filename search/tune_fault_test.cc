// What goes wrong in a tuning run, and what it costs: candidates that fail in every way, interrupts, kills, short
// budgets.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/hash.h"
#include "tests/support/tune_fixture.h"

namespace sparsmith {
namespace {

TEST_F(TuneTest, ADeadlyOrWrongCandidateCostsOnlyItself) {
  // The fastest ones are the bad ones, so that they would win.
  const auto bad = [](const CompiledCandidate& c) { return hash64(c.kernels.front().name) % 3; };
  device_.time_us = [=](const CompiledCandidate& c) { return 5.0 + static_cast<double>(bad(c)); };
  device_.kills = [=](const CompiledCandidate& c) { return bad(c) == 0; };
  device_.is_wrong = [=](const CompiledCandidate& c) { return bad(c) == 1; };
  options_.selection.candidates = 24;
  const TuneReport report = run({weight("w", 64, 96, 1)});
  ASSERT_EQ(report.weights.size(), 1U);
  EXPECT_EQ(report.weights[0].buckets[0].us(), 7.0);
  EXPECT_GT(device_.deaths.size(), 0U);
  EXPECT_EQ(report.worker_restarts, static_cast<int>(device_.deaths.size()));
  EXPECT_EQ(report.rejected.at("took the worker down"), static_cast<std::int64_t>(device_.deaths.size()));
  EXPECT_GT(report.rejected.at("wrong result"), 0);

  // What is known to be deadly is not tried again.
  const std::size_t deaths = device_.deaths.size();
  options_.use_choices = false;
  const TuneReport again = run({weight("w", 64, 96, 1)});
  EXPECT_EQ(device_.deaths.size(), deaths);
  EXPECT_EQ(again.weights.at(0).buckets.at(0).us(), 7.0);
}

// What the compiler did not outlive is rejected as what does not compile is, under a name of its own.
TEST_F(TuneTest, AKernelThatCostsItsCompilerCostsOnlyItself) {
  const auto kind = [](const std::string& name) { return hash64(name) % 4; };
  compiles_.error = [=](const std::string& name) -> Status {
    if (kind(name) == 0) return device_error("compiling " + name + ": the compiler died of signal 6 (Aborted)");
    if (kind(name) == 1)
      return device_error("compiling " + name + ": the compiler gave no answer within 300 s and was killed");
    return {};
  };
  options_.selection.candidates = 24;
  const TuneReport report = run({weight("w", 64, 96, 1)});
  EXPECT_TRUE(report.complete);
  EXPECT_EQ(report.worker_restarts, 0);
  EXPECT_GT(report.rejected.at("took the compiler down"), 0);
  EXPECT_GT(report.rejected.at("the compiler did not come back in time"), 0);
  for (const KernelSource& kernel : report.weights.at(0).buckets.at(0).candidate.kernels)
    EXPECT_GE(kind(kernel.name), 2U) << kernel.name;
}

TEST_F(TuneTest, EachRejectedCandidateKeepsItsReason) {
  const auto kind = [](const std::string& name) { return hash64(name) % 4; };
  compiles_.error = [=](const std::string& name) {
    return kind(name) == 0 ? invalid_input(name + " does not compile for sm_90: no such type") : Status();
  };
  device_.is_wrong = [=](const CompiledCandidate& c) { return kind(c.kernels.front().name) == 1; };
  options_.selection.candidates = 24;
  const TuneReport report = run({weight("w", 64, 96, 1)});
  const BucketChoice& bucket = report.weights.at(0).buckets.at(0);
  std::int64_t rejected = 0;
  for (const auto& [reason, count] : report.rejected) rejected += count;
  EXPECT_EQ(static_cast<std::int64_t>(bucket.rejections.size()) + bucket.further_rejections, rejected);
  const auto with = [&](const std::string& words) {
    return std::ranges::count_if(bucket.rejections, [&](const Rejection& each) {
      return each.reason.find(words) != std::string::npos && each.config.starts_with(each.family);
    });
  };
  EXPECT_EQ(with("does not compile for sm_90: no such type"), report.rejected.at("does not compile"));
  EXPECT_EQ(with("y[0][0] = 1, expected 0"), report.rejected.at("wrong result"));
  // The cache has them as well, for who asks later.
  auto cache = Cache::open(directory_.file(cache_), Cache::Mode::kReadOnly);
  ASSERT_TRUE(cache.ok());
  const auto measurements =
      cache->measurements({report.weights[0].pattern_hash, report.weights[0].buckets[0].spec.name(), 1,
                           report.device.device_class(), options_.timing.name()});
  ASSERT_TRUE(measurements.ok());
  EXPECT_EQ(std::ranges::count(*measurements, MeasurementStatus::kFailed, &MeasurementRecord::status),
            report.rejected.at("does not compile"));
}

TEST_F(TuneTest, AnInterruptEndsWithWhatThereIs) {
  std::atomic<int> verified = 0;
  device_.before_verify = [&] { ++verified; };
  interrupted_ = [&] { return verified >= 2; };
  const TuneReport report = run({weight("a", 64, 96, 1), weight("b", 64, 96, 2)});
  EXPECT_TRUE(report.interrupted);
  EXPECT_FALSE(report.complete);
  ASSERT_EQ(report.weights.size(), 1U);
  ASSERT_EQ(report.skipped.size(), 1U);
  const bool first_done = report.skipped[0].name == "b";  // both are prepared at once
  interrupted_ = {};
  const TuneReport next = run({weight("a", 64, 96, 1), weight("b", 64, 96, 2)});
  EXPECT_EQ(next.weights.size(), 2U);
  EXPECT_TRUE(next.complete);
  EXPECT_EQ(next.weights.at(first_done ? 0 : 1).buckets[0].incumbent, "exact");
}

// Kernels that nobody has begun to compile are not waited for: on a busy machine they take minutes. The interrupt comes
// when the device waits for the first one, as every thread does but the one that looks for interrupts.
TEST_F(TuneTest, AnInterruptGivesUpWhatWaitsForTheCompiler) {
  std::mutex mutex;                      // guards what follows
  std::map<std::thread::id, int> asked;  // since the interrupt
  interrupted_ = [&] {
    const std::scoped_lock lock(mutex, device_.mutex);
    if (device_.weights_set == 0) return false;
    ++asked[std::this_thread::get_id()];
    return true;
  };
  const auto watched = [&] {
    const std::lock_guard lock(mutex);
    return std::ranges::any_of(asked, [](const auto& each) { return each.second >= 3; });
  };
  std::atomic<int> begun = 0;
  std::atomic<bool> seen = false;
  compiles_.before = [&](const std::string&) {
    if (++begun > 1) return;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!watched() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    seen = watched();
  };
  options_.selection.candidates = 32;
  options_.selection.packings = 8;
  options_.compile_threads = 1;
  const TuneReport report = run({weight("a", 64, 96, 1)});
  EXPECT_TRUE(seen) << "nobody looked for interrupts";
  EXPECT_TRUE(report.interrupted);
  EXPECT_LT(begun, 16) << "of over thirty";
  interrupted_ = {};
  compiles_.before = {};
  EXPECT_TRUE(run({weight("a", 64, 96, 1)}).complete) << "what was given up is searched for again";
}

// A thread that prepares candidates and ends by an exception, as where there is no memory, leaves no device waiting.
TEST_F(TuneTest, APreparationThatThrowsEndsTheRun) {
  compiles_.before = [](const std::string&) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  progress_ = [](const TuneProgress& progress) {
    if (progress.stage == "compile") throw std::runtime_error("std::bad_alloc");
  };
  options_.selection.candidates = 24;
  const auto report = try_run({weight("a", 64, 96, 1)});
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().message().find("cannot be prepared: std::bad_alloc"), std::string::npos)
      << report.status().to_string();
}

// Different trials that were begun, in memory that outlives a killed process.
class BegunTrials {
 public:
  BegunTrials()
      : seen_(static_cast<Seen*>(
            mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  BegunTrials(const BegunTrials&) = delete;
  BegunTrials& operator=(const BegunTrials&) = delete;
  ~BegunTrials() { munmap(seen_, sizeof(Seen)); }

  // One process at a time.
  void add(const CompiledCandidate& candidate) {
    const std::uint64_t hash = hash64(to_json(candidate.plan) + candidate.packing);
    const auto end = seen_->hashes.begin() + seen_->count;
    if (end == seen_->hashes.end() || std::find(seen_->hashes.begin(), end, hash) != end) return;
    *end = hash;
    ++seen_->count;
  }
  std::int64_t count() const { return seen_->count; }
  void clear() { seen_->count = 0; }

 private:
  struct Seen {
    std::int64_t count;
    std::array<std::uint64_t, 1024> hashes;
  };
  Seen* seen_;
};

// The parent itself is killed, at twenty moments of its work: each time the cache opens, has every trial that was
// begun, and of these at most the one in flight has no outcome. The last run finishes.
TEST_F(TuneTest, KilledAtAnyMomentTheNextRunGoesOn) {
  const unsigned seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  options_.tokens = {1, 8};
  options_.selection.candidates = 24;
  options_.transfer = false;
  const std::vector<WeightInput> weights = {weight("a", 64, 96, 1), weight("b", 96, 64, 2), weight("c", 48, 48, 3)};
  BegunTrials begun;
  device_.kills = [&begun](const CompiledCandidate& candidate) {
    begun.add(candidate);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return false;
  };
  int alive = 0;
  for (int round = 0; round < 100 && alive < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      run(weights);
      _exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 150));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    alive += WIFSIGNALED(status) ? 1 : 0;
    auto cache = Cache::open(directory_.file(cache_), Cache::Mode::kReadWrite);
    ASSERT_TRUE(cache.ok()) << cache.status().to_string() << " seed " << seed;
    const auto counts = cache->counts();
    ASSERT_TRUE(counts.ok());
    EXPECT_GE(counts->measurements, begun.count()) << "seed " << seed;
    EXPECT_EQ(counts->running, 0) << "seed " << seed;
    EXPECT_LE(counts->crashed, alive) << "seed " << seed;
    EXPECT_TRUE(cache->verify()->empty()) << "seed " << seed;
    if (!WIFEXITED(status)) continue;
    cache_ = std::to_string(round) + ".db";  // it was done: begin again
    begun.clear();
  }
  EXPECT_EQ(alive, 20);
  const TuneReport report = run(weights);
  EXPECT_EQ(report.pairs, 6) << "seed " << seed;
  EXPECT_TRUE(report.complete);
  auto cache = Cache::open(directory_.file(cache_), Cache::Mode::kReadWrite);
  ASSERT_TRUE(cache.ok());
  EXPECT_TRUE(cache->verify()->empty());
  EXPECT_EQ(cache->counts()->running, 0);
  EXPECT_EQ(cache->counts()->choices, 6);
}

TEST_F(TuneTest, TwoRunsShareOneCache) {
  options_.tokens = {1, 8};
  const std::vector<WeightInput> weights = {weight("a", 64, 96, 1), weight("b", 96, 64, 2), weight("c", 48, 48, 3)};
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(run(weights).pairs == 6 && !HasFailure() ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  auto cache = Cache::open(directory_.file("cache.db"), Cache::Mode::kReadWrite);
  ASSERT_TRUE(cache.ok());
  EXPECT_TRUE(cache->verify()->empty());
  EXPECT_EQ(cache->counts()->choices, 6);
  EXPECT_EQ(cache->counts()->running, 0);
}

TEST_F(TuneTest, ABudgetCutsTheSearchShort) {
  options_.selection.candidates = 40;
  options_.budget_s = 0.05;
  verifying_takes(std::chrono::milliseconds(20));
  const TuneReport report = run({weight("w", 64, 96, 1)});
  EXPECT_FALSE(report.complete);
  EXPECT_FALSE(report.weights.at(0).buckets.at(0).is_baseline());
  EXPECT_LT(device_.verified, 5);
}

// The best takes 100 us, dense 5 ms: every other candidate is far too slow, and stopped after its first launches.
TEST_F(TuneTest, WhatIsFarSlowerThanTheBestIsStopped) {
  options_.selection.candidates = 24;
  std::string fastest;
  int samples = 0;
  device_.dense_us = 5000;
  device_.time_us = [&](const CompiledCandidate& c) {
    if (fastest.empty()) fastest = to_json(c.plan);
    ++samples;
    return to_json(c.plan) == fastest ? 100.0 : 3000.0;
  };
  const TuneReport report = run({weight("w", 64, 96, 1)});
  const BucketChoice& bucket = report.weights.at(0).buckets.at(0);
  EXPECT_EQ(bucket.us(), 100);
  EXPECT_GT(report.rejected.at("too slow"), 5);
  EXPECT_EQ(std::ranges::count(bucket.trials, "too slow", &TrialSummary::outcome), report.rejected.at("too slow"));
  EXPECT_LE(samples, bucket.tried + 3) << "one that was stopped was timed again";
  // A call that hangs is known sooner, the faster the best is.
  ASSERT_FALSE(device_.limits.empty());
  EXPECT_EQ(device_.limits.back(), std::chrono::seconds(22));

  // It is remembered, and costs nothing the next time.
  options_.use_choices = false;
  const int timed = device_.timed;
  run({weight("w", 64, 96, 1)});
  EXPECT_LE(device_.timed, timed + 4);
  auto cache = Cache::open(directory_.file(cache_), Cache::Mode::kReadOnly);
  ASSERT_TRUE(cache.ok());
  const OperatorSpec spec = report.weights[0].buckets[0].spec;
  const auto measurements = cache->measurements(
      {report.weights[0].pattern_hash, spec.name(), 1, report.device.device_class(), options_.timing.name()});
  ASSERT_TRUE(measurements.ok());
  EXPECT_GT(std::ranges::count(*measurements, MeasurementStatus::kTooSlow, &MeasurementRecord::status), 5);
}

TEST_F(TuneTest, WhatNoiseOrSubmissionMayExplainIsNotStopped) {
  options_.selection.candidates = 24;
  for (const auto& [best, others] : {std::pair(10.0, 200.0), std::pair(400.0, 1590.0)}) {
    std::string fastest;
    device_.dense_us = 5000;
    device_.time_us = [&](const CompiledCandidate& c) {
      if (fastest.empty()) fastest = to_json(c.plan);
      return to_json(c.plan) == fastest ? best : others;
    };
    cache_ = std::to_string(best) + ".db";
    const TuneReport report = run({weight("w", 64, 96, 1)});
    EXPECT_EQ(report.weights.at(0).buckets.at(0).us(), best);
    EXPECT_EQ(report.rejected.count("too slow"), 0U) << best;
  }
}

// In each run another twentieth of the kernels is hit by a drawn kind of fault. The winners' own kernels are spared:
// what fails cannot win.
TEST_F(TuneTest, FaultsPlantedAtRandomChangeNoWinner) {
  const unsigned drawn = std::random_device()();
  RecordProperty("seed", std::to_string(drawn));
  options_.tokens = {8};
  options_.strategy = StrategyKind::kExhaustive;
  options_.most_candidates = 150;
  const std::vector<WeightInput> weights = {weight("a", 256, 512, 1), weight("b", 512, 256, 2)};
  const TuneReport whole = run(weights);
  ASSERT_EQ(whole.pairs, 2);
  std::set<std::string> spared;
  for (const WeightResult& weight : whole.weights) {
    ASSERT_FALSE(weight.buckets[0].is_baseline());
    for (const KernelSource& kernel : weight.buckets[0].candidate.kernels) spared.insert(kernel.name);
  }
  std::map<std::string, std::int64_t> reasons;
  for (unsigned seed = drawn; seed != drawn + 4; ++seed) {
    const auto fault_of = [=](const std::string& name) {
      const std::uint64_t draw = hash64(name + std::to_string(seed));
      if (spared.contains(name) || draw % 20 != 0) return DeviceScript::Fault::kNone;
      return static_cast<DeviceScript::Fault>(1 + draw / 20 % 6);
    };
    device_.fault = [=](const CompiledCandidate& c) { return fault_of(c.kernels.front().name); };
    compiles_.fails = [=](const std::string& name) { return fault_of(name) == DeviceScript::Fault::kNotCompiled; };
    cache_ = std::to_string(seed) + ".db";  // each run compiles and tries anew
    const TuneReport report = run(weights);
    ASSERT_EQ(report.pairs, 2) << "seed " << seed;
    EXPECT_TRUE(report.complete) << "seed " << seed;
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(report.weights[i].buckets[0].us(), whole.weights[i].buckets[0].us()) << "seed " << seed;
      EXPECT_EQ(report.weights[i].buckets[0].candidate.config, whole.weights[i].buckets[0].candidate.config)
          << "seed " << seed;
    }
    for (const auto& [reason, count] : report.rejected) reasons[reason] += count;
  }
  EXPECT_GT(reasons["took the worker down"], 0);
  EXPECT_GT(reasons["did not come back in time"], 0);
  EXPECT_GT(reasons["wrong result"], 0);
  EXPECT_GT(reasons["out of device memory"], 0);
  EXPECT_GT(reasons["drawn not to compile"], 0);
}

}  // namespace
}  // namespace sparsmith
