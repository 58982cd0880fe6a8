#include "tuner/process/child_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/temporary_directory.h"
#include "tuner/process/child_process.h"

namespace sparsmith {
namespace {

namespace fs = std::filesystem;

class ChildFolderTest : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TMPDIR", directory_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("TMPDIR"); }
  std::ptrdiff_t folders() const {
    return std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator());
  }

  TemporaryDirectory directory_;
};

TEST_F(ChildFolderTest, GoesWithAllThatIsInIt) {
  {
    ChildFolder folder = ChildFolder::make();
    ASSERT_FALSE(folder.path().empty());
    std::ofstream(folder.path() + "/file") << "text";
    const ChildFolder moved = std::move(folder);
    EXPECT_EQ(folders(), 1);
  }
  EXPECT_EQ(folders(), 0);
}

// A process that makes a folder and a child's file in it, and is killed; the next one that makes a folder cleans up.
TEST_F(ChildFolderTest, WhatAKilledProcessLeftTheNextOneRemoves) {
  const ChildFolder alive = ChildFolder::make();
  const pid_t killed = fork();
  if (killed == 0) {
    const ChildFolder folder = ChildFolder::make();
    std::ofstream(folder.path() + "/file") << "text";
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(killed, &status, 0), killed);
  EXPECT_EQ(folders(), 2);
  // In a program of its own: this one has looked already.
  const std::string program = program_folder() + "/child_folder_test";
  ASSERT_EQ(std::system((program + " --gtest_filter=ChildFolderTest.GoesWithAllThatIsInIt >/dev/null").c_str()), 0);
  EXPECT_EQ(folders(), 2) << "it had a TMPDIR of its own";
  const std::string clean = "TMPDIR=" + directory_.path() + " " + program +
                            " --gtest_also_run_disabled_tests --gtest_filter=*MakesAFolderWhereItIsTold >/dev/null";
  ASSERT_EQ(std::system(clean.c_str()), 0);
  EXPECT_EQ(folders(), 1) << "the folder of this process alone";
}

TEST(ChildFolderInATest, DISABLED_MakesAFolderWhereItIsTold) { EXPECT_FALSE(ChildFolder::make().path().empty()); }

TEST_F(ChildFolderTest, AChildHasOneAndAGroupOfItsOwn) {
  {
    auto child = ChildProcess::start("/bin/sh", {"-c", "echo x > \"$TMPDIR/file\"; sleep 60"});
    ASSERT_TRUE(child.ok());
    for (int i = 0; i < 200; ++i) {
      const bool written = std::ranges::any_of(fs::recursive_directory_iterator(directory_.path()),
                                               [](const auto& entry) { return entry.path().filename() == "file"; });
      if (written) break;
      ::usleep(10'000);
    }
    EXPECT_EQ(folders(), 1);
  }
  EXPECT_EQ(folders(), 0);
}

TEST_F(ChildFolderTest, WithoutRoomThereIsNone) {
  ::setenv("TMPDIR", directory_.file("missing").c_str(), 1);
  EXPECT_TRUE(ChildFolder::make().path().empty());
  auto child = ChildProcess::start("/bin/true", {});
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->wait(std::chrono::milliseconds(5000)), "exited with code 0");
}

}  // namespace
}  // namespace sparsmith
