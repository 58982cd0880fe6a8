#include "search/record/regenerated_choice.h"

#include <gmock/gmock.h>

#include "search/record/tuned_output.h"
#include "tests/support/tune_fixture.h"

namespace sparsmith {
namespace {

using testing::HasSubstr;

// A tuned weight, and its contents as a tuned file has them, to be altered.
class RegeneratedChoiceTest : public TuneTest {
 protected:
  void SetUp() override {
    TuneTest::SetUp();
    tune_again();
    ASSERT_NE(chosen().packing, kDensePacking);
  }
  void tune_again() {
    report_ = run({weight("fc", 96, 160, 3)});
    TunedProvenance provenance;
    provenance.device_class = report_.device.device_class();
    contents_ = tuned_contents(report_, provenance);
  }
  TunedChoice& chosen() { return contents_.weights.at(0).operators[0].choices.at(0); }
  Result<CompiledCandidate> regenerate() {
    return regenerated_choice(contents_, contents_.weights.at(0), contents_.weights.at(0).operators[0].spec, chosen());
  }
  void expect_refused(StatusCode code, const std::string& why) {
    const auto loaded = regenerate();
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.status().code(), code);
    EXPECT_THAT(loaded.status().message(), HasSubstr(why));
  }

  TuneReport report_;
  TunedContents contents_;
};

TEST_F(RegeneratedChoiceTest, IsTheStoredChoice) {
  const auto loaded = regenerate();
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_EQ(loaded->plan, chosen().plan);
  EXPECT_EQ(loaded->packing, chosen().packing);
  ASSERT_FALSE(loaded->kernels.empty());
  for (const KernelImage& kernel : loaded->kernels) {
    EXPECT_EQ(kernel.source, contents_.kernel(kernel.name)->source);
    EXPECT_TRUE(kernel.cubin.empty());
  }
}

TEST_F(RegeneratedChoiceTest, IsTheStoredChoiceOfAProgrammaticRun) {
  options_.timing.programmatic = true;
  tune_again();
  const auto loaded = regenerate();
  EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
}

TEST_F(RegeneratedChoiceTest, RefusesAnotherSource) {
  const std::string source = std::string(contents_.kernels.at(0).source) + "\nstatic int planted = 1;\n";
  contents_.kernels.at(0).source = source;
  expect_refused(StatusCode::kUnsupported, "the source of kernel " + contents_.kernels.at(0).name);
  expect_refused(StatusCode::kUnsupported, "tune the model again");
}

TEST_F(RegeneratedChoiceTest, RefusesAnotherPlan) {
  chosen().plan.workspace_bytes = 1 << 20;
  expect_refused(StatusCode::kUnsupported, "the launch plan differs");
}

TEST_F(RegeneratedChoiceTest, RefusesAConfigThatItDoesNotKnow) {
  const std::string config = chosen().config;
  chosen().config = "nosuch a=1";
  expect_refused(StatusCode::kUnsupported, "no kernel family nosuch");
  chosen().config = config.substr(0, config.rfind(' '));
  EXPECT_FALSE(regenerate().ok());
  chosen().config = config + "0000007";
  EXPECT_FALSE(regenerate().ok());
  chosen().config = "dense";
  expect_refused(StatusCode::kUnsupported, "the packing differs");
  chosen().config = config;
  chosen().packing += "_transposed";
  expect_refused(StatusCode::kUnsupported, "the packing differs");
}

TEST_F(RegeneratedChoiceTest, RefusesAFileWithoutADeviceClass) {
  for (const char* text : {"", "sm_90", "sm_x 3 SMs", "sm_-9 3 SMs", "emulator "}) {
    contents_.provenance.device_class = text;
    expect_refused(StatusCode::kInvalidInput, "device class");
  }
}

TEST_F(RegeneratedChoiceTest, StoredSourcesNeverReachTheHost) {
  for (TunedKernel& kernel : contents_.kernels) kernel.binaries = {{"sm_90", {}}};
  const auto loaded = loaded_choice(contents_, chosen(), 90);
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  for (const KernelImage& kernel : loaded->kernels) EXPECT_EQ(kernel.source, "");
}

}  // namespace
}  // namespace sparsmith
