#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/temporary_directory.h"

namespace sparsmith {
namespace {

class FileTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return directory_.file(name); }

  TemporaryDirectory directory_;
};

TEST_F(FileTest, WritesAndReadsBack) {
  ASSERT_TRUE(write_file_atomically(path("a"), "hello").ok());
  EXPECT_EQ(*read_file(path("a")), "hello");
  ASSERT_TRUE(write_file_atomically(path("a"), "").ok());
  EXPECT_EQ(*read_file(path("a")), "");
}

TEST_F(FileTest, AFailedWriteLeavesTheOldFileAndNoTemporary) {
  std::filesystem::create_directories(path("taken"));  // a directory: rename onto it fails
  EXPECT_FALSE(write_file_atomically(path("taken"), "hello").ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 1);
}

TEST_F(FileTest, FollowsNoLinkThatWasPlantedBeside) {
  ASSERT_TRUE(write_file_atomically(path("victim"), "old").ok());
  std::filesystem::create_symlink(path("victim"), fmt::format("{}.{}.tmp", path("a"), getpid()));
  ASSERT_TRUE(write_file_atomically(path("a"), "new").ok());
  EXPECT_EQ(*read_file(path("a")), "new");
  EXPECT_EQ(*read_file(path("victim")), "old");
}

TEST_F(FileTest, KnowsBeforehandWhetherAFileCanBeMade) {
  EXPECT_TRUE(check_replaceable(path("a")).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 0);
  EXPECT_EQ(check_replaceable(path("missing/a")).code(), StatusCode::kNotFound);
}

TEST_F(FileTest, SaysWhatIsMissing) {
  const auto missing = MappedFile::open(path("missing"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("missing"), std::string::npos);
}

TEST_F(FileTest, RefusesADirectory) {
  EXPECT_EQ(MappedFile::open(directory_.path()).status().code(), StatusCode::kInvalidInput);
}

}  // namespace
}  // namespace sparsmith
