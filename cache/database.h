// The tables of the cache. Internal to cache/.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/sqlite_database.h"
#include "cache/cache.h"
#include "sparsmith/status.h"

namespace sparsmith {

inline constexpr DatabaseNoun kCacheNoun = {"cache", "remove it, it costs only the time to measure again",
                                            "move it away or give another path"};

// Identifies the process that wrote a row, to tell whether it still runs.
struct ProcessIdentity {
  std::string host;  // host name, boot and process-id namespace; `pid` is unique inside of it
  std::int64_t pid = 0;
  std::int64_t start_time = 0;  // in clock ticks after boot: pids are reused, pairs of both are not

  static ProcessIdentity current();

  // REQUIRES: this->host is the host of the calling process.
  bool alive() const;
};

struct Cache::State {
  std::string path;
  Mode mode = Mode::kReadWrite;
  SQLite::Database database;
  ProcessIdentity process = ProcessIdentity::current();
  std::int64_t damaged = 0;
  WriteFailures write_failures{};
  std::mutex mutex{};  // held by each call

  // Runs `body` as guard_sqlite() does, with `mutex` held.
  template <class Body>
  auto reading(Body&& body) -> decltype(body()) {
    const std::lock_guard lock(mutex);
    return guard_sqlite(path, kCacheNoun, std::forward<Body>(body));
  }
  // The same for a `body` that writes rows: a failure is counted.
  template <class Body>
  auto writing(Body&& body) -> decltype(body()) {
    const std::lock_guard lock(mutex);
    auto result = guard_sqlite(path, kCacheNoun, std::forward<Body>(body));
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

// Makes the tables when missing. Error: kInvalidInput when the file is another kind of database.
Status prepare_schema(SQLite::Database& database, const std::string& path, Cache::Mode mode);

// Sets rows to crashed that dead processes left as running.
void mark_abandoned(SQLite::Database& database, const ProcessIdentity& process);

// The SQL condition for rows of a problem. fields_of_problem() are ?1 to ?5.
inline constexpr const char* kOfProblem =
    "(pattern_hash, operator, tokens, device_class, timing_policy) = (?1, ?2, ?3, ?4, ?5)";
template <class Key>
auto fields_of_problem(Key& key) {
  return std::tie(key.pattern_hash, key.operator_name, key.tokens, key.device_class, key.timing_policy);
}

// A row of the table `choice` with its checksum.
struct StoredChoice {
  ChoiceRecord choice;
  std::string checksum;
  bool sound() const { return checksum == checksum_of(choice); }

  static std::string checksum_of(const ChoiceRecord& choice);
};

// The rows that `from` selects. Example: "choice WHERE tokens = ?1".
inline constexpr const char* kChoiceColumns =
    "pattern_hash, operator, tokens, device_class, timing_policy, compute_capability, sm_count, kind, config, packing, "
    "packer_version, closure_hash, nvrtc_version, evidence, reason, families, us, q1_us, q3_us, dense_us, "
    "complete, budget_s, chosen_at, goal, checksum";
StoredChoice stored_choice(SQLite::Statement& row);
template <class... Arguments>
std::vector<StoredChoice> select_choices(SQLite::Database& database, const std::string& from,
                                         const Arguments&... arguments) {
  SQLite::Statement query(database, std::string("SELECT ") + kChoiceColumns + " FROM " + from);
  bind_all(query, arguments...);
  std::vector<StoredChoice> found;
  while (query.executeStep()) found.push_back(stored_choice(query));
  return found;
}

// The choice of exactly this problem.
std::optional<StoredChoice> holder_of(SQLite::Database& database, const ProblemKey& key);
// Whether `challenger` replaces `holder`, which has the same key.
bool replaces(const ChoiceRecord& challenger, const ChoiceRecord& holder);
// Writes the choice in place of any choice of its key. Does not change chosen_at.
void write_choice(SQLite::Database& database, const ChoiceRecord& choice);

// Returns one line for each binary that fails its hash. Removes these binaries if `remove`.
std::vector<std::string> check_binaries(SQLite::Database& database, bool remove);

}  // namespace sparsmith
