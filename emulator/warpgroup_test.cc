// Products of warpgroups: what they compute, and the mistakes that are reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/half.h"
#include "tests/support/kernel_bench.h"

namespace sparsmith {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr std::size_t kTokens = 64;
constexpr std::size_t kColumns = 128;

// Two products of 64 x 16 by 16 x 128, of columns [16, 32) and [32, 48) of 64. a [64][64] and b [128][64] lie as usual
// in global memory; b comes to shared memory in rows of 128 bytes whose 16-byte chunk h is at h ^ (row % 8). d
// [64][128].
constexpr const char* kProducts = R"(
extern "C" __global__ void __launch_bounds__(128) test(const u16* a, const u16* b, float* d) {
  u8* shared = shared_memory();
  const int lane = thread_index() % 32;
  const int group = lane / 4;
  const int pair = lane % 4 * 2;
  for (int i = thread_index(); i < 128 * 8; i += 128) {
    const int row = i / 8;
    const int chunk = i % 8;
    *reinterpret_cast<Vector<u32, 4>*>(shared + row * 128 + (chunk ^ (row % 8)) * 16) =
        *reinterpret_cast<const Vector<u32, 4>*>(b + row * 64 + chunk * 8);
  }
  float sums[64];
  for (int i = 0; i < 64; ++i) sums[i] = 1.0F;
  tensor_reads_follow();
  warpgroup_barrier(0);
  warpgroup_multiply_begin();
  for (int step = 1; step <= 2; ++step) {
    u32 words[4];
    for (int i = 0; i < 4; ++i) {
      const int row = thread_index() / 32 * 16 + group + i % 2 * 8;
      words[i] = *reinterpret_cast<const u32*>(a + row * 64 + step * 16 + pair + i / 2 * 8);
    }
    WarpgroupMultiply<half, 128>::add(sums, words, advanced(swizzled_rows(shared_offset(shared)), step * 32));
  }
  warpgroup_multiply_commit();
  warpgroup_multiply_wait();
  warpgroup_barrier(0);
  shared[thread_index()] = 0;
  for (int i = 0; i < 64; ++i) {
    const int row = thread_index() / 32 * 16 + group + i / 2 % 2 * 8;
    d[row * 128 + i / 4 * 8 + pair + i % 2] = sums[i];
  }
})";

class WarpgroupTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  // kProducts with `from` replaced.
  Status run(const std::string& from = "", const std::string& to = "") {
    EmulatorOptions options;
    options.schedule_seed = GetParam();
    bench_ = std::make_unique<KernelBench>(options);
    std::mt19937 random(7);
    const auto draw = [&](std::size_t count) {
      std::vector<std::uint16_t> values(count);
      for (std::uint16_t& value : values)
        value = fp16_from_float(static_cast<float>(static_cast<int>(random() % 17) - 8) / 4.0F);
      return values;
    };
    a_ = draw(kTokens * 64);
    b_ = draw(kColumns * 64);
    bench_->add(a_);
    bench_->add(b_);
    d_ = bench_->add_unwritten<float>(kTokens * kColumns);
    std::string text = kProducts;
    if (!from.empty()) {
      const std::size_t at = text.find(from);
      EXPECT_NE(at, std::string::npos) << from;
      text.replace(at, from.size(), to);
    }
    return bench_->run(text, 1, 128, kColumns * 128 + 128);
  }

  std::unique_ptr<KernelBench> bench_;
  std::vector<std::uint16_t> a_;
  std::vector<std::uint16_t> b_;
  int d_ = 0;
};

TEST_P(WarpgroupTest, MultipliesSwizzledRows) {
  const Status status = run();
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<float> d = bench_->read<float>(d_, kTokens * kColumns);
  for (std::size_t token = 0; token < kTokens; ++token) {
    for (std::size_t column = 0; column < kColumns; ++column) {
      float expected = 1.0F;
      for (std::size_t k = 16; k < 48; ++k)
        expected += float_from_fp16(a_[token * 64 + k]) * float_from_fp16(b_[column * 64 + k]);
      ASSERT_EQ(d[token * kColumns + column], expected) << token << " " << column;
    }
  }
}

TEST_P(WarpgroupTest, SumsAreNotThereBeforeTheWait) {
  const Status status = run("warpgroup_multiply_wait();\n",
                            "const float early = sums[0]; warpgroup_multiply_wait(); "
                            "sums[0] = early;\n");
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(std::isnan(bench_->read<float>(d_, 1)[0]));
}

TEST_P(WarpgroupTest, TensorCoresNeedNotSeeWhatTheyDoNotRead) {
  const Status status = run("tensor_reads_follow();", "tensor_reads_follow(); shared[128 * 128 + thread_index()] = 0;");
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_P(WarpgroupTest, MistakesAreReported) {
  const auto report = [&](const std::string& from, const std::string& to = "") {
    const Status status = run(from, to);
    EXPECT_EQ(status.code(), StatusCode::kDeviceError) << from << " -> " << to;
    return status.message();
  };
  // Nobody waited for the other warps' rows, or let them read before writing.
  EXPECT_THAT(report("warpgroup_barrier(0);\n  warpgroup_multiply_begin", "warpgroup_multiply_begin"),
              AnyOf(HasSubstr("race"), HasSubstr("never written")));
  EXPECT_THAT(report("warpgroup_barrier(0);\n  shared[", "shared["), HasSubstr("race"));
  EXPECT_THAT(report("warpgroup_barrier(0);\n  warpgroup", "warp_barrier();\n  warpgroup"),
              AnyOf(HasSubstr("race"), HasSubstr("never written")));
  EXPECT_THAT(report("tensor_reads_follow();"), HasSubstr("it did not say that tensor cores would read it"));
  EXPECT_THAT(
      report("tensor_reads_follow();", "tensor_reads_follow(); if (thread_index() == 120) shared[128 * 128 - 1] = 0;"),
      HasSubstr("it did not say that tensor cores would read it"));
  EXPECT_THAT(report("warpgroup_multiply_begin();"), HasSubstr("has not been begun"));
  EXPECT_THAT(report("warpgroup_multiply_commit();"), HasSubstr("nobody waited for it"));
  EXPECT_THAT(report("warpgroup_multiply_wait();"), HasSubstr("nobody waited for it"));
  EXPECT_THAT(report("step * 32)", "step * 32 + (lane == 5 ? 32 : 0))"), HasSubstr("different products"));
  EXPECT_THAT(report("step <= 2", "step <= (thread_index() < 32 ? 1 : 2)"), HasSubstr("the same products"));
  EXPECT_THAT(report("warpgroup_barrier(0);", "warpgroup_barrier(1);"), HasSubstr("not its own"));
  EXPECT_THAT(report("warpgroup_barrier(0);", "if (thread_index() == 7) return; warpgroup_barrier(0);"),
              HasSubstr("wait at the warpgroup's barrier"));
  EXPECT_THAT(
      report("warpgroup_barrier(0);", "if (lane == 3) { warpgroup_barrier(0);\n } else { warpgroup_barrier(0); }"),
      HasSubstr("divergence at a warpgroup's barrier"));
}

// A product of 64 x 32 by 32 x 64, of columns [32, 64) of 64, of which a holds two in each group of four: places p and
// q of them in `places` [64][8], as p + 4 q.
constexpr const char* kSparseProduct = R"(
extern "C" __global__ void __launch_bounds__(128) test(const u32* a, const u8* places, const u16* b, float* d) {
  u8* shared = shared_memory();
  const int lane = thread_index() % 32;
  const int row = thread_index() / 32 * 16 + lane / 4;
  for (int i = thread_index(); i < 64 * 8; i += 128) {
    *reinterpret_cast<Vector<u32, 4>*>(shared + i / 8 * 128 + (i % 8 ^ (i / 8 % 8)) * 16) =
        *reinterpret_cast<const Vector<u32, 4>*>(b + i * 8);
  }
  tensor_reads_follow();
  warpgroup_barrier(0);
  float sums[32] = {};
  u32 words[4];
  for (int i = 0; i < 4; ++i) words[i] = a[(row + i % 2 * 8) * 8 + lane % 4 + i / 2 * 4];
  u32 metadata = 0;
  if (lane % 4 / 2 == 1) {
    for (int i = 0; i < 8; ++i) metadata |= places[(row + i / 4 * 8) * 8 + lane % 2 * 4 + i % 4] << 4 * i;
  }
  warpgroup_multiply_begin();
  SparseWarpgroupMultiply<half, 64>::add<1>(sums, words, metadata, advanced(swizzled_rows(shared_offset(shared)), 64));
  warpgroup_multiply_commit();
  warpgroup_multiply_wait();
  for (int i = 0; i < 32; ++i) d[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + lane % 4 * 2 + i % 2] = sums[i];
})";

TEST_P(WarpgroupTest, MultipliesWhatTheMetadataNames) {
  std::mt19937 random(11);
  const auto draw = [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8) / 4.0F; };
  std::vector<std::uint32_t> a(64 * 8);
  std::vector<std::uint8_t> places(64 * 8);
  std::vector<float> dense(64 * 32);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::uint32_t first = random() % 3;
    const std::uint32_t second = first + 1 + random() % (3 - first);
    places[i] = static_cast<std::uint8_t>(first + 4 * second);
    dense[i * 4 + first] = draw();
    dense[i * 4 + second] = draw();
    a[i] = fp16_from_float(dense[i * 4 + first]) | static_cast<std::uint32_t>(fp16_from_float(dense[i * 4 + second]))
                                                       << 16;
  }
  std::vector<float> b_values(64 * 64);
  std::vector<std::uint16_t> b(b_values.size());
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = fp16_from_float(b_values[i] = draw());
  const auto run_product = [&](const std::vector<std::uint8_t>& of_places, std::vector<float>& d) {
    EmulatorOptions options;
    options.schedule_seed = GetParam();
    KernelBench bench(options);
    bench.add(a);
    bench.add(of_places);
    bench.add(b);
    const int at = bench.add_unwritten<float>(64 * 64);
    const Status status = bench.run(kSparseProduct, 1, 128, 64 * 128);
    if (status.ok()) d = bench.read<float>(at, 64 * 64);
    return status;
  };
  std::vector<float> d;
  const Status status = run_product(places, d);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (std::size_t row = 0; row < 64; ++row) {
    for (std::size_t column = 0; column < 64; ++column) {
      float expected = 0;
      for (std::size_t k = 0; k < 32; ++k) expected += dense[row * 32 + k] * b_values[column * 64 + 32 + k];
      ASSERT_EQ(d[row * 64 + column], expected) << row << " " << column;
    }
  }
  places[9] = 2 + 4 * 1;
  EXPECT_THAT(run_product(places, d).message(), HasSubstr("names elements 2 and 1 of a group: row 1, group 1"));
}

// A product of 64 x 16 by 16 x 192, of tokens [16, 32) of 32. Both operands lie turned: a [32][64] in lines of 128
// bytes, b [32][192] in boxes of kLine bytes a token; 16-byte chunk h of line r is at h ^ (r % 8), or in lines of 64
// bytes at h ^ (r / 2 % 4).
constexpr const char* kPutTurned = R"(
SPARSMITH_DEVICE void put(u8* box, const u16* from, int stride, int chunk, int line, int token) {
  const int chunks = line / 16;
  *reinterpret_cast<Vector<u32, 4>*>(box + token * line + (chunk ^ (token * chunks / 8 % chunks)) * 16) =
      *reinterpret_cast<const Vector<u32, 4>*>(from + token * stride + chunk * 8);
}
)";
constexpr const char* kTurnedProduct = R"(
extern "C" __global__ void __launch_bounds__(128) test(const u16* a, const u16* b, float* d) {
  constexpr int kBox = 32 * kLine;
  u8* shared = shared_memory();
  u8* boxes = shared + 32 * 128;
  for (int i = thread_index(); i < 32 * 8; i += 128) put(shared, a, 64, i % 8, 128, i / 8);
  for (int i = thread_index(); i < 32 * 24; i += 128) {
    const int column = i % 24 * 8;
    const int box = column / (kLine / 2);
    put(boxes + box * kBox, b + box * (kLine / 2), 192, column % (kLine / 2) / 8, kLine, i / 24);
  }
  tensor_reads_follow();
  warpgroup_barrier(0);
  float sums[96] = {};
  warpgroup_multiply_begin();
  TurnedMultiply<half, 192>::add<kLine, kBox>(sums, advanced(swizzled_rows(shared_offset(shared)), 16 * 128),
                                              advanced(swizzled_rows(shared_offset(boxes)), 16 * kLine));
  warpgroup_multiply_commit();
  warpgroup_multiply_wait();
  const int row = thread_index() / 32 * 16 + thread_index() % 32 / 4;
  for (int i = 0; i < 96; ++i)
    d[(row + i / 2 % 2 * 8) * 192 + i / 4 * 8 + thread_index() % 4 * 2 + i % 2] = sums[i];
})";

std::vector<float> draw_values(std::mt19937& random, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 17) - 8) / 4.0F;
  return values;
}
std::vector<std::uint16_t> halves(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (const float value : values) bits.push_back(fp16_from_float(value));
  return bits;
}

// Runs `text`, in which `from` has become `to`, on a and b for d of so many floats.
Status run_turned(std::uint64_t seed, std::string text, const std::string& from, const std::string& to,
                  const std::vector<float>& a, const std::vector<float>& b, std::size_t floats, std::vector<float>& d) {
  EmulatorOptions options;
  options.schedule_seed = seed;
  KernelBench bench(options);
  bench.add(halves(a));
  bench.add(halves(b));
  const int at = bench.add_unwritten<float>(floats);
  text.insert(0, kPutTurned);
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  const Status status = bench.run(text, 1, 128, 2 * static_cast<int>(a.size() + b.size()));
  if (status.ok()) d = bench.read<float>(at, floats);
  return status;
}

TEST_P(WarpgroupTest, MultipliesTurnedOperands) {
  std::mt19937 random(13);
  const std::vector<float> a = draw_values(random, 32 * 64);
  const std::vector<float> b = draw_values(random, 32 * 192);
  for (const int line : {64, 128}) {
    const auto run_product = [&](const std::string& from, const std::string& to, std::vector<float>& d) {
      const std::string text = "constexpr int kLine = " + std::to_string(line) + ";" + kTurnedProduct;
      return run_turned(GetParam(), text, from, to, a, b, std::size_t{64} * 192, d);
    };
    std::vector<float> d;
    const Status status = run_product("", "", d);
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (std::size_t row = 0; row < 64; ++row) {
      for (std::size_t column = 0; column < 192; ++column) {
        float expected = 0;
        for (std::size_t k = 16; k < 32; ++k) expected += a[k * 64 + row] * b[k * 192 + column];
        ASSERT_EQ(d[row * 192 + column], expected) << row << " " << column;
      }
    }
    EXPECT_THAT(run_product("16 * kLine)", "17 * kLine)", d).message(), HasSubstr("a multiple of eight lines"));
    EXPECT_THAT(run_product("i < 32 * 24;", "i < 32 * 24 - 1;", d).message(), HasSubstr("never written"));
    EXPECT_THAT(
        run_product("warpgroup_barrier(0);", "warpgroup_barrier(0); boxes[kBox + 16 * kLine] = 0;", d).message(),
        AnyOf(HasSubstr("race"), HasSubstr("did not say that tensor cores would read it")));
    EXPECT_THAT(run_product("tensor_reads_follow();", "", d).message(),
                HasSubstr("did not say that tensor cores would read it"));
  }
}

// A product of 64 x 16 by 16 x 32, of tokens [16, 32) of 32. a [32][128] lies in four boxes of 32 rows, of which the
// second and the last one are multiplied; b [32][64] in one box, of which the second half is.
constexpr const char* kPairProduct = R"(
extern "C" __global__ void __launch_bounds__(128) test(const u16* a, const u16* b, float* d) {
  constexpr int kBox = 32 * 64;
  u8* shared = shared_memory();
  u8* inputs = shared + 4 * kBox;
  for (int i = thread_index(); i < 32 * 16; i += 128)
    put(shared + i % 16 / 4 * kBox, a + i % 16 / 4 * 32, 128, i % 4, 64, i / 16);
  for (int i = thread_index(); i < 32 * 8; i += 128) put(inputs, b, 64, i % 8, 128, i / 8);
  tensor_reads_follow();
  warpgroup_barrier(0);
  float sums[16];
  begin_sums(sums);
  warpgroup_multiply_begin();
  PairMultiply<half>::add(sums, advanced(swizzled_pair(shared_offset(shared + kBox), 2 * kBox), 16 * 64),
                          advanced(swizzled_rows(shared_offset(inputs) + 64), 16 * 128));
  warpgroup_multiply_commit();
  warpgroup_multiply_wait();
  const int row = thread_index() / 32 * 16 + thread_index() % 32 / 4;
  for (int i = 0; i < 16; ++i)
    d[(row + i / 2 % 2 * 8) * 32 + i / 4 * 8 + thread_index() % 4 * 2 + i % 2] = sums[i];
})";

TEST_P(WarpgroupTest, MultipliesAnyTwoBands) {
  std::mt19937 random(14);
  const std::vector<float> a = draw_values(random, 32 * 128);
  const std::vector<float> b = draw_values(random, 32 * 64);
  const auto run_product = [&](const std::string& from, const std::string& to, std::vector<float>& d) {
    return run_turned(GetParam(), kPairProduct, from, to, a, b, std::size_t{64} * 32, d);
  };
  std::vector<float> d;
  const Status status = run_product("", "", d);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (std::size_t row = 0; row < 64; ++row) {
    for (std::size_t column = 0; column < 32; ++column) {
      float expected = 0;
      for (std::size_t k = 16; k < 32; ++k)
        expected += a[k * 128 + 32 + row % 32 + row / 32 * 64] * b[k * 64 + 32 + column];
      ASSERT_EQ(d[row * 32 + column], expected) << row << " " << column;
    }
  }
  for (const char* misplaced : {"+ 32), 16 * 128", "+ 64), 17 * 128"})
    EXPECT_THAT(run_product("+ 64), 16 * 128", misplaced, d).message(), HasSubstr("a multiple of eight lines"));
  EXPECT_THAT(run_product("2 * kBox)", "2 * kBox + 16)", d).message(), HasSubstr("a multiple of eight lines"));
  EXPECT_THAT(run_product("tensor_reads_follow();", "", d).message(),
              HasSubstr("did not say that tensor cores would read it"));
  EXPECT_THAT(run_product("i < 32 * 16;", "i < 32 * 16 - 1;", d).message(), HasSubstr("never written"));
}

// Threads of different warpgroups are ordered by block barriers alone.
TEST_P(WarpgroupTest, BarriersOrderOneWarpgroup) {
  const auto run_two = [&](const std::string& body) {
    EmulatorOptions options;
    options.schedule_seed = GetParam();
    KernelBench bench(options);
    bench.add_unwritten<std::uint32_t>(256);
    return bench.run(
        "extern \"C\" __global__ void __launch_bounds__(256) test(u32* out) {\n"
        "u32* shared = reinterpret_cast<u32*>(shared_memory()); const int t = thread_index();\n" +
            body + "}",
        1, 256, 1024);
  };
  const std::string fill = "shared[t] = 1; block_barrier(); shared[t] = 2; warpgroup_barrier(t / 128);";
  const Status own = run_two(fill + "out[t] = shared[t ^ 127]; warpgroup_barrier(t / 128); shared[t] = 3;");
  EXPECT_TRUE(own.ok()) << own.to_string();
  EXPECT_THAT(run_two(fill + "out[t] = shared[t ^ 128];").message(), HasSubstr("race"));
  EXPECT_THAT(run_two(fill + "out[t] = shared[t ^ 127]; shared[t] = 3;").message(), HasSubstr("race"));
  // A read by the other warpgroup, which a barrier of this one does not order in front of its write.
  EXPECT_THAT(run_two("shared[t] = 1; block_barrier(); if (t == 200) out[t] = shared[5]; warpgroup_barrier(t / 128);"
                      "warpgroup_barrier(t / 128); if (t == 5) shared[5] = 2;")
                  .message(),
              HasSubstr("race"));
  const Status met = run_two(fill + "block_barrier(); out[t] = shared[t ^ 128];");
  EXPECT_TRUE(met.ok()) << met.to_string();
}

// What a thread of another warpgroup has handed over at a barrier in shared memory is seen behind this warpgroup's own
// barrier too, by threads that did not wait there.
TEST_P(WarpgroupTest, BarriersKeepWhatArrivalsHaveOrdered) {
  const auto run_three = [&](const std::string& from, const std::string& to) {
    EmulatorOptions options;
    options.schedule_seed = GetParam();
    KernelBench bench(options);
    bench.add_unwritten<std::uint32_t>(128);
    std::string text = R"(
extern "C" __global__ void __launch_bounds__(256) test(u32* out) {
  u32* shared = reinterpret_cast<u32*>(shared_memory());
  auto* full = reinterpret_cast<ArrivalBarrier*>(shared + 256);
  const int t = thread_index();
  if (t == 0) arrival_barrier_init(full, 1);
  block_barrier();
  if (t == 128) {
    shared[7] = 5;
    arrive(full);
  }
  if (t < 128) {
    if (t < 32) await(full, 0);
    warpgroup_barrier(0);
    out[t] = shared[7];
  }
})";
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    return bench.run(text, 1, 256, 1024 + 8);
  };
  const Status status = run_three("", "");
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_THAT(run_three("if (t < 32) await(full, 0);", "").message(),
              AnyOf(HasSubstr("race"), HasSubstr("never written")));
  EXPECT_THAT(run_three("warpgroup_barrier(0);", "").message(), AnyOf(HasSubstr("race"), HasSubstr("never written")));
}

TEST_P(WarpgroupTest, AllThreadsOfAWarpgroupVote) {
  EmulatorOptions options;
  options.schedule_seed = GetParam();
  KernelBench bench(options);
  const int out = bench.add_unwritten<std::uint32_t>(256);
  const Status status = bench.run(
      "extern \"C\" __global__ void __launch_bounds__(256) test(u32* out) {\n"
      "const int t = thread_index(); u32 votes = 0;\n"
      "for (int i = 0; i < 4; ++i) votes |= (warpgroup_all(t / 128, t != 128 + 37 * i) ? 1U : 0U) << i;\n"
      "out[t] = votes; }",
      1, 256, 0);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const auto votes = bench.read<std::uint32_t>(out, 256);
  for (std::size_t t = 0; t < 256; ++t) EXPECT_EQ(votes[t], t < 128 ? 15U : 0U) << t;
}

INSTANTIATE_TEST_SUITE_P(Orders, WarpgroupTest, testing::Values(0, 1, 2));

}  // namespace
}  // namespace sparsmith
