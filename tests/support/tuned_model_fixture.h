// What tests of loaded models share: the sample, written to a file and loaded on the fake driver.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/temporary_directory.h"
#include "sparsmith/tuned_model.h"
#include "tests/support/fake_cuda_driver.h"
#include "tests/support/tuned_sample.h"

namespace sparsmith {

class TunedModelTest : public testing::Test {
 protected:
  void SetUp() override { fake_cuda() = FakeCudaState(); }
  void TearDown() override {
    EXPECT_EQ(fake_cuda().live_buffers, 0);
    EXPECT_EQ(fake_cuda().live_modules, 0);
  }

  Result<TunedModel> load() {
    EXPECT_TRUE(write_tuned_file(path_, sample_.contents()).ok());
    const auto device = Device::open(0);
    EXPECT_TRUE(device.ok()) << device.status().to_string();
    return TunedModel::load(path_, *device);
  }
  Operator op(const std::string& name) {
    auto model = load();
    EXPECT_TRUE(model.ok()) << model.status().to_string();
    auto found = model->op(name);
    EXPECT_TRUE(found.ok()) << found.status().to_string();
    return *found;  // keeps the model
  }

  TunedSample sample_;
  TemporaryDirectory directory_;
  std::string path_ = directory_.file("model.tuned.safetensors");
  std::vector<float> x_ = {1, 10, 100, 2, 20, 200};
  std::vector<float> bias_ = {0.5F, 0.25F};
  std::vector<float> y_ = std::vector<float>(4, -1);
};

}  // namespace sparsmith
