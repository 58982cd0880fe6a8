#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace sparsmith {
namespace {

Status system_error(std::string_view what, const std::string& path) {
  const int error = errno;
  std::string message = fmt::format("{}: cannot {}: {}", path, what, std::strerror(error));
  return error == ENOENT ? not_found(std::move(message)) : io_error(std::move(message));
}

// Closes on destruction.
struct FileDescriptor {
  int number = -1;
  ~FileDescriptor() {
    if (number >= 0) close(number);
  }
};

Status write_all(int descriptor, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error("write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

// A new file of a name that nobody knows beforehand, in the folder of `path`: nothing of that name is followed or
// opened.
struct TemporaryFile {
  std::string path;
  FileDescriptor descriptor;
};

Status create_beside(const std::string& path, TemporaryFile& file) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  for (int attempt = 0; attempt < 8; ++attempt) {
    std::uint64_t bits = 0;
    if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) return system_error("draw a name beside", path);
    file.path = (folder / fmt::format(".sparsmith-{:016x}.tmp", bits)).string();
    file.descriptor.number = ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file.descriptor.number >= 0) return {};
    if (errno != EEXIST) break;
  }
  return system_error("create a file in its folder", path);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0) return system_error("open", path);
  struct stat info{};
  if (fstat(file.number, &info) != 0) return system_error("stat", path);
  if (S_ISDIR(info.st_mode)) return invalid_input(fmt::format("{}: a folder; give a file in it", path));
  if (!S_ISREG(info.st_mode)) return invalid_input(fmt::format("{}: not a regular file", path));
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return MappedFile(path, nullptr, 0);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (data == MAP_FAILED) return system_error("map", path);
  return MappedFile(path, static_cast<const std::byte*>(data), size);
}

void MappedFile::Unmap::operator()(const std::byte* data) const { munmap(const_cast<std::byte*>(data), size); }

void MappedFile::release(std::size_t offset, std::size_t size) const {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t begin = (offset + page - 1) / page * page;
  const std::size_t end = (offset + size) / page * page;
  if (begin < end && end <= bytes().size())
    madvise(const_cast<std::byte*>(bytes().data()) + begin, end - begin, MADV_DONTNEED);
}

Result<std::string> read_file(const std::string& path) {
  SPARSMITH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  return std::string(file.text());
}

Status check_replaceable(const std::string& path) {
  TemporaryFile file;
  SPARSMITH_RETURN_IF_ERROR(create_beside(path, file));
  unlink(file.path.c_str());
  return {};
}

Status write_file_atomically(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  TemporaryFile file;
  SPARSMITH_RETURN_IF_ERROR(create_beside(path, file));
  Status status = [&]() -> Status {
    for (const auto& part : parts) SPARSMITH_RETURN_IF_ERROR(write_all(file.descriptor.number, part, path));
    if (fsync(file.descriptor.number) != 0) return system_error("sync", path);
    return {};
  }();
  if (status.ok() && rename(file.path.c_str(), path.c_str()) != 0) status = system_error("replace", path);
  if (!status.ok()) unlink(file.path.c_str());
  return status;
}

Status write_file_atomically(const std::string& path, std::string_view text) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  return write_file_atomically(path, std::span(&part, 1));
}

}  // namespace sparsmith
