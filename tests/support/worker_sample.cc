#include "tests/support/worker_sample.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "generator/family.h"
#include "tuner/verify/reference_kernel.h"

namespace sparsmith::test {
namespace {

Result<KernelImage> image_of(const KernelSource& kernel, const KernelCompiler* compiler, int compute_capability) {
  KernelImage image{kernel.name, kernel.source, {}, kernel.max_shared_bytes};
  if (compiler == nullptr) return image;
  SPARSMITH_ASSIGN_OR_RETURN(CompiledKernel compiled,
                             compiler->compile(kernel, fmt::format("sm_{}", compute_capability)));
  image.cubin = std::move(compiled.cubin);
  return image;
}

}  // namespace

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
      SPARSMITH_ASSIGN_OR_RETURN(KernelImage image, image_of(kernel, compiler, problem.device.compute_capability));
      next.kernels.push_back(std::move(image));
    }
    loaded.push_back(std::move(next));
  }
  if (loaded.empty()) return not_found("the search space of this problem is empty");
  return loaded;
}

void expect_references_agree(Executor& executor, const CsrMatrix& matrix, const KernelCompiler* compiler) {
  constexpr std::int64_t kTokens = 70;
  for (const OperatorKind kind : {OperatorKind::kSpmm, OperatorKind::kSddmm}) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
      OperatorSpec spec{.type = type, .kind = kind};
      spec.set_weight(matrix.rows, matrix.cols, matrix.nnz());
      const auto source = reference_kernel(spec);
      ASSERT_TRUE(source.ok()) << source.status().to_string();
      const auto image = image_of(*source, compiler, executor.properties().compute_capability);
      ASSERT_TRUE(image.ok()) << image.status().to_string();
      const Status loaded = executor.load(*image);
      ASSERT_TRUE(loaded.ok()) << loaded.to_string();
      for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
        for (const std::int64_t most_outputs : {kTokens * matrix.rows, 33 * matrix.rows}) {
          spec.layout = layout;
          const ReferenceProblem problem(matrix, spec,
                                         {.tokens = kTokens, .seed = 5, .padding = 3, .most_outputs = most_outputs});
          const auto weight = ReferenceWeight::upload(executor, matrix, problem.values());
          ASSERT_TRUE(weight.ok()) << weight.status().to_string();
          const auto found = compute_sums_on(executor, problem, *weight);
          ASSERT_TRUE(found.ok()) << found.status().to_string();
          const ReferenceSums on_cpu = problem.compute_sums();
          ASSERT_EQ(found->sums.size(), on_cpu.sums.size());
          for (std::size_t i = 0; i < on_cpu.sums.size(); ++i) {
            ASSERT_NEAR(found->sums[i], on_cpu.sums[i], 1e-12 * on_cpu.magnitudes[i]) << spec.name() << " " << i;
            ASSERT_NEAR(found->magnitudes[i], on_cpu.magnitudes[i], 1e-12 * on_cpu.magnitudes[i]);
          }
        }
      }
    }
  }
}

}  // namespace sparsmith::test
