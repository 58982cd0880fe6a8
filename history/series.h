// A case over commits: its times, their environments, and their lasting changes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "history/change_points.h"
#include "history/store.h"

namespace sparsmith {

// A commit of a series. Times are over its rounds, in us.
struct SeriesPoint {
  std::string commit;
  std::string committed_at;
  double median = 0;
  double q1 = 0;
  double q3 = 0;
  int rounds = 0;
  std::size_t segment = 0;          // index in PerfSeries::segments
  std::int64_t implementation = 0;  // id for PerfStore::implementation()
};

// Neighbouring commits that were measured in one environment.
struct SeriesSegment {
  std::size_t first = 0;  // index of the first point
  PerfEnvironment environment;
};

// A lasting change inside a segment.
struct SeriesChange {
  ChangePoint point;  // `index` is an index in PerfSeries::points
  std::optional<PerfMark> accepted;
};

struct PerfSeries {
  CaseKey key;
  std::vector<SeriesPoint> points;  // in order of commits
  std::vector<SeriesSegment> segments;
  std::vector<SeriesChange> changes;
};

struct SeriesOptions {
  std::string branch{};     // empty: every branch
  std::string case_name{};  // empty: every case
  ChangePointRules rules{};
};

// One series for each case, sorted by key. For a commit with several environments the last counts. A change has the
// mark of its commit.
Result<std::vector<PerfSeries>> load_series(PerfStore& store, const SeriesOptions& options);

}  // namespace sparsmith
