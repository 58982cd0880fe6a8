// What tests of whole workers send: a drawn weight, and candidates that the generator ranks first for it.
#pragma once

#include <string>
#include <vector>

#include "generator/search_space.h"
#include "matrix/csr_matrix.h"
#include "runtime/executor.h"
#include "tuner/compile/kernel_compiler.h"
#include "tuner/worker.h"

namespace sparsmith::test {

// Row lengths vary; a few rows are empty.
CsrMatrix drawn_weight(std::int64_t rows, std::int64_t cols, double density, std::uint32_t seed);

// The first `count` candidates for `problem`, their packings given to `worker`. `compiler` may be null: then the images
// hold no cubins.
Result<std::vector<CompiledCandidate>> ranked_candidates(const Problem& problem, const CsrMatrix& matrix, int count,
                                                         const KernelCompiler* compiler, Worker& worker);

// Expects of the reference kernels of all operators and types the sums that the CPU computes. `compiler`: likewise.
void expect_references_agree(Executor& executor, const CsrMatrix& matrix, const KernelCompiler* compiler);

}  // namespace sparsmith::test
