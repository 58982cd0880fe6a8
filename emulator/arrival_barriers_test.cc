// Barriers in shared memory at which some threads arrive and others wait: what they order, and the mistakes that are
// reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/half.h"
#include "tests/support/kernel_bench.h"

namespace sparsmith {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr int kRounds = 5;

// Warp 0 hands a line of words to warp 1, round after round, by way of one place.
constexpr const char* kHandOver = R"(
extern "C" __global__ void __launch_bounds__(64) test(u32* out) {
  u32* place = reinterpret_cast<u32*>(shared_memory());
  auto* full = reinterpret_cast<ArrivalBarrier*>(shared_memory() + 128);
  ArrivalBarrier* empty = full + 1;
  const int lane = thread_index() % 32;
  if (thread_index() == 0) {
    arrival_barrier_init(full, 1);
    arrival_barrier_init(empty, 1);
  }
  block_barrier();
  for (u32 round = 0; round < 5; ++round) {
    if (thread_index() < 32) {
      await(empty, (round & 1) ^ 1);
      place[lane] = round * 100 + lane;
      warp_barrier();
      if (lane == 0) arrive(full);
    } else {
      await(full, round & 1);
      out[round * 32 + lane] = place[31 - lane];
      warp_barrier();
      if (lane == 0) arrive(empty);
    }
  }
})";

class ArrivalBarriersTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  Status run(const std::string& kernel, const std::string& from = "", const std::string& to = "") {
    EmulatorOptions options;
    options.schedule_seed = GetParam();
    bench_ = std::make_unique<KernelBench>(options);
    out_ = bench_->add_unwritten<std::uint32_t>(kRounds * 32);
    std::string text = kernel;
    if (!from.empty()) {
      const std::size_t at = text.find(from);
      EXPECT_NE(at, std::string::npos) << from;
      text.replace(at, from.size(), to);
    }
    return bench_->run(text, 1, 64, 256);
  }

  std::unique_ptr<KernelBench> bench_;
  int out_ = 0;
};

TEST_P(ArrivalBarriersTest, APlaceGoesToAndFro) {
  const Status status = run(kHandOver);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const auto out = bench_->read<std::uint32_t>(out_, kRounds * 32);
  for (std::uint32_t i = 0; i < kRounds * 32; ++i) ASSERT_EQ(out[i], i / 32 * 100 + 31 - i % 32) << i;
}

TEST_P(ArrivalBarriersTest, MistakesAreReported) {
  const auto report = [&](const std::string& from, const std::string& to = "") {
    const Status status = run(kHandOver, from, to);
    EXPECT_EQ(status.code(), StatusCode::kDeviceError) << from << " -> " << to;
    return status.message();
  };
  EXPECT_THAT(report("await(full, round & 1);"), AnyOf(HasSubstr("race"), HasSubstr("never written")));
  EXPECT_THAT(report("await(empty, (round & 1) ^ 1);"), HasSubstr("race"));
  // The other lanes' words, and the other lanes' reads.
  EXPECT_THAT(report("warp_barrier();\n      if (lane == 0) arrive(full);", "if (lane == 0) arrive(full);"),
              AnyOf(HasSubstr("race"), HasSubstr("never written")));
  EXPECT_THAT(report("warp_barrier();\n      if (lane == 0) arrive(empty);", "if (lane == 0) arrive(empty);"),
              HasSubstr("race"));
  EXPECT_THAT(report("arrive(empty);", ";"), HasSubstr("for arrivals that do not come"));
  EXPECT_THAT(report("arrival_barrier_init(empty, 1);", "arrival_barrier_init(empty, 2);"),
              HasSubstr("for arrivals that do not come"));
  EXPECT_THAT(report("arrival_barrier_init(full, 1);"), HasSubstr("that is not ready"));
  EXPECT_THAT(report("arrival_barrier_init(full, 1);", "arrival_barrier_init(full, 0);"), HasSubstr("no arrival"));
  EXPECT_THAT(report("arrival_barrier_init(empty, 1);", "arrival_barrier_init(full, 1);"), HasSubstr("in use"));
  EXPECT_THAT(report("block_barrier();"), AnyOf(HasSubstr("race"), HasSubstr("that is not ready")));
  EXPECT_THAT(report("shared_memory() + 128", "shared_memory() + 132"), HasSubstr("misaligned"));
}

// Places of other threads stay unordered: an arrival hands on what the one who arrives knows, no more.
TEST_P(ArrivalBarriersTest, OnlyWhatIsKnownIsHandedOn) {
  constexpr const char* kOthers = R"(
extern "C" __global__ void __launch_bounds__(64) test(u32* out) {
  u32* place = reinterpret_cast<u32*>(shared_memory());
  auto* full = reinterpret_cast<ArrivalBarrier*>(shared_memory() + 128);
  if (thread_index() == 0) arrival_barrier_init(full, 1);
  block_barrier();
  if (thread_index() == 3) arrive(full);
  if (thread_index() < 32) {
    place[thread_index()] = 1;
  } else {
    await(full, 0);
    if (thread_index() == 40) out[0] = place[3];
  }
})";
  EXPECT_THAT(run(kOthers).message(), AnyOf(HasSubstr("race"), HasSubstr("never written")));
  const Status status =
      run(kOthers, "if (thread_index() == 3) arrive(full);\n  if (thread_index() < 32) {",
          "if (thread_index() < 32) {\n if (thread_index() == 3) { place[3] = 1; arrive(full); return; }");
  EXPECT_TRUE(status.ok()) << status.to_string();
}

constexpr const char* kReaders = R"(
extern "C" __global__ void __launch_bounds__(128) test(u32* out) {
  u32* place = reinterpret_cast<u32*>(shared_memory());
  auto* empty = reinterpret_cast<ArrivalBarrier*>(shared_memory() + 128);
  const int warp = thread_index() / 32;
  if (thread_index() < 32) place[thread_index()] = 7;
  if (thread_index() == 0) arrival_barrier_init(empty, 3);
  block_barrier();
  if (warp > 0) {
    out[thread_index()] = place[thread_index() % 32];
    warp_barrier();
    if (thread_index() % 32 == 0) arrive(empty);
  } else {
    await(empty, 0);
    place[thread_index()] = 8;
  }
})";

// Reads by several warps are all remembered: who writes has to be behind each of them.
TEST_P(ArrivalBarriersTest, AWriteWaitsForEveryReader) {
  const auto run_readers = [&](const std::string& from = "", const std::string& to = "") {
    EmulatorOptions options;
    options.schedule_seed = GetParam();
    KernelBench bench(options);
    bench.add_unwritten<std::uint32_t>(128);
    std::string text = kReaders;
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    return bench.run(text, 1, 128, 256);
  };
  const Status status = run_readers();
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_THAT(run_readers("(empty, 3)", "(empty, 2)").message(), HasSubstr("race"));
}

// Both operands in shared memory, products in flight, and what tensor cores need not see.
constexpr const char* kProducts = R"(
extern "C" __global__ void __launch_bounds__(160) test(const u16* a, const u16* b, float* d) {
  u8* shared = shared_memory();
  auto* full = reinterpret_cast<ArrivalBarrier*>(shared + 10240);
  const int lane = thread_index() % 32;
  if (thread_index() == 0) arrival_barrier_init(full, 1);
  block_barrier();
  if (thread_index() >= 128) {
    for (int i = lane; i < (64 + 16) * 8; i += 32) {
      const int row = i / 8;
      const u16* from = row < 64 ? a + row * 64 : b + (row - 64) * 64;
      *reinterpret_cast<Vector<u32, 4>*>(shared + row * 128 + (i % 8 ^ row % 8) * 16) =
          *reinterpret_cast<const Vector<u32, 4>*>(from + i % 8 * 8);
    }
    tensor_reads_follow();
    warp_barrier();
    if (lane == 0) arrive(full);
    return;
  }
  float sums[8];
  for (int i = 0; i < 8; ++i) sums[i] = 1.0F;
  await(full, 0);
  for (int step = 0; step < 4; ++step) {
    warpgroup_multiply_begin();
    SharedMultiply<half, 16>::add(sums, advanced(swizzled_rows(shared_offset(shared)), step * 32),
                                  advanced(swizzled_rows(shared_offset(shared + 8192)), step * 32));
    warpgroup_multiply_commit();
    warpgroup_multiply_wait<1>();
  }
  warpgroup_multiply_wait();
  for (int i = 0; i < 8; ++i) {
    const int row = thread_index() / 32 * 16 + lane / 4 + i / 2 % 2 * 8;
    d[row * 16 + i / 4 * 8 + lane % 4 * 2 + i % 2] = sums[i];
  }
})";

TEST_P(ArrivalBarriersTest, ProductsOfOperandsThatAreHandedOver) {
  std::vector<std::uint16_t> a(64 * 64);
  std::vector<std::uint16_t> b(16 * 64);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = fp16_from_float(static_cast<float>(i * 7 % 11) - 5.0F);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = fp16_from_float(static_cast<float>(i * 5 % 13) - 6.0F);
  const auto run_products = [&](const std::string& from, const std::string& to, std::vector<float>& d) {
    EmulatorOptions options;
    options.schedule_seed = GetParam();
    KernelBench bench(options);
    bench.add(a);
    bench.add(b);
    const int out = bench.add_unwritten<float>(64 * 16);
    std::string text = kProducts;
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    const Status status = bench.run(text, 1, 160, 10240 + 8);
    if (status.ok()) d = bench.read<float>(out, 64 * 16);
    return status;
  };
  std::vector<float> d;
  const Status status = run_products("", "", d);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (std::size_t row = 0; row < 64; ++row) {
    for (std::size_t token = 0; token < 16; ++token) {
      float expected = 1.0F;
      for (std::size_t k = 0; k < 64; ++k)
        expected += float_from_fp16(a[row * 64 + k]) * float_from_fp16(b[token * 64 + k]);
      ASSERT_EQ(d[row * 16 + token], expected) << row << " " << token;
    }
  }
  EXPECT_THAT(run_products("tensor_reads_follow();", "", d).message(), HasSubstr("tensor cores would read it"));
  EXPECT_THAT(run_products("await(full, 0);", "", d).message(), AnyOf(HasSubstr("race"), HasSubstr("never written")));
  EXPECT_THAT(run_products("warpgroup_multiply_wait();", "", d).message(), HasSubstr("nobody waited for it"));
  // One product is on its way when its sums are read.
  ASSERT_TRUE(run_products("warpgroup_multiply_wait();",
                           "const float early = sums[0]; warpgroup_multiply_wait(); sums[0] = early;", d)
                  .ok());
  EXPECT_NE(d[0], d[0]);
}

// Each block of a cluster brings a box to both; the second one reaches beyond the matrix.
constexpr const char* kBoxes = R"(
extern "C" __global__ void __launch_bounds__(64) test(const __grid_constant__ TensorMap map, u16* out) {
  u8* shared = shared_memory();
  auto* full = reinterpret_cast<ArrivalBarrier*>(shared + 2 * 8192);
  if (thread_index() == 0) arrival_barrier_init(full, 1);
  cluster_arrive();
  cluster_wait();
  if (thread_index() == 0) {
    arrive_expecting(full, 2 * 8192);
    box_copy(shared + cluster_rank() * 8192, map, 64 * cluster_rank(), 64 * cluster_rank(), full, 3);
  }
  await(full, 0);
  for (int i = thread_index(); i < 2 * 4096; i += 64) {
    const int row = i / 64 % 64;
    const int element = i % 64;
    const u8* line = shared + i / 4096 * 8192 + row * 128;
    out[block_index_x() * 2 * 4096 + i] =
        *reinterpret_cast<const u16*>(line + (element / 8 ^ row % 8) * 16 + element % 8 * 2);
  }
  cluster_arrive();
  cluster_wait();
})";

TEST_P(ArrivalBarriersTest, BoxesReachBothBlocks) {
  constexpr std::int64_t kLines = 100;
  constexpr std::int64_t kElements = 69;
  std::int64_t stride = 72;
  std::vector<std::uint16_t> out;
  const auto run_boxes = [&](const std::string& from = "", const std::string& to = "") {
    EmulatorOptions options;
    options.schedule_seed = GetParam();
    KernelBench bench(options);
    std::vector<std::uint16_t> x(static_cast<std::size_t>(kLines * stride));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint16_t>(i + 1);
    const DeviceAddress address = bench.executor().allocate(x.size() * 2).value();
    EXPECT_TRUE(bench.executor().write(address, std::as_bytes(std::span(x))).ok());
    bench.arguments().push_back(tensor_map("x", kElements, {}));
    bench.bindings().operands = {{"x", address}};
    bench.bindings().variables = {.n = kLines, .strides = {{"x", stride}}};
    const int array = bench.add_unwritten<std::uint16_t>(4 * 4096);
    bench.cluster = {2, 1, 1};
    std::string text = kBoxes;
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    const Status status = bench.run(text, 2, 64, 2 * 8192 + 8);
    if (status.ok()) out = bench.read<std::uint16_t>(array, 4 * 4096);
    return status;
  };
  const Status status = run_boxes();
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (std::int64_t i = 0; i < 4 * 4096; ++i) {
    const std::int64_t box = i / 4096 % 2;
    const std::int64_t line = 64 * box + i / 64 % 64;
    const std::int64_t element = 64 * box + i % 64;
    const bool inside = line < kLines && element < kElements;
    ASSERT_EQ(out[static_cast<std::size_t>(i)], inside ? line * stride + element + 1 : 0) << i;
  }
  EXPECT_THAT(run_boxes("await(full, 0);").message(), AnyOf(HasSubstr("has not landed"), HasSubstr("never written")));
  EXPECT_THAT(run_boxes("2 * 8192);\n    box", "3 * 8192);\n    box").message(),
              HasSubstr("for arrivals that do not come"));
  EXPECT_THAT(run_boxes("2 * 8192);\n    box", "8192);\n    box").message(),
              AnyOf(HasSubstr("more bytes than it expects"), HasSubstr("never written")));
  EXPECT_THAT(run_boxes("2 * 8192);\n    box", "0);\n    box").message(), HasSubstr("expects no bytes"));
  EXPECT_THAT(run_boxes("cluster_wait();\n  if", "if").message(),
              AnyOf(HasSubstr("between its arrival"), HasSubstr("that is not ready")));
  EXPECT_THAT(run_boxes("box_copy(shared", "box_copy(shared + 128").message(), HasSubstr("not a multiple of 1024"));
  EXPECT_THAT(run_boxes(", 3);", ", 4);").message(), HasSubstr("asks for block 2"));
  EXPECT_THAT(run_boxes("    box_copy", "    arrive(full);\n    box_copy").message(), HasSubstr("arrives once more"));
  stride = 71;
  EXPECT_THAT(run_boxes().message(), HasSubstr("has no map"));
}

constexpr const char* kArrays = R"(
extern "C" __global__ void __launch_bounds__(64) test(const u8* in, u8* out) {
  u8* shared = shared_memory();
  auto* full = reinterpret_cast<ArrivalBarrier*>(shared + 512);
  if (thread_index() == 0) arrival_barrier_init(full, 1);
  block_barrier();
  if (thread_index() == 0) {
    arrive_expecting(full, 512);
    array_copy(shared, in, 384, full);
    array_copy(shared + 384, in + 384, 128, full);
  }
  await(full, 0);
  for (int i = thread_index(); i < 512; i += 64) out[i] = shared[i];
})";

TEST_P(ArrivalBarriersTest, ABarrierCountsTheBytesOfSeveralCopies) {
  std::vector<std::uint8_t> in(512);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(i * 7);
  std::vector<std::uint8_t> out;
  const auto run_copies = [&](const std::string& from = "", const std::string& to = "") {
    EmulatorOptions options;
    options.schedule_seed = GetParam();
    KernelBench bench(options);
    bench.add(in);
    const int array = bench.add_unwritten<std::uint8_t>(512);
    std::string text = kArrays;
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    const Status status = bench.run(text, 1, 64, 512 + 8);
    if (status.ok()) out = bench.read<std::uint8_t>(array, 512);
    return status;
  };
  const Status status = run_copies();
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(out, in);
  EXPECT_THAT(run_copies("await(full, 0);").message(),
              AnyOf(HasSubstr("has not landed"), HasSubstr("never written"), HasSubstr("race")));
  EXPECT_THAT(run_copies("(full, 512)", "(full, 528)").message(), HasSubstr("for arrivals that do not come"));
  EXPECT_THAT(run_copies("(full, 512)", "(full, 384)").message(),
              AnyOf(HasSubstr("more bytes than it expects"), HasSubstr("has not landed"), HasSubstr("never written")));
  EXPECT_THAT(run_copies("array_copy(shared, in, 384", "array_copy(shared, in + 8, 384").message(),
              HasSubstr("aligned 16 bytes"));
}

INSTANTIATE_TEST_SUITE_P(Orders, ArrivalBarriersTest, testing::Values(0, 1, 2));

}  // namespace
}  // namespace sparsmith
