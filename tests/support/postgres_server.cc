#include "tests/support/postgres_server.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/run_program.h"
#include "history/connection.h"

namespace sparsmith {
namespace {

namespace fs = std::filesystem;

// The newest server's programs; empty: there are none.
std::string find_programs() {
  std::vector<std::string> folders;
  std::error_code error;
  for (const auto& version : fs::directory_iterator("/usr/lib/postgresql", error))
    folders.push_back((version.path() / "bin").string());
  std::ranges::sort(folders);
  const char* const variable = std::getenv("PATH");
  const std::string path = variable == nullptr ? "" : variable;
  for (std::size_t begin = 0, end = 0; begin < path.size(); begin = end + 1) {
    end = std::min(path.find(':', begin), path.size());
    folders.push_back(path.substr(begin, end - begin));
  }
  for (const std::string& folder : folders) {
    if (access((folder + "/initdb").c_str(), X_OK) == 0 && access((folder + "/pg_ctl").c_str(), X_OK) == 0)
      return folder;
  }
  return "";
}

// Whom root runs the server as: PostgreSQL refuses root.
const passwd* other_user() {
  for (const char* name : {"postgres", "nobody"}) {
    if (const passwd* user = getpwnam(name)) return user;
  }
  return nullptr;
}

// Runs a program, as another user where this is root. Whether it exits with 0.
bool run(std::vector<std::string> command, const std::string& log) {
  if (const passwd* const user = geteuid() == 0 ? other_user() : nullptr; user != nullptr) {
    const std::string ids[] = {fmt::format("--reuid={}", user->pw_uid), fmt::format("--regid={}", user->pw_gid)};
    command.insert(command.begin(), {"setpriv", ids[0], ids[1], "--clear-groups"});
  }
  return run_program(std::move(command), log) == 0;
}

}  // namespace

Result<std::unique_ptr<PostgresServer>> PostgresServer::start() {
  const std::string programs = find_programs();
  if (programs.empty()) return not_found("no PostgreSQL server here (package postgresql)");
  const passwd* const user = geteuid() == 0 ? other_user() : nullptr;
  if (geteuid() == 0 && user == nullptr) return not_found("neither postgres nor nobody is here to run PostgreSQL as");
  std::unique_ptr<PostgresServer> server(new PostgresServer(programs));
  const std::string& folder = server->folder_.path();
  const std::string log = folder + "/log";
  if (user != nullptr && chown(folder.c_str(), user->pw_uid, user->pw_gid) != 0)
    return io_error(folder + ": cannot be given to " + user->pw_name);
  const std::string data = folder + "/data";
  const bool made = run({programs + "/initdb", "-D", data, "-U", "sparsmith", "-A", "trust", "-E", "UTF8",
                         "--locale=C.UTF-8", "--no-sync"},
                        log);
  const std::string options = fmt::format("-k {} -c listen_addresses='' -c fsync=off -c max_connections=20", folder);
  server->running_ = made && run({programs + "/pg_ctl", "start", "-w", "-t", "60", "-D", data, "-l",
                                  folder + "/server.log", "-o", options},
                                 log);
  if (server->running_) return server;
  const auto printed = read_file(log);
  return io_error("PostgreSQL does not start: " + (printed.ok() ? *printed : printed.status().message()));
}

const Result<std::unique_ptr<PostgresServer>>& PostgresServer::shared() {
  static const Result<std::unique_ptr<PostgresServer>> server = start();
  return server;
}

PostgresServer::~PostgresServer() { stop(); }

std::string PostgresServer::address(const std::string& database) const {
  std::string folder;  // as a host in an address
  for (const char c : folder_.path()) folder += c == '/' ? std::string("%2F") : std::string(1, c);
  return fmt::format("postgresql://sparsmith@{}/{}", folder, database);
}

Result<std::string> PostgresServer::new_database() {
  SPARSMITH_ASSIGN_OR_RETURN(const auto connection, connect_history(address("postgres"), PerfStore::Mode::kReadWrite));
  const std::string name = fmt::format("d{}", ++databases_);
  SPARSMITH_RETURN_IF_ERROR(connection->run_script("CREATE DATABASE " + name));
  return address(name);
}

void PostgresServer::stop() {
  if (!running_) return;
  run({programs_ + "/pg_ctl", "stop", "-w", "-m", "immediate", "-D", folder_.file("data")}, folder_.file("log"));
  running_ = false;
}

}  // namespace sparsmith
