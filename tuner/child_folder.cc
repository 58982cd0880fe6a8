#include "tuner/child_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace sparsmith {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "sparsmith-child-";

// Locks a folder; -1 where another process has it, or it is gone.
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

}  // namespace sparsmith
