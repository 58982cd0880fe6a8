// The performance history in one SQLite file, or in a database of a PostgreSQL server
// (docs/guide/performance_history.md describes the tables, which are the same).
//
// One thread at a time may use a PerfStore. Any number of processes may use one history at the same time. Every write
// is committed when its function returns, so a killed process loses only its unfinished write.
//
// Errors: kInvalidInput when the file is damaged, is no performance history, or was written by a newer program;
// kIoError when it cannot be read, written, or locked within ten seconds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "history/records.h"
#include "sparsmith/status.h"

namespace sparsmith {

class HistoryConnection;

class PerfStore {
 public:
  enum class Mode : std::uint8_t { kReadWrite, kReadOnly };
  static constexpr int kSchemaVersion = 2;

  // Opens the history at `address`, a path or "postgresql://...". kReadWrite makes it when missing, and updates an
  // older schema.
  //   Errors: kNotFound when there is nothing to read; kInvalidInput also for an older schema with kReadOnly;
  //   kUnsupported when this build has no PostgreSQL.
  static Result<PerfStore> open(const std::string& address, Mode mode);

  PerfStore(PerfStore&&) noexcept;
  PerfStore& operator=(PerfStore&&) noexcept;
  ~PerfStore();

  const std::string& path() const;  // the name in messages, without a password

  // Stores a run with all its measurements, or nothing. Sets run.recorded_at when it is empty.
  //   Error: kInvalidArgument for a run without a commit or with an invalid time, a case without a name, or a
  //   measurement without samples.
  Status record(PerfRun run, std::span<const PerfMeasurement> measurements);

  // A commit with the number of its recorded runs.
  struct Commit {
    std::string hash;
    std::string branch;
    std::string committed_at;  // or the time of its first run
    std::int64_t runs = 0;
  };
  // Commits in order of time. `branch` empty: of every branch.
  Result<std::vector<Commit>> commits(const std::string& branch);

  // The full hash of a commit. `text`: the start of the hash of one recorded commit (at least four digits), or a
  // branch, which gives its last commit. Error: kNotFound when there is no such commit; kInvalidArgument when there are
  // several.
  Result<std::string> resolve(const std::string& text);

  // Measurements, by case and in the order in which they were recorded.
  struct Round {
    std::string commit;
    CaseKey key;
    PerfEnvironment environment;
    std::int64_t implementation = 0;  // id for implementation()
    std::string session;
    bool again = false;
    std::string command;
    std::int64_t order = 0;  // over all recorded rounds
    std::vector<float> samples_us;
  };
  struct RoundFilter {
    std::string commit{};  // empty: every commit; also for the other fields
    std::string branch{};
    std::string session{};
    std::string case_name{};
  };
  Result<std::vector<Round>> rounds(const RoundFilter& filter);

  Result<Implementation> implementation(std::int64_t id);

  // Stores a mark. It replaces a mark for the same commit and case.
  //   Error: kInvalidArgument without a commit or a reason.
  Status mark(PerfMark mark);
  Result<std::vector<PerfMark>> marks();

 private:
  // The row of a case. Rows are never removed, so ids stay valid.
  struct KnownCase {
    std::string command;
    std::int64_t id = 0;
  };
  explicit PerfStore(std::unique_ptr<HistoryConnection> connection);
  Result<std::int64_t> case_id(const PerfMeasurement& measurement);
  Result<std::int64_t> implementation_id(const Implementation& implementation);

  std::unique_ptr<HistoryConnection> connection_;
  // Known rows. Rounds of a case share them, so the database is not asked again.
  std::map<CaseKey, KnownCase> cases_;
  std::map<std::string, std::int64_t> implementation_ids_;  // by hash
  std::map<std::int64_t, Implementation> implementations_;  // read so far
};

// Converts "2026-01-02T03:04:05+02:00" (ISO 8601 with an offset or Z, as git's %cI) to UTC, "2026-01-02T01:04:05Z", so
// that the order of texts is the order of times. Error: kInvalidArgument.
Result<std::string> utc_of(std::string_view text);

}  // namespace sparsmith
