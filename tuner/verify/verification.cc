#include "tuner/verify/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/parallel_for.h"

namespace sparsmith {
namespace {

BoundedOutput expected_output(const ReferenceProblem& problem, const PoisonedInput* poisoned, std::int64_t row,
                              std::int64_t column) {
  const BoundedOutput drawn = problem.expected(row, column);
  return poisoned == nullptr ? drawn : poisoned->expected(problem.spec().type, drawn, row, problem.token_of(column));
}

void look_at(const ReferenceProblem& problem, std::span<const std::byte> y, const PoisonedInput* poisoned,
             std::int64_t row, std::int64_t column, OutputFindings& findings) {
  const DataType type = problem.spec().type;
  const BoundedOutput expected = expected_output(problem, poisoned, row, column);
  const float actual = read_element(y, type, problem.output_index(row, column));
  ++findings.outputs;
  if (!within_bound(type, expected, actual)) {
    ++findings.wrong;
    findings.first_wrong = std::min(findings.first_wrong, row * problem.output_columns() + column);
  }
  if (!std::isfinite(expected.value) || !std::isfinite(expected.bound)) return;
  if (std::isinf(actual) && within_bound(type, expected, actual)) return;  // overflowed, rightly
  const double error = std::abs(actual - expected.value);
  const double ratio = error / expected.bound;
  findings.worst = std::isnan(ratio) ? std::numeric_limits<double>::infinity() : std::max(findings.worst, ratio);
  findings.squared_error += error * error;
  findings.squared_reference += expected.value * expected.value;
}

// The first element between lines of the output that changed, or -1.
std::int64_t changed_padding(const ReferenceProblem& problem, std::span<const std::byte> y) {
  const auto& [operand, leading, contents] = problem.output();
  const std::int64_t used = problem.rows_are_contiguous() ? problem.output_rows() : problem.all_columns();
  if (!operand.has_stride || leading == used) return -1;
  const std::size_t width = size_of(problem.spec().type);
  const std::span<const std::byte> before = problem.initial_output().bytes();
  for (std::int64_t i = 0; i < problem.initial_output().size(); ++i) {
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
    const std::int64_t row = findings.first_wrong / problem.output_columns();
    const std::int64_t column = findings.first_wrong % problem.output_columns();
    const BoundedOutput expected = expected_output(problem, poisoned, row, column);
    result.reason =
        fmt::format("{} = {}, expected {:.9g} +- {:.2g}; {} of {} outputs are wrong", problem.output_name(row, column),
                    first_wrong, expected.value, expected.bound, findings.wrong, findings.outputs);
  }
  result.ok = result.reason.empty();
  return result;
}

Verification verify_outputs(const ReferenceProblem& problem, std::span<const std::byte> y,
                            const PoisonedInput* poisoned, bool by_norm) {
  if (y.size() != problem.initial_output().bytes().size()) {
    Verification result;
    result.reason = fmt::format("{} has {} bytes, expected {}", problem.output().operand.name, y.size(),
                                problem.initial_output().bytes().size());
    return result;
  }
  OutputFindings all;
  std::mutex mutex;  // guards `all`
  const std::int64_t columns = problem.output_columns();
  parallel_for(problem.output_rows(), grain_of_rows(columns), [&](std::int64_t begin, std::int64_t end) {
    OutputFindings findings;
    const auto look = [&](std::int64_t row, std::int64_t column) {
      look_at(problem, y, poisoned, row, column, findings);
    };
    // As they lie in memory.
    if (problem.rows_are_contiguous()) {
      for (std::int64_t column = 0; column < columns; ++column)
        for (std::int64_t row = begin; row < end; ++row) look(row, column);
    } else {
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t column = 0; column < columns; ++column) look(row, column);
    }
    const std::lock_guard lock(mutex);
    all.add(findings);
  });

  float first_wrong = 0;
  if (all.wrong > 0) {
    const std::int64_t at = problem.output_index(all.first_wrong / columns, all.first_wrong % columns);
    first_wrong = read_element(y, problem.spec().type, at);
  }
  Verification result = verification_of(problem, all, first_wrong, poisoned);
  if (by_norm) allow_norm_error(result, problem.spec().type);
  if (!result.ok) return result;
  if (const std::int64_t at = changed_padding(problem, y); at >= 0) {
    result.ok = false;
    result.reason = fmt::format("wrote between the lines of {}, at element {}", problem.output().operand.name, at);
  }
  return result;
}

void allow_norm_error(Verification& verification, DataType type) {
  if (verification.ok || !(verification.norm_error <= norm_error_limit(type))) return;
  verification.ok = true;
  verification.reason.clear();
}

double norm_error_limit(DataType type) {
  switch (type) {
    case DataType::kFloat16: return 4 * 0x1p-11;
    case DataType::kBFloat16: return 4 * 0x1p-8;
    default: return 1e-5;
  }
}

}  // namespace sparsmith
