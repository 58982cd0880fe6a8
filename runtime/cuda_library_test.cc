#include "runtime/cuda_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/temporary_directory.h"

namespace sparsmith {
namespace {

// A folder that SPARSMITH_CUDA_LIBRARY_PATH names, for as long as the test runs.
class CudaLibraryFolderTest : public testing::Test {
 protected:
  void SetUp() override { setenv("SPARSMITH_CUDA_LIBRARY_PATH", folder_.path().c_str(), 1); }
  void TearDown() override { unsetenv("SPARSMITH_CUDA_LIBRARY_PATH"); }

  TemporaryDirectory folder_;
};

TEST_F(CudaLibraryFolderTest, ANamedFolderComesBeforeTheLoadersPath) {
  const auto loaded = CudaLibrary::open({"libm.so.6"});
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  Dl_info place = {};
  ASSERT_NE(dladdr(loaded->find("cos"), &place), 0);
  std::filesystem::create_symlink(place.dli_fname, folder_.file("libm.so.6"));

  const auto library = CudaLibrary::open({"libsparsmith_does_not_exist.so.1", "libm.so.6"});
  ASSERT_TRUE(library.ok()) << library.status().to_string();
  EXPECT_EQ(library->path(), folder_.file("libm.so.6"));
}

TEST_F(CudaLibraryFolderTest, SaysWhyAFileWasRefused) {
  std::ofstream(folder_.file("libsparsmith_broken.so.1")) << "no library";
  const auto library = CudaLibrary::open({"libsparsmith_broken.so.1"});
  ASSERT_FALSE(library.ok());
  EXPECT_THAT(library.status().message(), testing::HasSubstr(folder_.file("libsparsmith_broken.so.1: ")));
}

TEST(CudaLibraryTest, SaysWhereItLooked) {
  setenv("SPARSMITH_CUDA_LIBRARY_PATH", "/nowhere/one::/nowhere/two", 1);
  const auto library = CudaLibrary::open({"libsparsmith_does_not_exist.so.1"});
  unsetenv("SPARSMITH_CUDA_LIBRARY_PATH");
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), StatusCode::kNoDevice);
  EXPECT_THAT(library.status().message(), testing::HasSubstr("/nowhere/two"));
  EXPECT_THAT(library.status().message(), testing::HasSubstr("SPARSMITH_CUDA_LIBRARY_PATH"));
}

TEST(CudaLibraryTest, FindsFunctions) {
  const auto library = CudaLibrary::open({"libm.so.6"});
  ASSERT_TRUE(library.ok()) << library.status().to_string();
  double (*cosine)(double) = nullptr;
  ASSERT_TRUE(library->bind("cos", cosine).ok());
  EXPECT_EQ(cosine(0.0), 1.0);
  EXPECT_EQ(library->bind("no_such_function", cosine).code(), StatusCode::kNoDevice);
}

}  // namespace
}  // namespace sparsmith
