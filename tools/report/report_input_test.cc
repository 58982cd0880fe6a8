#include "tools/report/report_input.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "matrix/sparsity_statistics.h"

namespace sparsmith::tools {
namespace {

using nlohmann::json;

json timing(double us) { return {{"median_us", us}, {"q1_us", us}, {"q3_us", us}, {"samples", 15}}; }

json bench_run() {
  return {{"device", {{"name", "GPU"}, {"memory_bandwidth", 4e12}}},
          {"counts", {{"compile_seconds", 2.5}, {"pairs", 1}}},
          {"cuts", {{"a rule", 3}}},
          {"weights",
           {{{"name", "w"},
             {"M", 4},
             {"K", 8},
             {"nnz", 8},
             {"sparsity", 0.75},
             {"operator", "spmm_fp16_token_major_none"},
             {"dense_bytes", 64},
             {"gpu_bytes", 40},
             {"choices",
              {{{"tokens", 8},
                {"evidence", "measured"},
                {"config", "slots depth=2"},
                {"predicted_us", 2.5},
                {"dense_us", 6.0},
                {"bytes_moved", 100.0},
                {"roofline", {{"us", 2.0}, {"by", "memory"}, {"reached", 0.66}}},
                {"timing", timing(3)},
                {"ablation", {{"full", timing(3)}, {"no_decode", timing(2)}, {"missing", {{"no_multiply", "why"}}}}},
                {"trials", {{{"config", "rows a=1"}, {"predicted_us", 4}, {"median_us", 5}, {"outcome", "timed"}}}},
                {"vendors",
                 {{{"name", "cublas"}, {"supported", true}, {"timing", timing(5.5)}},
                  {{"name", "cusparse"}, {"supported", false}, {"detail", "missing"}}}}}}}}}}};
}

json cell(const char* source) {
  return {
      {"source", source},       {"weight", "w"},       {"rows", 4},       {"cols", 8},           {"nnz", 8},
      {"sparsity", 0.75},       {"operator", "spmm"},  {"tokens", 8},     {"kind", "vendor"},    {"config", "cublas"},
      {"evidence", "measured"}, {"timing", timing(3)}, {"device", "GPU"}, {"cublas", timing(3)}, {"cusparse", nullptr}};
}

json history() {
  return {{"history",
           {{{"case", "c"},
             {"operator", "spmm"},
             {"device_class", "sm_90"},
             {"points", {{{"commit", "a"}, {"median", 2.0}}, {{"commit", "b"}, {"median", 3.0}, {"low", 2.9}}}},
             {"changes", {{{"at", 1}, {"before", 2.0}, {"after", 3.0}, {"accepted", "why"}}}}}}}};
}

ReportInputs read(const std::string& text) {
  ReportInputs inputs;
  const Status status = add_report_json(text, "f.json", inputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return inputs;
}

json break_even() {
  return json::parse(R"({"device": {"name": "GPU"}, "break_even": [
    {"operator": "spmm", "pattern": "uniform", "tokens": 8, "dense_at": 0.4, "sparse_at": 0.41, "changes_once": false,
     "probes": [{"sparsity": 0.4, "us": 3, "dense_us": 3, "choice": "cublas", "evidence": "measured"},
                {"sparsity": 0.41, "us": 2, "dense_us": 3, "choice": "rows x=1", "evidence": "predicted"}]},
    {"operator": "spmm", "pattern": "uniform", "tokens": 64, "dense_at": 0.95, "sparse_at": null, "probes": []}]})");
}

std::string error_of(const std::string& text) {
  ReportInputs inputs;
  const Status status = add_report_json(text, "f.json", inputs);
  EXPECT_EQ(status.code(), StatusCode::kInvalidInput) << text;
  EXPECT_TRUE(inputs.analyses.empty() && inputs.results.empty() && inputs.histories.empty() &&
              inputs.break_evens.empty());
  return status.message();
}

TEST(ReportInputTest, ReadsARun) {
  const ReportInputs inputs = read(bench_run().dump());
  ASSERT_EQ(inputs.results.size(), 1U);
  const TuningResults& results = inputs.results[0];
  EXPECT_EQ(results.device, "GPU");
  EXPECT_EQ(results.memory_bandwidth, 4e12);
  EXPECT_EQ(results.seconds.at("compile"), 2.5);
  EXPECT_EQ(results.cuts.at("a rule"), 3);
  EXPECT_EQ(results.cases.at(0).dense_bytes, 64);
  EXPECT_EQ(results.cases.at(0).gpu_bytes, 40);
  ASSERT_EQ(results.cases.size(), 1U);
  const ResultCase& one = results.cases[0];
  EXPECT_EQ(one.family, "slots");
  EXPECT_TRUE(one.measured);
  EXPECT_EQ(one.us, 3);
  EXPECT_EQ(one.cublas_us, 6) << "dense is the whole operator, not the product alone";
  EXPECT_EQ(one.cusparse_us, 0);
  EXPECT_EQ(one.best_peer_us(), 6);
  EXPECT_EQ(one.bound_us, 2);
  EXPECT_EQ(one.bound_by, "memory");
  EXPECT_EQ(one.ablation.full_us, 3);
  EXPECT_EQ(one.ablation.no_decode_us, 2);
  EXPECT_EQ(one.ablation.no_multiply_us, 0);
  ASSERT_EQ(one.tried.size(), 1U);
  EXPECT_EQ(one.tried[0].predicted_us, 4);
  EXPECT_EQ(one.tried[0].us, 5);
}

TEST(ReportInputTest, ReadsCellsLineByLine) {
  const ReportInputs inputs = read(cell("first").dump() + "\n\n" + cell("second").dump());
  ASSERT_EQ(inputs.results.size(), 1U);
  ASSERT_EQ(inputs.results[0].cases.size(), 2U);
  EXPECT_EQ(inputs.results[0].cases[1].weight, "second");
  EXPECT_TRUE(inputs.results[0].cases[1].dense());
  EXPECT_EQ(inputs.results[0].cases[1].cublas_us, 3);
}

TEST(ReportInputTest, ReadsHistories) {
  const ReportInputs inputs = read(history().dump());
  ASSERT_EQ(inputs.histories.size(), 1U);
  const HistorySeries& series = inputs.histories[0].series.at(0);
  EXPECT_EQ(series.unit, "us");
  EXPECT_EQ(series.detail, "spmm, sm_90");
  ASSERT_EQ(series.points.size(), 2U);
  EXPECT_EQ(series.points[0].low, 2) << "without an interval, the median";
  EXPECT_EQ(series.points[1].low, 2.9);
  EXPECT_EQ(series.changes.at(0).accepted, "why");
}

TEST(ReportInputTest, ReadsBreakEvens) {
  const ReportInputs inputs = read(break_even().dump());
  ASSERT_EQ(inputs.break_evens.size(), 1U);
  EXPECT_EQ(inputs.break_evens[0].device, "GPU");
  ASSERT_EQ(inputs.break_evens[0].cases.size(), 2U);
  const BreakEvenCase& one = inputs.break_evens[0].cases[0];
  EXPECT_EQ(one.name, "spmm, uniform");
  EXPECT_EQ(one.dense_at, 0.4);
  EXPECT_EQ(one.sparse_at, 0.41);
  EXPECT_FALSE(one.changes_once);
  ASSERT_EQ(one.probes.size(), 2U);
  EXPECT_TRUE(one.probes[0].measured);
  EXPECT_FALSE(one.probes[1].measured);
  EXPECT_EQ(one.probes[1].choice, "rows x=1");
  EXPECT_FALSE(inputs.break_evens[0].cases[1].sparse_at.has_value());
  EXPECT_TRUE(inputs.break_evens[0].cases[1].changes_once);

  json broken = break_even();
  broken["break_even"][0]["sparse_at"] = 1.5;
  EXPECT_NE(error_of(broken.dump()).find(R"(f.json.break_even[0]: "sparse_at" is 1.5)"), std::string::npos);
  broken = break_even();
  broken["break_even"][0]["probes"][1].erase("us");
  EXPECT_NE(error_of(broken.dump()).find(R"(f.json.break_even[0].probes[1]: "us" is missing)"), std::string::npos);
  broken["break_even"] = 3;
  EXPECT_NE(error_of(broken.dump()).find(R"(f.json: "break_even" is not an array)"), std::string::npos);
}

TEST(ReportInputTest, ReadsSimulations) {
  json simulation = json::parse(R"({"simulated": [{"space": "w 8x8 N=1", "candidates": 500, "best_us": 2,
      "predicted": 1.25, "strategies": [{"strategy": "race", "tried": 3, "regret": 1.5, "worst": 2,
      "best_found_over_best": [4, 1.5]}]}]})");
  const ReportInputs inputs = read(simulation.dump());
  ASSERT_EQ(inputs.simulations.size(), 1U);
  const SimulatedSpace& space = inputs.simulations[0].spaces.at(0);
  EXPECT_EQ(space.candidates, 500);
  EXPECT_EQ(space.predicted, 1.25);
  EXPECT_EQ(space.strategies.at(0).curve, (std::vector<double>{4, 1.5}));
  simulation["simulated"][0]["strategies"][0]["best_found_over_best"][1] = "fast";
  EXPECT_NE(error_of(simulation.dump()).find(R"(strategies[0]: "best_found_over_best")"), std::string::npos);
  simulation["simulated"][0]["strategies"][0].erase("worst");
  simulation["simulated"][0]["strategies"][0]["best_found_over_best"] = json::array();
  EXPECT_NE(error_of(simulation.dump()).find(R"(strategies[0]: "worst" is missing)"), std::string::npos);
}

TEST(ReportInputTest, ReadsWhatAnalyzeWrites) {
  CsrMatrix matrix;
  matrix.rows = 3;
  matrix.cols = 4;
  matrix.row_offsets = {0, 2, 2, 3};
  matrix.column_indices = {0, 3, 1};
  matrix.values = {1, 2, 3};
  const SparsityStatistics statistics = compute_statistics(matrix);
  const ReportInputs inputs = read("{\"weights\":[" + to_json(statistics, "layer") + "]}");
  ASSERT_EQ(inputs.analyses.size(), 1U);
  const AnalyzedLayer& layer = inputs.analyses[0].layers.at(0);
  EXPECT_EQ(layer.name, "layer");
  EXPECT_EQ(layer.statistics.row_cov, statistics.row_cov);
  EXPECT_EQ(layer.statistics.row_length_histogram, statistics.row_length_histogram);
  const auto bytes = layer.statistics.format_bytes(4);
  const auto expected = statistics.format_bytes(4);
  ASSERT_EQ(bytes.size(), expected.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(bytes[i].bytes, expected[i].bytes) << bytes[i].format;
}

TEST(ReportInputTest, SaysWhereAndWhatIsWrong) {
  EXPECT_TRUE(error_of("").starts_with("f.json: is neither JSON nor JSON lines: parse error at line 1, column 1"));
  EXPECT_NE(error_of("{}").find("holds none of what a report is made of"), std::string::npos);
  EXPECT_NE(error_of("[1, 2]").find("holds none of"), std::string::npos);

  json run = bench_run();
  run["weights"][0]["choices"][0]["timing"]["median_us"] = "fast";
  EXPECT_EQ(error_of(run.dump()), R"(f.json.weights[0].choices[0].timing: "median_us" is not a number)");
  run = bench_run();
  run["weights"][0]["choices"][0]["tokens"] = 0;
  EXPECT_NE(error_of(run.dump()).find(R"(f.json.weights[0].choices[0]: "tokens" is not an integer from 1 to )"),
            std::string::npos);
  run = bench_run();
  run["weights"][0]["M"] = 18446744073709551615U;
  EXPECT_NE(error_of(run.dump()).find(R"(f.json.weights[0]: "M" is not an integer from 0 to )"), std::string::npos);
  run = bench_run();
  run["weights"][0].erase("name");
  EXPECT_EQ(error_of(run.dump()), R"(f.json.weights[0]: "name" is missing)");
  run = bench_run();
  run["weights"] = 3;
  EXPECT_EQ(error_of(run.dump()), R"(f.json: "weights" is not an array)");

  EXPECT_NE(error_of(cell("a").dump() + "\n{\"tokens\":").find("f.json:2: is no JSON object"), std::string::npos);
  json broken = cell("a");
  broken["sparsity"] = 1.5;
  EXPECT_EQ(error_of(broken.dump()), R"(f.json:1: "sparsity" is 1.5, outside of [0, 1])");

  json past = history();
  past["history"][0]["changes"][0]["at"] = 2;
  EXPECT_EQ(error_of(past.dump()), R"(f.json.history[0].changes[0]: "at" is not an integer from 0 to 1)");
  past["history"][0]["points"] = json::array();
  past["history"][0]["changes"][0]["at"] = 0;
  EXPECT_NE(error_of(past.dump()).find("there are no points"), std::string::npos);
}

}  // namespace
}  // namespace sparsmith::tools
