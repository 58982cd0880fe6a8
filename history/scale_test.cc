// A year of a busy project: a million samples, recorded, compared and drawn up in time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "base/temporary_directory.h"
#include "history/comparison.h"
#include "history/series.h"
#include "tests/support/drawn_history.h"
#include "tests/support/history_counts.h"

namespace sparsmith {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr int kCommits = DrawnHistory::kCommits;
constexpr int kCases = DrawnHistory::kCases;

TEST(Scale, AMillionSamples) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("perf.db");
  PerfStore store = PerfStore::open(path, PerfStore::Mode::kReadWrite).value();
  DrawnHistory drawn;
  ASSERT_TRUE(drawn.record(store).ok());
  ASSERT_GE(drawn.samples, 1'000'000);

  auto begin = Clock::now();
  const auto comparison = compare(store, DrawnHistory::commit(0), DrawnHistory::commit(kCommits - 1), {});
  const double comparing = seconds_since(begin);
  ASSERT_TRUE(comparison.ok());
  ASSERT_EQ(comparison->rows.size(), kCases);
  int suspected = 0;
  for (const ComparisonRow& row : comparison->rows) suspected += row.suspected ? 1 : 0;
  EXPECT_EQ(suspected, kCases / 10);

  begin = Clock::now();
  const auto series = load_series(store, {});
  const double drawing_up = seconds_since(begin);
  ASSERT_TRUE(series.ok());
  ASSERT_EQ(series->size(), kCases);
  int changes = 0;
  for (const PerfSeries& one : *series) {
    for (const SeriesChange& change : one.changes) {
      EXPECT_NEAR(static_cast<double>(change.point.index), kCommits / 2.0, 1) << one.key.name;
      ++changes;
    }
  }
  EXPECT_EQ(changes, kCases / 10);

  const std::int64_t bytes = bytes_of_history(path);
  const double rate = static_cast<double>(drawn.samples) / drawn.seconds;
  fmt::print(
      "{} samples in {:.2f} s ({:.0f}/s), a transaction a round; {:.1f} MB; compared in {:.3f} s; history of {} "
      "cases in {:.2f} s\n",
      drawn.samples, drawn.seconds, rate, static_cast<double>(bytes) / 1e6, comparing, kCases, drawing_up);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_GE(rate, 50'000);
  EXPECT_LT(comparing, 2);
  EXPECT_LT(drawing_up, 3);
#endif
  EXPECT_LT(bytes, 100'000'000);
}

}  // namespace
}  // namespace sparsmith
