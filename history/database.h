// The performance history as its tables see it. Internal to history/.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/sqlite_database.h"
#include "history/store.h"

namespace sparsmith {

inline constexpr DatabaseNoun kHistoryNoun = {"performance history", "restore it from a copy",
                                              "give another path with --db"};

// Runs `body` (returning a Status or a Result) and returns its value, or what it threw as a Status.
template <class Body>
auto guarded(const std::string& path, Body&& body) -> decltype(body()) {
  return guard_sqlite(path, kHistoryNoun, std::forward<Body>(body));
}

// The rows that the last measurement of a case refers to. Rows are never removed, so ids stay good.
struct KnownCase {
  std::int64_t case_id = 0;
  std::string command;
  std::int64_t implementation_id = 0;
  Implementation implementation;
};

struct PerfStore::State {
  std::string path;
  Mode mode = Mode::kReadWrite;
  SQLite::Database database;
  std::map<CaseKey, KnownCase> known{};                      // that were committed
  std::map<std::int64_t, Implementation> implementations{};  // read so far
};

// Makes the tables where there are none, and brings older ones up to date.
//   Error: kInvalidInput when the file holds something else, or tables of a newer program.
Status prepare_schema(SQLite::Database& database, const std::string& path, PerfStore::Mode mode);

// Kernels as the column `kernels` holds them: a JSON array. Error: kInvalidInput when it is none.
std::string kernels_to_json(const std::vector<PerfKernel>& kernels);
Result<std::vector<PerfKernel>> kernels_from_json(const std::string& text);

}  // namespace sparsmith
