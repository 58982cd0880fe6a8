#include "runtime/cuda_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

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

TEST_F(CudaLibraryFolderTest, ACompanionIsTakenFromTheFolderOfItsLibrary) {
  const auto loaded = CudaLibrary::open({"libm.so.6"});
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  Dl_info place = {};
  ASSERT_NE(dladdr(loaded->find("cos"), &place), 0);
  // A library of its own name: one that is open already keeps the path by which it was opened.
  std::filesystem::copy_file(place.dli_fname, folder_.file("libsparsmith_first.so.1"));
  std::filesystem::create_symlink(place.dli_fname, folder_.file("libsparsmith_second.so.1"));

  const auto library = CudaLibrary::open({"libsparsmith_first.so.1"});
  ASSERT_TRUE(library.ok()) << library.status().to_string();
  unsetenv("SPARSMITH_CUDA_LIBRARY_PATH");
  const auto companion = library->open_companion("libsparsmith_second.so.1");
  ASSERT_TRUE(companion.ok()) << companion.status().to_string();
  EXPECT_EQ(companion->path(), folder_.file("libsparsmith_second.so.1"));

  std::ofstream(folder_.file("libsparsmith_broken.so.1")) << "no library";
  const auto broken = library->open_companion("libsparsmith_broken.so.1");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.status().code(), StatusCode::kNoDevice);
  EXPECT_THAT(broken.status().message(), testing::HasSubstr(", which " + library->path() + " needs,"));
  EXPECT_THAT(broken.status().message(), testing::HasSubstr(folder_.file("libsparsmith_broken.so.1: ")));
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
  // A folder above the program may be anybody's: a source tree is in the run path of what is built in it, or nowhere.
  EXPECT_THAT(library.status().message(), testing::Not(testing::HasSubstr(".deps")));
}

TEST(CudaLibraryTest, FoldersOfAProgramAreThoseThatNobodyElseWritesTo) {
  namespace fs = std::filesystem;
  const TemporaryDirectory tree;
  fs::create_directories(tree.file("bin"));
  fs::create_directories(tree.file("lib"));
  const std::string program = tree.file("bin/program");
  std::ofstream(program) << "";
  const std::string bin = tree.file("bin");
  const std::string lib = tree.file("lib");
  ASSERT_EQ(chmod(bin.c_str(), 0755), 0);
  ASSERT_EQ(chmod(lib.c_str(), 0755), 0);
  EXPECT_THAT(folders_of_program(program), testing::ElementsAre(bin, lib));
  ASSERT_EQ(chmod(bin.c_str(), 01777), 0);  // as /tmp
  EXPECT_THAT(folders_of_program(program), testing::ElementsAre(lib));
  ASSERT_EQ(chmod(lib.c_str(), 0757), 0);
  EXPECT_THAT(folders_of_program(program), testing::IsEmpty());
  if (geteuid() == 0) {
    ASSERT_EQ(chmod(lib.c_str(), 0755), 0);
    ASSERT_EQ(chown(lib.c_str(), 12345, 12345), 0);
    EXPECT_THAT(folders_of_program(program), testing::IsEmpty());
    ASSERT_EQ(chown(program.c_str(), 12345, 12345), 0);
    EXPECT_THAT(folders_of_program(program), testing::ElementsAre(lib));
  }
}

TEST(CudaLibraryTest, WheelsLieBesideThePythonPackage) {
  const TemporaryDirectory tree;
  const std::filesystem::path packages = tree.file("site-packages");
  const std::string lib = packages / "nvidia/cu13/lib";
  std::filesystem::create_directories(lib);
  std::filesystem::create_directories(packages / "nvidia/cudnn");  // without a lib
  for (const char* const package : {"sparsmith", "another"}) {
    std::filesystem::create_directories(packages / package / "bin");
    std::ofstream(packages / package / "bin/program") << "";
  }
  EXPECT_THAT(wheel_folders_of_program(packages / "sparsmith/bin/program"), testing::ElementsAre(lib));
  EXPECT_THAT(wheel_folders_of_program(packages / "another/bin/program"), testing::IsEmpty());
  ASSERT_EQ(chmod(lib.c_str(), 0757), 0);
  EXPECT_THAT(wheel_folders_of_program(packages / "sparsmith/bin/program"), testing::IsEmpty());
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
