#include "tuner/child_process.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

namespace sparsmith {
namespace {

std::string describe(int status) {
  if (WIFEXITED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  if (signal == SIGKILL) return "was killed";
  return fmt::format("died of signal {} ({})", signal, strsignal(signal));
}

}  // namespace

std::string program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

Result<ChildProcess> ChildProcess::start(const std::string& program, const std::vector<std::string>& arguments) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return io_error(fmt::format("socketpair: {}", std::strerror(errno)));

  // Large packings go through the socket: fewer, larger pieces. What the system does not permit it caps.
  const int buffer_bytes = 4 << 20;
  for (const int socket : sockets)
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, static_cast<socklen_t>(sizeof(buffer_bytes)));

  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], kChildSocket);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(sockets[1]);
  if (error != 0) {
    close(sockets[0]);
    return no_device(fmt::format("cannot start {}: {}", program, std::strerror(error)));
  }
  return ChildProcess(pid, sockets[0]);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), socket_(std::exchange(other.socket_, -1)), end_(std::move(other.end_)) {}

ChildProcess::~ChildProcess() {
  if (socket_ >= 0) close(socket_);
  kill();
  wait(std::chrono::milliseconds(0));
}

int ChildProcess::take_socket() { return std::exchange(socket_, -1); }

void ChildProcess::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

std::int64_t ChildProcess::resident_bytes() const {
  std::ifstream file(fmt::format("/proc/{}/statm", pid_));
  std::int64_t pages = 0;
  std::int64_t resident_pages = 0;
  if (!(file >> pages >> resident_pages)) return 0;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

std::string ChildProcess::wait(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (pid_ > 0) {
    const bool last = std::chrono::steady_clock::now() >= deadline;
    if (last) kill();
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, last ? 0 : WNOHANG);
    if (ended == pid_) {
      end_ = describe(status);
      pid_ = -1;
    } else if (ended < 0 && errno != EINTR) {
      end_ = fmt::format("is lost ({})", std::strerror(errno));
      pid_ = -1;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  return end_;
}

}  // namespace sparsmith
