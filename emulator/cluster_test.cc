// Clusters: what their blocks see of each other, and the mistakes that are reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/kernel_bench.h"

namespace sparsmith {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

using Sizes = std::array<std::int64_t, 3>;

constexpr int kThreads = 48;  // a warp and a half

// Clusters of two blocks, each with an array `own` of a float for each of its threads, which both have `other` of.
class ClusterTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  Status run(const std::string& statements, Sizes grid = {4, 1, 1}, Sizes cluster = {2, 1, 1},
             bool programmatic = false) {
    EmulatorOptions options;
    options.schedule_seed = GetParam();
    bench_.emplace(options);
    bench_->cluster = cluster;
    bench_->programmatic_launch = programmatic;
    const auto blocks = static_cast<std::size_t>(grid[0] * grid[1] * grid[2]);
    y_ = bench_->add(std::vector<float>(blocks * kThreads, -1.0F));
    const auto x = bench_->executor().allocate(1024);
    EXPECT_TRUE(x.ok()) << x.status().to_string();
    bench_->bindings().operands.set("x", *x);
    bench_->arguments().push_back(operand("x"));
    const Status status = bench_->run(
        "template <class T>\n"
        "SPARSMITH_DEVICE T load_cluster(ClusterAddress from, int line = __builtin_LINE()) {\n"
        "  check_cluster_access(from.at, sizeof(T), line);\n"
        "  return *reinterpret_cast<const T*>(from.at);\n"
        "}\n"
        "extern \"C\" __global__ void __launch_bounds__(48) test(float* y, float* x) {\n"
        "  const int t = thread_index();\n"
        "  const int block = block_index_x() + grid_size_x() * (block_index_y() + grid_size_y() * block_index_z());\n"
        "  float* own = reinterpret_cast<float*>(shared_memory());\n"
        "  const auto other = [&](int i, int distance = 1) {\n"
        "    return advanced(in_block(shared_address(own), cluster_rank() ^ distance), i * 4);\n"
        "  };\n" +
            statements + "\n}",
        grid, kThreads, kThreads * 4);
    if (status.ok()) values_ = bench_->read<float>(y_, blocks * kThreads);
    return status;
  }
  std::string error_of(const std::string& statements) {
    const Status status = run(statements);
    EXPECT_FALSE(status.ok()) << "nothing was found";
    return status.ok() ? "" : status.to_string();
  }

  std::optional<KernelBench> bench_;
  int y_ = 0;
  std::vector<float> values_;
};

// Every thread leaves a number, and takes that of its neighbour's opposite number.
constexpr const char* kExchange = R"(
  own[t] = block * 100.0F + t;
  cluster_arrive();
  cluster_wait();
  y[block * 48 + t] = load_cluster<float>(other(47 - t));
  cluster_arrive();
  cluster_wait();)";

TEST_P(ClusterTest, BlocksReadEachOther) {
  ASSERT_TRUE(run(kExchange).ok());
  for (int i = 0; i < 4 * kThreads; ++i)
    EXPECT_EQ(values_[static_cast<std::size_t>(i)], (i / kThreads ^ 1) * 100 + 47 - i % kThreads) << i;
}

TEST_P(ClusterTest, RanksGoAlongXThenYThenZ) {
  const Sizes grid = {4, 6, 2};
  const Sizes cluster = {2, 3, 2};
  const Status status = run("y[block * 48 + t] = static_cast<float>(cluster_rank());", grid, cluster);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (int z = 0; z < 2; ++z)
    for (int y = 0; y < 6; ++y)
      for (int x = 0; x < 4; ++x)
        EXPECT_EQ(values_[static_cast<std::size_t>((x + 4 * (y + 6 * z)) * kThreads)], x % 2 + 2 * (y % 3 + 3 * z));
}

TEST_P(ClusterTest, BlocksWriteToEachOther) {
  const Status status = run(R"(
    cluster_arrive();
    cluster_wait();
    for (int i = t; i < 12; i += 48) store_cluster(other(4 * i), Vector<float, 4>{{1.0F + block, 2.0F, 3.0F, 4.0F}});
    cluster_arrive();
    cluster_wait();
    y[block * 48 + t] = own[t];)");
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (int i = 0; i < 4 * kThreads; ++i) {
    const float expected = i % 4 == 0 ? static_cast<float>(1 + (i / kThreads ^ 1)) : static_cast<float>(1 + i % 4);
    EXPECT_EQ(values_[static_cast<std::size_t>(i)], expected) << i;
  }
}

TEST_P(ClusterTest, ALaunchWithoutOneIsAClusterOfOneBlock) {
  const Status status = run(R"(
    own[t] = t;
    cluster_arrive();
    cluster_wait();
    y[block * 48 + t] = load_cluster<float>(other(47 - t, 0)) + cluster_rank();)",
                            {2, 1, 1}, {1, 1, 1});
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (int i = 0; i < 2 * kThreads; ++i) EXPECT_EQ(values_[static_cast<std::size_t>(i)], 47 - i % kThreads) << i;
}

// Block barriers order a block's own threads, as ever, in every block by itself.
TEST_P(ClusterTest, BlockBarriersCountTheirBlockAlone) {
  const Status status = run(R"(
    for (int i = 0; i <= cluster_rank(); ++i) {
      own[t] = t + i;
      block_barrier();
      const float next = own[(t + 1) % 48];
      block_barrier();
      own[t] = next;
    }
    cluster_arrive();
    block_barrier();
    cluster_wait();
    y[block * 48 + t] = load_cluster<float>(other(t));
    cluster_arrive();
    cluster_wait();)");
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (int i = 0; i < 4 * kThreads; ++i) {
    const int passes = 2 - i / kThreads % 2;
    EXPECT_EQ(values_[static_cast<std::size_t>(i)], (i % kThreads + 1) % kThreads + passes - 1) << i;
  }
}

TEST_P(ClusterTest, OneThreadThatHasWaitedForThePreviousIsEnoughForAll) {
  const Status status = run(R"(
    if (block % 2 == 0 && t == 0) wait_for_previous();
    cluster_arrive();
    cluster_wait();
    x[block * 48 + t] = 1.0F;)",
                            {4, 1, 1}, {2, 1, 1}, true);
  ASSERT_TRUE(status.ok()) << status.to_string();
}

TEST_P(ClusterTest, EveryBlockHasToWaitForThePrevious) {
  const Status status = run("if (block % 2 == 0) wait_for_previous();", {4, 1, 1}, {2, 1, 1}, true);
  EXPECT_THAT(status.to_string(), HasSubstr("block (1, 0, 0)"));
  EXPECT_THAT(status.to_string(), HasSubstr("ends without having waited"));
}

TEST_P(ClusterTest, ABlockThatMayNotRunYetIsNotTouched) {
  EXPECT_THAT(error_of("store_cluster(other(t), 1.0F);"), HasSubstr("before it has met its threads"));
}

TEST_P(ClusterTest, ABlockThatHasEndedIsNotTouched) {
  const std::string error = error_of(R"(
    own[t] = t;
    cluster_arrive();
    cluster_wait();
    if (cluster_rank() == 0) return;
    for (int i = 0; i < 48; ++i) block_barrier();
    y[block * 48 + t] = load_cluster<float>(other(t));)");
  EXPECT_THAT(error, HasSubstr("touches shared memory of block (0, 0, 0) which has ended"));
}

TEST_P(ClusterTest, NothingIsTouchedBetweenArrivalAndWait) {
  EXPECT_THAT(error_of(R"(
    own[t] = t;
    cluster_arrive();
    y[block * 48 + t] = load_cluster<float>(other(t));
    cluster_wait();)"),
              HasSubstr("between its arrival at the cluster's barrier and its wait"));
}

TEST_P(ClusterTest, WhatIsWrittenBehindTheArrivalIsNotOrdered) {
  EXPECT_THAT(error_of(R"(
    cluster_arrive();
    own[t] = t;
    cluster_wait();
    y[block * 48 + t] = load_cluster<float>(other(47 - t));
    cluster_arrive();
    cluster_wait();)"),
              AnyOf(HasSubstr("never written"), HasSubstr("race:")));
}

TEST_P(ClusterTest, ABlockBarrierOrdersNothingBetweenBlocks) {
  const std::string error = error_of(R"(
    own[t] = t;
    cluster_arrive();
    cluster_wait();
    store_cluster(other(t), 1.0F);
    block_barrier();
    y[block * 48 + t] = own[t];
    cluster_arrive();
    cluster_wait();)");
  EXPECT_THAT(error, HasSubstr("race: "));
  EXPECT_THAT(error, AnyOf(HasSubstr("of block (0, 0, 0)"), HasSubstr("of block (1, 0, 0)")));
}

// Which lane it was is not known any more; its cluster is.
TEST_P(ClusterTest, ARaceWithAWarpOfAnotherClusterNamesTheCluster) {
  EXPECT_THAT(error_of("if (block == 0 && t < 32) own[t] = y[0]; if (block == 2 && t == 0) y[0] = 1;"),
              HasSubstr("a read by a thread of the cluster at block (0, 0, 0)"));
}

TEST_P(ClusterTest, WhatOthersStillReadIsNotOverwritten) {
  EXPECT_THAT(error_of(R"(
    own[t] = t;
    cluster_arrive();
    cluster_wait();
    y[block * 48 + t] = load_cluster<float>(other(47 - t));
    block_barrier();
    own[t] = 0.0F;
    cluster_arrive();
    cluster_wait();)"),
              HasSubstr("race: "));
}

TEST_P(ClusterTest, BeyondSharedMemoryOfTheOtherBlock) {
  EXPECT_THAT(error_of("cluster_arrive(); cluster_wait(); store_cluster(other(t + 1), 1.0F); cluster_arrive(); "
                       "cluster_wait();"),
              HasSubstr("out of bounds: write of 4 bytes at shared memory + 192 (the launch has 192 bytes) of block"));
}

TEST_P(ClusterTest, MistakesAtTheBarrier) {
  EXPECT_THAT(error_of("cluster_arrive(); cluster_arrive();"), HasSubstr("arrives at the cluster's barrier again"));
  EXPECT_THAT(error_of("cluster_wait();"), HasSubstr("waits at the cluster's barrier, where it has not arrived"));
  const std::string stuck = error_of(R"(
    if (t == 5) block_barrier();
    cluster_arrive();
    cluster_wait();)");
  EXPECT_THAT(stuck, HasSubstr("deadlock"));
  EXPECT_THAT(stuck, HasSubstr("threads 5 of block (1, 0, 0) wait at the block barrier"));
  EXPECT_THAT(stuck, HasSubstr("threads 0-4, 6-47 of block (0, 0, 0) wait at the cluster's barrier"));
  EXPECT_THAT(error_of("in_block(shared_address(own), 2);"), HasSubstr("asks for block 2 of a cluster of 2"));
}

TEST_P(ClusterTest, WhoReturnsIsNotWaitedFor) {
  const Status status = run(R"(
    own[t] = t;
    if (t >= 40) return;
    cluster_arrive();
    cluster_wait();
    y[block * 48 + t] = load_cluster<float>(other(t));
    cluster_arrive();
    cluster_wait();)");
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(values_[39], 39);
}

TEST_P(ClusterTest, SizesThatNoClusterHas) {
  EXPECT_THAT(run(kExchange, {3, 1, 1}).to_string(), HasSubstr("in clusters of 2 x 1 x 1"));
  EXPECT_THAT(run(kExchange, {34, 1, 1}, {17, 1, 1}).to_string(),
              HasSubstr("a cluster of 17 x 1 x 1 blocks; 16 are the most"));
  EXPECT_THAT(run(kExchange, {4, 1, 1}, {0, 1, 1}).to_string(),
              HasSubstr("a cluster of 0 x 1 x 1 blocks; 16 are the most"));
  EmulatorOptions options;
  options.compute_capability = 80;
  KernelBench ampere(options);
  ampere.cluster = {2, 1, 1};
  EXPECT_THAT(ampere.run("extern \"C\" __global__ void test() {}", 2, 32).to_string(), HasSubstr("sm_80 has none"));
}

INSTANTIATE_TEST_SUITE_P(Schedules, ClusterTest, testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace sparsmith
