// A year of a busy project: a million samples, recorded, compared and drawn up in time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "base/temporary_directory.h"
#include "history/comparison.h"
#include "history/drawn_times.h"
#include "history/series.h"

namespace sparsmith {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr int kCommits = 50;
constexpr int kCases = 90;
constexpr int kRounds = 15;
constexpr int kRepetitions = 15;

// A round of every case of one commit.
std::vector<PerfMeasurement> round_of(int commit, DrawnNoise& noise) {
  std::vector<PerfMeasurement> measurements;
  for (int c = 0; c < kCases; ++c) {
    PerfMeasurement& m = measurements.emplace_back();
    m.key = {fmt::format("layers.{}.mlp.weight N={}", c / 3, 1 << c % 3), "spmm_fp16_token_major_none", "w",
             "sm_90 132 SMs", "cold_weights"};
    m.implementation = {"rows", "rows threads_per_block=128 vector_width=4", "csr_u16", "p", 1000, "plan", {}};
    m.implementation.kernels.push_back({"rows_fp16", fmt::format("cubin{}", commit / 10), 40, 0, {}});
    m.command = "sparsmith bench model.safetensors";
    // A tenth of the cases loses 5 % half way.
    m.samples_us = noise.samples(commit >= kCommits / 2 && c % 10 == 0 ? 21 : 20, kRepetitions);
  }
  return measurements;
}

TEST(Scale, AMillionSamples) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("perf.db");
  PerfStore store = PerfStore::open(path, PerfStore::Mode::kReadWrite).value();
  DrawnNoise noise(Noise::kIndependent, 0.01, 1);
  double recording = 0;
  std::int64_t samples = 0;
  for (int commit = 0; commit < kCommits; ++commit) {
    PerfRun run;
    run.commit = fmt::format("{:040d}", commit);
    run.committed_at = fmt::format("2026-01-{:02}T{:02}:00:00Z", 1 + commit / 24, commit % 24);
    run.environment = {"NVIDIA H200", "570", "13.0", "1980 MHz"};
    for (int round = 0; round < kRounds; ++round) {
      const std::vector<PerfMeasurement> measurements = round_of(commit, noise);
      const auto begin = Clock::now();
      ASSERT_TRUE(store.record(run, measurements).ok());
      recording += seconds_since(begin);
      samples += kCases * kRepetitions;
    }
  }
  ASSERT_GE(samples, 1'000'000);

  auto begin = Clock::now();
  const auto comparison = compare(store, fmt::format("{:040d}", 0), fmt::format("{:040d}", kCommits - 1), {});
  const double comparing = seconds_since(begin);
  ASSERT_TRUE(comparison.ok());
  ASSERT_EQ(comparison->rows.size(), kCases);
  int suspected = 0;
  for (const ComparisonRow& row : comparison->rows) suspected += row.suspected ? 1 : 0;
  EXPECT_EQ(suspected, kCases / 10);

  begin = Clock::now();
  const auto series = load_series(store, {});
  const double drawing_up = seconds_since(begin);
  ASSERT_TRUE(series.ok());
  ASSERT_EQ(series->size(), kCases);
  int changes = 0;
  for (const PerfSeries& one : *series) {
    for (const SeriesChange& change : one.changes) {
      EXPECT_NEAR(static_cast<double>(change.point.index), kCommits / 2.0, 1) << one.key.name;
      ++changes;
    }
  }
  EXPECT_EQ(changes, kCases / 10);

  const std::int64_t bytes = store.counts()->file_bytes;
  fmt::print(
      "{} samples in {:.2f} s ({:.0f}/s), a transaction a round; {:.1f} MB; compared in {:.3f} s; history of {} "
      "cases in {:.2f} s\n",
      samples, recording, static_cast<double>(samples) / recording, static_cast<double>(bytes) / 1e6, comparing, kCases,
      drawing_up);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_GE(static_cast<double>(samples) / recording, 50'000);
  EXPECT_LT(comparing, 2);
  EXPECT_LT(drawing_up, 3);
#endif
  EXPECT_LT(bytes, 100'000'000);
}

}  // namespace
}  // namespace sparsmith
