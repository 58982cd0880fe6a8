#include "search/dense_cost.h"

#include <algorithm>

namespace sparsmith {
namespace {

// What cuBLAS shows on an H200 at N = 1 and 8, fp16, 4096^2 to 8192 x 32768.
constexpr double kLaunchMicroseconds = 5;
constexpr double kReachedBandwidth = 0.85;  // of the peak
constexpr double kReachedCompute = 0.6;

constexpr double kNextLaunchMicroseconds = 1.5;  // a kernel behind another one on a stream

// Halves run on tensor cores, strict fp32 does not. A multiply-add is two operations.
double operations_per_second(const Problem& problem) {
  const DeviceProperties& device = problem.device;
  if (problem.spec.type != DataType::kFloat32) return device.tensor_operations_per_second();
  const double of_an_sm = device.compute_capability >= 90 ? 256 : 128;  // in a clock
  return of_an_sm * device.sm_count * device.clock_khz * 1e3;
}

}  // namespace

double predicted_dense_us(const Problem& problem) {
  const auto rows = static_cast<double>(problem.spec.rows);
  const auto cols = static_cast<double>(problem.spec.cols);
  const auto tokens = static_cast<double>(problem.tokens);
  const double bytes = static_cast<double>(size_of(problem.spec.type)) * (rows * cols + tokens * cols + tokens * rows);
  const double move_us = bytes / (problem.device.memory_bandwidth * kReachedBandwidth) * 1e6;
  const double compute_us = 2 * rows * cols * tokens / (operations_per_second(problem) * kReachedCompute) * 1e6;
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
