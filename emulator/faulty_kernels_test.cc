// Kernels that are wrong are reported, each with who, where and what, whatever the order of threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/kernel_bench.h"

namespace sparsmith {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FaultyKernelsTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  EmulatorOptions options() const {
    EmulatorOptions result;
    result.schedule_seed = GetParam();
    return result;
  }

  // Runs `statements` as a kernel of 64 threads with an input of 64 floats, an unwritten output of 64 floats, and
  // 256 bytes of shared memory, expecting a device error.
  std::string report_of(const std::string& statements, std::int64_t blocks = 1) {
    KernelBench bench(options());
    bench.add(std::vector<float>(64, 1.0F));
    bench.add_unwritten<float>(64);
    const Status status = bench.run(
        "extern \"C\" __global__ void __launch_bounds__(64) test(const float* in, float* out) {\n"
        "  float* shared = reinterpret_cast<float*>(shared_memory());\n"
        "  const int t = thread_index();\n" +
            statements + "\n}",
        blocks, 64, 256);
    EXPECT_EQ(status.code(), StatusCode::kDeviceError) << status.to_string();
    EXPECT_THAT(status.message(), AllOf(HasSubstr("kernel test"), HasSubstr("block ("), HasSubstr("thread ")));
    return status.message();
  }
};

TEST_P(FaultyKernelsTest, MissingBlockBarrier) {
  EXPECT_THAT(report_of("shared[t] = in[t]; out[t] = shared[63 - t];"),
              testing::AnyOf(AllOf(HasSubstr("race"), HasSubstr("shared memory + "), HasSubstr("of the same block")),
                             HasSubstr("never written")));
}

TEST_P(FaultyKernelsTest, MissingBarrierBeforeSharedMemoryIsUsedAgain) {
  EXPECT_THAT(report_of("for (int i = 0; i < 2; ++i) { shared[t] = i; block_barrier(); out[t] = shared[63 - t]; }"),
              AllOf(HasSubstr("race"), HasSubstr("shared memory + "), HasSubstr("of 4 bytes"), HasSubstr("read")));
}

TEST_P(FaultyKernelsTest, RaceWithinAWarp) {
  EXPECT_THAT(report_of("shared[t] = 0; block_barrier(); shared[t] = in[t]; out[t] = shared[t ^ 1];"),
              AllOf(HasSubstr("race"), HasSubstr("of the same block")));
}

TEST_P(FaultyKernelsTest, ShufflesOrderNothing) {
  EXPECT_THAT(
      report_of("shared[t] = 0; block_barrier(); shared[t] = in[t]; shuffle_xor(1, 1); out[t] = shared[t ^ 1];"),
      HasSubstr("race"));
}

TEST_P(FaultyKernelsTest, WarpBarrierDoesNotOrderWarps) {
  EXPECT_THAT(report_of("shared[t] = 0; block_barrier(); shared[t] = in[t]; warp_barrier(); out[t] = shared[t ^ 32];"),
              HasSubstr("race"));
}

TEST_P(FaultyKernelsTest, WriteAfterManyRead) {
  EXPECT_THAT(report_of("if (t == 0) shared[0] = 1; block_barrier(); out[t] = shared[0]; if (t == 40) shared[0] = 2;"),
              AllOf(HasSubstr("race"), HasSubstr("shared memory + 0 ")));
}

TEST_P(FaultyKernelsTest, RaceOnGlobalMemoryWithinABlock) {
  EXPECT_THAT(report_of("out[t / 2] = in[t];"), AllOf(HasSubstr("race"), HasSubstr("array1 (allocation 2)")));
}

TEST_P(FaultyKernelsTest, RaceBetweenBlocks) {
  EXPECT_THAT(report_of("out[t] = in[t];", 2),
              AllOf(HasSubstr("race between blocks"), HasSubstr("array1"), HasSubstr("block (1, 0, 0)"),
                    HasSubstr("by thread"), HasSubstr("of block (0, 0, 0)")));
}

TEST_P(FaultyKernelsTest, BlockReadsWhatAnotherWrote) {
  EXPECT_THAT(report_of("if (block_index_x() == 0) out[t] = 1; else if (t == 3) out[60] += 1;", 2),
              AllOf(HasSubstr("race between blocks"), HasSubstr("read of 4 bytes"), HasSubstr("thread 3")));
}

TEST_P(FaultyKernelsTest, PlainReadOfWhatOthersAddTo) {
  EXPECT_THAT(report_of("float* total = const_cast<float*>(in); atomic_add(total, 1); out[t] = total[0];"),
              AllOf(HasSubstr("race"), HasSubstr("atomic addition")));
}

TEST_P(FaultyKernelsTest, DivergenceAtBlockBarriers) {
  EXPECT_THAT(report_of("if (t < 32) {\n block_barrier();\n } else {\n block_barrier();\n }"),
              AllOf(HasSubstr("divergence"), HasSubstr("threads 0-31 wait at the block barrier in line"),
                    HasSubstr("threads 32-63")));
}

TEST_P(FaultyKernelsTest, DeadlockBetweenBarrierAndShuffle) {
  EXPECT_THAT(report_of("if (t == 5) block_barrier(); else out[t] = shuffle_xor(in[t], 1);"),
              AllOf(HasSubstr("deadlock"), HasSubstr("threads 5 wait at the block barrier"),
                    HasSubstr("threads 0-4, 6-31 wait at the shuffle"), HasSubstr("mask 0xffffffff")));
}

TEST_P(FaultyKernelsTest, LanesWithDifferentMasks) {
  EXPECT_THAT(report_of("out[t] = shuffle_xor(in[t], 1, t % 32 == 3 ? 0x0FU : 0xFFFFFFFFU);"),
              AllOf(HasSubstr("divergence within a warp"), HasSubstr("0x0000000f"), HasSubstr("0xffffffff")));
}

TEST_P(FaultyKernelsTest, ShuffleWithALaneThatReturned) {
  EXPECT_THAT(report_of("if (t == 7) return; out[t] = shuffle_xor(in[t], 1);"),
              testing::AnyOf(HasSubstr("lanes 0x00000080 returned"), HasSubstr("lane 7 returned, while")));
}

TEST_P(FaultyKernelsTest, ShuffleOutsideOfTheOwnMask) {
  EXPECT_THAT(report_of("out[t] = shuffle_xor(in[t], 0, 0x1U);"), HasSubstr("is not in its own mask 0x00000001"));
}

TEST_P(FaultyKernelsTest, ShuffleFromALaneOutsideOfTheMask) {
  EXPECT_THAT(report_of("if (t < 4) out[t] = shuffle_xor(in[t], 4, 0xFU);"),
              HasSubstr("reads from lane 4, which is not in the mask 0x0000000f"));
}

TEST_P(FaultyKernelsTest, DifferentShufflesMeet) {
  EXPECT_THAT(report_of("out[t] = t % 2 ? shuffle_xor(in[t], 1) : static_cast<float>(shuffle_up(t, 1));"),
              HasSubstr("different kinds of shuffle"));
}

TEST_P(FaultyKernelsTest, GlobalReadPastTheEnd) {
  EXPECT_THAT(report_of("out[t] = in[t + 1];"),
              AllOf(HasSubstr("thread 63"), HasSubstr("out of bounds: read of 4 bytes at array0 (allocation 1) + 256"),
                    HasSubstr("0 bytes past its end")));
}

TEST_P(FaultyKernelsTest, GlobalWriteBeforeTheBegin) {
  EXPECT_THAT(report_of("if (t == 9) out[-1] = 1;"),
              AllOf(HasSubstr("thread 9"), HasSubstr("out of bounds: write of 4")));
}

TEST_P(FaultyKernelsTest, VectorThatReachesPastTheEnd) {
  EXPECT_THAT(report_of("using Two = Vector<float, 2>; if (t == 2) load_cached(reinterpret_cast<const Two*>(in + 64));"
                        "if (t == 2) *reinterpret_cast<Two*>(out + 64) = Two{{1, 2}};"),
              HasSubstr("out of bounds"));
}

TEST_P(FaultyKernelsTest, NullPointer) {
  EXPECT_THAT(report_of("if (block_index_x() == 0) out = nullptr; out[t] = t;"), testing::Not(testing::IsEmpty()));
}

TEST_P(FaultyKernelsTest, SharedWritePastTheEnd) {
  EXPECT_THAT(
      report_of("shared[t + 1] = 0;"),
      AllOf(HasSubstr("thread 63"), HasSubstr("out of bounds: write of 4 bytes"),
            HasSubstr("shared memory + 256 (the launch has 256 bytes)"), testing::Not(HasSubstr("bytes) of block"))));
}

TEST_P(FaultyKernelsTest, SharedReadPastTheEnd) {
  EXPECT_THAT(report_of("out[t] = shared[64 + t];"), AllOf(HasSubstr("out of bounds: read of 4 bytes")));
}

TEST_P(FaultyKernelsTest, MisalignedLoad) {
  EXPECT_THAT(report_of("using Four = Vector<float, 4>;"
                        "out[t] = load_streaming(reinterpret_cast<const Four*>(in + 2))[0];"),
              AllOf(HasSubstr("misaligned access of 16 bytes at array0"), HasSubstr("line")));
}

TEST_P(FaultyKernelsTest, MisalignedVectorStore) {
  EXPECT_THAT(report_of("using Four = Vector<float, 4>;"
                        "if (t == 1) *reinterpret_cast<Four*>(out + 2) = Four{{in[0], in[1], in[2], in[3]}};"),
              HasSubstr("misaligned access"));
}

TEST_P(FaultyKernelsTest, MisalignedVectorOfHalvesRead) {
  EXPECT_THAT(report_of("using Eight = Vector<half, 8>; const Eight v = *reinterpret_cast<const Eight*>(in + t);"
                        "float sum = 0; for (int i = 0; i < 8; ++i) sum += to_float(v[i]); out[t] = sum;"),
              HasSubstr("misaligned access"));
}

TEST_P(FaultyKernelsTest, UnwrittenGlobalMemory) {
  EXPECT_THAT(report_of("if (t == 4) out[t] += 1;"),
              AllOf(HasSubstr("read of 4 bytes at array1"), HasSubstr("never written"), HasSubstr("thread 4")));
}

TEST_P(FaultyKernelsTest, UnwrittenSharedMemoryOfTheNextBlock) {
  EXPECT_THAT(
      report_of("if (block_index_x() == 0) shared[t] = 1; block_barrier(); if (block_index_x() == 1) shared[t] += 1;",
                2),
      AllOf(HasSubstr("never written"), HasSubstr("block (1, 0, 0)")));
}

TEST_P(FaultyKernelsTest, AdditionToUnwrittenMemory) {
  EXPECT_THAT(report_of("atomic_add(out, 1);"), AllOf(HasSubstr("atomic addition"), HasSubstr("never written")));
}

TEST_P(FaultyKernelsTest, ReadBeforeTheAsynchronousCopyLanded) {
  EXPECT_THAT(report_of("async_copy<4>(shared + t, in + t); async_commit(); out[t] = shared[t];"),
              AllOf(HasSubstr("asynchronous copy"), HasSubstr("has not landed")));
}

TEST_P(FaultyKernelsTest, TooFewGroupsAwaited) {
  EXPECT_THAT(report_of("async_copy<4>(shared + t, in + t); async_commit(); async_wait<1>(); out[t] = shared[t];"),
              AllOf(HasSubstr("asynchronous copy"), HasSubstr("has not landed")));
}

TEST_P(FaultyKernelsTest, CopyNotCommitted) {
  EXPECT_THAT(report_of("async_copy<4>(shared + t, in + t); async_wait<0>(); out[t] = shared[t];"),
              HasSubstr("has not landed"));
}

TEST_P(FaultyKernelsTest, CopiedByOthersWithoutABarrier) {
  EXPECT_THAT(report_of("async_copy<4>(shared + t, in + t); async_commit(); async_wait<0>(); out[t] = shared[63 - t];"),
              testing::AnyOf(HasSubstr("race"), HasSubstr("has not landed"), HasSubstr("never written")));
}

TEST_P(FaultyKernelsTest, CopyIntoWhatOthersStillRead) {
  EXPECT_THAT(report_of("shared[t] = 1; block_barrier(); out[t] = shared[63 - t];"
                        "async_copy<4>(shared + t, in + t); async_commit(); async_wait<0>();"),
              testing::AnyOf(HasSubstr("race"), HasSubstr("has not landed")));
}

TEST_P(FaultyKernelsTest, MisalignedAsynchronousCopy) {
  EXPECT_THAT(report_of("async_copy<16>(shared + t / 4 * 4, in + 1);"),
              HasSubstr("misaligned asynchronous copy of 16 bytes"));
}

// A warp copies `in` to shared memory in bulk, by a barrier behind it.
constexpr const char* kBulk =
    "BulkBarrier* barrier = reinterpret_cast<BulkBarrier*>(shared + 60); if (t >= 32) return;"
    "if (t == 0) bulk_barrier_init(barrier); warp_barrier();";

TEST_P(FaultyKernelsTest, BulkCopyNotAwaited) {
  EXPECT_THAT(report_of(std::string(kBulk) + "if (t == 0) bulk_copy(shared, in, 128, barrier); warp_barrier();"
                                             "out[t] = shared[t];"),
              AllOf(HasSubstr("bulk copy"), HasSubstr("has not landed")));
}

TEST_P(FaultyKernelsTest, BulkCopyAwaitedInTheWrongPhase) {
  EXPECT_THAT(report_of(std::string(kBulk) + "if (t == 0) bulk_copy(shared, in, 128, barrier); warp_barrier();"
                                             "bulk_wait_in_warp(barrier, 1); out[t] = shared[t];"),
              AllOf(HasSubstr("bulk copy"), HasSubstr("has not landed")));
}

TEST_P(FaultyKernelsTest, BulkCopyNobodyStarts) {
  EXPECT_THAT(report_of(std::string(kBulk) + "bulk_wait_in_warp(barrier, 0); out[t] = shared[t];"),
              AllOf(HasSubstr("deadlock"), HasSubstr("threads 0-31 wait in line"), HasSubstr("bulk copy")));
}

// Who is late may also find the phase turned twice, and waits for ever.
TEST_P(FaultyKernelsTest, BulkCopyIntoWhatOthersStillRead) {
  EXPECT_THAT(
      report_of(std::string(kBulk) + "if (t == 0) bulk_copy(shared, in, 128, barrier); bulk_wait_in_warp(barrier, 0);"
                                     "out[t] = shared[t]; if (t == 0) bulk_copy(shared, in + 32, 128, barrier);"
                                     "bulk_wait_in_warp(barrier, 1); out[t + 32] = shared[t];"),
      testing::AnyOf(HasSubstr("race"), HasSubstr("has not landed"), HasSubstr("deadlock")));
}

TEST_P(FaultyKernelsTest, SecondBulkCopyBeforeTheFirstIsAwaited) {
  EXPECT_THAT(report_of(std::string(kBulk) + "if (t == 0) { bulk_copy(shared, in, 128, barrier);"
                                             "bulk_copy(shared + 32, in, 64, barrier); }"),
              HasSubstr("whose last copies nobody has awaited"));
}

TEST_P(FaultyKernelsTest, BlockEndsBeforeABulkCopyLands) {
  EXPECT_THAT(report_of(std::string(kBulk) + "if (t == 0) bulk_copy(shared, in, 128, barrier);"),
              HasSubstr("the block ends before a bulk copy has landed"));
}

TEST_P(FaultyKernelsTest, BarrierOfBulkCopiesUsedBeforeItIsReady) {
  EXPECT_THAT(report_of("BulkBarrier* barrier = reinterpret_cast<BulkBarrier*>(shared + 60);"
                        "if (t == 0) bulk_barrier_init(barrier);"
                        "if (t == 1) { bulk_copy(shared, in, 128, barrier); bulk_wait_in_warp(barrier, 0); }"),
              testing::AnyOf(HasSubstr("not ready"), HasSubstr("race")));
}

TEST_P(FaultyKernelsTest, MisalignedBulkCopy) {
  EXPECT_THAT(report_of(std::string(kBulk) + "if (t == 0) bulk_copy(shared + 1, in, 128, barrier);"),
              HasSubstr("a bulk copy of 128 bytes"));
  EXPECT_THAT(report_of(std::string(kBulk) + "if (t == 0) bulk_copy(shared, in, 120, barrier);"),
              HasSubstr("a bulk copy of 120 bytes"));
}

TEST_P(FaultyKernelsTest, FreedMemory) {
  KernelBench bench(options());
  const int array = bench.add(std::vector<float>(64, 1.0F));
  ASSERT_TRUE(bench.executor().free(bench.address(array)).ok());
  const Status status =
      bench.run("extern \"C\" __global__ void test(float* a) { if (thread_index() == 3) a[3] += 1; }", 1, 32);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("out of bounds"), HasSubstr("freed"), HasSubstr("array0")));
}

TEST_P(FaultyKernelsTest, LoopThatDoesNotEnd) {
  EmulatorOptions limited = options();
  limited.max_accesses = 100'000;
  limited.max_switches = 10'000;
  for (const char* body : {"while (a[0] == 1) a[1] = 2;", "while (true) block_barrier();"}) {
    KernelBench bench(limited);
    bench.add(std::vector<float>(64, 1.0F));
    const Status status =
        bench.run("extern \"C\" __global__ void test(volatile float* a) { " + std::string(body) + " }", 1, 1);
    EXPECT_THAT(status.message(), HasSubstr("exceeds the limit of")) << body;
  }
}

TEST_P(FaultyKernelsTest, TheExecutorStaysUsable) {
  KernelBench bench(options());
  const int a = bench.add(std::vector<float>(64, 1.0F));
  const auto kernel = [](const char* index) {
    return std::string("extern \"C\" __global__ void test(float* a) { a[") + index + "] = thread_index(); }";
  };
  EXPECT_FALSE(bench.run(kernel("64"), 1, 64).ok());
  const Status status = bench.run(kernel("thread_index()"), 1, 64);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(bench.read<float>(a, 64)[63], 63.0F);
}

TEST(CompileErrorTest, SaysLineAndReason) {
  KernelBench bench;
  const std::string before = kernel_text("");
  const auto line = std::count(before.begin(), before.end(), '\n') + 2;
  const Status status = bench.run("\nextern \"C\" __global__ void test() { undeclared_name = 1; }", 1, 1);
  EXPECT_EQ(status.code(), StatusCode::kInvalidInput);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("kernel test does not compile"), HasSubstr("undeclared_name"),
                                      HasSubstr("test:" + std::to_string(line) + ":")));
}

TEST(CompileErrorTest, NoSuchKernel) {
  KernelBench bench;
  const Status status = bench.run("extern \"C\" __global__ void other() {}", 1, 1);
  EXPECT_EQ(status.code(), StatusCode::kInvalidInput);
  EXPECT_THAT(status.message(), HasSubstr("test"));
}

TEST(CompileErrorTest, PlanAndKernelDisagree) {
  KernelBench bench;
  bench.add_int(1);
  Status status = bench.run("extern \"C\" __global__ void test(const float* a) {}", 1, 1);
  EXPECT_THAT(status.message(), HasSubstr("parameter 0 has 8 bytes, the plan's argument 4"));
  status = bench.run("extern \"C\" __global__ void test(int a, int b) {}", 1, 1);
  EXPECT_THAT(status.message(), HasSubstr("has 2 parameters, its plan 1 arguments"));
}

INSTANTIATE_TEST_SUITE_P(Orders, FaultyKernelsTest, testing::Values(0, 1, 2));

}  // namespace
}  // namespace sparsmith
