#include "tools/perf/perf_pages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/temporary_directory.h"
#include "tests/support/drawn_history.h"
#include "tools/report/report_input.h"
#include "tools/report/report_page.h"

namespace sparsmith::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(PerfPages, AMillionSamplesTakeLessThanThreeSeconds) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("perf.db");
  {
    PerfStore store = PerfStore::open(path, PerfStore::Mode::kReadWrite).value();
    DrawnHistory drawn;
    ASSERT_TRUE(drawn.record(store).ok());
    ASSERT_GE(drawn.samples, 1'000'000);
  }
  const auto begin = std::chrono::steady_clock::now();
  PerfStore store = PerfStore::open(path, PerfStore::Mode::kReadOnly).value();
  const auto series = load_series(store, {});
  ASSERT_TRUE(series.ok());
  ReportInputs inputs;
  ASSERT_TRUE(add_report_json(history_json(*series).dump(), path, inputs).ok());
  const std::string html = html_of(report_page("", inputs));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("history page of 1,012,500 samples in {:.2f} s: {} KiB\n", seconds, html.size() / 1024);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LT(seconds, 3);
#endif
  EXPECT_THAT(html, HasSubstr("60 of 90 cases have a figure."));
  EXPECT_THAT(html, HasSubstr("+5.0 %"));
}

PerfMeasurement measured(const std::string& name, double us, DrawnNoise& noise, const std::string& cubin) {
  PerfMeasurement m;
  m.key = {name, "spmm_fp16", "w", "sm_90", "cold_weights"};
  m.implementation = {"rows", "rows threads=128", "csr", "p", 1000, "plan", {}};
  m.implementation.kernels.push_back({"rows_k", cubin, 40, 0, {{"snippets/prolog/csr_row.cuh", cubin}}});
  m.command = "sparsmith bench m";
  m.samples_us = noise.samples(us, 15);
  return m;
}

TEST(PerfPages, AComparisonSaysWhatChangedAndWhy) {
  const TemporaryDirectory folder;
  PerfStore store = PerfStore::open(folder.file("perf.db"), PerfStore::Mode::kReadWrite).value();
  DrawnNoise noise(Noise::kIndependent, 0.005, 2);
  for (const bool again : {false, true}) {
    for (const bool head : {false, true}) {
      for (int round = 0; round < 8; ++round) {
        PerfRun run;
        run.commit = head ? "bbbb" : "aaaa";
        run.again = again;
        const PerfMeasurement slower = measured("<fc1> N=8", head ? 22 : 20, noise, head ? "c1" : "c0");
        const PerfMeasurement same = measured("fc2 N=8", 50, noise, "d0");
        ASSERT_TRUE(store.record(run, std::vector{slower, same}).ok());
      }
    }
  }
  const auto comparison = compare(store, "aaaa", "bbbb", {});
  ASSERT_TRUE(comparison.ok());
  const Page page = comparison_page(*comparison);
  ASSERT_EQ(page.sections.size(), 2U);
  const Figure& changes = page.sections[0].blocks.at(0).figures.at(0);
  ASSERT_EQ(changes.series.size(), 2U);
  EXPECT_EQ(changes.series[0].name, "SLOW");
  EXPECT_NEAR(changes.series[0].y.at(0), 10, 1);
  EXPECT_LT(changes.series[0].low.at(0), changes.series[0].y.at(0));
  const Figure& rounds = page.sections[1].blocks.at(0).figures.at(0);
  EXPECT_EQ(rounds.title, "<fc1> N=8") << "as the table has it, so that they link";
  EXPECT_THAT(rounds.caption, HasSubstr("SLOW: "));
  EXPECT_EQ(rounds.series.at(0).y.size(), 16U) << "8 rounds, measured again";
  EXPECT_EQ(rounds.rules.at(0).x, 8.5);
  const std::string html = html_of(page);
  EXPECT_THAT(html, HasSubstr("1 SLOW, 0 FAST, 0 AMBIGUOUS, 1 SAME</p>"));
  EXPECT_THAT(html, HasSubstr("changed: snippets/<wbr>prolog/<wbr>csr_<wbr>row.<wbr>cuh"));
  EXPECT_THAT(html, HasSubstr("&lt;fc1&gt; N=8"));
  EXPECT_THAT(html, Not(HasSubstr("<fc1>")));
}

TEST(PerfPages, APointSaysItsOwnInterval) {
  Comparison comparison;
  for (const double change : {0.01, 0.02}) {
    ComparisonRow& row = comparison.rows.emplace_back();
    row.key.name = change < 0.015 ? "a" : "b";
    row.verdict = Verdict::kSame;
    row.measured = true;
    row.first.change = change;
    row.first.change_low = change - 0.03;
    row.first.change_high = change + 0.03;
  }
  const Page page = comparison_page(comparison);
  const Series& points = page.sections.at(0).blocks.at(0).figures.at(0).series.at(0);
  EXPECT_THAT(points.labels,
              testing::ElementsAre(HasSubstr("a: +1.00 % [-2.00, +4.00]"), HasSubstr("b: +2.00 % [-1.00, +5.00]")));
}

TEST(PerfPages, AnEnvironmentHasNoEmptyParts) {
  EXPECT_EQ(environment_text({.device = "", .driver = "", .nvrtc = "", .clocks = "8 CPUs"}), "8 CPUs");
  EXPECT_EQ(environment_text({.device = "H200", .driver = "580", .nvrtc = "", .clocks = "1980 MHz"}),
            "H200, driver 580, 1980 MHz");
}

TEST(PerfPages, HistoriesHaveDatesAndComparisonsShortHashes) {
  PerfSeries series;
  series.points.push_back({.commit = "c", .committed_at = "2026-01-31T12:00:00Z", .median = 1});
  series.segments.emplace_back();
  ReportInputs inputs;
  ASSERT_TRUE(add_report_json(history_json({series}).dump(), "h", inputs).ok());
  EXPECT_EQ(inputs.histories.at(0).series.at(0).points.at(0).date, "2026-01-31");
  Comparison comparison;
  comparison.base = std::string(40, 'a');
  comparison.head = std::string(40, 'b');
  EXPECT_EQ(comparison_page(comparison).title, "Comparison of bbbbbbbbb with aaaaaaaaa");
}

TEST(PerfPages, WhatIsTheSameNeedsNoSecondSection) {
  Comparison comparison;
  comparison.base = "aaaa";
  comparison.head = "bbbb";
  EXPECT_EQ(comparison_page(comparison).sections.size(), 1U);
}

}  // namespace
}  // namespace sparsmith::tools
