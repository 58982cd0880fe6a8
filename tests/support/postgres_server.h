// A PostgreSQL server of a test's own, in a temporary folder, reached through a Unix socket alone.
#pragma once

#include <memory>
#include <string>

#include "base/temporary_directory.h"
#include "sparsmith/status.h"

namespace sparsmith {

class PostgresServer {
 public:
  // Errors: kNotFound when the machine has no PostgreSQL server, or root finds no user to run it as; kIoError when it
  // does not start, with what it printed.
  static Result<std::unique_ptr<PostgresServer>> start();
  // The same server for all tests of a program.
  static const Result<std::unique_ptr<PostgresServer>>& shared();

  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;
  ~PostgresServer();  // stops it

  // Of a database, "postgres" being one that is there.
  std::string address(const std::string& database) const;
  // A new empty database; its address.
  Result<std::string> new_database();
  void stop();

 private:
  explicit PostgresServer(std::string programs) : programs_(std::move(programs)) {}

  std::string programs_;  // the folder of initdb and pg_ctl
  TemporaryDirectory folder_;
  bool running_ = false;
  int databases_ = 0;
};

}  // namespace sparsmith
