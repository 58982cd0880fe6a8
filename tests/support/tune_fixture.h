// A tuning run on a scripted device, with a scripted compiler and a cache of its own, for tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/temporary_directory.h"
#include "search/tune.h"
#include "tests/support/sample_weight.h"
#include "tests/support/scripted_worker.h"

namespace sparsmith {

inline WeightInput weight(const std::string& name, std::int64_t rows, std::int64_t cols, unsigned seed) {
  return {name, [=] { return sample_weight(rows, cols, 0.1, seed); }};
}

class TuneTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.selection.candidates = 6;
    options_.selection.packings = 2;
    options_.compile_threads = 2;
    options_.memory = 16;  // of weights as small as here, some packings are padding for the most part
  }

  // A run of its own, with a new opening of the cache.
  TuneReport run(const std::vector<WeightInput>& weights) {
    auto report = try_run(weights);
    EXPECT_TRUE(report.ok()) << report.status().to_string();
    return report.ok() ? std::move(*report) : TuneReport();
  }
  Result<TuneReport> try_run(const std::vector<WeightInput>& weights) {
    auto cache = Cache::open(directory_.file(cache_), Cache::Mode::kReadWrite);
    EXPECT_TRUE(cache.ok()) << cache.status().to_string();
    const auto compiler = scripted_compiler(compiles_);
    TuneResources resources;
    resources.workers = {scripted_workers(device_)};
    for (DeviceScript* device : more_devices_) resources.workers.push_back(scripted_workers(*device));
    resources.compiler = compiler.get();
    resources.cache = &*cache;
    resources.interrupted = interrupted_;
    resources.weight_is_done = weight_is_done_;
    resources.progress = progress_;
    resources.record = record_;
    resources.now = now_;
    return tune(weights, options_, resources);
  }

  // From here on a run's budget knows no time but the device's, where verifying a candidate takes so long, and the
  // nanosecond of a look at the clock: the machine that runs the test may be as slow as it likes.
  void verifying_takes(std::chrono::milliseconds time) {
    device_.before_verify = [this, time] { device_time_ns_ += std::chrono::nanoseconds(time).count(); };
    now_ = [this] { return Budget::Clock::time_point(std::chrono::nanoseconds(++device_time_ns_)); };
  }

  TemporaryDirectory directory_;
  std::string cache_ = "cache.db";  // in it
  TuneOptions options_;
  DeviceScript device_;
  std::vector<DeviceScript*> more_devices_;
  CompilerScript compiles_;
  std::function<bool()> interrupted_;
  std::function<void(const WeightResult&)> weight_is_done_;
  std::function<void(const TuneProgress&)> progress_;
  std::function<Status(const RecordedSpace&)> record_;
  Budget::Now now_;

 private:
  std::atomic<std::int64_t> device_time_ns_ = 0;
};

}  // namespace sparsmith
