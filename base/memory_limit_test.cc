#include "base/memory_limit.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/temporary_directory.h"

namespace sparsmith {
namespace {

TEST(MemoryLimit, IsHalfOfTheMachineOrOfTheGroup) {
  const TemporaryDirectory directory;
  const std::string file = directory.file("memory.max");
  const auto with = [&](const std::string& limit) {
    EXPECT_TRUE(write_file_atomically(file, limit).ok());
    return default_max_memory(file.c_str());
  };
  const std::int64_t machine = default_max_memory("no such file");
  EXPECT_GT(machine, 1 << 20);
  EXPECT_EQ(with("1048576\n"), 524288);
  EXPECT_EQ(with("max\n"), machine);
  EXPECT_EQ(with("9223372036854775807\n"), machine);
  EXPECT_EQ(with("-4096\n"), machine);
}

TEST(MemoryLimit, ErrorsHaveBothNumbersAndTheOption) {
  EXPECT_TRUE(check_memory("w", 100, 100).ok());
  const Status status = check_memory("w", 101, 100);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(status.message(), "w takes 101 bytes of memory, and 100 are allowed; --max-memory allows more");
}

}  // namespace
}  // namespace sparsmith
