#include "search/schedule.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace sparsmith {
namespace {

using Turn = Schedule::Turn;

// A search that is never made to do anything.
std::unique_ptr<WeightSearch> some_search() {
  static const TuneRun run;
  CsrMatrix empty;
  empty.row_offsets = {0};
  return std::make_unique<WeightSearch>(run, 0, WeightInput{.name = "weight"}, std::move(empty), nullptr);
}

Turn prepared(std::optional<Turn> turn) {
  turn->search = some_search();
  return *std::move(turn);
}

bool waits(const std::future<std::optional<Turn>>& turn) {
  return turn.wait_for(std::chrono::milliseconds(30)) == std::future_status::timeout;
}

TEST(ScheduleTest, WeightsComeInOrderAndEachOnce) {
  Schedule schedule({2, 0, 1}, 3);
  for (const std::size_t expected : {2U, 0U, 1U}) {
    std::optional<Turn> turn = schedule.next_to_prepare();
    ASSERT_TRUE(turn);
    EXPECT_EQ(turn->weight, expected);
    EXPECT_EQ(turn->search, nullptr);
    schedule.ready(prepared(std::move(turn)));
    std::optional<Turn> searched = schedule.next_to_search();
    ASSERT_TRUE(searched);
    EXPECT_EQ(searched->weight, expected);
    EXPECT_NE(searched->search, nullptr);
    schedule.searched();
  }
  EXPECT_FALSE(schedule.next_to_prepare());
  EXPECT_FALSE(schedule.next_to_search());
}

TEST(ScheduleTest, NoMoreArePreparedThanTheDevicesSoonNeed) {
  Schedule schedule({0, 1, 2}, 2);
  std::optional<Turn> first = schedule.next_to_prepare();
  schedule.ready(prepared(std::move(first)));
  std::optional<Turn> second = schedule.next_to_prepare();
  auto third = std::async(std::launch::async, [&] { return schedule.next_to_prepare(); });
  EXPECT_TRUE(waits(third));
  ASSERT_TRUE(schedule.next_to_search());
  EXPECT_EQ(third.get()->weight, 2U);
  schedule.stop();
}

TEST(ScheduleTest, WhatIsPutOffComesBackWhenASearchEnds) {
  Schedule schedule({0, 1}, 2);
  schedule.ready(prepared(schedule.next_to_prepare()));
  ASSERT_TRUE(schedule.next_to_search());
  schedule.put_off(prepared(schedule.next_to_prepare()));
  auto again = std::async(std::launch::async, [&] { return schedule.next_to_prepare(); });
  EXPECT_TRUE(waits(again));
  schedule.searched();
  const std::optional<Turn> turn = again.get();
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->weight, 1U);
  EXPECT_NE(turn->search, nullptr) << "it is read again";
  schedule.stop();
}

// The search that it waits for ended while the preparer was still looking.
TEST(ScheduleTest, WhatIsPutOffTooLateHasItsTurnAtOnce) {
  Schedule schedule({0, 1}, 2);
  schedule.ready(prepared(schedule.next_to_prepare()));
  ASSERT_TRUE(schedule.next_to_search());
  Turn late = prepared(schedule.next_to_prepare());
  schedule.searched();
  schedule.put_off(std::move(late));
  const std::optional<Turn> turn = schedule.next_to_prepare();
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->weight, 1U);
  schedule.stop();
}

TEST(ScheduleTest, FewOfThosePutOffStayInMemory) {
  Schedule schedule({0, 1, 2, 3, 4, 5, 6}, 7);
  schedule.ready(prepared(schedule.next_to_prepare()));
  ASSERT_TRUE(schedule.next_to_search());
  for (int i = 0; i < 6; ++i) schedule.put_off(prepared(schedule.next_to_prepare()));
  schedule.searched();
  int in_memory = 0;
  for (std::size_t i = 1; i < 7; ++i) {
    const std::optional<Turn> turn = schedule.next_to_prepare();
    ASSERT_TRUE(turn);
    EXPECT_EQ(turn->weight, i) << "not in its order";
    in_memory += turn->search != nullptr ? 1 : 0;
  }
  EXPECT_EQ(in_memory, 4);
  schedule.stop();
}

TEST(ScheduleTest, ADeviceThatIsLostGivesItsWeightBack) {
  Schedule schedule({0}, 1);
  schedule.ready(prepared(schedule.next_to_prepare()));
  ASSERT_TRUE(schedule.next_to_search());
  schedule.give_back(0);
  const std::optional<Turn> turn = schedule.next_to_prepare();
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->weight, 0U);
  EXPECT_EQ(turn->search, nullptr);
  schedule.stop();
}

TEST(ScheduleTest, StoppingEndsAllWaits) {
  Schedule schedule({0}, 1);
  ASSERT_TRUE(schedule.next_to_prepare());
  auto preparer = std::async(std::launch::async, [&] { return schedule.next_to_prepare(); });
  auto device = std::async(std::launch::async, [&] { return schedule.next_to_search(); });
  EXPECT_TRUE(waits(preparer));
  EXPECT_TRUE(waits(device));
  schedule.stop();
  EXPECT_FALSE(preparer.get());
  EXPECT_FALSE(device.get());
}

// Weights of a few kinds; while the first of a kind is searched, the others of that kind are put off.
TEST(ScheduleTest, ManyThreadsDoEachWeightOnce) {
  const unsigned seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    constexpr std::size_t kWeights = 60;
    const std::size_t kinds = 1 + random() % 5;
    const std::size_t preparers = 1 + random() % 8;
    const std::size_t devices = 1 + random() % 3;
    std::vector<std::size_t> order(kWeights);
    for (std::size_t i = 0; i < kWeights; ++i) order[i] = i;
    Schedule schedule(order, devices + preparers);
    enum State : int { kUnknown, kSearched, kKnown };
    std::vector<std::atomic<int>> states(kinds);
    std::vector<std::atomic<int>> done(kWeights);
    const auto prepare = [&] {
      while (std::optional<Turn> turn = schedule.next_to_prepare()) {
        std::atomic<int>& state = states[turn->weight % kinds];
        int unknown = kUnknown;
        if (!state.compare_exchange_strong(unknown, kSearched) && unknown == kSearched) {
          schedule.put_off(*std::move(turn));
        } else if (turn->weight % 7 == 6 && state == kKnown) {
          ++done[turn->weight];
          schedule.needs_no_search();
        } else {
          schedule.ready(prepared(std::move(turn)));
        }
      }
    };
    const auto search = [&] {
      while (std::optional<Turn> turn = schedule.next_to_search()) {
        std::this_thread::sleep_for(std::chrono::microseconds(turn->weight % 3 * 50));
        ++done[turn->weight];
        states[turn->weight % kinds] = kKnown;
        schedule.searched();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < preparers; ++i) threads.emplace_back(prepare);
      for (std::size_t i = 0; i < devices; ++i) threads.emplace_back(search);
    }
    for (std::size_t i = 0; i < kWeights; ++i) EXPECT_EQ(done[i], 1) << "weight " << i << ", seed " << seed;
  }
}

}  // namespace
}  // namespace sparsmith
