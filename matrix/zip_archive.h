// Members of a .zip file in memory: what .npz files are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// Stored and deflated members, with or without ZIP64 sizes. The file's bytes must outlive the archive.
class ZipArchive {
 public:
  // Reads the directory. Error: kInvalidInput when there is none, or a member's place lies outside of the file.
  static Result<ZipArchive> open(std::span<const std::byte> file);

  bool contains(const std::string& name) const;
  std::vector<std::string> names() const;
  // Inflated, as the directory says; 0 where there is no such member.
  std::uint64_t size_of(const std::string& name) const;

  // The bytes of a member, checked by its CRC-32. Errors: kNotFound; kUnsupported (encrypted, other methods);
  // kInvalidInput with the reason. Takes no more memory than the compressed bytes can stand for.
  Result<std::vector<std::byte>> read(const std::string& name) const;

 private:
  struct Member {
    std::string name;
    std::uint16_t flags = 0;
    std::uint16_t method = 0;
    std::uint32_t crc = 0;
    std::uint64_t compressed_size = 0;
    std::uint64_t size = 0;
    std::uint64_t header_offset = 0;
  };

  static Status read_zip64_sizes(std::span<const std::byte> extra, Member& member);
  Result<std::span<const std::byte>> compressed_bytes(const Member& member) const;

  std::span<const std::byte> file_;
  std::vector<Member> members_;
};

}  // namespace sparsmith
