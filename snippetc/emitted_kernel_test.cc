// What the generator emits is complete: clang accepts it alone, with no header in sight.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "generator/family.h"
#include "generator/search_space.h"
#include "runtime/device_properties.h"
#include "snippetc/snippet_reader.h"

namespace sparsmith::snippetc {
namespace {

// Row lengths from 0 to all of K, so that rows are worth sorting and cutting.
CsrMatrix drawn_matrix(std::mt19937& random, std::int64_t rows, std::int64_t cols) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t stride = row == 0 ? 1 : 1 + static_cast<std::int64_t>(random() % 64);
    for (std::int64_t column = static_cast<std::int64_t>(random() % 4); column < cols; column += stride) {
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(1.0F);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

// Kernels of `count` configs drawn from the search space of `spec`, by name.
void emit(const OperatorSpec& spec, std::int64_t tokens, int count, std::mt19937& random,
          std::map<std::string, KernelSource>& kernels) {
  CsrMatrix matrix = drawn_matrix(random, spec.rows, spec.cols);
  matrix.data_type = spec.type;
  const Problem problem{.spec = spec, .tokens = tokens, .device = typical_device(90)};
  const SearchSpace space = search_space(problem, compute_statistics(matrix));
  ASSERT_FALSE(space.configs.empty());
  for (int i = 0; i < count; ++i) {
    const Config& config = space.configs[random() % space.configs.size()].config;
    SCOPED_TRACE(config.text());
    const Family& owner = *family(config.family);
    const auto packed = owner.pack(config, problem, matrix);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    const auto candidate = owner.generate(config, problem, *packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    for (const KernelSource& kernel : candidate->kernels) kernels.emplace(kernel.name, kernel);
  }
}

TEST(EmittedKernel, ClangAcceptsItAlone) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  std::map<std::string, KernelSource> kernels;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
      OperatorSpec spec{.rows = 200, .cols = 1000, .type = type, .layout = layout, .epilogue = {}};
      emit(spec, 1, 1, random, kernels);
      spec.epilogue = {.activation = Activation::kGelu, .bias = true, .beta = true, .residual = true};
      emit(spec, 40, 2, random, kernels);
    }
  }
  EXPECT_GE(kernels.size(), 12U);
  for (const auto& [name, kernel] : kernels) {
    Findings findings;
    check_syntax(name + ".cu", kernel.source, findings);
    for (const Finding& finding : findings) ADD_FAILURE() << finding.text() << "\n" << kernel.source;
  }
}

TEST(EmittedKernel, ErrorsInItAreFound) {
  Findings findings;
  check_syntax("broken.cu", "__global__ void f(int* p) {\n  *p = threadIdx.x + undeclared;\n}\n", findings);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].text(), "broken.cu:2: use of undeclared identifier 'undeclared'");
}

}  // namespace
}  // namespace sparsmith::snippetc
