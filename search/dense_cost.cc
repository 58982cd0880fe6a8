#include "search/dense_cost.h"

#include <algorithm>

namespace sparsmith {
namespace {

// What cuBLAS shows on an H200 at N = 1 and 8, fp16, 4096^2 to 8192 x 32768.
constexpr double kLaunchMicroseconds = 5;
constexpr double kReachedBandwidth = 0.85;  // of the peak
constexpr double kReachedCompute = 0.6;

constexpr double kNextLaunchMicroseconds = 1.5;  // a kernel behind another one on a stream

// Operations an SM does in a clock: a multiply-add is two. Halves run on tensor cores, strict fp32 does not.
double operations_per_clock(const Problem& problem) {
  const bool half = problem.spec.type != DataType::kFloat32;
  if (problem.device.compute_capability >= 100) return half ? 8192 : 256;
  if (problem.device.compute_capability >= 90) return half ? 4096 : 256;
  return half ? 2048 : 128;
}

}  // namespace

double predicted_dense_us(const Problem& problem) {
  const auto rows = static_cast<double>(problem.spec.rows);
  const auto cols = static_cast<double>(problem.spec.cols);
  const auto tokens = static_cast<double>(problem.tokens);
  const double bytes = static_cast<double>(size_of(problem.spec.type)) * (rows * cols + tokens * cols + tokens * rows);
  const double move_us = bytes / (problem.device.memory_bandwidth * kReachedBandwidth) * 1e6;
  const double per_second = operations_per_clock(problem) * problem.device.sm_count * problem.device.clock_khz * 1e3;
  const double compute_us = 2 * rows * cols * tokens / (per_second * kReachedCompute) * 1e6;
  return kLaunchMicroseconds + std::max(move_us, compute_us);
}

double predicted_dense_epilogue_us(const Problem& problem) {
  const auto outputs = static_cast<double>(problem.spec.rows) * static_cast<double>(problem.tokens);
  const Epilogue& epilogue = problem.spec.epilogue;
  const double operands = (epilogue.beta ? 1 : 0) + (epilogue.residual ? 1 : 0);
  const double bytes = outputs * (2.0 * sizeof(float) + operands * static_cast<double>(size_of(problem.spec.type)));
  return kNextLaunchMicroseconds + bytes / (problem.device.memory_bandwidth * kReachedBandwidth) * 1e6;
}

}  // namespace sparsmith
