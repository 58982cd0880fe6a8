// Loaded by LD_PRELOAD (tests/environment_faults.sh): calls that write to files whose path holds $FAULT_PATH fail, from
// the $FAULT_AFTER-th on, $FAULT_COUNT times (0: always), with the errno $FAULT_ERRNO. Each failure adds a line to the
// file $FAULT_LOG.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

const char* setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::atomic<long> calls{0};

bool fails(const char* path, const char* call) {
  const char* const part = setting("FAULT_PATH");
  if (*part == 0 || path == nullptr || std::strstr(path, part) == nullptr) return false;
  const long after = std::atol(setting("FAULT_AFTER"));
  const long count = std::atol(setting("FAULT_COUNT"));
  const long number = calls++;
  if (number < after || (count > 0 && number >= after + count)) return false;
  static const auto real_open = reinterpret_cast<int (*)(const char*, int, ...)>(dlsym(RTLD_NEXT, "open"));
  static const auto real_write = reinterpret_cast<ssize_t (*)(int, const void*, size_t)>(dlsym(RTLD_NEXT, "write"));
  const int log = real_open(setting("FAULT_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log >= 0) {
    char line[512];
    const int length = std::snprintf(line, sizeof(line), "%s %s\n", call, path);
    (void)!real_write(log, line, static_cast<size_t>(length));
    ::close(log);
  }
  errno = std::atoi(setting("FAULT_ERRNO"));
  return true;
}

bool fails(int file, const char* call) {
  char link[64];
  char path[512];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t length = ::readlink(link, path, sizeof(path) - 1);
  if (length <= 0) return false;
  path[length] = 0;
  return fails(path, call);
}

}  // namespace

#define REAL(name) static const auto real = reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name))

extern "C" {

ssize_t write(int file, const void* bytes, size_t count) {
  REAL(write);
  return fails(file, "write") ? -1 : real(file, bytes, count);
}
ssize_t writev(int file, const iovec* parts, int count) {
  REAL(writev);
  return fails(file, "writev") ? -1 : real(file, parts, count);
}
ssize_t pwrite(int file, const void* bytes, size_t count, off_t offset) {
  REAL(pwrite);
  return fails(file, "pwrite") ? -1 : real(file, bytes, count, offset);
}
ssize_t pwrite64(int file, const void* bytes, size_t count, off64_t offset) {
  REAL(pwrite64);
  return fails(file, "pwrite64") ? -1 : real(file, bytes, count, offset);
}
int fsync(int file) {
  REAL(fsync);
  return fails(file, "fsync") ? -1 : real(file);
}
int fdatasync(int file) {
  REAL(fdatasync);
  return fails(file, "fdatasync") ? -1 : real(file);
}
int rename(const char* from, const char* to) {
  REAL(rename);
  return fails(to, "rename") ? -1 : real(from, to);
}

}  // extern "C"
