// What is of PostgreSQL alone; store_test has what holds for either database.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "history/comparison.h"
#include "history/connection.h"
#include "tests/support/drawn_history.h"
#include "tests/support/history_counts.h"
#include "tests/support/postgres_server.h"

namespace sparsmith {
namespace {

using testing::HasSubstr;
using testing::Not;
using Mode = PerfStore::Mode;

TEST(Address, HidesItsPassword) {
  EXPECT_EQ(without_password("perf.db"), "perf.db");
  EXPECT_EQ(without_password("postgresql://me:secret@host:5432/perf"), "postgresql://me:***@host:5432/perf");
  EXPECT_EQ(without_password("postgres://me:a:b@c@host/perf"), "postgres://me:***@host/perf");
  EXPECT_EQ(without_password("postgresql://me@host:5432/perf"), "postgresql://me@host:5432/perf");
  EXPECT_EQ(without_password("postgresql:///perf?host=/tmp&password=secret&user=me"),
            "postgresql:///perf?host=/tmp&password=***&user=me");
  for (const char* address :
       {"postgresql://me:qx?jz/qx@host/perf", "postgresql://me:qx%2Fjz%3Fqx@host/perf", "postgresql://me:qx@jz@h/p",
        "postgresql:///perf?PASSWORD=qxjz", "postgresql:///perf?p%61ssword=qxjz&user=me",
        "postgresql:///perf?user=me&password=qx@jz", "postgresql:///perf?sslpassword=qxjz",
        "postgresql://host:5432/perf?password=qx@jz/qx", "POSTGRESQL://me:qxjz@host/perf", "host=db password=qxjz",
        "host=db password=qx://jz", "PASSWORD = 'qx jz\\'qx' host=db", "host=db sslpassword=qxjz user=me"}) {
    const std::string shown = without_password(address);
    EXPECT_THAT(shown, HasSubstr("***")) << address;
    for (const char* part : {"qx", "jz"}) EXPECT_THAT(shown, Not(HasSubstr(part))) << address;
  }
  EXPECT_EQ(without_password("host=db password=secret user=me"), "host=db password=*** user=me");
  EXPECT_TRUE(is_postgresql("postgres://h/d"));
  EXPECT_FALSE(is_postgresql("postgresql.db"));
}

TEST(Postgres, AServerThatIsNotThereIsAnError) {
  const Status status = PerfStore::open("postgresql://me:secret@%2Fnonexistent/perf", Mode::kReadWrite).status();
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("postgresql://me:***@%2Fnonexistent/perf"));
  EXPECT_THAT(status.message(), Not(HasSubstr("secret")));
  EXPECT_THAT(PerfStore::open("postgresql://%zz", Mode::kReadWrite).status().message(), HasSubstr("zz"));
}

// libpq quotes what it cannot read.
TEST(Address, HidesSecretsThatLieInEachOther) {
  std::string address = "host=db password=qxjz pass=jzqx";
  for (int i = 0; i < 60; ++i) address += " secret=*";  // as often as it is named, it is hidden once
  EXPECT_EQ(without_password(address, "of qxjzqx and *"), "of *** and ***");
}

TEST(Address, HidesThePartsOfItsPasswordInMessages) {
  const std::string address = "postgresql://me:pa/s%2Fs@host/perf";
  EXPECT_EQ(without_password(address, "invalid port number: \"pa\""), "invalid port number: \"***\"");
  EXPECT_EQ(without_password(address, "no such \"host\", not pa/s/s"), "no such \"host\", not ***");
  EXPECT_EQ(without_password("perf.db", "no \"perf\""), "no \"perf\"");
  for (const char* wrong : {"host=db password=secret", "POSTGRESQL://me:secret@host/perf"}) {
    const Status status = PerfStore::open(wrong, Mode::kReadWrite).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), Not(HasSubstr("secret")));
  }
  for (const char* wrong : {"postgresql://me:qx/jz@localhost/perf", "postgresql://me:qx%zzjz@localhost/perf",
                            "postgresql://[me:qxjz@localhost/perf"}) {
    const Status status = PerfStore::open(wrong, Mode::kReadWrite).status();
    EXPECT_FALSE(status.ok());
    for (const char* part : {"qx", "jz"}) EXPECT_THAT(status.message(), Not(HasSubstr(part))) << wrong;
  }
}

class PostgresTest : public testing::Test {
 protected:
  void SetUp() override {
    auto server = PostgresServer::start();
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(*server);
    const auto database = server_->new_database();
    ASSERT_TRUE(database.ok()) << database.status().message();
    address_ = *database;
  }

  std::unique_ptr<PostgresServer> server_;
  std::string address_;
};

TEST_F(PostgresTest, AServerThatGoesAwayIsAnError) {
  PerfStore store = PerfStore::open(address_, Mode::kReadWrite).value();
  DrawnNoise noise(Noise::kIndependent, 0.01, 1);
  PerfRun run;
  run.commit = "c1";
  ASSERT_TRUE(store.record(run, DrawnHistory::round_of(0, noise)).ok());
  server_->stop();
  EXPECT_EQ(store.record(run, DrawnHistory::round_of(0, noise)).code(), StatusCode::kIoError);
  EXPECT_EQ(store.rounds({}).status().code(), StatusCode::kIoError);
  EXPECT_EQ(PerfStore::open(address_, Mode::kReadWrite).status().code(), StatusCode::kIoError);
}

TEST_F(PostgresTest, AMillionSamples) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  PerfStore store = PerfStore::open(address_, Mode::kReadWrite).value();
  DrawnHistory drawn;
  ASSERT_TRUE(drawn.record(store).ok());
  auto begin = Clock::now();
  const auto comparison = compare(store, DrawnHistory::commit(0), DrawnHistory::commit(DrawnHistory::kCommits - 1), {});
  const double comparing = seconds_since(begin);
  ASSERT_TRUE(comparison.ok());
  EXPECT_EQ(comparison->rows.size(), DrawnHistory::kCases);
  begin = Clock::now();
  const auto rounds = store.rounds({});
  const double reading = seconds_since(begin);
  ASSERT_TRUE(rounds.ok());
  EXPECT_EQ(static_cast<std::int64_t>(rounds->size()) * DrawnHistory::kRepetitions, drawn.samples);
  const double rate = static_cast<double>(drawn.samples) / drawn.seconds;
  const double megabytes = static_cast<double>(bytes_of_history(address_)) / 1e6;
  fmt::print(
      "PostgreSQL: {} samples in {:.2f} s ({:.0f}/s), a transaction a round; {:.1f} MB; compared in {:.3f} s; "
      "all read in {:.2f} s\n",
      drawn.samples, drawn.seconds, rate, megabytes, comparing, reading);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_GE(rate, 20'000);  // a busy machine runs the server as well
  EXPECT_LT(comparing, 2);
#endif
  EXPECT_LT(megabytes, 100);
}

}  // namespace
}  // namespace sparsmith
