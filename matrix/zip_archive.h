// Reads the members of a .zip file in memory. A .npz file is a .zip file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// Reads stored and deflated members, with or without ZIP64 sizes, with minizip. The file's bytes must outlive the
// archive. One thread at a time.
class ZipArchive {
 public:
  // Reads the directory. Error: kInvalidInput when the directory is missing or damaged.
  static Result<ZipArchive> open(std::span<const std::byte> file);

  bool contains(const std::string& name) const;
  // The inflated size according to the directory; 0 when there is no such member.
  std::uint64_t size_of(const std::string& name) const;

  // The bytes of a member, checked by its CRC-32. Errors: kNotFound; kUnsupported (encrypted, other methods);
  // kInvalidInput with the reason. The memory is bounded by the possible inflated size of the compressed bytes.
  Result<std::vector<std::byte>> read(const std::string& name) const;

 private:
  struct File;

  explicit ZipArchive(std::shared_ptr<File> file) : file_(std::move(file)) {}

  std::shared_ptr<File> file_;
};

}  // namespace sparsmith
