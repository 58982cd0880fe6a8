// Kernels that are right run, and compute what they should, in any order of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "base/half.h"
#include "tests/support/kernel_bench.h"

namespace sparsmith {
namespace {

class CorrectKernelsTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  EmulatorOptions options() const { return {.schedule_seed = GetParam()}; }
};

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST_P(CorrectKernelsTest, VectorAdd) {
  KernelBench bench(options());
  const std::size_t count = 1000;
  bench.add(numbers(count));
  bench.add(numbers(count));
  const int sum = bench.add_unwritten<float>(count);
  bench.add_int(count);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(256) test(const float* a, const float* b, float* c, int count) {
  const int i = block_index_x() * 256 + thread_index();
  if (i < count) c[i] = a[i] + load_streaming(b + i);
})",
                                  4, 256);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<float> result = bench.read<float>(sum, count);
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(result[i], 2.0F * static_cast<float>(i + 1));
}

// Each warp streams its part through two slots of its own.
TEST_P(CorrectKernelsTest, BulkCopiesOfWarps) {
  KernelBench bench(options());
  constexpr std::size_t kCount = 2 * 7 * 32;
  bench.add(numbers(kCount));
  const int out = bench.add_unwritten<float>(kCount);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(64) test(const float* in, float* out) {
  u8* shared = shared_memory();
  const int warp = warp_index();
  const int lane = thread_index() % 32;
  float* slots = reinterpret_cast<float*>(shared) + warp * 64;
  BulkBarrier* barriers = reinterpret_cast<BulkBarrier*>(shared + 512) + warp * 2;
  const float* from = in + warp * 7 * 32;
  if (lane == 0) {
    for (int slot = 0; slot < 2; ++slot) {
      bulk_barrier_init(barriers + slot);
      bulk_copy(slots + slot * 32, from + slot * 32, 128, barriers + slot);
    }
  }
  warp_barrier();
  for (int i = 0; i < 7; ++i) {
    const int slot = i % 2;
    bulk_wait_in_warp(barriers + slot, i / 2 % 2);
    out[warp * 7 * 32 + i * 32 + lane] = slots[slot * 32 + 31 - lane];
    warp_barrier();
    if (lane == 0 && i + 2 < 7) bulk_copy(slots + slot * 32, from + (i + 2) * 32, 128, barriers + slot);
  }
})",
                                  1, 64, 512 + 32);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<float> result = bench.read<float>(out, kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::size_t warp = i / 32;
    EXPECT_EQ(result[i], static_cast<float>(warp * 32 + 32 - i % 32));
  }
}

TEST_P(CorrectKernelsTest, BlockReductionThroughSharedMemory) {
  KernelBench bench(options());
  bench.add(numbers(4 * 128));
  const int sums = bench.add_unwritten<float>(4);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(128) test(const float* in, float* out) {
  float* partial = reinterpret_cast<float*>(shared_memory());
  const int t = thread_index();
  partial[t] = in[block_index_x() * 128 + t];
  for (int half = 64; half > 0; half /= 2) {
    block_barrier();
    if (t < half) partial[t] += partial[t + half];
  }
  if (t == 0) out[block_index_x()] = partial[0];
})",
                                  4, 128, 128 * sizeof(float));
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<float> result = bench.read<float>(sums, 4);
  for (int b = 0; b < 4; ++b) EXPECT_EQ(result[b], 128.0F * (128.0F * b + 64.5F));
}

TEST_P(CorrectKernelsTest, ShuffleReductionWithinGroupsOfEight) {
  KernelBench bench(options());
  bench.add(numbers(64));
  const int sums = bench.add_unwritten<float>(8);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(64) test(const float* in, float* out) {
  const int t = thread_index();
  const u32 mask = 0xFFU << (t % 32 / 8 * 8);
  float sum = in[t];
  for (int distance = 4; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance, mask);
  if (t % 8 == 0) out[t / 8] = sum;
})",
                                  1, 64);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<float> result = bench.read<float>(sums, 8);
  for (int g = 0; g < 8; ++g) EXPECT_EQ(result[g], 8.0F * (8.0F * g) + 36.0F);
}

TEST_P(CorrectKernelsTest, AtomicsBetweenBlocks) {
  KernelBench bench(options());
  const int total = bench.add(std::vector<float>{0.0F});
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(96) test(float* total) { atomic_add(total, 1.0F); })",
                                  7, 96);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(bench.read<float>(total, 1)[0], 7.0F * 96.0F);
}

TEST_P(CorrectKernelsTest, AsynchronousCopiesInTwoStages) {
  KernelBench bench(options());
  bench.add(numbers(64 * 8));
  const int out = bench.add_unwritten<float>(64 * 8);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(64) test(const float* in, float* out) {
  float* stages = reinterpret_cast<float*>(shared_memory());
  const int t = thread_index();
  async_copy<4>(stages + t, in + t);
  async_commit();
  for (int step = 0; step < 8; ++step) {
    if (step + 1 < 8) async_copy<4>(stages + (step + 1) % 2 * 64 + t, in + (step + 1) * 64 + t);
    async_commit();
    async_wait<1>();
    block_barrier();
    out[step * 64 + t] = stages[step % 2 * 64 + 63 - t];
    block_barrier();
  }
})",
                                  1, 64, 2 * 64 * sizeof(float));
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<float> result = bench.read<float>(out, 64 * 8);
  for (int i = 0; i < 64 * 8; ++i) {
    const int mirrored = i / 64 * 64 + 64 - i % 64;
    EXPECT_EQ(result[i], static_cast<float>(mirrored));
  }
}

TEST_P(CorrectKernelsTest, SparseMatrixVectorInHalf) {
  const std::uint64_t seed = 20 + GetParam();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const int rows = 37;
  const int cols = 53;
  std::vector<std::uint32_t> offsets{0};
  std::vector<std::uint16_t> columns;
  std::vector<std::uint16_t> values;
  std::vector<std::uint16_t> x(cols);
  std::normal_distribution<float> normal;
  for (std::uint16_t& value : x) value = fp16_from_float(normal(random));
  std::vector<double> expected(rows);
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      if (random() % 4 != 0) continue;
      columns.push_back(static_cast<std::uint16_t>(col));
      values.push_back(fp16_from_float(normal(random)));
      expected[row] += static_cast<double>(float_from_fp16(values.back())) * float_from_fp16(x[col]);
    }
    offsets.push_back(static_cast<std::uint32_t>(columns.size()));
  }
  KernelBench bench(options());
  bench.add(offsets);
  bench.add(columns);
  bench.add(values);
  bench.add(x);
  const int y = bench.add_unwritten<std::uint16_t>(rows);
  bench.add_int(rows);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(128)
    test(const u32* __restrict__ offsets, const u16* __restrict__ columns, const half* __restrict__ values,
         const half* __restrict__ x, half* __restrict__ y, int rows) {
  const int row = block_index_x() * 32 + thread_index() / 4;
  const u32 begin = row < rows ? load_cached(offsets + row) : 0;
  const u32 end = row < rows ? load_cached(offsets + row + 1) : 0;
  float sum = 0;
  for (u32 i = begin + thread_index() % 4; i < end; i += 4) {
    sum = multiply_add(to_float(load_streaming(values + i)), to_float(load_cached(x + columns[i])), sum);
  }
  sum += shuffle_xor(sum, 2);
  sum += shuffle_xor(sum, 1);
  if (row < rows && thread_index() % 4 == 0) y[row] = from_float<half>(sum);
})",
                                  2, 128);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<std::uint16_t> result = bench.read<std::uint16_t>(y, rows);
  for (int row = 0; row < rows; ++row) {
    EXPECT_NEAR(float_from_fp16(result[row]), expected[row], 1e-3 * (1 + std::abs(expected[row]))) << row;
  }
}

TEST_P(CorrectKernelsTest, VectorsAreReadAndWrittenWhole) {
  KernelBench bench(options());
  bench.add(numbers(256));
  const int out = bench.add_unwritten<float>(256);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(32) test(const float* in, float* out) {
  using Eight = Vector<float, 8>;
  Eight v = load_streaming(reinterpret_cast<const Eight*>(in) + thread_index());
  for (int i = 0; i < 4; ++i) {
    const float swapped = v[i];
    v[i] = v[7 - i];
    v[7 - i] = swapped;
  }
  reinterpret_cast<Eight*>(out)[thread_index()] = v;
})",
                                  1, 32);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<float> result = bench.read<float>(out, 256);
  for (int i = 0; i < 256; ++i) {
    const int mirrored = i / 8 * 8 + 8 - i % 8;
    EXPECT_EQ(result[i], static_cast<float>(mirrored));
  }
}

// Two-byte neighbours belong to different threads; threads that returned are not waited for.
TEST_P(CorrectKernelsTest, HalvesOfAWordAndEarlyReturns) {
  KernelBench bench(options());
  const int out = bench.add_unwritten<std::uint16_t>(50);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(64) test(u16* out) {
  u16* staged = reinterpret_cast<u16*>(shared_memory());
  const int t = thread_index();
  if (t >= 50) return;
  staged[t] = static_cast<u16>(t);
  block_barrier();
  out[t] = staged[49 - t];
})",
                                  1, 64, 100);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<std::uint16_t> result = bench.read<std::uint16_t>(out, 50);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(result[i], 49 - i);
}

TEST_P(CorrectKernelsTest, WarpBarriersOrderLanes) {
  KernelBench bench(options());
  const int out = bench.add_unwritten<int>(64);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(64) test(int* out) {
  int* staged = reinterpret_cast<int*>(shared_memory());
  const int t = thread_index();
  for (int round = 0; round < 5; ++round) {
    staged[t] = t + round;
    warp_barrier();
    out[t] = staged[t ^ 1] + staged[t ^ 16];
    warp_barrier();
  }
})",
                                  1, 64, 64 * sizeof(int));
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<int> result = bench.read<int>(out, 64);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(result[i], (i ^ 1) + (i ^ 16) + 8);
}

// The generator emits kernels inside namespace sparsmith.
TEST_P(CorrectKernelsTest, KernelInsideTheNamespace) {
  KernelBench bench(options());
  const int out = bench.add_unwritten<int>(32);
  const Status status = bench.run(R"(
namespace sparsmith {
namespace {
constexpr int kThreads = 32;
}
extern "C" __global__ void __launch_bounds__(kThreads) test(int* out) { out[thread_index()] = kThreads; }
}  // namespace sparsmith)",
                                  1, 32);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(bench.read<int>(out, 32)[31], 32);
}

INSTANTIATE_TEST_SUITE_P(Orders, CorrectKernelsTest, testing::Values(0, 1, 2));

}  // namespace
}  // namespace sparsmith
