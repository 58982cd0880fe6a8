#include "tests/support/worker_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "generator/family.h"

namespace sparsmith::test {

CsrMatrix drawn_weight(std::int64_t rows, std::int64_t cols, double density, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::lognormal_distribution<double> scale(0, 0.5);
  std::normal_distribution<float> value(0, 1);
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double share = row % 13 == 5 ? 0 : std::min(0.9, density * scale(random));
    for (std::int64_t column = 0; column < cols; ++column) {
      if (static_cast<double>(random()) >= share * 4294967296.0) continue;
      const float drawn = value(random);
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(drawn < 0 ? drawn - 0.1F : drawn + 0.1F);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

Result<std::vector<CompiledCandidate>> ranked_candidates(const Problem& problem, const CsrMatrix& matrix, int count,
                                                         const KernelCompiler* compiler, Worker& worker) {
  const SearchSpace space = search_space(problem, compute_statistics(matrix));
  std::vector<CompiledCandidate> loaded;
  std::vector<std::string> sent;
  for (const PredictedConfig& predicted : space.configs) {
    if (static_cast<int>(loaded.size()) == count) break;
    const Family& ranked = *family(predicted.config.family);
    SPARSMITH_ASSIGN_OR_RETURN(const PackedWeight packed, ranked.pack(predicted.config, problem, matrix));
    SPARSMITH_ASSIGN_OR_RETURN(const Candidate candidate, ranked.generate(predicted.config, problem, packed));
    if (std::find(sent.begin(), sent.end(), candidate.packing) == sent.end()) {
      SPARSMITH_RETURN_IF_ERROR(worker.add_packing(packed));
      sent.push_back(candidate.packing);
    }
    CompiledCandidate next{candidate.plan, candidate.packing, {}};
    for (const KernelSource& kernel : candidate.kernels) {
      KernelImage image{kernel.name, kernel.source, {}, kernel.max_shared_bytes};
      if (compiler != nullptr) {
        const std::string architecture = fmt::format("sm_{}", problem.device.compute_capability);
        SPARSMITH_ASSIGN_OR_RETURN(CompiledKernel compiled, compiler->compile(kernel, architecture));
        image.cubin = std::move(compiled.cubin);
      }
      next.kernels.push_back(std::move(image));
    }
    loaded.push_back(std::move(next));
  }
  if (loaded.empty()) return not_found("the search space of this problem is empty");
  return loaded;
}

}  // namespace sparsmith::test
