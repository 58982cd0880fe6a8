// Files: read-only memory maps, and writes that either happen wholly or leave what was there.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "sparsmith/status.h"

namespace sparsmith {

// A whole file mapped for reading. Movable; the bytes live as long as the object. Reading from several
// threads is safe. An empty file maps to an empty span.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::string& path() const { return path_; }

  // Tells the kernel that bytes [offset, offset + size) will not be read again, so that a pass over a file
  // larger than memory does not fill it.
  void release(std::size_t offset, std::size_t size) const;

 private:
  MappedFile(std::string path, const std::byte* data, std::size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

Result<std::string> read_file(const std::string& path);

// Ok when write_file_atomically() can make a file in the folder of `path`. Leaves nothing behind.
//   Errors: kNotFound without the folder; kIoError.
Status check_replaceable(const std::string& path);

// Writes to a temporary file beside `path`, syncs it and renames it over `path`: a reader, or a crash,
// sees the old file or the new one, never a part.
Status write_file_atomically(const std::string& path, std::span<const std::span<const std::byte>> parts);
Status write_file_atomically(const std::string& path, std::string_view text);

}  // namespace sparsmith
