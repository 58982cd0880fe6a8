#include "generator/panel_family.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/family_checks.h"

namespace sparsmith::test {
namespace {

Config plain_config() {
  return Config{"panel",
                {{"products", 0},
                 {"segment_lanes", 1},
                 {"segment_length", 128},
                 {"row_parts", 2},
                 {"column_parts", 1},
                 {"threads_per_block", 512},
                 {"depth", 2},
                 {"input", 0},
                 {"store", 0}}};
}

TEST(PanelFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) { expect_whole_candidates(PanelFamily()); }

TEST(PanelFamilyTest, ARuleSaysWhatItForbids) {
  const PanelFamily family;
  Random random(2);
  const CsrMatrix matrix = draw_matrix(random, 64, 512, 0.1);
  const SparsityStatistics statistics = compute_statistics(matrix);
  Problem problem = problem_of(matrix, 8);
  EXPECT_TRUE(family.check(plain_config(), problem, statistics).ok());
  const auto refused = [&](const char* parameter, std::int64_t value) {
    Config config = plain_config();
    config.values[parameter] = value;
    return !family.check(config, problem, statistics).ok();
  };
  EXPECT_TRUE(refused("column_parts", 5));
  EXPECT_FALSE(refused("column_parts", 32));
  problem.spec.cols = 16;
  EXPECT_TRUE(refused("column_parts", 4));  // parts of 8 columns: two would hold none
  problem.spec.cols = 30000;
  EXPECT_NE(family.check(plain_config(), problem, statistics).message().find("shared memory"), std::string::npos);
  EXPECT_FALSE(refused("column_parts", 3));
  problem.spec.type = DataType::kFloat32;
  Config tensor = plain_config();
  tensor.values["products"] = 1;
  EXPECT_NE(family.check(tensor, problem, statistics).message().find("16-bit"), std::string::npos);

  problem = problem_of(matrix, 8);
  tensor.values["store"] = 1;
  EXPECT_TRUE(family.check(tensor, problem, statistics).ok());
  problem.spec.epilogue.beta = true;  // a row that is stored twice would add the old Y twice
  EXPECT_FALSE(family.check(tensor, problem, statistics).ok());
  EXPECT_FALSE(refused("store", 1));
  EXPECT_TRUE(refused("store", 2));  // what waits has been rounded
  problem.spec.epilogue.beta = false;
  EXPECT_FALSE(refused("store", 2));
}

TEST(PanelFamilyTest, KernelTextDependsOnItsNameAlone) {
  expect_text_depends_on_name_alone(PanelFamily(), {{64, 512}, {300, 30000}});
}

}  // namespace
}  // namespace sparsmith::test
