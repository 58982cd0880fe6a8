// What the cards, folded tables and outliers of pages say.
#include "tools/report/layers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "tools/report/sections.h"

namespace sparsmith::tools {
namespace {

ResultCase case_of(const std::string& weight, std::int64_t tokens, double us, double dense_us) {
  return {.weight = weight,
          .rows = 64,
          .cols = 64,
          .sparsity = 0.9,
          .tokens = tokens,
          .family = "slots",
          .measured = true,
          .us = us,
          .cublas_us = dense_us};
}

TEST(TuningCardTest, SaysTheAnswer) {
  TuningResults results{.source = "m", .device = "GPU"};
  for (const char* name : {"layers.0.up", "layers.1.up", "head"}) {
    for (const std::int64_t tokens : {1, 8}) {
      const auto ms = 1000 * static_cast<double>(tokens);
      ResultCase& one = results.cases.emplace_back(case_of(name, tokens, ms, 2 * ms));
      one.dense_bytes = 4e6;
      one.gpu_bytes = 1e6;
    }
  }
  ResultCase& dense = results.cases.back();
  dense.us = dense.cublas_us;
  dense.family = "dense";
  dense.reason = "dense is kept: no sparse candidate passed";
  const Section section = tuning_card(results);
  const Card& card = section.card.value();
  EXPECT_EQ(card.tag, "measured on GPU");
  EXPECT_FALSE(card.warns);
  ASSERT_EQ(card.facts.size(), 4U);
  EXPECT_EQ(card.facts[0].value, "12.00 MB → 3.00 MB");
  EXPECT_EQ(card.facts[1].name, "all N together");
  EXPECT_EQ(card.facts[2].value, "6 → 3 ms");
  EXPECT_EQ(card.facts[2].remark, "2.00x, 3 of 3 faster");
  EXPECT_EQ(card.facts[3].remark, "1.50x, 2 of 3 faster");
  EXPECT_EQ(card.lines, (std::vector<std::string>{
                            "3 of 3 weights gain at one N or more.",
                            "Dense stays in 1 of 6 choices, each a weight at one N: no sparse kernel passed."}));
  const Table& bars = section.blocks.at(0).table.value();
  EXPECT_EQ(bars.rows,
            (std::vector<std::vector<std::string>>{{"layers.*.up (2)", "64x64", "4 → 2 ms, 2.00x", "32 → 16 ms, 2.00x"},
                                                   {"head", "64x64", "2 → 1 ms, 2.00x", "16 → 16 ms, 1.00x"}}));
  EXPECT_EQ(bars.bars.at({1, 2}), (std::vector<double>{0.5, 0.25})) << "of the longest at this N";

  for (ResultCase& one : results.cases) one.measured = false;
  EXPECT_EQ(tuning_card(results).card->tag, "PREDICTED for GPU, not measured");
}

TEST(TuningCardTest, WithoutATimeOfDenseThereIsNoRatio) {
  const Section section = tuning_card({.source = "m", .cases = {case_of("w", 1, 2, 0)}});
  ASSERT_EQ(section.card.value().facts.size(), 1U);
  EXPECT_EQ(section.card->facts[0].value, "2 us");
  EXPECT_EQ(section.card->facts[0].remark, "1 of 1 faster");
  EXPECT_TRUE(tuning_card({.source = "m"}).card == std::nullopt);
}

TEST(LayersTest, WeightsOfOneShapeAndNumberedNamesAreOneRow) {
  std::vector<ResultCase> cases;
  for (const char* name : {"layers.0.up", "layers.11.up", "layers.2.down"}) {
    cases.push_back(case_of(name, 8, 2, 8));
  }
  cases[0].sparsity = 0.8;
  cases[1].family = "rows";
  cases[1].measured = false;
  const Table table = layers_table(cases);
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"layers.*.up", "2", "64x64", "80-90 %", "8", "1 rows, 1 slots",
                                                     "-", "-", "16.00", "4.00", "4.00x", "partly predicted"}));
  EXPECT_EQ(table.rows[1][0], "layers.2.down") << "a single weight keeps its name";
  ASSERT_EQ(table.folded.size(), 2U);
  ASSERT_EQ(table.folded[0].size(), 2U);
  EXPECT_EQ(table.folded[0][1][0], "layers.11.up");
  EXPECT_TRUE(table.folded[1].empty());
}

TEST(LayersTest, OperatorsOfAWeightAreApart) {
  std::vector<ResultCase> cases = {case_of("w", 8, 2, 8), case_of("w", 8, 2, 8)};
  cases[0].operator_name = "spmm_fp16_token_major_none";
  cases[1].operator_name = "sddmm_fp16_token_major_none";
  const std::vector<Layers> all = folded_layers(cases);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "w (spmm)");
  EXPECT_EQ(all[1].name, "w (sddmm)");
}

TEST(LayersTest, LayersWithDifferentEpiloguesAreApart) {
  std::vector<ResultCase> cases;
  for (const char* name : {"layers.0.up", "layers.1.up", "layers.2.up", "layers.2.up"}) {
    cases.push_back(case_of(name, 8, 2, 8));
    cases.back().operator_name = "spmm_fp16_token_major_none";
  }
  cases[2].operator_name = "spmm_fp16_token_major_bias+relu";
  std::vector<std::string> names;
  const auto folded_names = [&] {
    names.clear();
    for (const Layers& each : folded_layers({cases.begin(), cases.end()})) names.push_back(each.name);
    return names;
  };
  cases.pop_back();
  EXPECT_EQ(folded_names(), (std::vector<std::string>{"layers.*.up (none)", "layers.2.up (bias+relu)"}));
  cases.push_back(case_of("layers.2.up", 8, 2, 8));
  cases.back().operator_name = "sddmm_fp16_token_major_none";
  EXPECT_EQ(folded_names(), (std::vector<std::string>{"layers.*.up (spmm, none)", "layers.2.up (spmm, bias+relu)",
                                                      "layers.2.up (sddmm)"}));
}

LayerAnalysis analysis_of(const std::vector<std::pair<std::string, double>>& zeros) {
  LayerAnalysis analysis{.source = "m"};
  for (const auto& [name, sparsity] : zeros) {
    AnalyzedLayer& layer = analysis.layers.emplace_back();
    layer.name = name;
    layer.statistics.rows = layer.statistics.cols = 100;
    layer.statistics.sparsity = sparsity;
    layer.statistics.nnz = std::llround(10000 * (1 - sparsity));
  }
  return analysis;
}

TEST(ZerosTest, LayersThatDifferFromTheirLikeAreMarked) {
  std::vector<std::pair<std::string, double>> zeros;
  for (int layer = 0; layer < 6; ++layer) {
    zeros.emplace_back(fmt::format("layers.{}.q_proj.weight", layer), 0.9 + 0.001 * layer);
    zeros.emplace_back(fmt::format("layers.{}.o_proj.weight", layer), layer == 4 ? 0.7 : 0.8);
  }
  zeros.emplace_back("head.weight", 0.2);
  const Section section = zeros_section(analysis_of(zeros));
  ASSERT_EQ(section.blocks.at(0).figures.size(), 1U);
  const Figure* const map = section.blocks[0].figures.data();
  EXPECT_EQ(map->x.categories, (std::vector<std::string>{"0", "1", "2", "3", "4", "5"}));
  EXPECT_EQ(map->y.categories, (std::vector<std::string>{"o_proj", "q_proj"}));
  EXPECT_EQ(map->series.at(0).x.size(), 12U) << "a weight without a layer is not in the map";
  const Series* const outliers = &map->series.at(1);
  EXPECT_EQ(outliers->x, (std::vector<double>{4}));
  EXPECT_EQ(outliers->y, (std::vector<double>{0}));
  EXPECT_EQ(section.blocks.at(0).table->rows,
            (std::vector<std::vector<std::string>>{{"layers.4.o_proj.weight", "70.00 %", "80.00 %", "-10.00 points"}}));
  EXPECT_NE(section.text.find("1 of 13 weights are outliers"), std::string::npos);
}

TEST(ZerosTest, NamesWithoutNumbersHaveTheListAlone) {
  const Section section = zeros_section(analysis_of({{"a", 0.9}, {"b", 0.9}, {"c", 0.9}, {"d", 0.5}}));
  EXPECT_TRUE(section.blocks.at(0).figures.empty());
  ASSERT_EQ(section.blocks.at(0).table->rows.size(), 1U);
  EXPECT_EQ(section.blocks[0].table->rows[0][0], "d");
  EXPECT_TRUE(zeros_section(analysis_of({{"a", 0.9}, {"b", 0.9}, {"c", 0.1}})).blocks.at(0).figures.empty());
}

}  // namespace
}  // namespace sparsmith::tools
