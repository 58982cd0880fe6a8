// What figures are made of; that they are drawn, browser_test.py looks at.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "tools/report/format_curves.h"
#include "tools/report/report_page.h"
#include "tools/report/sections.h"

namespace sparsmith::tools {
namespace {

ResultCase case_at(std::int64_t tokens, double us, double dense_us, double sparsity = 0.9) {
  ResultCase one;
  one.weight = "w";
  one.rows = one.cols = 64;
  one.nnz = 400;
  one.sparsity = sparsity;
  one.tokens = tokens;
  one.family = us == dense_us ? "dense" : "slots";
  one.measured = true;
  one.us = us;
  one.cublas_us = dense_us;
  one.bytes_moved = 1000;
  return one;
}

double crossover_of(const std::vector<ResultCase>& cases) {
  std::vector<const ResultCase*> pointers;
  for (const ResultCase& one : cases) pointers.push_back(&one);
  return crossover_tokens(pointers);
}

const Figure* find_figure(const Section& section, const std::string& title) {
  for (const Block& block : section.blocks) {
    for (const Figure& figure : block.figures) {
      if (figure.title == title) return &figure;
    }
  }
  return nullptr;
}

const Figure* find_figure(const std::vector<Section>& sections, const std::string& title) {
  for (const Section& section : sections)
    if (const Figure* const found = find_figure(section, title)) return found;
  return nullptr;
}

// The table whose title begins so; an empty one where there is none.
Table find_table(const std::vector<Section>& sections, const std::string& beginning) {
  for (const Section& section : sections)
    for (const Block& block : section.blocks)
      if (block.table && block.table->title.starts_with(beginning)) return *block.table;
  return {};
}

const Series* find_series(const Figure& figure, const std::string& beginning) {
  const auto found =
      std::ranges::find_if(figure.series, [&](const Series& series) { return series.name.starts_with(beginning); });
  return found == figure.series.end() ? nullptr : &*found;
}

TEST(TuningFiguresTest, EachCellOfATableHasATitle) {
  ResultCase one = case_at(1, 5, 10);
  one.packed_bytes = one.gpu_bytes = 800;
  one.dense_bytes = 8192;
  one.cusparse_bytes = 900;
  one.bound_us = 2;
  one.bound_by = "memory";
  one.ablation = {5, 4, 3, 2};
  const std::vector<Section> sections = tuning_sections({.source = "run",
                                                         .memory_bandwidth = 1e12,
                                                         .cases = {one},
                                                         .seconds = {{"compile", 1}},
                                                         .cuts = {{"rule", 2}},
                                                         .rejections = {{"too slow", 1}}});
  std::set<std::string> titles;
  for (const Section& section : sections) {
    titles.insert(section.title);
    for (const Block& block : section.blocks) {
      if (!block.table) continue;
      for (const auto& row : block.table->rows)
        EXPECT_EQ(row.size(), block.table->columns.size()) << block.table->title;
    }
  }
  EXPECT_EQ(titles, (std::set<std::string>{"Results of run", "Layers", "Roofline", "Bytes", "Search"}));
}

TEST(BreakEvenFiguresTest, HaveWhiskersAndSpeedUps) {
  BreakEvenResults results{.source = "f", .device = "GPU"};
  results.cases.push_back({.name = "a",
                           .tokens = 1,
                           .dense_at = 0.4,
                           .sparse_at = 0.41,
                           .probes = {{0.4, 30, 30, "cublas", true}, {0.41, 28, 30, "rows", true}}});
  results.cases.push_back({.name = "a", .tokens = 8, .sparse_at = 0.3, .probes = {{0.3, 10, 30, "rows", true}}});
  results.cases.push_back({.name = "a", .tokens = 64, .dense_at = 0.95, .probes = {{0.95, 30, 30, "cublas", true}}});
  const Section section = break_even_section(results);
  EXPECT_NE(section.text.find("all measured"), std::string::npos);
  BreakEvenResults mixed = results;
  mixed.cases[1].probes[0].measured = false;
  EXPECT_NE(break_even_section(mixed).text.find("PREDICTED"), std::string::npos) << "one case is predicted";
  mixed = results;
  mixed.cases[0].probes[0].measured = false;
  EXPECT_NE(break_even_section(mixed).text.find("PREDICTED"), std::string::npos) << "one probe of two is predicted";
  const Figure* const figure = find_figure(section, "Break-even sparsity");
  ASSERT_NE(figure, nullptr);
  ASSERT_EQ(figure->series.size(), 1U);
  EXPECT_EQ(figure->series[0].x, (std::vector<double>{1, 8})) << "where dense stays, there is nothing to show";
  EXPECT_EQ(figure->series[0].y, (std::vector<double>{0.41, 0.3}));
  EXPECT_EQ(figure->series[0].low, (std::vector<double>{0.4, 0.3}));
  const Figure* const speedups = find_figure(section, "Speed-up over dense on the way there");
  ASSERT_NE(speedups, nullptr);
  ASSERT_EQ(speedups->series.size(), 3U);
  EXPECT_NEAR(speedups->series[0].y.at(1), 30.0 / 28, 1e-12);
  ASSERT_EQ(section.blocks.front().table->rows.size(), 3U);
  EXPECT_EQ(section.blocks.front().table->rows[1][2], "at most 30.0 %");
  EXPECT_EQ(section.blocks.front().table->rows[2][2], "dense stays up to 95.0 %");
  EXPECT_EQ(report_table({.break_evens = {results}}),
            "a: break-even for N = 1 at 41.0 %\na: break-even for N = 8 at most 30.0 %\n"
            "a: break-even for N = 64 was not reached\n");
}

TEST(SimulationFiguresTest, CurvesAreGeometricMeansAndStayWhereASearchHasEnded) {
  const SimulationResults results{
      .source = "s",
      .spaces = {
          {.name = "a", .best_us = 2, .candidates = 500, .strategies = {{"race", 2, 1.0, 1.5, {4, 1}}, {"random", 3}}},
          {.name = "b", .best_us = 3, .candidates = 400, .strategies = {{"race", 3, 1.21, 1.3, {4, 4, 1.21}}}}}};
  const Section section = simulation_section(results);
  const Figure* const figure = find_figure(section, "Best found against candidates tried");
  ASSERT_NE(figure, nullptr);
  ASSERT_EQ(figure->series.size(), 1U) << "a strategy without a curve has no line";
  EXPECT_EQ(figure->series[0].x, (std::vector<double>{1, 2, 3}));
  EXPECT_NEAR(figure->series[0].y[0], 4, 1e-12);
  EXPECT_NEAR(figure->series[0].y[1], 2, 1e-12);
  EXPECT_NEAR(figure->series[0].y[2], 1.1, 1e-12);
  ASSERT_EQ(section.blocks.back().table->rows.size(), 2U);
  EXPECT_EQ(section.blocks.back().table->rows[1],
            (std::vector<std::string>{"b", "400", "3.00", "1.000", "1.210", "-"}));
  EXPECT_EQ(report_table({.simulations = {results}}),
            "race: 2.5 candidates, 1.100 of the best recorded in 2 spaces\n"
            "random: 3.0 candidates, 1.000 of the best recorded in 1 spaces\n");
}

TEST(CrossoverTest, LiesWhereStraightLinesInLogarithmsMeet) {
  // Ours t = N, dense 8 throughout: at 8, half way between 1 and 64 in logarithms.
  EXPECT_NEAR(crossover_of({case_at(1, 1, 8), case_at(64, 64, 8)}), 8, 1e-9);
  EXPECT_EQ(crossover_of({case_at(1, 1, 8), case_at(64, 7, 8)}), 0) << "never as slow as dense";
  EXPECT_EQ(crossover_of({case_at(1, 9, 8), case_at(64, 64, 8)}), 0) << "slower from the start: nothing is crossed";
  EXPECT_EQ(crossover_of({case_at(1, 1, 8), case_at(32, 8, 8)}), 32) << "dense is kept";
  EXPECT_EQ(crossover_of({case_at(1, 1, 0), case_at(8, 64, 8)}), 0) << "dense is not known at the first";
}

TEST(SuiteFiguresTest, DistributionHasEveryCaseAndTheGeometricMean) {
  ResultCase without_dense = case_at(8, 1, 0);
  without_dense.cusparse_us = 3;
  const Section section =
      suite_section("GPU", {case_at(1, 1, 8), case_at(1, 1, 2), case_at(8, 1, 0.5), case_at(8, 1, 0), without_dense});
  EXPECT_NE(section.text.find("4 measured cases"), std::string::npos) << section.text;
  const Figure* const figure = find_figure(section, "Distribution of speed-ups");
  ASSERT_NE(figure, nullptr);
  const Series* const series = find_series(*figure, "over cuBLAS");
  ASSERT_NE(series, nullptr);
  EXPECT_NE(series->name.find("2.00x"), std::string::npos) << series->name;
  EXPECT_EQ(series->x, (std::vector<double>{0.5, 0.5, 2, 8}));
  EXPECT_EQ(series->y.front(), 0);
  EXPECT_EQ(series->y.back(), 100);
  const Figure* const points = find_figure(section, "Speed-up over dense against sparsity");
  ASSERT_NE(points, nullptr);
  ASSERT_EQ(points->series.size(), 2U);
  EXPECT_EQ(points->series[1].y, (std::vector<double>{0.5})) << "no point where no time of dense is known";
}

TEST(SuiteFiguresTest, TheMeanIsMarkedAboveTheCasesUpToIt) {
  const Section section = suite_section("GPU", {case_at(1, 4, 4), case_at(8, 4, 4)});
  const Figure* const figure = find_figure(section, "Distribution of speed-ups");
  ASSERT_NE(figure, nullptr);
  EXPECT_EQ(figure->notes.at(0).x, 1);
  EXPECT_EQ(figure->notes.at(0).y, 100);
}

TEST(SuiteFiguresTest, FewLevelsOfSparsityAreShownAsTheyAre) {
  for (const int count : {12, 13}) {
    std::vector<ResultCase> cases;
    for (int i = 0; i < count; ++i) cases.push_back(case_at(1, 1, 8, 0.61 + 0.02 * i));
    const Section section = suite_section("GPU", cases);
    const Figure* const figure = find_figure(section, "Who is fastest where");
    ASSERT_NE(figure, nullptr);
    EXPECT_EQ(figure->x.categories.size(), count == 12 ? 12U : 11U);
    EXPECT_EQ(figure->x.categories.front(), count == 12 ? "61 %" : "0 %");
  }
}

TEST(SuiteFiguresTest, PhasesAreTold) {
  ResultCase slower = case_at(1, 4, 8, 0.5);
  slower.cusparse_us = 2;
  const Section section = suite_section("GPU", {case_at(1, 1, 8), case_at(8, 8, 8), case_at(1, 7.99, 8, 0.99), slower});
  const Figure* const figure = find_figure(section, "Who is fastest where");
  ASSERT_NE(figure, nullptr);
  EXPECT_EQ(figure->x.categories, (std::vector<std::string>{"50 %", "90 %", "99 %"}));
  EXPECT_EQ(figure->y.categories, (std::vector<std::string>{"1", "8"}));
  const auto only_cell = [&](const char* name) {
    const Series* const series = find_series(*figure, name);
    return series == nullptr || series->x.size() != 1 ? std::pair(-1.0, -1.0) : std::pair(series->x[0], series->y[0]);
  };
  EXPECT_EQ(only_cell("sparsmith is faster"), std::pair(1.0, 0.0));
  EXPECT_EQ(only_cell("dense stays"), std::pair(1.0, 1.0));
  EXPECT_EQ(only_cell("a tie"), std::pair(2.0, 0.0));
  EXPECT_EQ(only_cell("a library is faster"), std::pair(0.0, 0.0));
}

TEST(SuiteFiguresTest, ChoicesOfFewWeightsAreShownSideBySide) {
  std::vector<ResultCase> cases;
  const auto add = [&](const char* weight, std::int64_t tokens, const char* family, double dense_us) {
    ResultCase& one = cases.emplace_back(case_at(tokens, 2, dense_us));
    one.weight = weight;
    one.family = family;
  };
  add("b64", 8, "bsr", 8);
  add("b64", 512, "bsr_wgmma", 6);
  add("2:4", 8, "two_four", 3);
  add("2:4", 512, "bsr", 5);
  const Section section = suite_section("GPU", cases);
  const Figure* const figure = find_figure(section, "Which kernels are chosen where");
  ASSERT_NE(figure, nullptr);
  EXPECT_EQ(figure->x.categories, (std::vector<std::string>{"b64", "2:4"}));
  EXPECT_EQ(figure->y.categories, (std::vector<std::string>{"8", "512"}));
  ASSERT_EQ(figure->series.size(), 3U);
  EXPECT_EQ(figure->series[0].name, "bsr") << "the one that is chosen most often comes first";
  EXPECT_EQ(figure->series[0].x, (std::vector<double>{0, 1}));
  EXPECT_EQ(figure->series[0].y, (std::vector<double>{0, 1}));
  EXPECT_EQ(figure->series[0].labels, (std::vector<std::string>{"4.00", "2.50"}));

  add("2:4", 512, "dense", 5);  // a second operator
  const Section several = suite_section("GPU", cases);
  EXPECT_EQ(find_figure(several, "Which kernels are chosen where"), nullptr);
  cases.clear();
  for (int i = 0; i < 25; ++i) add(("w" + std::to_string(i)).c_str(), 8, "bsr", 8);
  const Section many = suite_section("GPU", cases);
  EXPECT_EQ(find_figure(many, "Which kernels are chosen where"), nullptr);
}

TEST(ReportPageTest, PredictionsAndOtherDevicesStayApart) {
  ReportInputs inputs;
  for (const char* device : {"GPU a", "GPU b"}) {
    TuningResults results;
    results.device = device;
    results.cases = {case_at(1, 1, 8), case_at(8, 2, 8)};
    results.cases[1].measured = false;
    inputs.results.push_back(results);
  }
  const Page page = report_page("t", inputs);
  ASSERT_GE(page.sections.size(), 4U);
  EXPECT_EQ(page.sections[0].title, "Speed-ups on GPU a");
  EXPECT_NE(page.sections[0].text.find("1 measured case"), std::string::npos);
  EXPECT_EQ(page.sections[1].title, "Speed-ups on GPU b");
  EXPECT_EQ(page.sections[2].card.value().tag, "1 of 2 choices measured on GPU a, the others PREDICTED");
  EXPECT_TRUE(page.sections[2].card->warns);
}

TEST(ReportPageTest, TheOnlyPartGivesThePageItsTitle) {
  ReportInputs inputs;
  inputs.results.push_back({.source = "runs/model.json", .device = "GPU", .cases = {case_at(1, 1, 8)}});
  const Page page = report_page("", inputs);
  EXPECT_EQ(page.title, "Results of model.json");
  std::vector<std::string> titles;
  for (const Section& section : page.sections) titles.push_back(section.title);
  EXPECT_EQ(titles, (std::vector<std::string>{"", "Layers", "Speed-ups on GPU", "Roofline"})) << "the answer is first";
  EXPECT_EQ(page.sections[0].text, "From runs/model.json.");
  EXPECT_EQ(report_page("mine", inputs).sections[0].title, "Results of model.json");
  inputs.analyses.push_back({.source = "model.safetensors"});
  EXPECT_EQ(report_page("", inputs).title, "Report of 2 results");
}

TEST(ReportPageTest, OneCaseThatSaysMoreThanItsTimesHasASectionShown) {
  ReportInputs inputs;
  TuningResults& results = inputs.results.emplace_back();
  results.device = "GPU";
  results.cases = {case_at(1, 1, 8), case_at(8, 2, 8)};
  results.cases[0].bytes_moved = 0;
  EXPECT_TRUE(report_page("t", inputs).sections[0].card.has_value());
  results.cases[1].bytes_moved = 0;
  const Page page = report_page("t", inputs);
  ASSERT_EQ(page.sections.size(), 1U) << "the figures over all cases alone";
  EXPECT_EQ(page.sections[0].title, "Speed-ups on GPU");
}

TEST(TuningFiguresTest, RooflineHasIntensityAndSpeed) {
  TuningResults results;
  results.memory_bandwidth = 4e12;
  results.cases = {case_at(8, 2, 8)};
  const std::vector<Section> sections = tuning_sections(results);
  const Figure* const figure = find_figure(sections, "Speed against operations a byte");
  ASSERT_NE(figure, nullptr);
  const Series* const choices = find_series(*figure, "slots");
  ASSERT_NE(choices, nullptr);
  EXPECT_NEAR(choices->x.at(0), 2.0 * 400 * 8 / 1000, 1e-12);
  EXPECT_NEAR(choices->y.at(0), 2.0 * 400 * 8 / 2e-6 / 1e9, 1e-9);
  const Series* const roof = find_series(*figure, "memory, 4000 GB/s");
  ASSERT_NE(roof, nullptr);
  EXPECT_NEAR(roof->y.at(0) / roof->x.at(0), 4000, 1e-6);
}

TEST(TuningFiguresTest, ReachedIsOfTheStatedBoundOrElseOfTheMemorys) {
  TuningResults results;
  results.memory_bandwidth = 1e9;  // 1,000 bytes take 1 us
  results.cases = {case_at(8, 2, 8), case_at(64, 4, 4)};
  results.cases[1].bound_us = 3;
  results.cases[1].bound_by = "tensor cores";
  const std::vector<Section> sections = tuning_sections(results);
  const auto rows = find_table(sections, "Bytes moved").rows;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(std::vector(rows[0].end() - 3, rows[0].end()), (std::vector<std::string>{"1.00", "memory", "50 %"}));
  EXPECT_EQ(std::vector(rows[1].end() - 3, rows[1].end()), (std::vector<std::string>{"3.00", "tensor cores", "75 %"}));
}

TEST(TuningFiguresTest, BytesStandBesideTheFormatsOfTheFirstOperatorsType) {
  TuningResults results;
  results.cases = {case_at(8, 2, 8), case_at(64, 4, 4)};
  results.cases[0].operator_name = "fp32";
  results.cases[1].operator_name = "fp16";
  results.cases[0].weight = "v";
  for (ResultCase& one : results.cases) one.dense_bytes = 1000;
  results.cases[0].gpu_bytes = 250;
  results.cases[0].cusparse_bytes = 500;
  results.cases[1].gpu_bytes = 1000;
  const std::vector<Section> sections = tuning_sections(results);
  const Figure* const figure = find_figure(sections, "Bytes of the weights against sparsity");
  ASSERT_NE(figure, nullptr);
  EXPECT_NE(figure->caption.find("32-bit values"), std::string::npos) << figure->caption;
  const Series* const chosen = find_series(*figure, "as chosen");
  const Series* const cusparse = find_series(*figure, "cuSPARSE");
  ASSERT_TRUE(chosen != nullptr && cusparse != nullptr);
  EXPECT_EQ(chosen->y, (std::vector<double>{0.25, 1}));
  EXPECT_EQ(cusparse->y, (std::vector<double>{0.5})) << "of the other weight it is not known";
}

TEST(TuningFiguresTest, KernelsWithoutAPartAreShownWhereTheyWereTimed) {
  TuningResults results;
  results.cases = {case_at(8, 2, 8), case_at(64, 4, 4)};
  const auto table_of = [&] { return find_table(tuning_sections(results), "Kernels without a part").rows; };
  EXPECT_TRUE(table_of().empty());
  results.cases[1].bound_us = 1;
  results.cases[1].ablation = {.full_us = 4.1, .no_decode_us = 3, .no_multiply_us = 0, .copy_only_us = 2.5};
  const auto rows = table_of();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(std::vector(rows[0].end() - 5, rows[0].end()),
            (std::vector<std::string>{"4.10", "3.00", "-", "2.50", "1.00"}));
}

TEST(TuningFiguresTest, TracesShowTheBestSoFar) {
  TuningResults results;
  results.cases = {case_at(8, 2, 8)};
  for (const double us : {5.0, 0.0, 7.0, 2.0}) results.cases[0].tried.push_back({"slots a=1", 3, us});
  const std::vector<Section> sections = tuning_sections(results);
  const Figure* const trace = find_figure(sections, "w, N = 8");
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->series.at(0).x, (std::vector<double>{1, 3, 4}));
  EXPECT_EQ(trace->series.at(0).y, (std::vector<double>{5, 5, 2}));
  const Figure* const predictions = find_figure(sections, "Candidates: predicted against measured");
  ASSERT_NE(predictions, nullptr);
  EXPECT_EQ(predictions->series.at(1).y, (std::vector<double>{5, 7, 2}));
  EXPECT_EQ(predictions->series.at(0).x, (std::vector<double>{2, 7})) << "the line spans all times";
  EXPECT_EQ(predictions->series.at(0).y, (std::vector<double>{2, 7}));
}

TEST(TuningFiguresTest, APredictedCaseHidesNoMeasuredOneBehindIt) {
  TuningResults results;
  results.cases = {case_at(1, 1, 8), case_at(8, 2, 8)};
  for (ResultCase& one : results.cases) one.predicted_us = 3;
  results.cases[0].measured = false;
  const std::vector<Section> sections = tuning_sections(results);
  const Figure* const predictions = find_figure(sections, "Choices: predicted against measured");
  ASSERT_NE(predictions, nullptr);
  EXPECT_EQ(predictions->series.at(1).x, (std::vector<double>{3}));
  EXPECT_EQ(predictions->series.at(1).y, (std::vector<double>{2}));
}

TEST(FormatCurvesTest, BreakEvensAreThoseOfTheFormulas) {
  const auto at = [](DataType type, const char* format) {
    for (const BreakEven& point : format_break_evens(type)) {
      if (point.format == format) return point.sparsity;
    }
    return -1.0;
  };
  // A nonzero costs a value and an index; what is left is the row offsets.
  EXPECT_NEAR(at(DataType::kFloat32, "csr_u32"), 1.0 / 2, 0.005);
  EXPECT_NEAR(at(DataType::kFloat16, "csr_u32"), 2.0 / 3, 0.005);
  EXPECT_NEAR(at(DataType::kFloat16, "csr_u16"), 1.0 / 2, 0.005);
  EXPECT_NEAR(at(DataType::kFloat16, "bitmap"), 1.0 / 16, 0.005);
}

TEST(HistoryFiguresTest, ShowsLevelsAndEnvironments) {
  HistorySeries series{.name = "case"};
  for (int i = 0; i < 6; ++i) {
    const double median = i < 3 ? 2 : i < 5 ? 3 : 4;
    series.points.push_back(
        {"c" + std::to_string(i), median, median - 0.1, median + 0.1, i < 5 ? "a" : "b", i < 5 ? "" : "2026-01-31"});
  }
  series.changes = {{3, 2, 3, ""}, {5, 3, 4, ""}};
  const Section section = history_section({.source = "h.json", .series = {HistorySeries{.name = "empty"}, series}});
  const Figure* const figure = find_figure(section, "case");
  ASSERT_NE(figure, nullptr);
  const Series* const level = find_series(*figure, "level");
  ASSERT_NE(level, nullptr);
  EXPECT_EQ(level->x, (std::vector<double>{0, 3, 5, 5}));
  EXPECT_EQ(level->y, (std::vector<double>{2, 3, 4, 4}));
  ASSERT_EQ(figure->rules.size(), 1U);
  EXPECT_EQ(figure->rules[0].x, 4.5);
  EXPECT_EQ(figure->rules[0].text, "other environment");
  const Table& environments = *section.blocks.back().table;
  ASSERT_EQ(environments.rows.size(), 2U);
  EXPECT_EQ(environments.rows[1], (std::vector<std::string>{"case", "c5, 2026-01-31", "b"}));
  EXPECT_EQ(figure->notes.at(0).text, "+50.0 %");
  EXPECT_EQ(figure->x.categories, (std::vector<std::string>{"c0", "c1", "c2", "c3", "c4", "c5\n2026-01-31"}));
  EXPECT_EQ(find_table({section}, "Cases").rows,
            (std::vector<std::vector<std::string>>{{"case", "6", "2 us", "4 us", "2.00x", "2"}}));
}

TEST(HistoryFiguresTest, TimesHaveTheUnitThatSuitsThemAndNoiseStaysSmall) {
  HistorySeries series{.name = "case"};
  for (const double us : {0.045, 0.0451, 0.0449}) series.points.push_back({"c", us, us, us, ""});
  const Section section = history_section({.source = "h", .series = {series}});
  const Figure* const figure = find_figure(section, "case");
  ASSERT_NE(figure, nullptr);
  EXPECT_EQ(figure->y.label, "median, ns");
  EXPECT_NEAR(figure->y.low.value(), 40.5, 1e-9);
  EXPECT_NEAR(figure->y.high.value(), 49.5, 1e-9);
  EXPECT_EQ(figure->series.at(1).labels.at(1), "c: 45.1 ns [45.1, 45.1]");
  series.unit = "calls";
  EXPECT_EQ(find_figure(history_section({.source = "h", .series = {series}}), "case")->y.label, "median, calls");
}

TEST(TimeTextTest, HasAUnitThatSuits) {
  EXPECT_EQ(time_text(0.045), "45 ns");
  EXPECT_EQ(time_text(3.9123), "3.912 us");
  EXPECT_EQ(time_text(1200), "1.2 ms");
  EXPECT_EQ(time_text(0), "-");
}

TEST(HistoryFiguresTest, CasesWithMoreChangesComeFirst) {
  PerformanceHistory history{.source = "h.json"};
  for (const char* name : {"steady", "changed once", "changed twice", "steady too"}) {
    HistorySeries& series = history.series.emplace_back(HistorySeries{.name = name});
    for (const char* commit : {"c0", "c1", "c2"}) series.points.push_back({commit, 2, 1.9, 2.1, ""});
  }
  history.series[1].changes = {{1, 2, 3, ""}};
  history.series[2].changes = {{1, 2, 3, ""}, {2, 3, 4, ""}};
  const Section section = history_section(history);
  const auto block = std::ranges::find_if(section.blocks, [](const Block& each) { return !each.figures.empty(); });
  ASSERT_NE(block, section.blocks.end());
  std::vector<std::string> titles;
  for (const Figure& figure : block->figures) titles.push_back(figure.title);
  EXPECT_EQ(titles, (std::vector<std::string>{"changed twice", "changed once", "steady", "steady too"}));
}

TEST(SparklineTest, SparklinesSpanTheirValues) {
  EXPECT_EQ(sparkline({1, 2, 8}, 10), "▁▂█");
  EXPECT_EQ(sparkline({5, 5}, 10), "▁▁");
  EXPECT_EQ(sparkline({1, std::nan(""), 2}, 10), "▁ █");
  EXPECT_EQ(sparkline({1, 1, 3, 3}, 2), "▁█") << "more values than letters are averaged";
  EXPECT_EQ(sparkline({}, 10), "");
}

TEST(ReportTableTest, NamesMeansPerTokens) {
  ReportInputs inputs;
  inputs.results.emplace_back().source = "f.json";
  inputs.results[0].cases = {case_at(1, 1, 8), case_at(8, 1, 2)};
  EXPECT_EQ(report_table(inputs), "f.json: 4.000x dense in 2 cases (geometric mean); N = 1: 8.00x, N = 8: 2.00x\n");
}

TEST(ReportTableTest, OnlyWhatWasMeasuredBesideDenseCounts) {
  ReportInputs inputs;
  inputs.results.emplace_back().source = "f.json";
  std::vector<ResultCase>& cases = inputs.results[0].cases;
  cases = {case_at(1, 1, 64), case_at(1, 0, 8), case_at(1, 1, 0)};
  cases[0].measured = false;
  EXPECT_EQ(report_table(inputs), "f.json: 3 choices, none measured beside dense\n");
  cases.push_back(case_at(8, 1, 2));
  EXPECT_EQ(report_table(inputs), "f.json: 2.000x dense in 1 cases (geometric mean); N = 8: 2.00x\n");
}

}  // namespace
}  // namespace sparsmith::tools
