#include "emulator/cpu_kernel_compiler.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace sparsmith {
namespace {

TEST(SystemCompilerTest, WithoutATemporaryFolderItSaysSo) {
  const auto compiler = make_system_compiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  setenv("TMPDIR", "/proc", 1);  // where nobody makes a folder
  const Status status = (*compiler)->compile("k", "").status();
  if (before != nullptr)
    setenv("TMPDIR", kept.c_str(), 1);
  else
    unsetenv("TMPDIR");
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.message().find("temporary directory"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace sparsmith
