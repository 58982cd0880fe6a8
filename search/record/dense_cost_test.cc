#include "generator/families/dense/dense_family.h"

#include <gtest/gtest.h>

#include <cmath>

#include "search/record/recorded_space.h"

namespace sparsmith {
namespace {

Problem problem_of(std::int64_t rows, std::int64_t cols, std::int64_t tokens, DataType type) {
  Problem problem;
  problem.spec.rows = rows;
  problem.spec.cols = cols;
  problem.spec.type = type;
  problem.tokens = tokens;
  problem.device = typical_device(90);
  return problem;
}

// What cuBLASLt took on an H200, in bench/recorded.
TEST(DenseCostTest, MeetsRecordedTimes) {
  const auto spaces = read_spaces(SPARSMITH_RECORDED "/h200-spaces.jsonl.gz");
  ASSERT_TRUE(spaces.ok()) << spaces.status().to_string();
  double squares = 0;
  double worst = 0;
  int count = 0;
  for (const RecordedSpace& space : *spaces) {
    const auto spec = OperatorSpec::parse(space.operator_name);
    ASSERT_TRUE(spec.ok());
    Problem problem = problem_of(space.rows, space.cols, space.tokens, spec->type);
    problem.device.memory_bandwidth = space.memory_bandwidth;
    for (const RecordedVendor& vendor : space.vendors) {
      if (!vendor.supported || vendor.samples_us.empty()) continue;
      const double error = std::log(predicted_dense_us(problem) / median_of(vendor.samples_us));
      squares += error * error;
      if (std::abs(error) > worst) worst = std::abs(error);
      ++count;
    }
  }
  ASSERT_GE(count, 30);
  std::printf("%d times: %.1f %% (root of the mean square), %.1f %% at worst\n", count,
              100 * std::sqrt(squares / count), 100 * worst);
  EXPECT_LE(std::sqrt(squares / count), 0.12);
  EXPECT_LE(worst, 0.35);
}

TEST(DenseCostTest, GrowsWithBytesProductsAndTheChain) {
  // Bound by memory: twice the rows take nearly twice as long.
  const double large = predicted_dense_us(problem_of(16384, 16384, 1, DataType::kFloat16));
  EXPECT_NEAR(predicted_dense_us(problem_of(32768, 16384, 1, DataType::kFloat16)) / large, 2, 0.1);
  // Bound by products: twice the tokens do.
  const double products = predicted_dense_us(problem_of(8192, 8192, 4096, DataType::kFloat32));
  EXPECT_NEAR(predicted_dense_us(problem_of(8192, 8192, 8192, DataType::kFloat32)) / products, 2, 0.1);
  // Strict fp32 does not run on tensor cores.
  EXPECT_GT(products, 5 * predicted_dense_us(problem_of(8192, 8192, 4096, DataType::kFloat16)));
  // Each at its part of the device's peak.
  const DeviceProperties device = typical_device(90);
  const double operations = 2.0 * 8192 * 8192 * 4096;
  EXPECT_NEAR(products, operations / (256.0 * device.sm_count * device.clock_khz * 1e3 * 0.72) * 1e6, 0.05 * products);
  const double halves = predicted_dense_us(problem_of(8192, 8192, 4096, DataType::kFloat16));
  EXPECT_NEAR(halves, operations / (device.tensor_operations_per_second() * 0.73) * 1e6, 0.05 * halves);
  // X and Y move, too; a product with a vector computes nothing.
  const double tokens = predicted_dense_us(problem_of(64, 64, 1 << 20, DataType::kFloat16));
  EXPECT_NEAR(tokens, 2.0 * (1 << 20) * 128 / (1.06 * device.memory_bandwidth) * 1e6, 0.05 * tokens);
  const double vector = predicted_dense_us(problem_of(16384, 16384, 1, DataType::kFloat32));
  EXPECT_NEAR(vector, 4.0 * 16384 * 16384 / (1.06 * device.memory_bandwidth) * 1e6, 0.05 * vector);
  // Bound by the chain along K, up to where it is cut.
  const auto small = [](std::int64_t cols) { return predicted_dense_us(problem_of(64, cols, 1, DataType::kFloat16)); };
  EXPECT_GT(small(4096) - small(64), 4);
  EXPECT_LT(small(8192) - small(4096), 1);
}

TEST(DenseCostTest, OlderDevicesMultiplyFloatsAtHalfTheRate) {
  Problem problem = problem_of(8192, 8192, 4096, DataType::kFloat32);
  const double newer = predicted_dense_us(problem);
  problem.device.compute_capability = 80;
  EXPECT_NEAR(predicted_dense_us(problem) / newer, 2, 0.01);
}

TEST(DenseCostTest, AnEpilogueIsAPassOverTheOutputs) {
  Problem problem = problem_of(8192, 64, 1024, DataType::kFloat16);
  const double outputs = 8192.0 * 1024;
  const double plain = predicted_dense_epilogue_us(problem);
  problem.spec.epilogue.residual = true;
  const double residual = predicted_dense_epilogue_us(problem);
  problem.spec.epilogue.beta = true;
  const double both = predicted_dense_epilogue_us(problem);
  const double operand_us = outputs * 2 / problem.device.memory_bandwidth * 1e6;  // at the bandwidth of a copy
  EXPECT_NEAR(residual - plain, operand_us, 0.1 * operand_us);
  EXPECT_NEAR(both - residual, operand_us, 0.1 * operand_us);
  EXPECT_NEAR(plain, 1.5 + 4 * operand_us, 0.1 * plain);
}

}  // namespace
}  // namespace sparsmith
