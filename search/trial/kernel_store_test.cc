#include "search/trial/kernel_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <mutex>

#include "tests/support/scripted_worker.h"

namespace sparsmith {
namespace {

Candidate candidate(const std::vector<std::string>& kernels) {
  Candidate made;
  for (const std::string& name : kernels) {
    KernelSource& kernel = made.kernels.emplace_back();
    kernel.name = name;
    kernel.closure_hash = "hash of " + name;
  }
  return made;
}

class KernelStoreTest : public testing::Test {
 protected:
  KernelStoreTest() : compiler_(scripted_compiler(script_)) {
    script_.before = [this](const std::string& name) {
      {
        const std::lock_guard lock(mutex_);
        order_.push_back(name);
      }
      if (name == "first") {
        first_begins_.set_value();
        goes_on_.get_future().wait();
      }
    };
  }

  CompilerScript script_;
  const std::unique_ptr<KernelCompiler> compiler_;
  std::mutex mutex_;
  std::vector<std::string> order_;
  std::promise<void> first_begins_;
  std::promise<void> goes_on_;
};

TEST_F(KernelStoreTest, WhatADeviceWaitsForIsCompiledFirst) {
  const Candidate soon = candidate({"first", "a", "b", "c"});
  const Candidate now = candidate({"x", "b"});
  const Candidate hurried = candidate({"c"});
  const Candidate* const all_soon[] = {&soon};
  const Candidate* const all_now[] = {&now};
  const Candidate* const all_hurried[] = {&hurried};
  KernelStore store(compiler_.get(), nullptr, "sm_90", 1);
  store.request(all_soon);
  first_begins_.get_future().wait();
  std::promise<void> is_asked;
  auto waiting = std::async(std::launch::async, [&] {
    is_asked.set_value();
    store.ensure(all_now, KernelStore::Urgency::kNow);
  });
  is_asked.get_future().wait();
  while (store.counts().asked < 2) std::this_thread::yield();  // both are in the queue
  store.hurry(all_hurried);
  goes_on_.set_value();
  waiting.get();
  EXPECT_TRUE(store.find(now.kernels[0]).ok());
  EXPECT_TRUE(store.find(now.kernels[1]).ok());
  store.ensure(all_soon, KernelStore::Urgency::kSoon);
  EXPECT_THAT(order_, testing::ElementsAre("first", "x", "b", "c", "a"));
  EXPECT_EQ(store.counts().compiled, 5);
}

TEST_F(KernelStoreTest, WhatNobodyWaitsForLeavesThreadsToDevices) {
  const Candidate soon = candidate({"first", "second", "third", "fourth", "fifth"});
  const Candidate now = candidate({"x"});
  const Candidate* const all_soon[] = {&soon};
  const Candidate* const all_now[] = {&now};
  std::promise<void> go;
  const std::shared_future<void> all_go = go.get_future().share();
  script_.before = [&](const std::string& name) {
    {
      const std::lock_guard lock(mutex_);
      order_.push_back(name);
    }
    if (name != "x") all_go.wait();
  };
  KernelStore store(compiler_.get(), nullptr, "sm_90", 4);
  store.request(all_soon);
  store.ensure(all_now, KernelStore::Urgency::kNow);  // would wait for ever if all threads were taken
  go.set_value();
  store.ensure(all_soon, KernelStore::Urgency::kSoon);
  EXPECT_EQ(store.counts().compiled, 6);
  const auto x = std::ranges::find(order_, "x");
  EXPECT_LE(x - order_.begin(), 3);
}

TEST_F(KernelStoreTest, EachIsCompiledOnceAndFailuresAreRemembered) {
  goes_on_.set_value();
  script_.fails = [](const std::string& name) { return name == "bad"; };
  const Candidate sound = candidate({"first", "bad"});
  const Candidate again = candidate({"bad", "first"});
  const Candidate* const both[] = {&sound, &again};
  KernelStore store(compiler_.get(), nullptr, "sm_90", 4);
  std::size_t last = 0;
  store.ensure(both, KernelStore::Urgency::kNow, [&](std::size_t done, std::size_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, 2U);
    last = done;
  });
  store.ensure(both, KernelStore::Urgency::kSoon);
  EXPECT_TRUE(store.find(sound.kernels[0]).ok());
  EXPECT_EQ(store.find(sound.kernels[1]).status().code(), StatusCode::kInvalidInput);
  EXPECT_FALSE(store.find(candidate({"never"}).kernels[0]).ok());
  EXPECT_EQ(script_.compiled["first"], 1);
  EXPECT_EQ(script_.compiled["bad"], 1);
  EXPECT_EQ(store.counts().failed, 1);
}

TEST_F(KernelStoreTest, WhatIsGivenUpIsNotWaitedFor) {
  const Candidate soon = candidate({"first", "a", "b"});
  const Candidate* const all[] = {&soon};
  KernelStore store(compiler_.get(), nullptr, "sm_90", 1);
  auto waiting = std::async(std::launch::async, [&] { store.ensure(all, KernelStore::Urgency::kSoon); });
  first_begins_.get_future().wait();
  store.give_up();
  goes_on_.set_value();
  waiting.get();
  EXPECT_TRUE(store.find(soon.kernels[0]).ok());
  EXPECT_THAT(store.find(soon.kernels[1]).status().message(), testing::HasSubstr("before this kernel was compiled"));
  EXPECT_EQ(order_, std::vector<std::string>{"first"});
}

TEST_F(KernelStoreTest, WhereTheKnownGoodKernelFailsTheMachineIsAtFault) {
  goes_on_.set_value();
  script_.error = [](const std::string& name) {
    return name == "lost" ? io_error("the compiler was killed") : Status();
  };
  script_.known_good = [] { return io_error("the compiler was killed"); };
  const Candidate lost = candidate({"lost", "a", "b"});
  const Candidate later = candidate({"c"});
  const Candidate* const all[] = {&lost};
  const Candidate* const then[] = {&later};
  KernelStore store(compiler_.get(), nullptr, "sm_90", 1);
  store.ensure(all, KernelStore::Urgency::kNow);
  store.ensure(then, KernelStore::Urgency::kNow);
  EXPECT_EQ(store.health().code(), StatusCode::kIoError);
  EXPECT_THAT(store.health().message(), testing::HasSubstr("the compiler was killed"));
  for (const KernelSource& kernel : {lost.kernels[1], lost.kernels[2], later.kernels[0]})
    EXPECT_EQ(store.find(kernel).status().message(), store.health().message()) << kernel.name;
  EXPECT_EQ(script_.compiled.count("a") + script_.compiled.count("b") + script_.compiled.count("c"), 0U);
}

TEST_F(KernelStoreTest, WhereNoKernelCompilesTheFirstOnesWordsAreTheError) {
  goes_on_.set_value();
  script_.fails = [](const std::string& name) { return name != "good"; };
  const Candidate bad = candidate({"bad", "worse"});
  const Candidate good = candidate({"good"});
  const Candidate* const all_bad[] = {&bad};
  const Candidate* const all_good[] = {&good};
  KernelStore store(compiler_.get(), nullptr, "sm_90", 1);
  EXPECT_TRUE(store.health_of_all().ok());
  store.ensure(all_bad, KernelStore::Urgency::kNow);
  EXPECT_TRUE(store.health().ok());
  EXPECT_EQ(store.health_of_all().message(), "no kernel compiles: drawn not to compile");
  store.ensure(all_good, KernelStore::Urgency::kNow);
  EXPECT_TRUE(store.health_of_all().ok());
}

}  // namespace
}  // namespace sparsmith
