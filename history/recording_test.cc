#include "history/recording.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "history/suite.h"

namespace sparsmith {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kBench = R"({"device": {"name": "NVIDIA H200", "class": "sm_90 132 SMs", "driver": "570",
  "clock_mhz": 1980.0}, "nvrtc": "13.0", "version": "0.1.0", "seconds": 2.5, "timing_policy": "cold_weights",
  "weights": [{"name": "fc1", "operator": "spmm_fp16", "pattern_hash": "w1", "choices": [
    {"tokens": 1, "evidence": "measured", "config": "rows threads=128", "packing": "csr_u16",
     "packing_hash": "p1", "packed_bytes": 4096, "plan_hash": "l1", "command": "sparsmith bench m",
     "timing": {"samples_us": [2.5, 2.75], "warm": true},
     "binaries": [{"name": "k1", "cubin_hash": "c1", "registers": 40, "spill_bytes": 8,
                   "snippets": {"snippets/prolog/csr_row.cuh": "h1"}}]},
    {"tokens": 8, "config": "dense", "packing": "dense", "evidence": "measured", "timing": {"samples_us": [7]}},
    {"tokens": 64, "config": "dense", "packing": "dense", "evidence": "predicted", "timing": {"samples_us": []}}]}]})";

TEST(BenchJson, EverythingThatTheHistoryKeeps) {
  const auto recording = parse_bench_json(kBench);
  ASSERT_TRUE(recording.ok()) << recording.status().to_string();
  EXPECT_EQ(recording->environment, (PerfEnvironment{"NVIDIA H200", "570", "13.0", "1980 MHz"}));
  EXPECT_EQ(recording->program_version, "0.1.0");
  EXPECT_EQ(recording->search_s, 2.5);
  ASSERT_EQ(recording->measurements.size(), 2U);
  const PerfMeasurement& fc1 = recording->measurements[0];
  EXPECT_EQ(fc1.key, (CaseKey{"fc1 N=1", "spmm_fp16", "w1", "sm_90 132 SMs", "cold_weights (warm)"}));
  EXPECT_THAT(fc1.samples_us, ElementsAre(2.5F, 2.75F));
  EXPECT_EQ(fc1.command, "sparsmith bench m");
  EXPECT_EQ(fc1.implementation.choice, "rows");
  EXPECT_EQ(fc1.implementation.packed_bytes, 4096);
  ASSERT_EQ(fc1.implementation.kernels.size(), 1U);
  EXPECT_EQ(fc1.implementation.kernels[0], (PerfKernel{"k1", "c1", 40, 8, {{"snippets/prolog/csr_row.cuh", "h1"}}}));
  EXPECT_TRUE(fc1.implementation.identified());
  EXPECT_EQ(recording->measurements[1].implementation.choice, "dense");
  EXPECT_FALSE(recording->measurements[1].implementation.identified());
  EXPECT_THAT(recording->left_out, ElementsAre("fc1 N=64: predicted, not measured"));
}

TEST(BenchJson, WhatIsNotThatIsAnError) {
  for (const char* text : {"", "[]", "{}", "nonsense", R"({"device": 3})"}) {
    EXPECT_EQ(parse_bench_json(text).status().code(), StatusCode::kInvalidInput) << text;
    EXPECT_EQ(parse_google_benchmark(text).status().code(), StatusCode::kInvalidInput) << text;
  }
}

TEST(GoogleBenchmark, RepetitionsAreRounds) {
  const auto recording =
      parse_google_benchmark(R"json({"context": {"host_name": "box", "executable": "./b", "num_cpus": 4},
    "benchmarks": [
      {"name": "BM_A/repeats:2", "run_name": "BM_A(x)", "run_type": "iteration", "real_time": 1500, "time_unit": "ns"},
      {"name": "BM_A/repeats:2", "run_name": "BM_A(x)", "run_type": "iteration", "real_time": 2, "time_unit": "ms"},
      {"name": "BM_A_mean", "run_name": "BM_A(x)", "run_type": "aggregate", "real_time": 9, "time_unit": "ns"},
      {"name": "BM_B", "real_time": 0, "time_unit": "ns"}]})json");
  ASSERT_TRUE(recording.ok()) << recording.status().to_string();
  ASSERT_EQ(recording->measurements.size(), 2U);
  EXPECT_THAT(recording->measurements[0].samples_us, ElementsAre(1.5F));
  EXPECT_THAT(recording->measurements[1].samples_us, ElementsAre(2000.0F));
  EXPECT_EQ(recording->measurements[0].key, recording->measurements[1].key);
  EXPECT_EQ(recording->measurements[0].command, R"(./b --benchmark_filter='^BM_A\(x\)$')");
  EXPECT_THAT(recording->left_out, ElementsAre("BM_B: its time is 0 ns"));
}

TEST(Suite, ReadsWhatItSays) {
  const auto suite = parse_suite(R"({"name": "smoke", "rounds": 5, "devices": "cuda:0", "weights": [
    {"file": "m.safetensors", "include": "*.fc1", "tokens": [1, 8], "dtypes": ["fp16", "bf16"], "epilogue": "bias"},
    {"name": "drawn", "synth": {"shape": [64, 32], "sparsity": 0.5, "pattern": "block:4", "seed": 7}}]})");
  ASSERT_TRUE(suite.ok()) << suite.status().to_string();
  EXPECT_EQ(suite->rounds, 5);
  EXPECT_EQ(suite->repetitions, kDefaultRepetitions);
  EXPECT_THAT(suite->devices, ElementsAre("cuda:0"));
  ASSERT_EQ(suite->weights.size(), 2U);
  EXPECT_THAT(suite->weights[0].include, ElementsAre("*.fc1"));
  EXPECT_THAT(suite->weights[0].tokens, ElementsAre(1, 8));
  EXPECT_THAT(suite->weights[0].dtypes, ElementsAre("fp16", "bf16"));
  EXPECT_EQ(suite->weights[1].drawn.cols, 32);
  EXPECT_EQ(suite->weights[1].drawn.seed, 7U);
}

TEST(Suite, SaysWhereItIsWrong) {
  const auto message = [](const std::string& text) { return parse_suite(text).status().message(); };
  EXPECT_THAT(message("{"), ::testing::StartsWith("the suite is not JSON: parse error at line 1, column 2"));
  EXPECT_EQ(message("{}"), R"(the suite: "weights" is missing)");
  EXPECT_EQ(message(R"({"weights": [{}]})"), R"(weights[0]: needs either "file" or "synth")");
  EXPECT_EQ(message(R"({"rounds": 0, "weights": [{"file": "a"}]})"),
            R"(the suite: "rounds" is not an integer from 1 to 1000)");
  EXPECT_EQ(message(R"({"rounds": 1.5, "weights": [{"file": "a"}]})"),
            R"(the suite: "rounds" is not an integer from 1 to 1000)");
  EXPECT_EQ(message(R"({"weights": [{"file": "a", "tokens": [8, 1]}]})"), R"(weights[0]: "tokens" is not ascending)");
  EXPECT_EQ(message(R"({"weights": [{"file": "a", "tokens": [0, 8]}]})"),
            R"(weights[0]: "tokens" holds what is not an integer from 1 to 9223372036854775807)");
  EXPECT_EQ(message(R"({"weights": [{"file": "a", "tokens": []}]})"), R"(weights[0]: "tokens" is not ascending)");
  EXPECT_EQ(message(R"({"weights": [{"file": "a", "accumulation": "fp8"}]})"),
            R"(weights[0]: "accumulation" is none of fp32, fp16_chains)");
  EXPECT_EQ(message(R"({"weights": [{"file": "a", "tokens": [1, 2e101]}]})"),
            R"(weights[0]: "tokens" holds what is not an integer from 1 to 9223372036854775807)");
  EXPECT_EQ(message(R"({"weights": [{"name": "d", "synth": {"shape": [1, 1], "seed": 1e30}}]})"),
            R"(weights[0].synth: "seed" is no integer of 64 bits)");
  for (const char* shape : {"[4]", "[0, 4]", "[4, 0]", "[4, 4, 4]"}) {
    EXPECT_THAT(message(fmt::format(R"({{"weights": [{{"name": "d", "synth": {{"shape": {}}}}}]}})", shape)),
                ::testing::StartsWith(R"(weights[0].synth: "shape" )"))
        << shape;
  }
  EXPECT_TRUE(parse_suite(R"({"weights": [{"name": "d", "synth": {"shape": [1, 1]}}]})").ok());
  EXPECT_EQ(message(R"({"weights": [{"synth": {"shape": [4, 4]}}]})"),
            R"(weights[0]: draws a weight and needs a "name" for it)");
  EXPECT_EQ(message(R"({"weights": [{"name": "d", "include": "x", "synth": {"shape": [4, 4]}}]})"),
            R"(weights[0]: draws one weight: "include" is for files)");
  EXPECT_EQ(message(R"({"weights": [{"file": "a", "name": "d", "synth": {"shape": [4, 4]}}]})"),
            R"(weights[0]: needs either "file" or "synth")");
  EXPECT_EQ(message(R"({"weights": [{"file": "a"}], "round": 3})"), R"(the suite: unknown key "round")");
  EXPECT_THAT(message(R"({"weights": [{"file": 3}]})"), HasSubstr(R"(weights[0]: "file" is not a string)"));
}

}  // namespace
}  // namespace sparsmith
