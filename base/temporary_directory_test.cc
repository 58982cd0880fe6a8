#include "base/temporary_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>

namespace sparsmith {
namespace {

TEST(TemporaryDirectoryTest, GoesWithAllThatIsInIt) {
  std::optional<TemporaryDirectory> directory(std::in_place);
  const std::string path = directory->path();
  const TemporaryDirectory another;
  EXPECT_NE(path, another.path());
  EXPECT_EQ(directory->file("a"), path + "/a");
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700U);  // for its owner alone
  std::filesystem::create_directories(directory->file("b/c"));
  std::ofstream(directory->file("b/c/d")) << "text";
  directory.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(std::filesystem::exists(another.path()));
}

}  // namespace
}  // namespace sparsmith
