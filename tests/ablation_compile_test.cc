// NVRTC compiles kernels without a part, of every family that has them, and where the whole kernel does not spill, they
// do not either.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "generator/search_space.h"
#include "tests/support/compile_all.h"
#include "tests/support/kernel_cases.h"
#include "tuner/compile/kernel_compiler.h"

namespace sparsmith::test {
namespace {

// Of a search: what would be timed first, for weights that suit the family.
struct Searched {
  const char* family;
  std::int64_t rows;
  std::int64_t cols;
  double density;
  DataType type;
  std::int64_t tokens;
};

void PrintTo(const Searched& searched, std::ostream* out) {
  *out << searched.family << ", N = " << searched.tokens << ", " << short_name(searched.type);
}

const Searched kSearched[] = {
    {"bitmap", 2100, 2048, 0.4, DataType::kFloat16, 8},   {"bitmap", 2100, 2048, 0.4, DataType::kBFloat16, 32},
    {"scatter", 2048, 4096, 0.2, DataType::kFloat16, 8},  {"scatter", 2048, 4096, 0.1, DataType::kBFloat16, 32},
    {"wgmma", 2048, 4096, 0.2, DataType::kFloat16, 64},   {"slots", 2048, 4096, 0.05, DataType::kFloat16, 1},
    {"slots", 2048, 4096, 0.02, DataType::kFloat32, 2},   {"panel", 2048, 8192, 0.01, DataType::kFloat16, 32},
    {"panel", 2048, 8192, 0.01, DataType::kFloat32, 128}, {"bsr", 512, 512, 0.02, DataType::kFloat16, 32},
    {"rows", 2048, 4096, 0.02, DataType::kFloat16, 1},    {"rows", 2048, 4096, 0.02, DataType::kFloat32, 16},
    {"gather", 2048, 8192, 0.01, DataType::kFloat16, 32}, {"gather", 2048, 8192, 0.01, DataType::kFloat32, 32},
};

class AblationCompileTest : public testing::TestWithParam<Searched> {};

TEST_P(AblationCompileTest, SpillsNoMoreThanTheWholeKernel) {
  const auto compiler = KernelCompiler::open();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  const Searched& searched = GetParam();
  const Family& tested = *family(searched.family);
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, searched.rows, searched.cols, searched.density);
  const Problem problem{
      {.rows = matrix.rows, .cols = matrix.cols, .type = searched.type}, searched.tokens, typical_device(90)};
  const SearchSpace space = search_space(tested, problem, compute_statistics(matrix));
  ASSERT_GE(space.configs.size(), 2U);
  std::vector<KernelSource> sources;
  std::map<std::string, std::string> whole_of;  // by the name of a kernel without a part
  for (std::size_t i = 0; i < 2; ++i) {
    const Config& config = space.configs[i * 7 % space.configs.size()].config;
    const auto packed = tested.pack(config, problem, matrix);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    const auto whole = tested.generate(config, problem, *packed);
    ASSERT_TRUE(whole.ok()) << whole.status().to_string();
    std::set<std::string> names;
    for (const KernelSource& kernel : whole->kernels) {
      sources.push_back(kernel);
      names.insert(kernel.name);
    }
    EXPECT_GE(ablations(tested).size(), 2U);
    for (const Ablation part : ablations(tested)) {
      const auto without = generate_without(part, tested, config, problem, *packed);
      ASSERT_TRUE(without.ok()) << without.status().to_string();
      EXPECT_EQ(without->packing, whole->packing);
      for (const KernelSource& kernel : without->kernels) {
        if (names.contains(kernel.name)) continue;  // a second pass
        const std::string suffix = fmt::format("_{}", ablation_key(part));
        ASSERT_TRUE(kernel.name.ends_with(suffix)) << kernel.name;
        const std::string name = kernel.name.substr(0, kernel.name.size() - suffix.size());
        ASSERT_TRUE(names.contains(name)) << kernel.name;
        whole_of[kernel.name] = name;
        sources.push_back(kernel);
      }
    }
  }
  EXPECT_GE(whole_of.size(), 2U);
  std::ranges::sort(sources, {}, &KernelSource::name);
  const auto repeated = std::ranges::unique(sources, {}, &KernelSource::name);
  sources.erase(repeated.begin(), repeated.end());
  // At the most registers that a thread may have, ptxas does not order loads as it does around multiplications: it
  // spills as much as a candidate may that is timed (search/trial/kernel_store.h).
  const std::int64_t allowed = tested.name == "scatter" || tested.name == "panel" ? 64 : 0;
  const auto compiled = compile_all(**compiler, sources, "sm_90");
  for (const auto& [name, kernel] : compiled) {
    ASSERT_TRUE(kernel.ok()) << name << "\n" << kernel.status().to_string();
    fmt::print("{}: {} registers, {} bytes spilled\n", name, kernel->figures.registers,
               kernel->figures.spill_store_bytes);
    const auto whole = whole_of.find(name);
    if (whole == whole_of.end()) continue;
    const auto& of_whole = compiled.at(whole->second);
    ASSERT_TRUE(of_whole.ok());
    EXPECT_LE(kernel->figures.spill_store_bytes, std::max(of_whole->figures.spill_store_bytes, allowed)) << name;
  }
}

TEST(AblationTest, FamiliesHavePartsAndRefuseOthers) {
  const std::set<std::string> kWithParts = {"bitmap", "bsr", "gather", "panel", "rows", "scatter", "slots", "wgmma"};
  for (const auto& each : families()) {
    SCOPED_TRACE(each->name);
    const std::vector<Ablation> parts = ablations(*each);
    if (parts.empty()) {
      EXPECT_FALSE(kWithParts.contains(each->name));
      continue;
    }
    EXPECT_THAT(parts, testing::IsSupersetOf({Ablation::kNoMultiply, Ablation::kCopyOnly}));
    EXPECT_EQ(parts.size(), each->name == "bsr" ? 2U : 3U) << "blocks of bsr are operands as they are loaded";
  }
  const auto without = generate_without(Ablation::kNoDecode, *family("bsr"), {}, {}, {});
  EXPECT_EQ(without.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(without.status().message(), testing::HasSubstr("no decode"));
}

INSTANTIATE_TEST_SUITE_P(Families, AblationCompileTest, testing::ValuesIn(kSearched), [](const auto& instance) {
  return fmt::format("{}_n{}_{}", instance.param.family, instance.param.tokens, short_name(instance.param.type));
});

}  // namespace
}  // namespace sparsmith::test
