#include "tuner/process/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "base/log.h"

namespace sparsmith {
namespace {

std::string describe(int status) {
  if (WIFEXITED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  if (signal == SIGKILL) return "was killed";
  return fmt::format("died of signal {} ({})", signal, strsignal(signal));
}

// Whether a signal from another process ended the child, and not its own fault.
bool is_sent_by_others(int status) {
  constexpr std::array kSent = {SIGKILL, SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGXCPU};
  return WIFSIGNALED(status) && std::ranges::find(kSent, WTERMSIG(status)) != kSent.end();
}

// Ctrl-C and the end of a job send these to every process. They are meant for the parent, which ends its children
// itself. A child blocks them. To ignore them is not enough: while NVRTC compiles, its own handlers call exit(), which
// ends the child or stops it in a deadlock.
sigset_t signals_for_the_parent() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) sigaddset(&signals, each);
  return signals;
}

// The environment of this process with another $TMPDIR.
std::vector<std::string> environment_with(const std::string& temporary_directory) {
  std::vector<std::string> all;
  constexpr std::string_view kName = "TMPDIR=";
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (temporary_directory.empty() || !std::string_view(*entry).starts_with(kName)) all.emplace_back(*entry);
  }
  if (!temporary_directory.empty()) all.push_back(std::string(kName) + temporary_directory);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Whether the system had too few resources for a process.
bool is_shortage(int error) {
  return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE || error == ETXTBSY || error == EIO;
}

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "sparsmith-child-";

// Locks a folder. Returns -1 when another process holds the lock, or when the folder does not exist.
int lock_folder(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return -1;
  struct stat found{};
  struct stat there{};
  const bool locked =
      ::fstat(file, &found) == 0 && found.st_uid == ::geteuid() && ::flock(file, LOCK_EX | LOCK_NB) == 0;
  // The process that removes a folder has locked it before: it may be gone by now.
  if (locked && ::lstat(path.c_str(), &there) == 0 && there.st_ino == found.st_ino) return file;
  ::close(file);
  return -1;
}

void remove_abandoned(const fs::path& directory) {
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(kPrefix)) continue;
    const int lock = lock_folder(entry->path());
    if (lock < 0) continue;
    std::error_code ignored;
    fs::remove_all(entry->path(), ignored);
    ::close(lock);
  }
}

}  // namespace

ChildFolder ChildFolder::make() {
  ChildFolder folder;
  std::error_code error;
  const fs::path directory = fs::temp_directory_path(error);
  if (error) return folder;
  static std::once_flag once;  // in a process
  std::call_once(once, [&] { remove_abandoned(directory); });
  // Another process may take a folder for abandoned before it is locked.
  for (int attempt = 0; attempt < 3 && folder.lock_ < 0; ++attempt) {
    std::string path = (directory / kPrefix).string() + "XXXXXX";
    if (mkdtemp(path.data()) == nullptr) break;
    folder.lock_ = lock_folder(path);
    if (folder.lock_ >= 0) folder.path_ = path;
  }
  if (folder.path_.empty()) log_debug("{}: no folder for a child's temporary files can be made", directory.string());
  return folder;
}

ChildFolder::ChildFolder(ChildFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")), lock_(std::exchange(other.lock_, -1)) {}

ChildFolder::~ChildFolder() {
  std::error_code error;
  if (!path_.empty()) fs::remove_all(path_, error);
  if (lock_ >= 0) ::close(lock_);
}

void remove_own_child_folder() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* const path = std::getenv("TMPDIR");
    std::error_code error;
    if (path != nullptr && fs::path(path).filename().string().starts_with(kPrefix)) fs::remove_all(path, error);
  });
}

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

  ChildFolder folder = ChildFolder::make();
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = environment_with(folder.path());

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  const sigset_t blocked = signals_for_the_parent();
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], kChildSocket);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attributes, pointers_to(words).data(),
                                pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(sockets[1]);
  if (error != 0) {
    close(sockets[0]);
    std::string message = fmt::format("cannot start {}: {}", program, std::strerror(error));
    return is_shortage(error) ? io_error(std::move(message)) : no_device(std::move(message));
  }
  return ChildProcess(pid, sockets[0], std::move(folder));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      socket_(std::exchange(other.socket_, -1)),
      folder_(std::move(other.folder_)),
      end_(std::move(other.end_)),
      killed_by_us_(other.killed_by_us_),
      killed_by_others_(other.killed_by_others_) {}

ChildProcess::~ChildProcess() {
  if (socket_ >= 0) close(socket_);
  kill();
  wait(std::chrono::milliseconds(0));
}

int ChildProcess::take_socket() { return std::exchange(socket_, -1); }

// Kills the child with its whole process group.
void ChildProcess::kill() {
  if (pid_ <= 0) return;
  killed_by_us_ = true;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
}

std::int64_t ChildProcess::resident_bytes() const {
  std::ifstream file(fmt::format("/proc/{}/statm", pid_));
  std::int64_t pages = 0;
  std::int64_t resident_pages = 0;
  if (!(file >> pages >> resident_pages)) return 0;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

bool ChildProcess::is_stopped() const {
  std::ifstream file(fmt::format("/proc/{}/stat", pid_));
  std::string text;
  std::getline(file, text);  // "PID (NAME) STATE ...", where a name may hold anything
  const std::size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text.substr(name_end + 2).starts_with('T');
}

std::string ChildProcess::wait(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (pid_ > 0) {
    const bool last = std::chrono::steady_clock::now() >= deadline;
    if (last) kill();
    siginfo_t info{};
    const int looked = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT | (last ? 0 : WNOHANG));
    if (looked == 0 && info.si_pid == pid_) {
      ::kill(-pid_, SIGKILL);  // what it has started and left behind, while nobody else can have its number
      int status = 0;
      while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
      }
      end_ = describe(status);
      killed_by_others_ = !killed_by_us_ && is_sent_by_others(status);
      pid_ = -1;
    } else if (looked < 0 && errno != EINTR) {
      end_ = fmt::format("is lost ({})", std::strerror(errno));
      pid_ = -1;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  return end_;
}

}  // namespace sparsmith
