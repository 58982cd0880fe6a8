// What a cache goes through in real life: killed processes, several at once, and flipped bytes on disk.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/temporary_directory.h"
#include "cache/cache.h"

namespace sparsmith {
namespace {

const ProblemKey kProblem = {"pattern", "spmm_fp32_token_major_none", 1, "sm_90 132 SMs", "cold_weights"};

KernelRecord kernel(const std::string& name, std::mt19937& random) {
  KernelRecord record;
  record.key = {name, "closure", "sm_90", "13.0"};
  record.cubin.resize(3000 + random() % 20000);
  for (std::byte& byte : record.cubin) byte = static_cast<std::byte>(random());
  return record;
}

ChoiceRecord choice(const std::string& pattern, double us) {
  ChoiceRecord record;
  record.key = kProblem;
  record.key.pattern_hash = pattern;
  record.kind = "generated";
  record.config = "rows a=1";
  record.evidence = "measured";
  record.us = us;
  return record;
}

// Everything a tuning run writes, once. False when the cache refused.
bool write_round(Cache& cache, const std::string& prefix, int round, std::mt19937& random) {
  MeasurementRecord record;
  record.key = kProblem;
  record.config = prefix + std::to_string(round);
  const auto id = cache.begin(record);
  if (!id.ok()) return false;
  if (!cache.put_kernel(kernel(prefix + std::to_string(round % 20), random)).ok()) return false;
  record.status = MeasurementStatus::kOk;
  record.median_us = 1.0 + round;
  if (!cache.finish(*id, record).ok()) return false;
  return cache.put_choice(choice(prefix, 1.0 + round)).ok();
}

// A table that is gone stands for a disk that is full or fails.
TEST(CacheWriteFailureTest, WhatIsNotWrittenIsCountedAndNamed) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("cache.db");
  auto cache = Cache::open(path, Cache::Mode::kReadWrite);
  ASSERT_TRUE(cache.ok());
  MeasurementRecord record;
  record.key = kProblem;
  const auto id = cache->begin(record);
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(cache->write_failures().count, 0);
  SQLite::Database(path, SQLite::OPEN_READWRITE).exec("DROP TABLE measurement; DROP TABLE choice");
  record.status = MeasurementStatus::kOk;
  EXPECT_FALSE(cache->finish(*id, record).ok());
  EXPECT_FALSE(cache->begin(record).ok());
  EXPECT_FALSE(cache->put_choice(choice("pattern", 1)).ok());
  EXPECT_EQ(cache->write_failures().count, 3);
  EXPECT_NE(cache->write_failures().reason.find("measurement"), std::string::npos) << cache->write_failures().reason;
}

class CacheDamageTest : public testing::Test {
 protected:
  void SetUp() override {
    seed_ = std::random_device()();
    random_.seed(seed_);
    RecordProperty("seed", std::to_string(seed_));
  }
  void TearDown() override {
    if (HasFailure()) std::cerr << "seed " << seed_ << "\n";
  }
  std::string path(const char* name = "cache.db") const { return directory_.file(name); }

  // A child that writes without end; killed by the caller.
  pid_t start_writer(const std::string& prefix) {
    const unsigned seed = random_();
    const pid_t child = fork();
    if (child != 0) return child;
    std::mt19937 random(seed);
    auto cache = Cache::open(path(), Cache::Mode::kReadWrite);
    if (!cache.ok()) _exit(2);
    for (int round = 0;; ++round) {
      if (!write_round(*cache, prefix, round, random)) _exit(3);
    }
  }

  unsigned seed_ = 0;
  std::mt19937 random_;
  TemporaryDirectory directory_;
};

TEST_F(CacheDamageTest, SurvivesKillsAtRandomMoments) {
  std::size_t finished = 0;
  for (int kill_number = 0; kill_number < 30; ++kill_number) {
    const pid_t child = start_writer("w");
    // The first moments hold the making of the tables; later ones the steady state.
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 60000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer gave up: exit code " << WEXITSTATUS(status);

    auto cache = Cache::open(path(), Cache::Mode::kReadWrite);
    ASSERT_TRUE(cache.ok()) << "kill " << kill_number << ": " << cache.status().to_string();
    EXPECT_EQ(cache->counts()->running, 0) << "a dead process's row is still called running";
    const auto problems = cache->verify();
    ASSERT_TRUE(problems.ok());
    EXPECT_TRUE(problems->empty()) << problems->front();
    const auto measured = cache->measurements(kProblem);
    ASSERT_TRUE(measured.ok());
    EXPECT_GE(measured->size(), finished) << "what was committed is gone";
    finished = measured->size();
    for (const MeasurementRecord& m : *measured) {
      EXPECT_EQ(m.abandoned, m.status == MeasurementStatus::kCrashed);
    }
    ASSERT_TRUE(write_round(*cache, "parent", kill_number, random_)) << "the cache does not go on";
    finished += 1;
  }
}

TEST_F(CacheDamageTest, TwoProcessesWriteAtOnce) {
  constexpr int kRounds = 60;
  std::vector<pid_t> children;
  for (const char* prefix : {"a", "b"}) {
    const unsigned seed = random_();
    const pid_t child = fork();
    if (child == 0) {
      std::mt19937 random(seed);
      auto cache = Cache::open(path(), Cache::Mode::kReadWrite);
      if (!cache.ok()) _exit(2);
      for (int round = 0; round < kRounds; ++round) {
        if (!write_round(*cache, prefix, round, random)) _exit(3);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  auto cache = Cache::open(path(), Cache::Mode::kReadWrite);
  ASSERT_TRUE(cache.ok());
  EXPECT_TRUE(cache->verify()->empty());
  EXPECT_EQ(cache->measurements(kProblem)->size(), 2U * kRounds);
  EXPECT_EQ(cache->counts()->crashed, 0);
  EXPECT_EQ(cache->counts()->binaries, 40);
  EXPECT_EQ(cache->counts()->choices, 2);
}

TEST_F(CacheDamageTest, ADamagedBinaryOrChoiceIsDropped) {
  auto cache = Cache::open(path(), Cache::Mode::kReadWrite);
  const KernelRecord record = kernel("k", random_);
  ASSERT_TRUE(cache->put_kernel(record).ok());
  ASSERT_TRUE(cache->put_choice(choice("p", 4)).ok());
  {
    SQLite::Database database(path(), SQLite::OPEN_READWRITE, 1000);
    database.exec("UPDATE binary SET cubin = zeroblob(length(cubin))");
    database.exec("UPDATE choice SET us = 1.0");
  }
  ProblemKey key = kProblem;
  key.pattern_hash = "p";
  EXPECT_FALSE(cache->find_kernel(record.key)->has_value());
  EXPECT_EQ(cache->find_choice(key, 90, 132)->quality, MatchQuality::kNone);
  EXPECT_EQ(cache->damaged(), 2);
  EXPECT_EQ(cache->counts()->binaries, 0);
  EXPECT_EQ(cache->counts()->choices, 0);
  ASSERT_TRUE(cache->put_kernel(record).ok());  // rebuilt
  EXPECT_TRUE(cache->find_kernel(record.key)->has_value());

  SQLite::Database(path(), SQLite::OPEN_READWRITE, 1000).exec("UPDATE binary SET registers = 1");
  EXPECT_EQ(cache->verify()->size(), 1U);
  EXPECT_TRUE(cache->verify()->empty());
}

TEST_F(CacheDamageTest, ADamagedChoiceIsFoundBehindSoundOnes) {
  auto cache = Cache::open(path(), Cache::Mode::kReadWrite);
  for (const char* pattern : {"a", "b", "c"}) ASSERT_TRUE(cache->put_choice(choice(pattern, 4)).ok());
  SQLite::Database(path(), SQLite::OPEN_READWRITE, 1000).exec("UPDATE choice SET us = 1 WHERE pattern_hash = 'b'");
  const auto problems = cache->verify();
  ASSERT_EQ(problems->size(), 1U);
  EXPECT_NE(problems->front().find("choice of b"), std::string::npos) << problems->front();
  EXPECT_EQ(cache->counts()->choices, 2);
  EXPECT_TRUE(cache->verify()->empty());
}

// A number where the table has text, as a flipped byte of a page makes it: SQLite itself writes none.
TEST_F(CacheDamageTest, AReferenceToARowThatIsGoneIsFound) {
  auto cache = Cache::open(path(), Cache::Mode::kReadWrite);
  ASSERT_TRUE(cache.ok());
  MeasurementRecord record;
  record.key = kProblem;
  ASSERT_TRUE(cache->begin(record).ok());
  SQLite::Database database(path(), SQLite::OPEN_READWRITE);
  database.exec("PRAGMA foreign_keys = OFF; UPDATE measurement SET device_id = 77");
  const auto problems = cache->verify();
  ASSERT_TRUE(problems.ok()) << problems.status().to_string();
  ASSERT_EQ(problems->size(), 1U);
  EXPECT_EQ(problems->front(), "table measurement: row 1 refers to a row of device that is not there");
}

TEST_F(CacheDamageTest, RowsOfAnotherTypeAreNotMerged) {
  {
    auto cache = Cache::open(path("other.db"), Cache::Mode::kReadWrite);
    ASSERT_TRUE(write_round(*cache, "w", 1, random_));
    SQLite::Database database(path("other.db"), SQLite::OPEN_READWRITE, 1000);
    const std::string sql = database.execAndGet("SELECT sql FROM sqlite_master WHERE name = 'kernel'").getString();
    std::string untyped = sql;
    untyped.replace(untyped.find("name TEXT"), 9, "name     ");
    const auto set_schema = [&](const std::string& text) {
      SQLite::Database writer(path("other.db"), SQLite::OPEN_READWRITE, 1000);
      writer.exec("PRAGMA writable_schema = ON");
      SQLite::Statement update(writer, "UPDATE sqlite_master SET sql = ?1 WHERE name = 'kernel'");
      update.bind(1, text);
      update.exec();
    };
    set_schema(untyped);
    SQLite::Database(path("other.db"), SQLite::OPEN_READWRITE, 1000)
        .exec("INSERT INTO kernel VALUES (7, 'closure', 'config')");
    set_schema(sql);
  }
  auto receiver = Cache::open(path(), Cache::Mode::kReadWrite);
  const auto merged = receiver->merge_from(path("other.db"));
  ASSERT_TRUE(merged.ok()) << merged.status().to_string();
  const auto problems = receiver->verify();
  ASSERT_TRUE(problems.ok());
  EXPECT_TRUE(problems->empty()) << problems->front();
  EXPECT_GT(receiver->counts()->binaries, 0);
}

// Version 2 did not say what goal a choice has.
TEST_F(CacheDamageTest, TheSchemaBeforeIsMadeThePresentOne) {
  ASSERT_TRUE(Cache::open(path(), Cache::Mode::kReadWrite)->put_choice(choice("pattern", 5)).ok());
  SQLite::Database(path(), SQLite::OPEN_READWRITE, 1000)
      .exec("ALTER TABLE choice DROP COLUMN goal; UPDATE meta SET value = '2' WHERE key = 'schema_version'");
  EXPECT_FALSE(Cache::open(path(), Cache::Mode::kReadOnly).ok());
  auto cache = Cache::open(path(), Cache::Mode::kReadWrite);
  ASSERT_TRUE(cache.ok()) << cache.status().to_string();
  EXPECT_TRUE(cache->verify()->empty());
  const auto choices = cache->choices();
  ASSERT_EQ(choices->size(), 1U);
  EXPECT_EQ(choices->front().us, 5);
  EXPECT_EQ(choices->front().goal, "");
  ChoiceRecord better = choice("pattern", 4);
  better.goal = "memory 1x";
  ASSERT_TRUE(cache->put_choice(better).ok());
  EXPECT_EQ(cache->choices()->front().goal, "memory 1x");
  EXPECT_TRUE(cache->verify()->empty());
  EXPECT_TRUE(Cache::open(path(), Cache::Mode::kReadOnly).ok());
}

TEST_F(CacheDamageTest, AnotherSchemaIsRefusedOrRebuilt) {
  ASSERT_TRUE(Cache::open(path(), Cache::Mode::kReadWrite).ok());
  SQLite::Database(path(), SQLite::OPEN_READWRITE, 1000)
      .exec("UPDATE meta SET value = '99' WHERE key = 'schema_version'");
  const auto refused = Cache::open(path(), Cache::Mode::kReadWrite);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("schema version 99"), std::string::npos) << refused.status().message();
  std::string notice;
  ASSERT_TRUE(Cache::open_or_rebuild(path(), &notice).ok());
  EXPECT_FALSE(notice.empty());

  SQLite::Database foreign(path("foreign.db"), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  foreign.exec("CREATE TABLE precious (a)");
  const auto kept = Cache::open(path("foreign.db"), Cache::Mode::kReadWrite);
  ASSERT_FALSE(kept.ok());
  EXPECT_NE(kept.status().message().find("not a cache"), std::string::npos);
}

// Flipped, overwritten and cut bytes: every call returns, with a value or an error, and the default path heals.
TEST_F(CacheDamageTest, RandomDamageNeverCrashes) {
  {
    auto cache = Cache::open(path("good.db"), Cache::Mode::kReadWrite);
    for (int round = 0; round < 40; ++round) ASSERT_TRUE(write_round(*cache, "w", round, random_));
    ASSERT_TRUE(cache->export_to(path("compact.db")).ok());
  }
  int refused = 0;
  for (int trial = 0; trial < 60; ++trial) {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path("bad.db") + suffix);
    std::filesystem::copy_file(path("compact.db"), path("bad.db"));
    const auto size = std::filesystem::file_size(path("bad.db"));
    if (trial % 10 == 9) {
      std::filesystem::resize_file(path("bad.db"), random_() % size);
    } else {
      std::fstream file(path("bad.db"), std::ios::in | std::ios::out | std::ios::binary);
      const int flips = 1 << (random_() % 10);
      for (int flip = 0; flip < flips; ++flip) {
        // Half of the damage goes where the structure is: the head of a page.
        const auto offset = random_() % 2 == 0 ? random_() % size : random_() % (size / 4096) * 4096 + random_() % 100;
        file.seekp(static_cast<std::streamoff>(offset));
        file.put(static_cast<char>(random_()));
      }
    }
    auto cache = Cache::open(path("bad.db"), Cache::Mode::kReadWrite);
    if (cache.ok()) {
      for (int i = 0; i < 20; ++i) {
        const auto found = cache->find_kernel({"w" + std::to_string(i), "closure", "sm_90", "13.0"});
        (void)found;
      }
      (void)cache->measurements(kProblem);
      (void)cache->choices();
      (void)cache->find_choice({"w", "spmm_fp32_token_major_none", 1, "sm_90 132 SMs", "cold_weights"}, 90, 132);
      (void)cache->counts();
      (void)write_round(*cache, "later", trial, random_);
      (void)cache->verify();
      (void)cache->export_to(path("bad_export.db"));
      std::filesystem::remove(path("bad_export.db"));
      (void)cache->collect_garbage(0);
      auto receiver = Cache::open(path("receiver.db"), Cache::Mode::kReadWrite);
      ASSERT_TRUE(receiver.ok());
      (void)receiver->merge_from(path("bad.db"));
      const auto problems = receiver->verify();
      ASSERT_TRUE(problems.ok());
      EXPECT_TRUE(problems->empty()) << "merging damage damaged the receiver: " << problems->front();
    } else {
      ++refused;
      EXPECT_FALSE(cache.status().message().empty());
      const auto rebuilt = Cache::open_or_rebuild(path("bad.db"), nullptr);
      ASSERT_TRUE(rebuilt.ok()) << rebuilt.status().to_string() << " after " << cache.status().to_string();
    }
  }
  RecordProperty("refused", refused);
}

}  // namespace
}  // namespace sparsmith
