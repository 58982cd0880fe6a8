#include "generator/search_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "formats/packed_format.h"
#include "matrix/synthesis.h"

namespace sparsmith {
namespace {

// Three parameters, and rules of one, two and all of them. The rule of b would hold if it were asked late, when c is
// known.
const Family kDrawn = {
    .name = "drawn",
    .parameters = {{"a", "a", {1, 2, 3}, ""}, {"b", "b", {10, 20}, ""}, {"c", "c", {5, 6, 7}, ""}},
    .rules = {{{"c", "a"}, "a and c", [](auto& in) { return in["a"] + in["c"] != 8; }, Rule::Kind::kLegal},
              {{"b"}, "b", [](auto& in) { return in["b"] != 20 || in["c"] != 0; }},
              {{"a"}, "a", [](auto& in) { return in["a"] != 2; }, Rule::Kind::kLegal},
              {{"a", "b", "c"},
               "all",
               [](auto& in) {
                 const std::int64_t product = in["a"] * in["b"] * in["c"];
                 return product != 150 && product != 210;
               }}},
    .packing_of_rows = [](const Config&, const Problem&) { return std::string("p"); },
    .kernels = [](const Config&, const Problem&, const PackedWeight&) -> Result<PlannedKernels> {
      return unsupported("drawn");
    },
    .predict =
        [](const Config& config, const Problem&, const SparsityStatistics&) {
          return 100 - static_cast<double>(config.at("a") * 10 + config.at("c"));
        },
};

TEST(SearchSpaceTest, HoldsWhatBreaksNoRuleFastestFirst) {
  const SearchSpace space = search_space(kDrawn, {}, {});
  std::vector<std::string> configs;
  for (const PredictedConfig& predicted : space.configs) {
    EXPECT_EQ(predicted.predicted_us, kDrawn.predict(predicted.config, {}, {}));
    configs.push_back(predicted.config.text());
  }
  // Of a in {1, 3}, b = 10 and c in {5, 6, 7} without a + c = 8 and without a b c = 150 or 210; by 10 a + c.
  EXPECT_EQ(configs, (std::vector<std::string>{"drawn a=3 b=10 c=6", "drawn a=1 b=10 c=6", "drawn a=1 b=10 c=5"}));
}

TEST(SearchSpaceTest, CountsCutsWhereARuleIsFirstBroken) {
  const SearchSpace space = search_space(kDrawn, {}, {});
  // a = 2 is cut once, not with every b and c; b = 20 for each a that is left; a = 3, c = 5 breaks two rules, and the
  // first of them counts.
  EXPECT_EQ(space.cuts, (std::map<std::string, std::int64_t>{
                            {"drawn: a", 1}, {"drawn: b", 2}, {"drawn: a and c", 2}, {"drawn: all", 1}}));
}

// The families that a product with the transposed weight of this pattern may take, many tokens, and their packings.
std::set<std::string> families_of_transposed(const char* pattern, double sparsity) {
  const CsrMatrix weight = synthesize({.rows = 512,
                                       .cols = 1024,
                                       .sparsity = sparsity,
                                       .pattern = parse_synthesis_pattern(pattern).value(),
                                       .data_type = DataType::kFloat16,
                                       .seed = 1})
                               .value();
  Problem problem{.spec = {.type = DataType::kFloat16, .kind = OperatorKind::kSpmmTransposed}, .tokens = 512};
  problem.spec.set_weight(weight.rows, weight.cols, weight.nnz());
  problem.device = typical_device(90);
  std::set<std::string> found;
  for (const PredictedConfig& each : search_space(problem, compute_statistics(transposed(weight))).configs) {
    if (!found.insert(each.config.family).second) continue;
    const Family& of = *family(each.config.family);
    EXPECT_EQ(is_transposed(of.packing(each.config, problem)), of.packs_transposed) << each.config.text();
  }
  return found;
}

TEST(SearchSpaceTest, ATransposedWeightHasTheFamiliesOfItsOwnStructure) {
  using testing::Contains;
  using testing::IsSupersetOf;
  using testing::Not;
  EXPECT_THAT(families_of_transposed("uniform", 0.8), IsSupersetOf({"wgmma", "cooperative", "unpack_bitmap"}));
  EXPECT_THAT(families_of_transposed("block:32", 0.8), IsSupersetOf({"bsr_wgmma", "bsr_strips"}));
  EXPECT_THAT(families_of_transposed("block:32+uniform:0.001", 0.8),
              IsSupersetOf({"bsr_wgmma_rest", "bsr_strips_rest"}));
  // Two in four neighbouring columns are any number in four neighbouring rows.
  const std::set<std::string> two_four = families_of_transposed("2:4", 0.5);
  for (const char* name : {"two_four", "two_four_wgmma"}) EXPECT_THAT(two_four, Not(Contains(name)));
  EXPECT_THAT(families_of_transposed("2:4-transposable", 0.5), Contains("two_four_wgmma"));
}

}  // namespace
}  // namespace sparsmith
