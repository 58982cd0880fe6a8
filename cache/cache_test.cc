#include "cache/cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/temporary_directory.h"

namespace sparsmith {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

ProblemKey problem(const std::string& pattern = "pattern", const std::string& device_class = "sm_90 132 SMs") {
  return {pattern, "spmm_fp16_token_major_none", 8, device_class, "cold_weights"};
}

KernelRecord kernel(const std::string& name) {
  KernelRecord record;
  record.key = {name, "closure", "sm_90", "13.0"};
  record.config = "rows threads_per_block=128";
  record.cubin = bytes_of("cubin of " + name);
  record.figures.registers = 40;
  record.figures.spill_load_bytes = 8;
  return record;
}

MeasurementRecord measurement(const std::string& config) {
  MeasurementRecord record;
  record.key = problem();
  record.config = config;
  record.packing = "csr_u16";
  record.closure_hash = "closure";
  record.predicted_us = 3.5;
  return record;
}

ChoiceRecord choice(double us, const std::string& config = "rows a=1") {
  ChoiceRecord record;
  record.key = problem();
  record.compute_capability = 90;
  record.sm_count = 132;
  record.kind = "generated";
  record.config = config;
  record.packing = "csr_u16";
  record.evidence = "measured";
  record.us = us;
  record.dense_us = 20;
  return record;
}

class CacheTest : public testing::Test {
 protected:
  std::string path(const char* name = "cache.db") const { return directory_.file(name); }
  Cache open(const char* name = "cache.db") const {
    auto cache = Cache::open(path(name), Cache::Mode::kReadWrite);
    EXPECT_TRUE(cache.ok()) << cache.status().to_string();
    return std::move(cache).value();
  }
  void write(const char* name, const std::string& text) const { std::ofstream(path(name)) << text; }

  TemporaryDirectory directory_;
};

TEST_F(CacheTest, WhatADeviceReachesIsRememberedForItsDriver) {
  {
    Cache cache = open();
    EXPECT_FALSE(cache.find_speeds("H200, driver 1")->has_value());
    ASSERT_TRUE(cache.put_speeds("H200, driver 1", {4e12, 5e12, 1.25}).ok());
    ASSERT_TRUE(cache.put_speeds("H200, driver 1", {4.123456789e12, 5.5e12, 1.7}).ok());
  }
  Cache cache = open();
  const auto speeds = cache.find_speeds("H200, driver 1");
  ASSERT_TRUE(speeds.ok() && speeds->has_value());
  EXPECT_EQ((*speeds)->memory_bandwidth, 4.123456789e12);
  EXPECT_EQ((*speeds)->l2_bandwidth, 5.5e12);
  EXPECT_EQ((*speeds)->launch_us, 1.7);
  EXPECT_FALSE(cache.find_speeds("H200, driver 2")->has_value());
  // What nobody can read is measured again.
  ASSERT_TRUE(cache.put_speeds("none", {0, 5e12, 1}).ok());
  EXPECT_FALSE(cache.find_speeds("none")->has_value());
}

TEST_F(CacheTest, KernelsComeBackWhole) {
  {
    Cache cache = open("new/folder/cache.db");
    ASSERT_TRUE(cache.put_kernel(kernel("k1")).ok());
  }
  Cache cache = open("new/folder/cache.db");
  const auto found = cache.find_kernel(kernel("k1").key);
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->cubin, kernel("k1").cubin);
  EXPECT_EQ((*found)->figures.registers, 40);
  EXPECT_EQ((*found)->figures.spill_load_bytes, 8);
  EXPECT_EQ((*found)->config, "rows threads_per_block=128");
  KernelKey other = kernel("k1").key;
  other.nvrtc_version = "13.1";
  EXPECT_FALSE(cache.find_kernel(other)->has_value());
  other = kernel("k1").key;
  other.closure_hash = "another";
  EXPECT_FALSE(cache.find_kernel(other)->has_value());
}

TEST_F(CacheTest, MeasurementsAreRunningUntilFinished) {
  Cache cache = open();
  const auto device = cache.put_device({"sm_90 132 SMs", "NVIDIA H200", 90, 132, 1LL << 37, 0});
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(*cache.put_device({"sm_90 132 SMs", "NVIDIA H200", 90, 132, 1LL << 37, 4.1e12}), *device);
  MeasurementRecord record = measurement("rows a=1");
  record.device_id = *device;
  record.environment_id = *cache.put_environment({"580.1", "13.0", "0.1.0"});
  const auto id = cache.begin(record);
  ASSERT_TRUE(id.ok()) << id.status().to_string();
  EXPECT_EQ(cache.measurements(problem())->size(), 0U);
  EXPECT_EQ(cache.counts()->running, 1);
  // Another opening of the same file by a live process leaves it alone.
  EXPECT_EQ(open().counts()->running, 1);

  record.status = MeasurementStatus::kOk;
  record.median_us = 2.25;
  record.samples = 15;
  ASSERT_TRUE(cache.finish(*id, record).ok());
  EXPECT_EQ(cache.finish(*id, record).code(), StatusCode::kNotFound);
  const auto all = cache.measurements(problem());
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(all->front().status, MeasurementStatus::kOk);
  EXPECT_EQ(all->front().median_us, 2.25);
  EXPECT_EQ(all->front().samples, 15);
  EXPECT_EQ(all->front().device_id, *device);
  EXPECT_EQ(cache.measurements(problem("another"))->size(), 0U);
}

TEST_F(CacheTest, ChoicesAreFoundByClassThenByArchitecture) {
  Cache cache = open();
  ChoiceRecord far = choice(5, "rows far=1");
  far.key.device_class = "sm_90 20 SMs";
  far.sm_count = 20;
  ChoiceRecord near = choice(5, "rows near=1");
  near.key.device_class = "sm_90 114 SMs";
  near.sm_count = 114;
  ASSERT_TRUE(cache.put_choice(far).ok());
  ASSERT_TRUE(cache.put_choice(near).ok());
  auto match = cache.find_choice(problem(), 90, 132);
  EXPECT_EQ(match->quality, MatchQuality::kSameArchitecture);
  EXPECT_EQ(match->choice.config, "rows near=1");
  EXPECT_EQ(cache.find_choice(problem("pattern", "sm_80 108 SMs"), 80, 108)->quality, MatchQuality::kNone);
  ASSERT_TRUE(cache.put_choice(choice(4)).ok());
  match = cache.find_choice(problem(), 90, 132);
  EXPECT_EQ(match->quality, MatchQuality::kExact);
  EXPECT_EQ(match->choice.us, 4);
  EXPECT_EQ(match->choice.dense_us, 20);
  EXPECT_EQ(cache.choices()->size(), 3U);
}

TEST_F(CacheTest, TheBetterFoundedChoiceStays) {
  Cache cache = open();
  const auto current = [&] { return cache.find_choice(problem(), 90, 132)->choice; };
  ChoiceRecord incomplete = choice(9);
  incomplete.complete = false;
  incomplete.budget_s = 10;
  ASSERT_TRUE(cache.put_choice(incomplete).ok());
  incomplete.us = 7;
  incomplete.budget_s = 5;  // faster, but searched less: that time may be luck of another clock
  ASSERT_TRUE(cache.put_choice(incomplete).ok());
  EXPECT_EQ(current().us, 9);
  incomplete.budget_s = 10;
  ASSERT_TRUE(cache.put_choice(incomplete).ok());
  EXPECT_EQ(current().us, 7);
  ASSERT_TRUE(cache.put_choice(choice(8)).ok());  // complete
  EXPECT_EQ(current().us, 8);
  incomplete.us = 1;
  incomplete.budget_s = 1000;
  ASSERT_TRUE(cache.put_choice(incomplete).ok());
  EXPECT_EQ(current().us, 8);
  ChoiceRecord predicted = choice(0.5);
  predicted.evidence = "predicted";
  ASSERT_TRUE(cache.put_choice(predicted).ok());
  EXPECT_EQ(current().us, 8);
  ASSERT_TRUE(cache.put_choice(choice(8.5)).ok());  // later, of the same quality
  EXPECT_EQ(current().us, 8.5);
  EXPECT_EQ(cache.damaged(), 0);
}

TEST_F(CacheTest, AnotherFileIsRefusedOrMovedAside) {
  write("text.db",
        "this is no database, but it is longer than a header of SQLite, which has 100 bytes ........................");
  const auto refused = Cache::open(path("text.db"), Cache::Mode::kReadWrite);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidInput);
  EXPECT_NE(refused.status().message().find("text.db"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path("text.db")));

  std::string notice;
  const auto rebuilt = Cache::open_or_rebuild(path("text.db"), &notice);
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.status().to_string();
  EXPECT_NE(notice.find("text.db.1.bad"), std::string::npos) << notice;
  EXPECT_TRUE(std::filesystem::exists(path("text.db.1.bad")));

  EXPECT_EQ(Cache::open(path("missing.db"), Cache::Mode::kReadOnly).status().code(), StatusCode::kNotFound);
  write("empty.db", "");
  const auto empty = Cache::open(path("empty.db"), Cache::Mode::kReadOnly);
  EXPECT_NE(empty.status().message().find("not a cache"), std::string::npos) << empty.status().to_string();
  EXPECT_EQ(Cache::open(directory_.path(), Cache::Mode::kReadWrite).status().code(), StatusCode::kIoError);
}

TEST_F(CacheTest, ExportMergesBack) {
  Cache cache = open();
  ASSERT_TRUE(cache.put_kernel(kernel("k1")).ok());
  MeasurementRecord record = measurement("rows a=1");
  record.device_id = *cache.put_device({"sm_90 132 SMs", "NVIDIA H200", 90, 132, 1LL << 37, 4e12});
  const auto id = cache.begin(record);
  record.status = MeasurementStatus::kOk;
  record.median_us = 2;
  ASSERT_TRUE(cache.finish(*id, record).ok());
  ASSERT_TRUE(cache.begin(record).ok());  // still running: stays at home
  ASSERT_TRUE(cache.put_choice(choice(4)).ok());
  ASSERT_TRUE(cache.export_to(path("out.db")).ok());
  EXPECT_EQ(cache.export_to(path("out.db")).code(), StatusCode::kInvalidArgument);
  // Of the last hour, all but the choice.
  ChoiceRecord old = choice(4);
  old.chosen_at = "2020-01-01T00:00:00.000Z";
  old.key.tokens = 64;
  ASSERT_TRUE(cache.put_choice(old).ok());
  ASSERT_TRUE(cache.export_to(path("hour.db"), 3600).ok());
  Cache hour = open("hour.db");
  EXPECT_EQ(hour.choices()->size(), 1U);
  EXPECT_EQ(hour.counts()->binaries, 1);
  EXPECT_TRUE(hour.verify()->empty());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  ASSERT_TRUE(cache.export_to(path("now.db"), 1).ok());
  const auto counts = open("now.db").counts();
  EXPECT_EQ(counts->choices + counts->binaries + counts->kernels + counts->measurements, 0);

  Cache other = open("other.db");
  ASSERT_TRUE(other.put_device({"sm_80 108 SMs", "NVIDIA A100", 80, 108, 1LL << 36, 0}).ok());  // takes number 1
  ASSERT_TRUE(other.put_kernel(kernel("k2")).ok());
  auto merged = other.merge_from(path("out.db"));
  ASSERT_TRUE(merged.ok()) << merged.status().to_string();
  EXPECT_EQ(merged->binaries, 1);
  EXPECT_EQ(merged->measurements, 1);
  EXPECT_EQ(merged->choices, 1);
  EXPECT_EQ(merged->damaged, 0);
  EXPECT_EQ(other.find_kernel(kernel("k1").key)->value().config, kernel("k1").config);
  EXPECT_EQ(other.find_choice(problem(), 90, 132)->choice.us, 4);
  const auto measured = other.measurements(problem());
  ASSERT_EQ(measured->size(), 1U);
  EXPECT_EQ(measured->front().device_id, *other.put_device({"sm_90 132 SMs", "NVIDIA H200", 90, 132, 1LL << 37, 0}));
  EXPECT_TRUE(other.verify()->empty());

  merged = other.merge_from(path("out.db"));  // nothing is news twice
  EXPECT_EQ(merged->binaries + merged->measurements + merged->choices, 0);
  EXPECT_EQ(other.merge_from(path("other.db")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(other.merge_from(path("missing.db")).status().code(), StatusCode::kNotFound);
}

TEST_F(CacheTest, GarbageIsWhatNobodyUsedForLong) {
  Cache cache = open();
  ASSERT_TRUE(cache.put_kernel(kernel("k1")).ok());
  ASSERT_TRUE(cache.put_choice(choice(4)).ok());
  const auto kept = cache.collect_garbage(30);
  ASSERT_TRUE(kept.ok()) << kept.status().to_string();
  EXPECT_EQ(kept->binaries, 0);
  usleep(5000);
  EXPECT_EQ(cache.collect_garbage(0)->binaries, 1);
  EXPECT_EQ(cache.counts()->kernels, 0);
  EXPECT_EQ(cache.counts()->choices, 1);
}

TEST_F(CacheTest, ReadOnlyReadsWhatIsThere) {
  ASSERT_TRUE(open().put_kernel(kernel("k1")).ok());
  auto cache = Cache::open(path(), Cache::Mode::kReadOnly);
  ASSERT_TRUE(cache.ok()) << cache.status().to_string();
  EXPECT_TRUE(cache->find_kernel(kernel("k1").key)->has_value());
  EXPECT_FALSE(cache->put_kernel(kernel("k2")).ok());
}

TEST(CachePath, FollowsTheEnvironment) {
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(*Cache::default_path(), "/x/sparsmith/cache.db");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/h", 1);
  EXPECT_EQ(*Cache::default_path(), "/h/.cache/sparsmith/cache.db");
  unsetenv("HOME");
  EXPECT_EQ(Cache::default_path().status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace sparsmith
