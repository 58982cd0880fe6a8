#include "generator/dense_cost.h"

#include <algorithm>

#include "generator/device_speed.h"

namespace sparsmith {
namespace {

// Fitted to 262 times of cuBLASLt on an H200: 64 x 64 to 32768 x 8192, N = 1 to 512, fp16 and strict fp32. They are met
// within 7 % (root of the mean square), 28 % at worst, where rows are 64.
constexpr double kLaunchMicroseconds = 1.7;
constexpr double kReachedBandwidth = 1.06;    // of a large copy: it only reads
constexpr double kFirstChainUs = 0.9;         // of a block's loads and sums
constexpr double kColumnChainUs = 1.42e-3;    // that a column adds to it
constexpr double kChainColumns = 4096;        // more are cut over blocks
constexpr double kUnhidden = 0.54;            // of the shorter of chain and memory
constexpr double kReachedHalfCompute = 0.84;  // of the peak
constexpr double kReachedFloatCompute = 0.72;
constexpr double kFloatTokens = 66;     // a tile of them, at least
constexpr double kFewFloatTokens = 42;  // where there are up to 16

// A kernel behind another one on a stream.
constexpr double kNextLaunchMicroseconds = 1.5;
constexpr double kNextReachedBandwidth = 0.96;

// Halves run on tensor cores, strict fp32 does not. A multiply-add is two operations.
double operations_per_second(const Problem& problem) {
  const DeviceProperties& device = problem.device;
  if (problem.spec.type != DataType::kFloat32) return device.tensor_operations_per_second();
  const double of_an_sm = device.compute_capability >= 90 ? 256 : 128;  // in a clock
  return of_an_sm * device.sm_count * device.clock_khz * 1e3;
}

// Tokens whose products are computed.
double computed_tokens(const Problem& problem) {
  const auto tokens = static_cast<double>(problem.tokens);
  if (problem.spec.type != DataType::kFloat32) return tokens;
  if (problem.tokens == 1) return 0;  // a product with a vector waits for memory alone
  return problem.tokens <= 16 ? kFewFloatTokens : std::max(tokens, kFloatTokens);
}

}  // namespace

double predicted_dense_us(const Problem& problem) {
  const auto rows = static_cast<double>(problem.spec.rows);
  const auto cols = static_cast<double>(problem.spec.cols);
  const auto tokens = static_cast<double>(problem.tokens);
  const double bytes = static_cast<double>(size_of(problem.spec.type)) * (rows * cols + tokens * cols + tokens * rows);
  const double move_us = bytes / (problem.device.memory_bandwidth * kReachedBandwidth) * 1e6;
  const double reached = problem.spec.type == DataType::kFloat32 ? kReachedFloatCompute : kReachedHalfCompute;
  const double compute_us =
      2 * rows * cols * computed_tokens(problem) / (operations_per_second(problem) * reached) * 1e6;
  const double chain_us = kFirstChainUs + kColumnChainUs * std::min(cols, kChainColumns);
  return kLaunchMicroseconds + launch_delay_us(problem.device) + std::max({move_us, chain_us, compute_us}) +
         kUnhidden * std::min(move_us, chain_us);
}

double predicted_dense_epilogue_us(const Problem& problem) {
  const auto outputs = static_cast<double>(problem.spec.rows) * static_cast<double>(problem.tokens);
  const Epilogue& epilogue = problem.spec.epilogue;
  const double operands = (epilogue.beta ? 1 : 0) + (epilogue.residual ? 1 : 0);
  const double bytes = outputs * (2.0 * sizeof(float) + operands * static_cast<double>(size_of(problem.spec.type)));
  return kNextLaunchMicroseconds + bytes / (problem.device.memory_bandwidth * kNextReachedBandwidth) * 1e6;
}

}  // namespace sparsmith
