#include "base/sqlite_database.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>

#include "base/temporary_directory.h"

namespace sparsmith {
namespace {

constexpr DatabaseNoun kNoun = {"diary", "remove it", "move it away"};

class SqliteDatabaseTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  SQLite::Database database_{directory_.file("a.db"), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
};

TEST_F(SqliteDatabaseTest, WhatIsNotCommittedIsUndone) {
  EXPECT_TRUE(is_empty(database_));
  database_.exec("CREATE TABLE entry (text TEXT, number INTEGER)");
  EXPECT_FALSE(is_empty(database_));
  {
    const WriteTransaction transaction(database_);
    EXPECT_EQ(execute(database_, "INSERT INTO entry VALUES (?1, ?2)", "lost", std::int64_t{1}), 1);
  }
  EXPECT_EQ(database_.execAndGet("SELECT count(*) FROM entry").getInt(), 0);
  {
    WriteTransaction transaction(database_);
    EXPECT_EQ(execute(database_, "INSERT INTO entry VALUES (?1, ?2)", "kept", std::int64_t{1} << 40), 1);
    transaction.commit();
  }
  EXPECT_EQ(database_.execAndGet("SELECT text || number FROM entry").getString(), "kept1099511627776");
}

TEST_F(SqliteDatabaseTest, WritesAheadOnALocalDisk) {
  set_journal_mode(database_, directory_.file("a.db"));
  EXPECT_EQ(database_.execAndGet("PRAGMA journal_mode").getString(), "wal");
  EXPECT_EQ(database_.execAndGet("PRAGMA synchronous").getInt(), 1);
}

TEST_F(SqliteDatabaseTest, TrustsNoSchemaAndNoLength) {
  distrust(database_);
  EXPECT_EQ(database_.execAndGet("PRAGMA trusted_schema").getInt(), 0);
  EXPECT_EQ(database_.execAndGet("PRAGMA cell_size_check").getInt(), 1);
  EXPECT_EQ(database_.execAndGet("PRAGMA foreign_keys").getInt(), 1);
  EXPECT_EQ(sqlite3_limit(database_.getHandle(), SQLITE_LIMIT_LENGTH, -1), 1 << 28);
}

TEST_F(SqliteDatabaseTest, ErrorsSayWhatTheLossCosts) {
  const auto code_of = [](int code) {
    return sqlite_error(SQLite::Exception("words", code), "/nowhere/a.db", kNoun).code();
  };
  EXPECT_EQ(code_of(SQLITE_NOTADB), StatusCode::kInvalidInput);
  EXPECT_EQ(code_of(SQLITE_CORRUPT), StatusCode::kInvalidInput);
  EXPECT_EQ(code_of(SQLITE_TOOBIG), StatusCode::kInvalidInput);
  EXPECT_EQ(code_of(SQLITE_ERROR), StatusCode::kInvalidInput);
  EXPECT_EQ(code_of(SQLITE_BUSY), StatusCode::kIoError);
  EXPECT_EQ(code_of(SQLITE_READONLY), StatusCode::kIoError);
  EXPECT_EQ(code_of(SQLITE_NOMEM), StatusCode::kOutOfMemory);
  EXPECT_EQ(code_of(SQLITE_FULL), StatusCode::kIoError);
  // A file that may be written, and says that it may not.
  const Status damaged = sqlite_error(SQLite::Exception("words", SQLITE_READONLY), directory_.file("a.db"), kNoun);
  EXPECT_EQ(damaged.code(), StatusCode::kInvalidInput);
  EXPECT_NE(damaged.message().find("the diary is damaged"), std::string::npos) << damaged.message();

  const auto thrown = guard_sqlite("a.db", kNoun, []() -> Status { throw SQLite::Exception("words", SQLITE_CORRUPT); });
  EXPECT_NE(thrown.message().find("remove it"), std::string::npos) << thrown.message();
  const auto other = guard_sqlite("a.db", kNoun, []() -> Status { throw std::runtime_error("of another kind"); });
  EXPECT_EQ(other.code(), StatusCode::kInternal);
  EXPECT_NE(other.message().find("of another kind"), std::string::npos);
}

TEST_F(SqliteDatabaseTest, MakesTheFolderOfAPath) {
  EXPECT_TRUE(make_parent_folder("a.db", kNoun).ok());  // in the current folder
  EXPECT_TRUE(make_parent_folder(directory_.file("b/c/a.db"), kNoun).ok());
  EXPECT_TRUE(std::filesystem::is_directory(directory_.file("b/c")));
  const Status under_a_file = make_parent_folder(directory_.file("a.db/a.db"), kNoun);
  EXPECT_EQ(under_a_file.code(), StatusCode::kIoError);
  EXPECT_NE(under_a_file.message().find("diary"), std::string::npos) << under_a_file.message();
}

TEST_F(SqliteDatabaseTest, TimesHaveMilliseconds) {
  EXPECT_THAT(utc_now(), testing::MatchesRegex("20..-..-..T..:..:..\\....Z"));
}

}  // namespace
}  // namespace sparsmith
