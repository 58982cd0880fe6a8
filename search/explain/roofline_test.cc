#include "search/explain/roofline.h"

#include <gtest/gtest.h>

namespace sparsmith {
namespace {

class RooflineTest : public testing::Test {
 protected:
  void SetUp() override {
    weight_.rows = 1000;
    weight_.cols = 2000;
    weight_.type = DataType::kFloat16;
    bucket_.spec = {.rows = 1000, .cols = 2000, .type = DataType::kFloat16};
    PackedWeight packed;
    packed.packing = "rows";
    packed.arrays = {{"values", DataType::kUint8, std::vector<std::byte>(500'000)}};
    weight_.packings = {packed};
    bucket_.candidate.packing = "rows";
    bucket_.tokens = 10;
    device_ = typical_device(90);
    device_.memory_bandwidth = 4e12;
  }
  WeightResult weight_;
  BucketChoice bucket_;
  DeviceProperties device_;
};

TEST_F(RooflineTest, SparseKernelsAreBoundByTheirOwnBytes) {
  const auto bound = roofline_bound(weight_, bucket_, device_);
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->by, "memory");
  EXPECT_NEAR(bound->us, (500'000 + 10 * 3000 * 2) / 4e6, 1e-9);
  bucket_.tokens = 100'000;
  EXPECT_EQ(roofline_bound(weight_, bucket_, device_)->by, "memory");
}

TEST_F(RooflineTest, DenseIsBoundByTensorCoresWhereTokensAreMany) {
  bucket_.candidate.packing = kDensePacking;
  bucket_.candidate.config.family = "dense";
  const auto few = roofline_bound(weight_, bucket_, device_);
  ASSERT_TRUE(few);
  EXPECT_EQ(few->by, "memory");
  EXPECT_NEAR(few->us, (4'000'000 + 10 * 3000 * 2) / 4e6, 1e-9);
  bucket_.tokens = 10'000;
  const auto many = roofline_bound(weight_, bucket_, device_);
  EXPECT_EQ(many->by, "tensor cores");
  const double peak = 4096.0 * device_.sm_count * device_.clock_khz * 1e3;
  EXPECT_NEAR(many->us, 2.0 * 1000 * 2000 * 10'000 / peak * 1e6, 1e-6);
  bucket_.spec.type = DataType::kFloat32;
  EXPECT_EQ(roofline_bound(weight_, bucket_, device_)->by, "memory") << "strict fp32 does not run there";
}

TEST_F(RooflineTest, NothingIsInventedWhereTheDeviceIsNotKnown) {
  bucket_.candidate.packing = kDensePacking;
  bucket_.candidate.config.family = "dense";
  bucket_.tokens = 10'000;
  device_.clock_khz = 0;
  EXPECT_EQ(roofline_bound(weight_, bucket_, device_)->by, "memory");
  device_.memory_bandwidth = 0;
  EXPECT_FALSE(roofline_bound(weight_, bucket_, device_));
}

}  // namespace
}  // namespace sparsmith
