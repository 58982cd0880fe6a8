// The cache as its tables see it. Internal to cache/.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/sqlite_database.h"
#include "cache/cache.h"
#include "cache/process_identity.h"
#include "sparsmith/status.h"

namespace sparsmith {

inline constexpr DatabaseNoun kCacheNoun = {"cache", "remove it, it costs only the time to measure again",
                                            "move it away or give another path"};

// Runs `body` (returning a Status or a Result) and returns its value, or what it threw as a Status.
template <class Body>
auto guarded(const std::string& path, Body&& body) -> decltype(body()) {
  return guard_sqlite(path, kCacheNoun, std::forward<Body>(body));
}

struct Cache::State {
  std::string path;
  Mode mode = Mode::kReadWrite;
  SQLite::Database database;
  ProcessIdentity process = ProcessIdentity::current();
  std::int64_t damaged = 0;
  WriteFailures write_failures{};
  std::mutex mutex{};  // held by each call

  // As guarded(), for what writes rows: a failure is counted.
  template <class Body>
  auto writing(Body&& body) -> decltype(body()) {
    auto result = guarded(path, std::forward<Body>(body));
    if (result.ok()) return result;
    if constexpr (requires { result.status(); }) {
      note_write_failure(result.status());
    } else {
      note_write_failure(result);
    }
    return result;
  }
  void note_write_failure(const Status& error);
};

// Makes the tables where there are none. Error: kInvalidInput when the file holds something else.
Status prepare_schema(SQLite::Database& database, const std::string& path, Cache::Mode mode);

// Calls rows crashed that dead processes left running.
void mark_abandoned(SQLite::Database& database, const ProcessIdentity& process);

// The choice of the statement's current row, whose columns are kChoiceColumns; and the checksum it should carry.
extern const char* const kChoiceColumns;
inline constexpr int kChecksumColumn = 23;
ChoiceRecord choice_of_row(SQLite::Statement& row);
std::string checksum_of(const ChoiceRecord& choice);
// Whether `challenger` takes the place of `holder`, which has the same key.
bool replaces(const ChoiceRecord& challenger, const ChoiceRecord& holder);
// Writes over whatever the key holds, keeping chosen_at.
void write_choice(SQLite::Database& database, const ChoiceRecord& choice);

// Names binaries that fail their hash, one line each, and removes them where asked to.
std::vector<std::string> check_binaries(SQLite::Database& database, bool remove);

}  // namespace sparsmith
