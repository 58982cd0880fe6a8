#include "search/trial/device_turn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"

namespace sparsmith {
namespace {

// Whoever shares the GPU needs to read the file, no more: its lock does not depend on who may write it. A file of
// another user is not opened for creation, which Linux refuses in a folder as /tmp.
int open_lock_file(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  int file = ::open(path.c_str(), kFlags);
  if (file < 0 && errno == ENOENT) {
    file = ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0444);
    if (file >= 0) ::fchmod(file, 0444);  // whatever the umask
    if (file < 0 && errno == EEXIST) file = ::open(path.c_str(), kFlags);
  }
  struct stat found{};
  if (file >= 0 && (::fstat(file, &found) != 0 || !S_ISREG(found.st_mode))) {
    ::close(file);
    return -1;
  }
  return file;
}

// Who has it, as far as the system says: "process 1234 (sparsmith)".
std::string holder_of(int file) {
  struct stat found{};
  if (::fstat(file, &found) != 0) return "another process";
  const std::string place = fmt::format("{:02x}:{:02x}:{}", major(found.st_dev), minor(found.st_dev), found.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number;
    std::string kind;
    std::string mode;
    std::string access;
    std::string where;
    long pid = 0;
    if (!(words >> number >> kind >> mode >> access >> pid >> where) || kind != "FLOCK" || where != place) continue;
    std::string name;
    std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
    return fmt::format("process {} ({})", pid, name.empty() ? "?" : name);
  }
  return "another process";
}

// A wait for the lock, which another thread does, so that it may be left: the system's own has no time limit.
struct Wait {
  std::mutex mutex;  // guards what follows
  std::condition_variable over;
  bool locked = false;
  bool given_up = false;
};

bool lock_within(const std::shared_ptr<Wait>& wait, std::chrono::milliseconds time) {
  std::unique_lock lock(wait->mutex);
  return wait->over.wait_for(lock, time, [&] { return wait->locked; });
}

}  // namespace

DeviceTurn::DeviceTurn(const std::string& pci_address) {
  if (pci_address.empty()) return;
  std::string name = "sparsmith-" + pci_address + ".lock";
  std::ranges::replace(name, ':', '-');
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::temp_directory_path(error);
  path_ = (directory / name).string();
  if (!error) file_ = open_lock_file(path_);
  if (file_ < 0) log_debug("{} cannot be opened; other runs on {} are not waited for", path_, pci_address);
}

DeviceTurn::DeviceTurn(DeviceTurn&& other) noexcept { *this = std::move(other); }

DeviceTurn& DeviceTurn::operator=(DeviceTurn&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  std::swap(report_after_, other.report_after_);
  std::swap(give_up_after_, other.give_up_after_);
  return *this;
}

DeviceTurn::~DeviceTurn() {
  if (file_ >= 0) ::close(file_);
}

DeviceTurn::Hold::Hold(DeviceTurn& turn) : file_(turn.file_) {
  if (file_ < 0 || ::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  const auto wait = std::make_shared<Wait>();
  // Its own descriptor of the same open file: it may outlive the turn, and then waits until the process ends.
  std::thread([wait, file = ::fcntl(file_, F_DUPFD_CLOEXEC, 0)] {
    while (::flock(file, LOCK_EX) != 0 && errno == EINTR) {
    }
    const std::lock_guard lock(wait->mutex);
    wait->locked = true;
    if (wait->given_up) ::flock(file, LOCK_UN);
    ::close(file);
    wait->over.notify_all();
  }).detach();
  if (lock_within(wait, turn.report_after_)) return;
  const auto advice = [&](std::chrono::milliseconds waited) {
    return fmt::format(
        "{} has had the GPU for {:.0f} s (its lock is {}); end it, or set TMPDIR to another folder so as "
        "not to wait for it",
        holder_of(file_), std::chrono::duration<double>(waited).count(), turn.path_);
  };
  log_warning("{}", advice(turn.report_after_));
  if (lock_within(wait, turn.give_up_after_ - turn.report_after_)) return;
  const std::lock_guard lock(wait->mutex);
  if (wait->locked) return;
  wait->given_up = true;
  status_ = io_error(advice(turn.give_up_after_));
  file_ = -1;
}

DeviceTurn::Hold::~Hold() {
  if (file_ >= 0) ::flock(file_, LOCK_UN);
}

}  // namespace sparsmith
