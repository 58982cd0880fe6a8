#include "runtime/cuda_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sparsmith {
namespace {

namespace fs = std::filesystem;

// A folder that SPARSMITH_CUDA_LIBRARY_PATH names, for as long as the test runs.
class CudaLibraryFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("cuda_library_test." + std::to_string(getpid()));
    fs::create_directories(folder_);
    setenv("SPARSMITH_CUDA_LIBRARY_PATH", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("SPARSMITH_CUDA_LIBRARY_PATH");
    fs::remove_all(folder_);
  }

  fs::path folder_;
};

TEST_F(CudaLibraryFolderTest, ANamedFolderComesBeforeTheLoadersPath) {
  const auto loaded = CudaLibrary::open({"libm.so.6"});
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  Dl_info place = {};
  ASSERT_NE(dladdr(loaded->find("cos"), &place), 0);
  fs::create_symlink(place.dli_fname, folder_ / "libm.so.6");

  const auto library = CudaLibrary::open({"libsparsmith_does_not_exist.so.1", "libm.so.6"});
  ASSERT_TRUE(library.ok()) << library.status().to_string();
  EXPECT_EQ(library->path(), folder_ / "libm.so.6");
}

TEST_F(CudaLibraryFolderTest, SaysWhyAFileWasRefused) {
  std::ofstream(folder_ / "libsparsmith_broken.so.1") << "no library";
  const auto library = CudaLibrary::open({"libsparsmith_broken.so.1"});
  ASSERT_FALSE(library.ok());
  EXPECT_THAT(library.status().message(), testing::HasSubstr((folder_ / "libsparsmith_broken.so.1: ").string()));
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
