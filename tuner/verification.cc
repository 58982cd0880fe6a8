#include "tuner/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/parallel_for.h"

namespace sparsmith {
namespace {

// What a range of rows showed.
struct Findings {
  std::int64_t outputs = 0;
  std::int64_t wrong = 0;
  std::int64_t first_row = std::numeric_limits<std::int64_t>::max();  // of the wrong ones, with its token
  std::int64_t first_token = 0;
  double worst = 0;  // error over bound; infinite for a NaN
  double squared_error = 0;
  double squared_reference = 0;

  void add(const Findings& other) {
    outputs += other.outputs;
    wrong += other.wrong;
    if (other.first_row < first_row) {
      first_row = other.first_row;
      first_token = other.first_token;
    }
    worst = std::max(worst, other.worst);
    squared_error += other.squared_error;
    squared_reference += other.squared_reference;
  }
};

void look_at(const ReferenceProblem& problem, std::span<const std::byte> y, std::int64_t row, std::int64_t token,
             Findings& findings) {
  const DataType type = problem.spec().type;
  const BoundedOutput expected = problem.expected(row, token);
  const float actual = read_element(y, type, problem.y_index(row, token));
  ++findings.outputs;
  if (!within_bound(type, expected, actual)) {
    ++findings.wrong;
    if (row < findings.first_row) {
      findings.first_row = row;
      findings.first_token = token;
    }
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
  const std::int64_t leading = problem.variables().ldy;
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

Verification verify_outputs(const ReferenceProblem& problem, std::span<const std::byte> y,
                            const std::vector<bool>* rows) {
  Verification result;
  if (y.size() != problem.initial_y().bytes().size()) {
    result.reason = fmt::format("y has {} bytes, expected {}", y.size(), problem.initial_y().bytes().size());
    return result;
  }
  Findings all;
  std::mutex mutex;  // guards `all`
  parallel_for(problem.spec().rows, grain_of_rows(problem.tokens()), [&](std::int64_t begin, std::int64_t end) {
    Findings findings;
    const auto look = [&](std::int64_t row, std::int64_t token) {
      if (rows == nullptr || (*rows)[row]) look_at(problem, y, row, token, findings);
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

  result.max_error_over_bound = all.worst;
  result.norm_error = std::sqrt(all.squared_error) / std::max(std::sqrt(all.squared_reference), 1e-300);
  if (all.squared_error == 0) result.norm_error = 0;
  if (all.wrong > 0) {
    const BoundedOutput expected = problem.expected(all.first_row, all.first_token);
    const float actual = read_element(y, problem.spec().type, problem.y_index(all.first_row, all.first_token));
    result.reason =
        fmt::format("y[row {}][token {}] = {}, expected {:.9g} +- {:.2g}; {} of {} outputs are wrong", all.first_row,
                    all.first_token, actual, expected.value, expected.bound, all.wrong, all.outputs);
  } else if (const std::int64_t at = changed_padding(problem, y); at >= 0) {
    result.reason = fmt::format("wrote between the lines of y, at element {}", at);
  }
  result.ok = result.reason.empty();
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
