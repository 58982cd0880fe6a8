#include "matrix/zip_archive.h"

#include <fmt/format.h>
#include <minizip/unzip.h>

#include <algorithm>
#include <cstdio>
#include <optional>

namespace sparsmith {
namespace {

constexpr std::uint64_t kMaxMembers = 65536;
constexpr std::uint64_t kMaxRatio = 1032;  // deflate cannot shrink more
constexpr int kExactCase = 1;

// Functions by which minizip reads `bytes`, which outlive them, in place of a file.
zlib_filefunc64_def functions_of(std::span<const std::byte>& bytes) {
  zlib_filefunc64_def functions{};
  fill_fopen64_filefunc(&functions);
  functions.opaque = &bytes;
  functions.zopen64_file = [](voidpf opaque, const void* /*name*/, int /*mode*/) -> voidpf {
    const auto& memory = *static_cast<const std::span<const std::byte>*>(opaque);
    return fmemopen(const_cast<std::byte*>(memory.data()), memory.size(), "rb");
  };
  // The end of the bytes inside of a read: minizip takes it for success.
  functions.zerror_file = [](voidpf /*opaque*/, voidpf stream) { return std::feof(static_cast<FILE*>(stream)); };
  return functions;
}

}  // namespace

struct ZipArchive::File {
  explicit File(std::span<const std::byte> file) : memory(file) {
    zlib_filefunc64_def functions = functions_of(memory);
    zip = unzOpen2_64("", &functions);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (zip != nullptr) unzClose(zip);
  }

  // Goes to the member, which read() then takes. Nothing: there is none.
  std::optional<unz_file_info64> find(const std::string& name) {
    unz_file_info64 info{};
    if (unzLocateFile(zip, name.c_str(), kExactCase) != UNZ_OK ||
        unzGetCurrentFileInfo64(zip, &info, nullptr, 0, nullptr, 0, nullptr, 0) != UNZ_OK)
      return std::nullopt;
    return info;
  }

  Status read(const unz_file_info64& info, std::vector<std::byte>& bytes) {
    if ((info.flag & 1) != 0) return unsupported("it is encrypted");
    if (info.compression_method != 0 && info.compression_method != Z_DEFLATED)
      return unsupported(
          fmt::format("compression method {} is not supported, only stored and deflated", info.compression_method));
    if (info.compressed_size > memory.size()) return invalid_input("its bytes leave the file (is it cut off?)");
    if (info.compression_method == 0 && info.uncompressed_size != info.compressed_size)
      return invalid_input("its two sizes differ, though it is not compressed");
    if (info.uncompressed_size > info.compressed_size * kMaxRatio)
      return invalid_input(
          fmt::format("{} bytes cannot hold the {} it claims", info.compressed_size, info.uncompressed_size));
    if (unzOpenCurrentFile(zip) != UNZ_OK) return invalid_input("its header is damaged");
    bytes.resize(info.uncompressed_size);
    constexpr std::size_t kPiece = std::size_t{1} << 30;  // minizip counts what it reads at once in 32 bits
    std::size_t written = 0;
    for (int count = 1; count > 0 && written < bytes.size(); written += static_cast<std::size_t>(std::max(count, 0)))
      count = unzReadCurrentFile(zip, bytes.data() + written,
                                 static_cast<unsigned>(std::min(kPiece, bytes.size() - written)));
    const bool sums_up = unzCloseCurrentFile(zip) != UNZ_CRCERROR;
    if (written != bytes.size()) return invalid_input("its compressed bytes are damaged");
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION  // which lets a fuzzer get past the checksum
    if (!sums_up) return invalid_input("its checksum differs");
#endif
    return {};
  }

  std::span<const std::byte> memory;
  unzFile zip = nullptr;
};

Result<ZipArchive> ZipArchive::open(std::span<const std::byte> file) {
  ZipArchive archive(std::make_shared<File>(file));
  const unzFile zip = archive.file_->zip;
  if (zip == nullptr) return invalid_input("no .zip file: it has no directory (is it cut off?)");
  unz_global_info64 directory{};
  unzGetGlobalInfo64(zip, &directory);
  if (directory.number_entry > kMaxMembers)
    return invalid_input(fmt::format("it has more than {} members", kMaxMembers));
  std::uint64_t entry = 0;
  int state = unzGoToFirstFile(zip);
  for (; state == UNZ_OK; ++entry) state = unzGoToNextFile(zip);
  if (state == UNZ_END_OF_LIST_OF_FILE) return archive;
  return invalid_input(fmt::format("entry {} of the .zip directory is damaged", entry));
}

bool ZipArchive::contains(const std::string& name) const { return file_->find(name).has_value(); }

std::uint64_t ZipArchive::size_of(const std::string& name) const {
  const auto info = file_->find(name);
  return info ? info->uncompressed_size : 0;
}

Result<std::vector<std::byte>> ZipArchive::read(const std::string& name) const {
  const auto info = file_->find(name);
  if (!info) return not_found(fmt::format("the .zip file has no member '{}'", name));
  std::vector<std::byte> bytes;
  SPARSMITH_RETURN_IF_ERROR(file_->read(*info, bytes).annotate(fmt::format("member '{}'", name)));
  return bytes;
}

}  // namespace sparsmith
