#include "generator/families/slots/slots_family.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

// Row lengths up to twice their mean.
CsrMatrix draw_weight(std::int64_t rows, std::int64_t cols, std::int64_t mean, std::uint64_t seed) {
  Random random(seed);
  return draw_matrix(random, rows, cols, [&](std::int64_t) {
    return static_cast<double>(random() % static_cast<std::uint64_t>(2 * mean)) / static_cast<double>(cols);
  });
}

Config config_of(SlotColumns columns, int vector_width, int tiles_per_slot, int depth, int threads, int blocks) {
  return Config{"slots",
                {{"columns", static_cast<int>(columns)},
                 {"vector_width", vector_width},
                 {"tiles_per_slot", tiles_per_slot},
                 {"input", 1},
                 {"blocks_per_sm", blocks},
                 {"tokens_per_pass", 1},
                 {"threads_per_block", threads},
                 {"depth", depth},
                 {"row_lanes", 8}}};
}

TEST(SlotsFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  const CsrMatrix matrix = draw_weight(300, 1000, 40, 1);
  const SparsityStatistics statistics = compute_statistics(matrix);
  const Family& slots = slots_family();
  for (const std::int64_t tokens : {1, 4}) {
    const Problem problem = problem_of(matrix, tokens);
    const SearchSpace space = search_space(slots, problem, statistics);
    ASSERT_GT(space.configs.size(), 100U);
    for (std::size_t i = 0; i < space.configs.size(); i += 37)
      expect_whole_candidate(slots, space.configs[i], problem, matrix, statistics);
  }
}

// The configs that have been measured to win lie in the space that a search walks through.
TEST(SlotsFamilyTest, KnownWinnersAreInTheSpace) {
  const Family& slots = slots_family();
  const auto found = [&](std::int64_t mean, DataType type, const Config& config) {
    const CsrMatrix matrix = draw_weight(8192, 8192, mean, 7);
    Problem problem = problem_of(matrix, 1);
    problem.spec.type = type;
    const SearchSpace space = search_space(slots, problem, compute_statistics(matrix));
    return std::any_of(space.configs.begin(), space.configs.end(),
                       [&](const PredictedConfig& predicted) { return predicted.config == config; });
  };
  EXPECT_TRUE(found(819, DataType::kFloat16, config_of(SlotColumns::kOffset8, 16, 1, 2, 512, 2)));
  EXPECT_TRUE(found(410, DataType::kFloat16, config_of(SlotColumns::kDelta8, 16, 2, 2, 512, 2)));
  EXPECT_TRUE(found(82, DataType::kFloat16, config_of(SlotColumns::kUint16, 8, 1, 2, 512, 2)));
  EXPECT_TRUE(found(82, DataType::kFloat16, config_of(SlotColumns::kUint16, 8, 4, 4, 512, 2)));
  EXPECT_TRUE(found(3277, DataType::kFloat16, config_of(SlotColumns::kDelta4, 16, 1, 2, 512, 2)));
  EXPECT_TRUE(found(819, DataType::kFloat16, config_of(SlotColumns::kDelta6, 16, 1, 2, 512, 2)));
  EXPECT_TRUE(found(819, DataType::kFloat32, config_of(SlotColumns::kOffset8, 16, 1, 1, 512, 2)));
  EXPECT_TRUE(found(819, DataType::kFloat32, config_of(SlotColumns::kDelta8, 16, 1, 1, 512, 2)));
}

// What the ranking expects of a packing is what the packer makes, within a few per cent.
TEST(SlotsFamilyTest, TheEstimateIsNearWhatIsPacked) {
  const Family& slots = slots_family();
  for (const double least : {0.02, 0.3}) {
    Random random(13);
    const CsrMatrix matrix = draw_matrix(
        random, 2048, 4096, [&](std::int64_t) { return least + static_cast<double>(random() % 200) / 1000; });
    const SparsityStatistics statistics = compute_statistics(matrix);
    const Problem problem = problem_of(matrix, 1);
    using enum SlotColumns;
    for (const auto& [columns, width] : {std::pair{kUint16, 16},
                                         {kDelta8, 16},
                                         {kOffset8, 16},
                                         {kDelta4, 16},
                                         {kDelta4, 32},
                                         {kDelta6, 16},
                                         {kDelta3, 32}}) {
      const Config config = config_of(columns, width, 1, 1, 512, 1);
      const auto packed = slots.pack(config, problem, matrix);
      ASSERT_TRUE(packed.ok());
      const SlotsEstimate estimate(SlotsConfig(config), problem, statistics);
      EXPECT_NEAR(estimate.bytes / static_cast<double>(packed->bytes()), 1.0, 0.08)
          << slot_columns_name(columns) << " from " << least;
    }
  }
}

// A few rows are longer than a mean part.
CsrMatrix draw_power_weight(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Random random(seed);
  return draw_matrix(random, rows, cols,
                     [&](std::int64_t row) { return std::min(1.0, 0.8 / static_cast<double>(row + 1)); });
}

TEST(SlotsFamilyTest, TheEstimateKnowsHeavyParts) {
  const Family& slots = slots_family();
  for (const std::int64_t rows : {1000, 16384}) {
    const CsrMatrix matrix = draw_power_weight(rows, 8192, 3);
    const SparsityStatistics statistics = compute_statistics(matrix);
    const Problem problem = problem_of(matrix, 1);
    for (const int blocks : {1, 2}) {
      const Config config = config_of(SlotColumns::kUint16, 8, 1, 2, 512, blocks);
      const auto packed = slots.pack(config, problem, matrix);
      ASSERT_TRUE(packed.ok());
      const SlotsEstimate estimate(SlotsConfig(config), problem, statistics);
      EXPECT_GT(packed->facts.at("heavy_parts"), 0);
      EXPECT_NEAR(estimate.bytes / static_cast<double>(packed->bytes()), 1.0, 0.15) << rows << " rows";
      EXPECT_EQ(estimate.longest_row, packed->facts.at("longest_row"));
    }
  }
}

// A kernel of its own, with room for what the warps leave.
TEST(SlotsFamilyTest, LongRowsAreTheWholeBlocks) {
  const Family& slots = slots_family();
  const auto kernel_of = [&](const CsrMatrix& matrix, int row_lanes) {
    const Problem problem = problem_of(matrix, 1);
    Config config = config_of(SlotColumns::kUint16, 8, 1, 2, 512, 1);
    config.values["row_lanes"] = row_lanes;
    const auto packed = slots.pack(config, problem, matrix);
    return slots.generate(config, problem, *packed)->kernels.front();
  };
  const CsrMatrix power = draw_power_weight(4096, 8192, 3);  // 819 slots and fewer
  EXPECT_TRUE(kernel_of(power, 8).name.ends_with("_l"));
  EXPECT_NE(kernel_of(power, 8).source.find("SlotSums<8, 1, kThreads>"), std::string::npos);
  EXPECT_TRUE(kernel_of(power, 32).name.ends_with("_l"));
  const CsrMatrix even = draw_weight(8192, 8192, 1200, 7);  // 300 slots and fewer, 62 rows a part
  EXPECT_FALSE(kernel_of(even, 8).name.ends_with("_l"));
  EXPECT_NE(kernel_of(even, 8).source.find("SlotSums<8, 1, 0>"), std::string::npos);
}

// One width of 4, 6 and 8 bits, and 3 bits beside it where few distances are longer.
TEST(SlotsFamilyTest, NarrowDistancesAreTriedWhereTheyTakeFewerBytes) {
  const Family& slots = slots_family();
  const auto tried = [&](double density, std::int64_t cols = 4096) {
    Random random(3);
    const CsrMatrix matrix = draw_matrix(random, 256, cols, density);
    const Problem problem = problem_of(matrix, 1);
    std::set<SlotColumns> columns;
    for (const PredictedConfig& predicted : search_space(slots, problem, compute_statistics(matrix)).configs)
      columns.insert(SlotsConfig(predicted.config).columns);
    return columns;
  };
  using enum SlotColumns;
  EXPECT_EQ(tried(0.5), (std::set{kUint16, kDelta8, kOffset8, kDelta4, kDelta3}));
  EXPECT_EQ(tried(0.4), (std::set{kUint16, kDelta8, kOffset8, kDelta4, kDelta3}));
  EXPECT_EQ(tried(0.5, 900), (std::set{kUint16, kDelta8, kOffset8, kDelta4})) << "rows that do not fill tiles of 32";
  EXPECT_EQ(tried(0.2), (std::set{kUint16, kDelta8, kOffset8, kDelta4}));
  EXPECT_EQ(tried(0.1), (std::set{kUint16, kDelta8, kOffset8, kDelta6}));
  EXPECT_EQ(tried(0.03), (std::set{kUint16, kDelta8, kOffset8}));
  EXPECT_EQ(tried(0.01), (std::set{kUint16}));
}

TEST(SlotsFamilyTest, ARuleSaysWhatItForbids) {
  const Family& slots = slots_family();
  const CsrMatrix matrix = draw_weight(4, 100, 5, 2);
  const SparsityStatistics statistics = compute_statistics(matrix);
  Problem problem = problem_of(matrix, 1);
  const Config plain = config_of(SlotColumns::kUint16, 8, 1, 2, 512, 2);
  EXPECT_TRUE(slots.check(plain, problem, statistics).ok());
  const auto refusal = [&](const Config& config) { return slots.check(config, problem, statistics).message(); };
  EXPECT_NE(refusal(config_of(SlotColumns::kUint16, 8, 4, 2, 512, 2)).find("whole slots"), std::string::npos);
  EXPECT_NE(refusal(config_of(SlotColumns::kUint16, 16, 1, 4, 1024, 2)).find("registers"), std::string::npos);
  EXPECT_NE(refusal(config_of(SlotColumns::kUint16, 8, 1, 1, 1024, 4)).find("threads"), std::string::npos);
  problem.spec.cols = 65536;
  EXPECT_NE(refusal(plain).find("65,535"), std::string::npos);
  EXPECT_EQ(refusal(config_of(SlotColumns::kOffset8, 8, 1, 1, 512, 1)), "");
  EXPECT_EQ(refusal(config_of(SlotColumns::kDelta4, 8, 1, 1, 512, 1)), "");
  EXPECT_NE(refusal(config_of(SlotColumns::kDelta6, 8, 1, 1, 512, 1)).find("whole words"), std::string::npos);
  EXPECT_NE(refusal(config_of(SlotColumns::kOffset8, 32, 1, 1, 512, 1)).find("whole words"), std::string::npos);
  EXPECT_EQ(refusal(config_of(SlotColumns::kDelta3, 32, 1, 1, 512, 2)), "");
  EXPECT_NE(refusal(config_of(SlotColumns::kDelta3, 32, 1, 2, 512, 2)).find("registers"), std::string::npos);
  problem.spec.cols = 255;
  EXPECT_NE(refusal(config_of(SlotColumns::kDelta3, 32, 1, 1, 512, 2)).find("K >= 256"), std::string::npos);
  problem.spec.cols = 200000;  // in fp16 more than the shared memory of a block
  EXPECT_NE(refusal(config_of(SlotColumns::kUint32, 8, 1, 1, 512, 1)).find("shared memory"), std::string::npos);
}

// The rules go by estimates; what a packed weight asks for is known when it is there.
TEST(SlotsFamilyTest, APackedWeightThatAsksForTooMuchSharedMemoryIsRefused) {
  const CsrMatrix matrix = draw_weight(300, 1000, 40, 3);
  Problem problem = problem_of(matrix, 1);
  const Family& slots = slots_family();
  const Config config = config_of(SlotColumns::kUint16, 8, 1, 1, 256, 1);
  const auto packed = slots.pack(config, problem, matrix);
  ASSERT_TRUE(packed.ok());
  EXPECT_TRUE(slots.generate(config, problem, *packed).ok());
  problem.device.shared_bytes_per_block = 1024;
  const auto refused = slots.generate(config, problem, *packed);
  EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(refused.status().message().find("shared memory"), std::string::npos) << refused.status().to_string();
}

// Kernels are shared between weights, and a name is the key of every cache: equal names mean equal text.
TEST(SlotsFamilyTest, EqualNamesMeanEqualText) {
  const Family& slots = slots_family();
  KernelTexts texts;
  for (const std::int64_t cols : {500, 900}) {
    const CsrMatrix matrix = draw_weight(64, cols, 40, 5);
    const SparsityStatistics statistics = compute_statistics(matrix);
    for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
      for (const char* epilogue : {"none", "bias+relu", "beta"}) {
        Problem problem = problem_of(matrix, 2);
        problem.spec.layout = layout;
        problem.spec.epilogue = *Epilogue::parse(epilogue);
        texts.add(slots, problem, matrix, statistics, 41);
      }
    }
  }
  texts.expect_distinct();
}

}  // namespace
}  // namespace sparsmith::test
