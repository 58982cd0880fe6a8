// NVRTC compiles kernels that together hold every value of every parameter, and what the ranking would time first does
// not spill: all of them for kMain, a part for the other architectures, whose code hardly differs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "formats/two_four.h"
#include "generator/families/dense/dense_family.h"
#include "generator/families/panel/panel_family.h"
#include "generator/search_space.h"
#include "generator/two_four_pruner.h"
#include "generator/value_writer.h"
#include "runtime/plan_check.h"
#include "tests/support/compile_all.h"
#include "tests/support/dense_cases.h"
#include "tests/support/kernel_cases.h"
#include "tuner/compile/kernel_compiler.h"

namespace sparsmith::test {
namespace {

constexpr std::uint64_t kSeed = 20;
constexpr const char* kMain = "sm_90";

template <typename Parameter>
class CompileTest : public testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    auto opened = KernelCompiler::open();
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    compiler_ = std::move(*opened);
  }
  std::unique_ptr<KernelCompiler> compiler_;
};

using CoveringCompileTest = CompileTest<std::string>;                         // an architecture
using FamilyCompileTest = CompileTest<std::tuple<std::string, std::string>>;  // and a family

// Of these cases few that together hold every value that is in any, since compiling takes seconds: each holds the most
// values that those before it lack. At least `fewest`, at most `most`.
std::vector<const KernelCase*> covering(const std::vector<KernelCase>& drawn, std::size_t fewest, std::size_t most) {
  std::set<std::pair<std::string, std::int64_t>> seen;
  const auto new_values = [&](const KernelCase& each) {
    return std::ranges::count_if(each.config.values, [&](const auto& value) { return !seen.contains(value); });
  };
  std::vector<const KernelCase*> chosen;
  while (!drawn.empty() && chosen.size() < most) {
    const KernelCase& next = *std::ranges::max_element(drawn, {}, new_values);
    if (new_values(next) == 0) break;
    chosen.push_back(&next);
    seen.insert(next.config.values.begin(), next.config.values.end());
  }
  for (std::size_t i = 0; i < drawn.size() && chosen.size() < fewest; ++i) chosen.push_back(&drawn[i]);
  return chosen;
}

// Kernels of a family that together hold every value of every parameter, or two of them, and a step that launches
// each.
void add_covering(const Family& tested, bool all, std::map<std::string, KernelSource>& sources,
                  std::map<std::string, PlanStep>& steps) {
  const std::vector<KernelCase> drawn = draw_cases(tested, kSeed, 90, 2);
  std::map<std::string, std::set<std::int64_t>> seen;
  for (const KernelCase* each : all ? covering(drawn, 4, drawn.size()) : covering(drawn, 2, 2)) {
    for (const auto& [parameter, value] : each->config.values) seen[parameter].insert(value);
    PackedWeight packed;
    const auto candidate = generate_case(*each, packed);
    ASSERT_TRUE(candidate.ok()) << each->text() << candidate.status().to_string();
    for (const KernelSource& kernel : candidate->kernels) sources.emplace(kernel.name, kernel);
    for (const PlanStep& step : candidate->plan.steps) steps.emplace(step.kernel, step);
  }
  if (!all) return;
  for (const Parameter& parameter : tested.parameters)
    for (const std::int64_t value : parameter.values)
      EXPECT_TRUE(seen[parameter.name].contains(value)) << parameter.name << " = " << value;
}

TEST_P(FamilyCompileTest, ParameterValuesCompile) {
  const auto& [architecture, name] = GetParam();
  std::map<std::string, KernelSource> sources;
  std::map<std::string, PlanStep> steps;
  add_covering(*family(name), architecture == kMain, sources, steps);
  std::vector<KernelSource> list;
  for (const auto& [kernel, source] : sources)
    if (architecture_of(source, architecture).ok()) list.push_back(source);
  for (const auto& [kernel, compiled] : compile_all(*compiler_, list, architecture)) {
    ASSERT_TRUE(compiled.ok()) << kernel << "\n" << compiled.status().to_string();
    // What a tuned file is held to when it is loaded.
    const auto parameters = read_cubin_parameters(compiled->cubin, kernel);
    ASSERT_TRUE(parameters.ok()) << kernel << "\n" << parameters.status().to_string();
    const Status counted = check_arguments(steps.at(kernel), *parameters);
    EXPECT_TRUE(counted.ok()) << counted.to_string();
  }
  fmt::print("{} kernels for {}\n", list.size(), architecture);
}

TEST_P(CoveringCompileTest, TheKernelsBehindADenseProductCompileAndDoNotSpill) {
  std::vector<KernelSource> list;
  for (const KernelCase& each : draw_dense_epilogue_cases(kSeed, 1)) {
    const auto candidate = dense_with_epilogue(each.problem.spec);
    ASSERT_TRUE(candidate.ok()) << each.text() << candidate.status().to_string();
    list.push_back(candidate->kernels.at(0));
  }
  for (const KernelCase& each : draw_dense_gradient_cases(kSeed, 2)) {
    PackedWeight packed;
    const auto candidate = generate_case(each, packed);
    ASSERT_TRUE(candidate.ok()) << each.text() << candidate.status().to_string();
    list.push_back(candidate->kernels.at(0));
  }
  for (const auto& [name, compiled] : compile_all(*compiler_, list, GetParam())) {
    ASSERT_TRUE(compiled.ok()) << name << "\n" << compiled.status().to_string();
    EXPECT_EQ(compiled->figures.spill_store_bytes + compiled->figures.spill_load_bytes, 0) << name;
  }
}

TEST_P(CoveringCompileTest, KernelsThatWriteWeightsCompileAndDoNotSpill) {
  std::vector<KernelSource> list;
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    for (const DataType source : {DataType::kFloat32, type}) {
      for (const auto& writer : {value_writer(kTwoFourPacking, type, source), two_four_pruner(8, 8, type, source)}) {
        ASSERT_TRUE(writer.ok()) << writer.status().to_string();
        list.push_back(writer->kernels.at(0));
      }
    }
  }
  for (const auto& [name, compiled] : compile_all(*compiler_, list, GetParam())) {
    ASSERT_TRUE(compiled.ok()) << name << "\n" << compiled.status().to_string();
    EXPECT_EQ(compiled->figures.spill_store_bytes + compiled->figures.spill_load_bytes, 0) << name;
    EXPECT_EQ(compiled->figures.stack_bytes, 0) << name;
    fmt::print("{} {} registers\n", name, compiled->figures.registers);
  }
}

TEST_P(CoveringCompileTest, WhatIsTimedFirstDoesNotSpill) {
  Random random(kSeed);
  std::map<std::string, KernelSource> sources;
  for (const std::int64_t nonzeros_per_row : {80, 10, 800}) {
    if (nonzeros_per_row != 80 && GetParam() != kMain) break;
    CsrMatrix matrix;
    matrix.rows = 512;
    matrix.cols = 4096;
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
      const std::int64_t length = draw_between(random, 1, 2 * nonzeros_per_row);
      for (std::int64_t i = 0; i < length; ++i) {
        matrix.column_indices.push_back(static_cast<std::uint32_t>(i * (matrix.cols / length)));
        matrix.values.push_back(1.0F);
      }
      matrix.row_offsets.push_back(matrix.nnz());
    }
    const SparsityStatistics statistics = compute_statistics(matrix);
    for (const std::int64_t tokens : {1, 8, 128}) {
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
        Problem problem{{.rows = matrix.rows, .cols = matrix.cols, .type = type},
                        tokens,
                        typical_device(std::stoi(GetParam().substr(3)))};
        const SearchSpace space = search_space(problem, statistics);
        ASSERT_GE(space.configs.size(), 6U);
        for (int i = 0; i < 3; ++i) {
          const Family& rows = *family(space.configs[i].config.family);
          const auto packed = rows.pack(space.configs[i].config, problem, matrix);
          ASSERT_TRUE(packed.ok());
          const auto candidate = rows.generate(space.configs[i].config, problem, *packed);
          ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
          for (const KernelSource& kernel : candidate->kernels) sources.emplace(kernel.name, kernel);
        }
      }
    }
  }
  std::vector<KernelSource> list;
  for (const auto& [name, source] : sources) list.push_back(source);
  for (const auto& [name, compiled] : compile_all(*compiler_, list, GetParam())) {
    ASSERT_TRUE(compiled.ok()) << name << "\n" << compiled.status().to_string();
    EXPECT_EQ(compiled->figures.spill_store_bytes + compiled->figures.spill_load_bytes, 0) << name;
  }
  fmt::print("{} kernels for {}\n", list.size(), GetParam());
}

// Of a weight that every second element of is 0: some that each of these families would time first.
TEST_P(CoveringCompileTest, KernelsForHalfDenseWeightsDoNotSpill) {
  CsrMatrix matrix;
  matrix.rows = 4300;
  matrix.cols = 2048;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t column = row % 2; column < matrix.cols; column += 2) {
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(1.0F);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  const SparsityStatistics statistics = compute_statistics(matrix);
  std::map<std::string, KernelSource> sources;
  for (const std::int64_t tokens : {16, 8, 64}) {
    if (tokens != 16 && GetParam() != kMain) break;
    for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
      const Problem problem{{.rows = matrix.rows, .cols = matrix.cols, .type = DataType::kFloat16, .layout = layout},
                            tokens,
                            typical_device(std::stoi(GetParam().substr(3)))};
      for (const char* name : {"bitmap", "two_four"}) {
        const Family& tested = *family(name);
        const SearchSpace space = search_space(tested, problem, statistics);
        ASSERT_GE(space.configs.size(), 8U) << name;
        for (std::size_t i = 0; i < 4; ++i) {
          const auto packed = tested.pack(space.configs[i].config, problem, matrix);
          ASSERT_TRUE(packed.ok());
          const auto candidate = tested.generate(space.configs[i].config, problem, *packed);
          ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
          for (const KernelSource& kernel : candidate->kernels) sources.emplace(kernel.name, kernel);
        }
      }
    }
  }
  std::vector<KernelSource> list;
  for (const auto& [name, source] : sources) list.push_back(source);
  for (const auto& [name, compiled] : compile_all(*compiler_, list, GetParam())) {
    ASSERT_TRUE(compiled.ok()) << name << "\n" << compiled.status().to_string();
    EXPECT_EQ(compiled->figures.spill_store_bytes + compiled->figures.spill_load_bytes, 0) << name;
    fmt::print("{} {} registers\n", name, compiled->figures.registers);
  }
}

TEST_P(CoveringCompileTest, PanelsThatTwoBlocksFillDoNotSpill) {
  const DeviceProperties device = typical_device(std::stoi(GetParam().substr(3)));
  const Family& panel = *family("panel");
  Random random(kSeed);
  std::map<std::string, KernelSource> sources;
  const CsrMatrix matrix = draw_matrix(random, 1024, 8192, 0.01);
  const SparsityStatistics statistics = compute_statistics(matrix);
  for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
      for (const std::int64_t tokens : {32, 512}) {
        const Problem problem{
            {.rows = matrix.rows, .cols = matrix.cols, .type = type, .layout = layout}, tokens, device};
        int left = 4;
        for (const PredictedConfig& predicted : search_space(panel, problem, statistics).configs) {
          if (!PanelConfig(predicted.config).pairs()) continue;
          const auto packed = panel.pack(predicted.config, problem, matrix);
          ASSERT_TRUE(packed.ok());
          const auto candidate = panel.generate(predicted.config, problem, *packed);
          ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
          for (const KernelSource& kernel : candidate->kernels) sources.emplace(kernel.name, kernel);
          if (--left == 0) break;
        }
      }
    }
  }
  std::vector<KernelSource> list;
  for (const auto& [name, source] : sources) list.push_back(source);
  for (const auto& [name, compiled] : compile_all(*compiler_, list, GetParam())) {
    ASSERT_TRUE(compiled.ok()) << name << "\n" << compiled.status().to_string();
    EXPECT_EQ(compiled->figures.spill_store_bytes + compiled->figures.spill_load_bytes, 0) << name;
  }
  EXPECT_EQ(list.empty(), device.compute_capability < 90);  // which has no clusters
  fmt::print("{} kernels for {}\n", list.size(), GetParam());
}

const auto kArchitectures = testing::Values("sm_80", "sm_90", "sm_100");

INSTANTIATE_TEST_SUITE_P(Architectures, CoveringCompileTest, kArchitectures);
INSTANTIATE_TEST_SUITE_P(Families, FamilyCompileTest,
                         testing::Combine(kArchitectures, testing::ValuesIn(kernel_families())),
                         [](const auto& test) { return std::get<0>(test.param) + "_" + std::get<1>(test.param); });

}  // namespace
}  // namespace sparsmith::test
