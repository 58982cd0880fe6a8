// A driver that cannot be opened: what is wrong with a file is said all the same, and first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/temporary_directory.h"
#include "sparsmith/sparsmith.h"
#include "sparsmith/tuned_model.h"
#include "tests/support/fake_cuda_driver.h"
#include "tests/support/tuned_sample.h"

namespace sparsmith {
namespace {

using testing::HasSubstr;
using testing::Not;

class NoDriverTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda().fail_init = true;
    ASSERT_TRUE(write_tuned_file(path_, sample_.contents()).ok());
  }
  void damage() {
    std::string bytes = *read_file(path_);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    ASSERT_TRUE(write_file_atomically(path_, bytes).ok());
  }

  TunedSample sample_;
  TemporaryDirectory directory_;
  std::string path_ = directory_.file("model.tuned.safetensors");
};

TEST_F(NoDriverTest, ADamagedFileIsTheError) {
  damage();
  const Status status = TunedModel::load(path_).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidInput);
  EXPECT_THAT(status.message(), HasSubstr("damaged"));
  EXPECT_EQ(TunedModel::load(path_ + ".missing").status().code(), StatusCode::kNotFound);
  sparsmith_model* model = nullptr;
  EXPECT_EQ(sparsmith_model_load(path_.c_str(), nullptr, &model), SPARSMITH_INVALID_INPUT);
  EXPECT_EQ(sparsmith_validate(path_.c_str(), nullptr), SPARSMITH_INVALID_INPUT);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("damaged"));
}

TEST_F(NoDriverTest, AForgedWeightIsTheError) {
  TunedWeight& weight = sample_.contents().weights[0];
  weight.rows = weight.operators[0].spec.rows = 1;
  ASSERT_TRUE(write_tuned_file(path_, sample_.contents()).ok());
  EXPECT_EQ(TunedModel::load(path_).status().code(), StatusCode::kInvalidInput);
}

TEST_F(NoDriverTest, AGoodFileIsInOrderAndCannotRun) {
  EXPECT_TRUE(TunedModel::validate(path_).ok());
  EXPECT_EQ(sparsmith_validate(path_.c_str(), nullptr), SPARSMITH_OK);
  const Status status = TunedModel::load(path_).status();
  EXPECT_EQ(status.code(), StatusCode::kNoDevice);
  EXPECT_THAT(status.message(), HasSubstr("install NVIDIA's driver"));
  EXPECT_THAT(status.message(), Not(HasSubstr("emulator")));
}

}  // namespace
}  // namespace sparsmith
