#include "tuner/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/parallel_for.h"

namespace sparsmith {
namespace {

BoundedOutput expected_output(const ReferenceProblem& problem, const PoisonedInput* poisoned, std::int64_t row,
                              std::int64_t token) {
  const BoundedOutput drawn = problem.expected(row, token);
  return poisoned == nullptr ? drawn : poisoned->expected(problem.spec().type, drawn, row, token);
}

void look_at(const ReferenceProblem& problem, std::span<const std::byte> y, const PoisonedInput* poisoned,
             std::int64_t row, std::int64_t token, OutputFindings& findings) {
  const DataType type = problem.spec().type;
  const BoundedOutput expected = expected_output(problem, poisoned, row, token);
  const float actual = read_element(y, type, problem.y_index(row, token));
  ++findings.outputs;
  if (!within_bound(type, expected, actual)) {
    ++findings.wrong;
    findings.first_wrong = std::min(findings.first_wrong, row * problem.tokens() + token);
  }
  if (!std::isfinite(expected.value) || !std::isfinite(expected.bound)) return;
  if (std::isinf(actual) && within_bound(type, expected, actual)) return;  // overflowed, rightly
  const double error = std::abs(actual - expected.value);
  const double ratio = error / expected.bound;
  findings.worst = std::isnan(ratio) ? std::numeric_limits<double>::infinity() : std::max(findings.worst, ratio);
  findings.squared_error += error * error;
  findings.squared_reference += expected.value * expected.value;
}

// The first element between lines of Y that changed, or -1.
std::int64_t changed_padding(const ReferenceProblem& problem, std::span<const std::byte> y) {
  const std::int64_t leading = problem.operand("y").stride;
  const bool token_major = problem.spec().layout == Layout::kTokenMajor;
  const std::int64_t used = token_major ? problem.spec().rows : problem.tokens();
  if (leading == used) return -1;
  const std::size_t width = size_of(problem.spec().type);
  const std::span<const std::byte> before = problem.initial_y().bytes();
  for (std::int64_t i = 0; i < problem.initial_y().size(); ++i) {
    if (i % leading < used) continue;
    if (!std::equal(y.begin() + i * width, y.begin() + (i + 1) * width, before.begin() + i * width)) return i;
  }
  return -1;
}

}  // namespace

void OutputFindings::add(const OutputFindings& other) {
  outputs += other.outputs;
  wrong += other.wrong;
  first_wrong = std::min(first_wrong, other.first_wrong);
  worst = std::max(worst, other.worst);
  squared_error += other.squared_error;
  squared_reference += other.squared_reference;
}

Verification verification_of(const ReferenceProblem& problem, const OutputFindings& findings, float first_wrong,
                             const PoisonedInput* poisoned) {
  Verification result;
  result.max_error_over_bound = findings.worst;
  result.norm_error = std::sqrt(findings.squared_error) / std::max(std::sqrt(findings.squared_reference), 1e-300);
  if (findings.squared_error == 0) result.norm_error = 0;
  if (findings.wrong > 0) {
    const std::int64_t row = findings.first_wrong / problem.tokens();
    const std::int64_t token = findings.first_wrong % problem.tokens();
    const BoundedOutput expected = expected_output(problem, poisoned, row, token);
    result.reason = fmt::format("y[row {}][token {}] = {}, expected {:.9g} +- {:.2g}; {} of {} outputs are wrong", row,
                                token, first_wrong, expected.value, expected.bound, findings.wrong, findings.outputs);
  }
  result.ok = result.reason.empty();
  return result;
}

Verification verify_outputs(const ReferenceProblem& problem, std::span<const std::byte> y,
                            const PoisonedInput* poisoned) {
  if (y.size() != problem.initial_y().bytes().size()) {
    Verification result;
    result.reason = fmt::format("y has {} bytes, expected {}", y.size(), problem.initial_y().bytes().size());
    return result;
  }
  OutputFindings all;
  std::mutex mutex;  // guards `all`
  parallel_for(problem.spec().rows, grain_of_rows(problem.tokens()), [&](std::int64_t begin, std::int64_t end) {
    OutputFindings findings;
    const auto look = [&](std::int64_t row, std::int64_t token) {
      look_at(problem, y, poisoned, row, token, findings);
    };
    // As Y lies in memory.
    if (problem.spec().layout == Layout::kTokenMajor) {
      for (std::int64_t token = 0; token < problem.tokens(); ++token)
        for (std::int64_t row = begin; row < end; ++row) look(row, token);
    } else {
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t token = 0; token < problem.tokens(); ++token) look(row, token);
    }
    const std::lock_guard lock(mutex);
    all.add(findings);
  });

  float first_wrong = 0;
  if (all.wrong > 0) {
    const std::int64_t row = all.first_wrong / problem.tokens();
    first_wrong = read_element(y, problem.spec().type, problem.y_index(row, all.first_wrong % problem.tokens()));
  }
  Verification result = verification_of(problem, all, first_wrong, poisoned);
  if (!result.ok) return result;
  if (const std::int64_t at = changed_padding(problem, y); at >= 0) {
    result.ok = false;
    result.reason = fmt::format("wrote between the lines of y, at element {}", at);
  }
  return result;
}

double norm_error_limit(DataType type) {
  switch (type) {
    case DataType::kFloat16: return 4 * 0x1p-11;
    case DataType::kBFloat16: return 4 * 0x1p-8;
    default: return 1e-5;
  }
}

}  // namespace sparsmith
