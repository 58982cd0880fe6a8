#include "matrix/zip_archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

namespace sparsmith {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034B50;
constexpr std::uint32_t kDirectoryEntry = 0x02014B50;
constexpr std::uint32_t kEndOfDirectory = 0x06054B50;
constexpr std::uint32_t kZip64Locator = 0x07064B50;
constexpr std::uint32_t kZip64End = 0x06064B50;
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // the true value is in a ZIP64 field
constexpr std::uint64_t kMaxMembers = 65536;
constexpr std::uint64_t kMaxRatio = 1032;  // deflate cannot shrink more

// Reads little-endian numbers one after the other; once past the end, everything is zero and ok() false.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes, std::uint64_t offset = 0)
      : bytes_(bytes), ok_(offset <= bytes.size()), offset_(ok_ ? offset : bytes.size()) {}

  template <class T>
  T number() {
    T value{};
    const std::span<const std::byte> at = take(sizeof(T));
    if (!at.empty()) std::memcpy(&value, at.data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> take(std::uint64_t size) {
    ok_ = ok_ && size <= bytes_.size() - offset_;
    if (!ok_) return {};
    offset_ += size;
    return bytes_.subspan(offset_ - size, size);
  }
  bool ok() const { return ok_; }

 private:
  std::span<const std::byte> bytes_;
  bool ok_;
  std::uint64_t offset_;
};

struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t offset = 0;
};

// The end record stands at the end of the file, behind nothing but a comment of at most 65,535 bytes.
std::optional<std::uint64_t> find_end_record(std::span<const std::byte> file) {
  constexpr std::uint64_t kRecordBytes = 22;
  if (file.size() < kRecordBytes) return std::nullopt;
  const std::uint64_t last = file.size() - kRecordBytes;
  const std::uint64_t first = last > 65535 ? last - 65535 : 0;
  for (std::uint64_t at = last + 1; at-- > first;) {
    if (ByteReader(file, at).number<std::uint32_t>() == kEndOfDirectory) return at;
  }
  return std::nullopt;
}

Result<Directory> find_directory(std::span<const std::byte> file) {
  const std::optional<std::uint64_t> end = find_end_record(file);
  if (!end) return invalid_input("no .zip file: it has no directory (is it cut off?)");
  ByteReader record(file, *end + 10);
  Directory directory;
  directory.entries = record.number<std::uint16_t>();
  record.take(4);
  directory.offset = record.number<std::uint32_t>();
  constexpr std::uint64_t kLocatorBytes = 20;
  if (directory.offset != kIn64 || *end < kLocatorBytes) return directory;
  ByteReader locator(file, *end - kLocatorBytes);
  if (locator.number<std::uint32_t>() != kZip64Locator) return directory;
  locator.take(4);
  ByteReader end64(file, locator.number<std::uint64_t>());
  if (end64.number<std::uint32_t>() != kZip64End) return invalid_input("the ZIP64 directory is damaged");
  end64.take(28);
  directory.entries = end64.number<std::uint64_t>();
  end64.take(8);
  directory.offset = end64.number<std::uint64_t>();
  if (!end64.ok()) return invalid_input("the ZIP64 directory is cut off");
  return directory;
}

Status inflate_into(std::span<const std::byte> compressed, std::vector<std::byte>& bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return out_of_memory("zlib cannot start");
  // zlib counts in 32 bits: both sides are fed in pieces.
  constexpr std::size_t kPiece = std::size_t{1} << 30;
  std::size_t read = 0;
  std::size_t written = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    const std::size_t input = std::min(kPiece, compressed.size() - read);
    const std::size_t output = std::min(kPiece, bytes.size() - written);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(compressed.data() + read));
    stream.avail_in = static_cast<uInt>(input);
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + written);
    stream.avail_out = static_cast<uInt>(output);
    state = inflate(&stream, Z_NO_FLUSH);
    read += input - stream.avail_in;
    written += output - stream.avail_out;
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END || written != bytes.size()) return invalid_input("its compressed bytes are damaged");
  return {};
}

[[maybe_unused]] std::uint32_t crc_of(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

Status ZipArchive::read_zip64_sizes(std::span<const std::byte> extra, Member& member) {
  ByteReader fields(extra);
  while (true) {
    const auto id = fields.number<std::uint16_t>();
    const auto size = fields.number<std::uint16_t>();
    const std::span<const std::byte> body = fields.take(size);
    if (!fields.ok()) return {};
    if (id != 1) continue;
    // Only the fields that did not fit are here, in this order.
    ByteReader reader(body);
    if (member.size == kIn64) member.size = reader.number<std::uint64_t>();
    if (member.compressed_size == kIn64) member.compressed_size = reader.number<std::uint64_t>();
    if (member.header_offset == kIn64) member.header_offset = reader.number<std::uint64_t>();
    return reader.ok() ? Status() : invalid_input("its ZIP64 sizes are cut off");
  }
}

Result<ZipArchive> ZipArchive::open(std::span<const std::byte> file) {
  SPARSMITH_ASSIGN_OR_RETURN(const Directory directory, find_directory(file));
  if (directory.entries > kMaxMembers) return invalid_input(fmt::format("it has more than {} members", kMaxMembers));
  ZipArchive archive;
  archive.file_ = file;
  ByteReader reader(file, directory.offset);
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (reader.number<std::uint32_t>() != kDirectoryEntry)
      return invalid_input(fmt::format("entry {} of the .zip directory is damaged", i));
    Member member;
    reader.take(4);
    member.flags = reader.number<std::uint16_t>();
    member.method = reader.number<std::uint16_t>();
    reader.take(4);
    member.crc = reader.number<std::uint32_t>();
    member.compressed_size = reader.number<std::uint32_t>();
    member.size = reader.number<std::uint32_t>();
    const auto name_size = reader.number<std::uint16_t>();
    const auto extra_size = reader.number<std::uint16_t>();
    const auto comment_size = reader.number<std::uint16_t>();
    reader.take(8);
    member.header_offset = reader.number<std::uint32_t>();
    const std::span<const std::byte> name = reader.take(name_size);
    const std::span<const std::byte> extra = reader.take(extra_size);
    reader.take(comment_size);
    if (!reader.ok()) return invalid_input(fmt::format("entry {} of the .zip directory is cut off", i));
    member.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    const Status sizes = read_zip64_sizes(extra, member);
    if (!sizes.ok()) return sizes.annotate(fmt::format("member '{}'", member.name));
    archive.members_.push_back(std::move(member));
  }
  return archive;
}

bool ZipArchive::contains(const std::string& name) const {
  return std::any_of(members_.begin(), members_.end(), [&](const Member& member) { return member.name == name; });
}

std::uint64_t ZipArchive::size_of(const std::string& name) const {
  const auto member = std::find_if(members_.begin(), members_.end(), [&](const Member& m) { return m.name == name; });
  return member == members_.end() ? 0 : member->size;
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> result;
  for (const Member& member : members_) result.push_back(member.name);
  return result;
}

Result<std::span<const std::byte>> ZipArchive::compressed_bytes(const Member& member) const {
  ByteReader header(file_, member.header_offset);
  if (header.number<std::uint32_t>() != kLocalHeader) return invalid_input("its header is damaged");
  header.take(22);
  const auto name_size = header.number<std::uint16_t>();
  const auto extra_size = header.number<std::uint16_t>();
  header.take(std::uint64_t{name_size} + extra_size);
  const std::span<const std::byte> bytes = header.take(member.compressed_size);
  if (!header.ok()) return invalid_input("its bytes leave the file (is it cut off?)");
  return bytes;
}

Result<std::vector<std::byte>> ZipArchive::read(const std::string& name) const {
  const auto member = std::find_if(members_.begin(), members_.end(), [&](const Member& m) { return m.name == name; });
  if (member == members_.end()) return not_found(fmt::format("the .zip file has no member '{}'", name));
  Status status;
  std::vector<std::byte> bytes;
  const Result<std::span<const std::byte>> compressed = compressed_bytes(*member);
  if (!compressed.ok()) {
    status = compressed.status();
  } else if ((member->flags & 1) != 0) {
    status = unsupported("it is encrypted");
  } else if (member->method == 0) {
    if (member->size != compressed->size())
      status = invalid_input("its two sizes differ, though it is not compressed");
    else
      bytes.assign(compressed->begin(), compressed->end());
  } else if (member->method != 8) {
    status =
        unsupported(fmt::format("compression method {} is not supported, only stored and deflated", member->method));
  } else if (member->size > compressed->size() * kMaxRatio) {
    status = invalid_input(fmt::format("{} bytes cannot hold the {} it claims", compressed->size(), member->size));
  } else {
    bytes.resize(member->size);
    status = inflate_into(*compressed, bytes);
  }
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION  // which lets a fuzzer get past the checksum
  if (status.ok() && crc_of(bytes) != member->crc) status = invalid_input("its checksum differs");
#endif
  if (!status.ok()) return status.annotate(fmt::format("member '{}'", name));
  return bytes;
}

}  // namespace sparsmith
