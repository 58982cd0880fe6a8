// A tuned file whose kernels' sources hold host code: `sparsmith run` compiles none of it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/temporary_directory.h"
#include "runtime/tuned_file.h"
#include "tests/support/tuned_group.h"
#include "tuner/process/child_process.h"

namespace sparsmith::test {
namespace {

class PlantedSourceTest : public testing::Test {
 protected:
  // The exit code of `sparsmith run FILE ...`, with what it printed in output(). No GPU is seen.
  int run_program(const std::string& file, const std::string& options) {
    const std::string command = "CUDA_VISIBLE_DEVICES= " + program_folder() + "/sparsmith run " + file + " " + options +
                                " >" + directory_.file("output") + " 2>&1";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string output() { return read_file(directory_.file("output")).value(); }

  TemporaryDirectory directory_;
};

TEST_F(PlantedSourceTest, IsNeitherCompiledNorRun) {
  TuneResources resources;
  resources.workers = {worker_factory({.device = "emulator", .program = ""})};
  const auto group = TunedGroup::make({}, resources);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  const std::string good = (*group)->path();
  ASSERT_EQ(run_program(good, "--device emulator --check"), 0) << output();
  ASSERT_NE(output().find("correct"), std::string::npos) << output();

  const std::string written = directory_.file("written");
  const auto file = TunedFile::open(good);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  TunedContents contents = file->contents();
  std::vector<std::string> sources;
  sources.reserve(contents.kernels.size());
  for (TunedKernel& kernel : contents.kernels) {
    kernel.source = sources.emplace_back(
        "extern \"C\" int creat(const char*, unsigned);\n"
        "static const int planted = creat(\"" +
        written + "\", 0600);\n" + std::string(kernel.source));
  }
  const std::string bad = directory_.file("bad.safetensors");
  ASSERT_TRUE(write_tuned_file(bad, contents).ok());  // with hashes that fit
  EXPECT_EQ(run_program(bad, "--device emulator --check"), 1) << output();
  EXPECT_NE(output().find("tune the model again"), std::string::npos) << output();
  EXPECT_FALSE(std::filesystem::exists(written));
}

TEST_F(PlantedSourceTest, TheEmulatorIsAskedForByName) {
  TuneResources resources;
  resources.workers = {worker_factory({.device = "emulator", .program = ""})};
  const auto group = TunedGroup::make({}, resources);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  EXPECT_EQ(run_program((*group)->path(), ""), 4) << output();
  EXPECT_NE(output().find("--device emulator"), std::string::npos) << output();
}

}  // namespace
}  // namespace sparsmith::test
