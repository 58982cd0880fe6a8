// A year of a busy project, for tests: a million samples, a tenth of whose cases lose 5 % half way.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "history/store.h"
#include "tests/support/drawn_times.h"

namespace sparsmith {

struct DrawnHistory {
  static constexpr int kCommits = 50;
  static constexpr int kCases = 90;
  static constexpr int kRounds = 15;
  static constexpr int kRepetitions = 15;

  static std::string commit(int number) { return fmt::format("{:040d}", number); }

  std::int64_t samples = 0;  // recorded
  double seconds = 0;        // that took, a transaction a round

  // A round of every case of one commit.
  static std::vector<PerfMeasurement> round_of(int commit, DrawnNoise& noise) {
    std::vector<PerfMeasurement> measurements;
    for (int c = 0; c < kCases; ++c) {
      PerfMeasurement& m = measurements.emplace_back();
      m.key = {fmt::format("layers.{}.mlp.weight N={}", c / 3, 1 << c % 3), "spmm_fp16_token_major_none", "w",
               "sm_90 132 SMs", "cold_weights"};
      m.implementation = {"rows", "rows threads_per_block=128 vector_width=4", "csr_u16", "p", 1000, "plan", {}};
      m.implementation.kernels.push_back({"rows_fp16", fmt::format("cubin{}", commit / 10), 40, 0, {}});
      m.command = "sparsmith bench model.safetensors";
      m.samples_us = noise.samples(commit >= kCommits / 2 && c % 10 == 0 ? 21 : 20, kRepetitions);
    }
    return measurements;
  }

  Status record(PerfStore& store) {
    DrawnNoise noise(Noise::kIndependent, 0.01, 1);
    for (int number = 0; number < kCommits; ++number) {
      PerfRun run;
      run.commit = commit(number);
      run.committed_at = fmt::format("2026-01-{:02}T{:02}:00:00Z", 1 + number / 24, number % 24);
      run.environment = {"NVIDIA H200", "570", "13.0", "1980 MHz"};
      for (int round = 0; round < kRounds; ++round) {
        const std::vector<PerfMeasurement> measurements = round_of(number, noise);
        const auto begin = std::chrono::steady_clock::now();
        SPARSMITH_RETURN_IF_ERROR(store.record(run, measurements));
        seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        samples += std::int64_t{kCases} * kRepetitions;
      }
    }
    return {};
  }
};

}  // namespace sparsmith
