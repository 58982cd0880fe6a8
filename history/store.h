// The performance history in one SQLite file, or in a database of a PostgreSQL server (docs/performance_history.md
// describes the tables, which are the same).
//
// A PerfStore may be used by one thread at a time; any number of processes may use one history at once. Every write is
// committed when its function returns: a killed process loses what it had not been told to be stored, nothing else.
//
// Errors: kInvalidInput when the file is damaged, is no performance history, or was written by a newer program;
// kIoError when it cannot be read, written, or locked within ten seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "history/records.h"
#include "sparsmith/status.h"

namespace sparsmith {

class PerfStore {
 public:
  enum class Mode : std::uint8_t { kReadWrite, kReadOnly };
  static constexpr int kSchemaVersion = 2;

  // Opens the history at `address`, a path or "postgresql://..."; kReadWrite makes it where there is none, and brings
  // an older schema up to date.
  //   Errors: kNotFound when there is nothing to read; kInvalidInput also when an older schema is opened for reading
  //   alone; kUnsupported when this build has no PostgreSQL.
  static Result<PerfStore> open(const std::string& address, Mode mode);

  PerfStore(PerfStore&&) noexcept;
  PerfStore& operator=(PerfStore&&) noexcept;
  ~PerfStore();

  const std::string& path() const;  // as messages name it: without a password

  // Stores a run with all its measurements, or nothing of it. Fills in run.recorded_at unless it is given.
  //   Error: kInvalidArgument for a run without a commit or with a time that is none, a case without a name, or a
  //   measurement without samples.
  Status record(PerfRun run, std::span<const PerfMeasurement> measurements);

  // A commit with what was recorded of it.
  struct Commit {
    std::string hash;
    std::string branch;
    std::string committed_at;  // or when it was first recorded
    std::int64_t runs = 0;
  };
  // In order of time. `branch` empty: of every branch.
  Result<std::vector<Commit>> commits(const std::string& branch);

  // The full hash of the one recorded commit that `text` abbreviates (at least four digits), or the last commit of
  // the branch of that name. Error: kNotFound when there is none; kInvalidArgument when there are several.
  Result<std::string> resolve(const std::string& text);

  // Measurements, by case and in the order in which they were recorded.
  struct Round {
    std::string commit;
    CaseKey key;
    PerfEnvironment environment;
    std::int64_t implementation = 0;  // implementation() has it
    std::string session;
    bool again = false;
    std::string command;
    std::int64_t order = 0;  // of all that was recorded
    std::vector<float> samples_us;
  };
  struct RoundFilter {
    std::string commit{};  // empty: of every commit; likewise the others
    std::string branch{};
    std::string session{};
    std::string case_name{};
  };
  Result<std::vector<Round>> rounds(const RoundFilter& filter);

  Result<Implementation> implementation(std::int64_t id);

  // Names of all cases, sorted.
  Result<std::vector<std::string>> case_names();

  // Stores a mark, in place of one for the same commit and case.
  //   Error: kInvalidArgument without a commit or a reason.
  Status mark(PerfMark mark);
  Result<std::vector<PerfMark>> marks();

  struct Counts {
    std::int64_t runs = 0, cases = 0, measurements = 0, implementations = 0, samples = 0, file_bytes = 0;
  };
  Result<Counts> counts();

 private:
  struct State;
  explicit PerfStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sparsmith
