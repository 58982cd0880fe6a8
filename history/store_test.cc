#include "history/store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/file.h"
#include "base/sqlite_database.h"
#include "base/temporary_directory.h"
#include "history/connection.h"
#include "tests/support/history_counts.h"
#include "tests/support/postgres_server.h"

namespace sparsmith {
namespace {

using Mode = PerfStore::Mode;

Implementation implementation(const std::string& cubin) {
  Implementation result{"rows", "threads=128", "csr_u16", "p0", 1000, "plan0", {}};
  result.kernels.push_back({"rows_k1", cubin, 40, 8, {{"snippets/prolog/csr_row.cuh", "h1"}}});
  return result;
}

PerfMeasurement measurement(const std::string& name, std::vector<float> samples, const std::string& cubin = "c0") {
  return {{name, "spmm_fp16", "w0", "sm_90 132 SMs", "cold_weights"},
          implementation(cubin),
          "sparsmith bench x",
          std::move(samples)};
}

PerfRun run_of(const std::string& commit, const std::string& session = "") {
  PerfRun run;
  run.commit = commit;
  run.session = session;
  run.environment = {"NVIDIA H200", "570", "13.0", "1980 MHz"};
  return run;
}

enum class Kind : std::uint8_t { kSqlite, kPostgresql };

// What holds for either database.
class PerfStoreTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::kSqlite) return;
    const auto& server = PostgresServer::shared();
    ASSERT_TRUE(server.ok()) << server.status().message();
    const auto database = (*server)->new_database();
    ASSERT_TRUE(database.ok()) << database.status().message();
    path_ = *database;
  }

  PerfStore open(Mode mode = Mode::kReadWrite) {
    auto store = PerfStore::open(path_, mode);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return std::move(store).value();
  }
  void run_sql(const std::string& sql) {
    const auto connection = connect_history(path_, Mode::kReadWrite);
    ASSERT_TRUE(connection.ok()) << connection.status().message();
    ASSERT_TRUE((*connection)->run_script(sql).ok());
  }
  void write_meta(const std::string& version) {
    run_sql("UPDATE meta SET value = '" + version + "' WHERE key = 'schema_version'");
  }

  TemporaryDirectory folder_;
  std::string path_ = folder_.file("perf.db");
};

INSTANTIATE_TEST_SUITE_P(Databases, PerfStoreTest, testing::Values(Kind::kSqlite, Kind::kPostgresql),
                         [](const auto& of) { return of.param == Kind::kSqlite ? "Sqlite" : "Postgresql"; });

// What is of files.
class PerfFileTest : public testing::Test {
 protected:
  PerfStore open(Mode mode = Mode::kReadWrite) { return std::move(PerfStore::open(path_, mode)).value(); }

  TemporaryDirectory folder_;
  std::string path_ = folder_.file("perf.db");
};

// A case has one command, whichever commit was recorded last.
TEST_P(PerfStoreTest, CommandsNameTheCommitTheyReproduce) {
  PerfStore store = open();
  PerfMeasurement suite = measurement("fc1 N=1", {1});
  suite.command = "sparsmith perf record suite.json --commit {commit} --db perf.db";
  for (const char* commit : {"aaaa1111", "bbbb2222"})
    ASSERT_TRUE(store.record(run_of(commit), std::vector{suite}).ok());
  const auto rounds = store.rounds({.commit = "aaaa1111"});
  ASSERT_TRUE(rounds.ok());
  ASSERT_EQ(rounds->size(), 1U);
  EXPECT_EQ(rounds->at(0).command, "sparsmith perf record suite.json --commit aaaa1111 --db perf.db");
}

TEST_P(PerfStoreTest, WhatIsRecordedComesBack) {
  PerfStore store = open();
  PerfRun run = run_of("aaaa1111", "s1");
  run.again = true;
  ASSERT_TRUE(store.record(run, std::vector{measurement("fc1 N=1", {1.5F, 2.5F}), measurement("fc2 N=1", {3})}).ok());
  ASSERT_TRUE(store.record(run_of("aaaa1111"), std::vector{measurement("fc1 N=1", {9}, "c1")}).ok());

  const auto rounds = store.rounds({.commit = "aaaa1111"});
  ASSERT_TRUE(rounds.ok());
  ASSERT_EQ(rounds->size(), 3U);
  const PerfStore::Round& first = rounds->at(0);
  EXPECT_EQ(first.commit, "aaaa1111");
  EXPECT_EQ(first.key, measurement("fc1 N=1", {}).key);
  EXPECT_EQ(first.environment, run.environment);
  EXPECT_EQ(first.session, "s1");
  EXPECT_TRUE(first.again);
  EXPECT_EQ(first.command, "sparsmith bench x");
  EXPECT_EQ(first.samples_us, (std::vector<float>{1.5F, 2.5F}));
  EXPECT_EQ(store.implementation(first.implementation).value(), implementation("c0"));
  EXPECT_EQ(store.implementation(rounds->at(1).implementation).value(), implementation("c1"));
  EXPECT_FALSE(rounds->at(1).again);
  EXPECT_EQ(store.rounds({.commit = "aaaa1111", .session = "s1"})->size(), 2U);
  EXPECT_EQ(store.rounds({.commit = "aaaa1111", .case_name = "fc2 N=1"})->size(), 1U);
  EXPECT_EQ(store.rounds({.commit = "bbbb"})->size(), 0U);
  EXPECT_EQ(count_in_history(path_, "sum(length(samples)) / 4 FROM measurement"), 4);
  EXPECT_EQ(count_in_history(path_, "count(*) FROM implementation"), 2);
}

TEST_P(PerfStoreTest, ACommitWithoutATimeStandsWhereItWasRecorded) {
  PerfStore store = open();
  ASSERT_TRUE(store.record(run_of("bbbb2222"), std::vector{measurement("a", {1})}).ok());  // now
  PerfRun earlier = run_of("aaaa1111");
  earlier.recorded_at = "2001-02-03T04:05:06Z";
  ASSERT_TRUE(store.record(earlier, std::vector{measurement("a", {1})}).ok());
  const auto commits = store.commits("");
  ASSERT_EQ(commits->size(), 2U);
  EXPECT_EQ(commits->at(0).hash, "aaaa1111");
  EXPECT_EQ(commits->at(0).committed_at, earlier.recorded_at);
  EXPECT_GT(commits->at(1).committed_at, earlier.recorded_at);
}

TEST_P(PerfStoreTest, ARunIsStoredWhollyOrNotAtAll) {
  PerfStore store = open();
  const std::vector bad = {measurement("a", {1}), measurement("b", {})};
  EXPECT_EQ(store.record(run_of("c1"), bad).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(store.record(run_of("c1"), std::vector{measurement("a", {-1})}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(store.record(run_of(""), std::vector{measurement("a", {1})}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(count_in_history(path_, "count(*) FROM run"), 0);
}

TEST_P(PerfStoreTest, CommitsAreFoundByPrefixAndBranchInOrderOfTime) {
  PerfStore store = open();
  const auto record = [&](const std::string& commit, const std::string& branch, const std::string& time) {
    PerfRun run = run_of(commit);
    run.branch = branch;
    run.committed_at = time;
    ASSERT_TRUE(store.record(run, std::vector{measurement("a", {1})}).ok());
  };
  record("beef0002", "main", "2026-01-02T00:00:00Z");
  record("beef0001", "main", "2026-01-01T00:00:00Z");
  record("cafe0003", "topic", "2026-01-02T23:00:00-03:00");
  EXPECT_EQ(store.resolve("main").value(), "beef0002");
  EXPECT_EQ(store.resolve("cafe").value(), "cafe0003");
  EXPECT_EQ(store.resolve("beef0001").value(), "beef0001");
  EXPECT_EQ(store.resolve("beef").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(store.resolve("dead").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store.resolve("").status().code(), StatusCode::kNotFound);
  PerfRun timeless = run_of("c1");
  timeless.committed_at = "yesterday";
  EXPECT_EQ(store.record(timeless, std::vector{measurement("a", {1})}).code(), StatusCode::kInvalidArgument);
  const auto commits = store.commits("");
  ASSERT_EQ(commits->size(), 3U);
  EXPECT_EQ(commits->at(0).hash, "beef0001");
  EXPECT_EQ(commits->at(2).committed_at, "2026-01-03T02:00:00Z");
  EXPECT_EQ(store.commits("topic")->size(), 1U);
}

TEST(CommitTime, IsKeptInUtc) {
  EXPECT_EQ(utc_of("2026-01-02T03:04:05Z").value(), "2026-01-02T03:04:05Z");
  EXPECT_EQ(utc_of("2026-01-01T01:30:00+02:00").value(), "2025-12-31T23:30:00Z");
  // In nanoseconds such a time is more than 64 bits hold.
  EXPECT_EQ(utc_of("0024-02-09T23:59:59Z").value(), "0024-02-09T23:59:59Z");
  EXPECT_EQ(utc_of("9999-12-31T23:59:59Z").value(), "9999-12-31T23:59:59Z");
  EXPECT_EQ(utc_of("2024-02-28T22:00:00-0300").value(), "2024-02-29T01:00:00Z");
  for (const char* text : {"", "2026", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00",
                           "2026-01-01T00:00:00Zulu", "2026-01-01T-1:00:00Z", "2026-01-01T00:00:00+2"}) {
    EXPECT_EQ(utc_of(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST_P(PerfStoreTest, MarksNeedAReasonAndReplaceEachOther) {
  PerfStore store = open();
  EXPECT_FALSE(store.mark({"c1", "", "", "me", ""}).ok());
  ASSERT_TRUE(store.mark({"c1", "", "accepted", "me", ""}).ok());
  ASSERT_TRUE(store.mark({"c1", "", "exact sums cost 3 %", "you", ""}).ok());
  const auto marks = store.marks();
  ASSERT_EQ(marks->size(), 1U);
  EXPECT_EQ(marks->at(0).reason, "exact sums cost 3 %");
  EXPECT_FALSE(marks->at(0).marked_at.empty());
}

TEST_P(PerfStoreTest, AnOlderSchemaIsMigrated) {
  {
    PerfStore store = open();
    ASSERT_TRUE(store.record(run_of("c1"), std::vector{measurement("a", {1, 2})}).ok());
  }
  run_sql("DROP TABLE mark");  // version 1 had no marks
  write_meta("1");
  const Status read_only = PerfStore::open(path_, Mode::kReadOnly).status();
  EXPECT_EQ(read_only.code(), StatusCode::kInvalidInput);
  PerfStore store = open();
  EXPECT_EQ(store.rounds({.commit = "c1"})->size(), 1U);
  EXPECT_TRUE(store.mark({"c1", "", "why not", "", ""}).ok());
  EXPECT_TRUE(PerfStore::open(path_, Mode::kReadOnly).ok());
}

TEST_P(PerfStoreTest, ANewerSchemaIsRefused) {
  open();
  write_meta("99");
  const Status status = PerfStore::open(path_, Mode::kReadWrite).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidInput);
  EXPECT_NE(status.message().find("written by a newer sparsmith (schema version 99"), std::string::npos);
  write_meta("two");
  EXPECT_EQ(PerfStore::open(path_, Mode::kReadWrite).status().code(), StatusCode::kInvalidInput);
}

TEST_P(PerfStoreTest, AnotherDatabaseIsRefused) {
  EXPECT_EQ(PerfStore::open(path_, Mode::kReadOnly).status().code(), StatusCode::kNotFound);
  run_sql("CREATE TABLE meta (key TEXT, value TEXT); INSERT INTO meta VALUES ('schema_version', '1')");
  for (const Mode mode : {Mode::kReadOnly, Mode::kReadWrite}) {
    const Status status = PerfStore::open(path_, mode).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidInput);
    EXPECT_NE(status.message().find("not a performance history"), std::string::npos) << status.message();
  }
}

TEST_P(PerfStoreTest, WhatIsOpenedForReadingIsNotWritten) {
  ASSERT_TRUE(open().record(run_of("c1"), std::vector{measurement("a", {1})}).ok());
  PerfStore store = open(Mode::kReadOnly);
  EXPECT_FALSE(store.record(run_of("c2"), std::vector{measurement("a", {1})}).ok());
  EXPECT_FALSE(store.mark({"c1", "", "why not", "", ""}).ok());
  EXPECT_EQ(store.commits("")->size(), 1U);
}

TEST_P(PerfStoreTest, TextsAreComparedByteByByte) {
  PerfStore store = open();
  const std::vector<std::string> names = {"B", "a", "a'; DROP TABLE run; --", "a-b", "aB", "\u00e9\u6f22"};
  for (const std::string& name : names)
    ASSERT_TRUE(store.record(run_of("c1"), std::vector{measurement(name, {1})}).ok());
  const std::vector<PerfStore::Round> rounds = store.rounds({}).value();
  std::vector<std::string> stored;
  for (const PerfStore::Round& round : rounds) stored.push_back(round.key.name);
  EXPECT_EQ(stored, names);
}

TEST_F(PerfFileTest, ANewerSchemaIsLeftAlone) {
  open();
  ASSERT_TRUE((*connect_history(path_, Mode::kReadWrite))->run_script("UPDATE meta SET value = '99'").ok());
  const std::string before = read_file(path_).value();
  EXPECT_FALSE(PerfStore::open(path_, Mode::kReadWrite).ok());
  EXPECT_EQ(read_file(path_).value(), before);
}

TEST_F(PerfFileTest, OtherFilesAreRefusedAndLeftAlone) {
  EXPECT_EQ(PerfStore::open(path_, Mode::kReadOnly).status().code(), StatusCode::kNotFound);
  const std::string text(5000, 'x');
  ASSERT_TRUE(write_file_atomically(path_, text).ok());
  EXPECT_EQ(PerfStore::open(path_, Mode::kReadWrite).status().code(), StatusCode::kInvalidInput);
  EXPECT_EQ(read_file(path_).value(), text);
  EXPECT_FALSE(PerfStore::open(folder_.path(), Mode::kReadWrite).ok());
}

// Whatever byte is damaged: an error or an answer, never a crash.
TEST_F(PerfFileTest, DamageIsAnError) {
  {
    PerfStore store = open();
    for (int i = 0; i < 50; ++i)
      ASSERT_TRUE(store.record(run_of("c1"), std::vector{measurement("a", std::vector<float>(100, 1.0F))}).ok());
  }
  const std::string whole = read_file(path_).value();
  int errors = 0;
  for (std::size_t at = 0; at < whole.size(); at += 97) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(~damaged[at]);
    ASSERT_TRUE(write_file_atomically(path_, damaged).ok());
    auto store = PerfStore::open(path_, Mode::kReadWrite);
    const auto rounds =
        store.ok() ? store->rounds({.commit = "c1"}) : Result<std::vector<PerfStore::Round>>(store.status());
    const bool read = rounds.ok() && !rounds->empty() && store->implementation(rounds->back().implementation).ok();
    if (!read) ++errors;
  }
  EXPECT_GT(errors, 10);
}

TEST_P(PerfStoreTest, TwoWritersLoseNothing) {
  open();
  const auto write = [this](const std::string& commit) {
    PerfStore store = open();
    for (int i = 0; i < 40; ++i)
      ASSERT_TRUE(store.record(run_of(commit), std::vector{measurement("a", {1, 2, 3})}).ok());
  };
  std::thread first(write, "c1");
  std::thread second(write, "c2");
  first.join();
  second.join();
  PerfStore store = open(Mode::kReadOnly);
  EXPECT_EQ(store.rounds({.commit = "c1"})->size(), 40U);
  EXPECT_EQ(store.rounds({.commit = "c2"})->size(), 40U);
}

// A child records runs and says so through a pipe, one byte each, until it is killed.
TEST_P(PerfStoreTest, AKilledWriterLosesNothingThatWasAcknowledged) {
  open();
  for (int attempt = 0; attempt < 5; ++attempt) {
    const std::string commit = "c" + std::to_string(attempt);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto store = PerfStore::open(path_, Mode::kReadWrite);
      while (store.ok() && store->record(run_of(commit), std::vector(20, measurement("a", {1, 2, 3}))).ok()) {
        if (write(ends[1], "+", 1) != 1) break;
      }
      _exit(0);
    }
    close(ends[1]);
    std::int64_t acknowledged = 0;
    char byte = 0;
    while (acknowledged < 7 + attempt && read(ends[0], &byte, 1) == 1) ++acknowledged;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (read(ends[0], &byte, 1) == 1) ++acknowledged;
    close(ends[0]);
    EXPECT_GE(acknowledged, 7);
    PerfStore store = open();
    const auto rounds = static_cast<std::int64_t>(store.rounds({.commit = commit})->size());
    EXPECT_EQ(rounds % 20, 0);  // whole runs alone
    EXPECT_GE(rounds, 20 * acknowledged);
    EXPECT_LE(rounds, 20 * (acknowledged + 1));  // one may have been stored and not yet acknowledged
  }
}

}  // namespace
}  // namespace sparsmith
