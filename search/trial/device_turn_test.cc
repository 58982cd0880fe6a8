#include "search/trial/device_turn.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/temporary_directory.h"

namespace sparsmith {
namespace {

class DeviceTurnTest : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TMPDIR", directory_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("TMPDIR"); }

  TemporaryDirectory directory_;
};

TEST_F(DeviceTurnTest, OneAtATime) {
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  const auto work = [&] {
    DeviceTurn turn("0000:1b:00");
    for (int i = 0; i < 50; ++i) {
      const DeviceTurn::Hold hold(turn);
      most = std::max(most.load(), ++inside);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      --inside;
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(most, 1);
}

TEST_F(DeviceTurnTest, OtherDevicesAndNoDeviceDoNotWait) {
  DeviceTurn one("0000:1b:00");
  DeviceTurn other("0000:1c:00");
  DeviceTurn none;
  const DeviceTurn::Hold hold_one(one);
  const DeviceTurn::Hold hold_other(other);
  const DeviceTurn::Hold hold_none(none);
}

TEST_F(DeviceTurnTest, MovedItIsTheSame) {
  DeviceTurn first("0000:1b:00");
  DeviceTurn moved = std::move(first);
  DeviceTurn second("0000:1b:00");
  std::atomic<bool> had = false;
  std::thread waiting;
  {
    const DeviceTurn::Hold hold(moved);
    waiting = std::thread([&] {
      const DeviceTurn::Hold later(second);
      had = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(had);
  }
  waiting.join();
  EXPECT_TRUE(had);
}

TEST_F(DeviceTurnTest, WithoutAFileNobodyIsWaitedFor) {
  ::setenv("TMPDIR", directory_.file("missing").c_str(), 1);
  DeviceTurn one("0000:1b:00");
  DeviceTurn other("0000:1b:00");
  const DeviceTurn::Hold hold_one(one);
  const DeviceTurn::Hold hold_other(other);
}

TEST_F(DeviceTurnTest, AnyUserMayLockTheFileAndALinkIsNotFollowed) {
  const mode_t mask = ::umask(0077);
  DeviceTurn one("0000:1b:00");
  ::umask(mask);
  EXPECT_TRUE(one.exists());
  struct stat found{};
  ASSERT_EQ(::stat(directory_.file("sparsmith-0000-1b-00.lock").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0444U);

  const std::string target = directory_.file("target");
  ASSERT_EQ(::symlink(target.c_str(), directory_.file("sparsmith-0000-1c-00.lock").c_str()), 0);
  EXPECT_FALSE(DeviceTurn("0000:1c:00").exists());
  EXPECT_NE(::access(target.c_str(), F_OK), 0);
}

TEST_F(DeviceTurnTest, AHolderThatNeverReleasesIsNamedAndNotWaitedForForEver) {
  DeviceTurn one("0000:1b:00");
  DeviceTurn other("0000:1b:00");
  other.set_patience(std::chrono::milliseconds(20), std::chrono::milliseconds(60));
  {
    const DeviceTurn::Hold hold(one);
    const DeviceTurn::Hold later(other);
    EXPECT_EQ(later.status().code(), StatusCode::kIoError);
    EXPECT_NE(later.status().message().find("process " + std::to_string(::getpid())), std::string::npos)
        << later.status().message();
    EXPECT_NE(later.status().message().find("set TMPDIR"), std::string::npos);
  }
  DeviceTurn third("0000:1b:00");
  const DeviceTurn::Hold hold(third);
  EXPECT_TRUE(hold.status().ok()) << "the wait that was given up does not keep the lock";
}

}  // namespace
}  // namespace sparsmith
