// What every fuzz target checks: a reader refuses its input, or returns a matrix that keeps its promises.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "matrix/csr_matrix.h"

namespace sparsmith::fuzz {

inline void expect_refused_or_valid(const Result<CsrMatrix>& matrix) {
  if (!matrix.ok()) return;
  const Status status = matrix->validate();
  if (status.ok()) return;
  std::fprintf(stderr, "a reader returned a broken matrix: %s\n", status.to_string().c_str());
  std::abort();
}

}  // namespace sparsmith::fuzz
