// Files: read-only memory maps, and writes that are complete or leave the old file.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sparsmith/status.h"

namespace sparsmith {

// A whole file mapped for reading. Movable. The bytes live as long as the object. Reading from several threads is safe.
// An empty file maps to an empty span.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);

  std::span<const std::byte> bytes() const { return {data_.get(), data_.get_deleter().size}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes().data()), bytes().size()}; }
  const std::string& path() const { return path_; }

  // Tells the kernel that bytes [offset, offset + size) will not be read again. So a pass over a file larger than
  // memory does not fill it.
  void release(std::size_t offset, std::size_t size) const;

 private:
  struct Unmap {
    std::size_t size;
    void operator()(const std::byte* data) const;
  };

  MappedFile(std::string path, const std::byte* data, std::size_t size)
      : path_(std::move(path)), data_(data, Unmap{size}) {}

  std::string path_;
  std::unique_ptr<const std::byte, Unmap> data_;
};

Result<std::string> read_file(const std::string& path);

// Ok when write_file_atomically() can make a file in the folder of `path`. Makes no permanent file.
//   Errors: kNotFound when the folder does not exist; kIoError.
Status check_replaceable(const std::string& path);

// Writes to a temporary file beside `path`, syncs it and renames it to `path`. A reader, even after a crash, sees the
// old file or the new file, never a part.
Status write_file_atomically(const std::string& path, std::span<const std::span<const std::byte>> parts);
Status write_file_atomically(const std::string& path, std::string_view text);

}  // namespace sparsmith
