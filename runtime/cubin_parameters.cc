#include "runtime/cubin_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

namespace sparsmith {
namespace {

// The parts of the ELF header, a section header and a program header of 64-bit files that are read here.
constexpr std::size_t kHeaderBytes = 64;
constexpr std::size_t kSectionHeaderBytes = 64;
constexpr std::uint64_t kMachineCuda = 190;
constexpr std::uint64_t kSectionWithoutBytes = 8;  // SHT_NOBITS

// Attributes of a section .nv.info.<kernel>. Each begins with its format and its number, one byte for each.
constexpr unsigned kFormatSized = 4;        // two bytes of length and so many bytes follow; otherwise two bytes follow
constexpr unsigned kMaxThreads = 0x05;      // EIATTR_MAX_THREADS: three 32-bit sizes
constexpr unsigned kParameterInfo = 0x17;   // EIATTR_KPARAM_INFO: 32-bit index, 16-bit ordinal and offset, 32 bits of
                                            // which the upper 14 are the size
constexpr unsigned kParameterBytes = 0x19;  // EIATTR_CBANK_PARAM_SIZE: of all parameters together, in the two bytes
constexpr std::size_t kMaxParameters = 4096;  // a kernel has 32,764 bytes of parameters at most, mostly of 4 and 8
constexpr std::size_t kMaxNameBytes = 4096;   // of a section; many sections may point at one name
constexpr std::int64_t kMaxThreadsOfABlock = 1024;

Status not_whole(std::string_view what) { return invalid_input(fmt::format("the cubin is damaged: {}", what)); }

// Reads integers from bytes at any alignment. number() REQUIRES: inside(offset, bytes).
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t size() const { return bytes_.size(); }
  bool inside(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= bytes_.size() && bytes <= bytes_.size() - offset;
  }
  std::uint64_t number(std::uint64_t offset, int bytes) const {
    std::uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; --i) value = value << 8 | std::to_integer<std::uint64_t>(bytes_[offset + i]);
    return value;
  }
  Bytes part(std::uint64_t offset, std::uint64_t bytes) const { return Bytes(bytes_.subspan(offset, bytes)); }
  // The text from `offset` on, up to a 0 byte; nothing where there is none within kMaxNameBytes.
  std::optional<std::string_view> text(std::uint64_t offset) const {
    if (offset >= bytes_.size()) return std::nullopt;
    const char* begin = reinterpret_cast<const char*>(bytes_.data()) + offset;
    const void* end = std::memchr(begin, 0, std::min(bytes_.size() - offset, kMaxNameBytes));
    if (end == nullptr) return std::nullopt;
    return std::string_view(begin, static_cast<const char*>(end));
  }

 private:
  std::span<const std::byte> bytes_;
};

Status check_header(const Bytes& file) {
  constexpr std::array<unsigned char, 6> kMagic = {0x7F, 'E', 'L', 'F', 2, 1};  // 64-bit, little-endian
  if (file.size() < kHeaderBytes) return not_whole("it is cut short");
  for (std::size_t i = 0; i < kMagic.size(); ++i) {
    if (file.number(i, 1) != kMagic[i]) return not_whole("it is not an ELF file");
  }
  if (file.number(18, 2) != kMachineCuda) return not_whole("it is for another machine than a GPU");
  if (file.number(58, 2) != kSectionHeaderBytes) return not_whole("its section headers have another size");
  if (!file.inside(file.number(32, 8), file.number(54, 2) * file.number(56, 2)) ||
      !file.inside(file.number(40, 8), kSectionHeaderBytes * file.number(60, 2))) {
    return not_whole("it is cut short");
  }
  return {};
}

// Reads a section .nv.info.<kernel>.
class InfoReader {
 public:
  // states_all_bytes: the section states the size of all parameters where there are any.
  InfoReader(const Bytes& info, bool states_all_bytes) : info_(info), states_all_bytes_(states_all_bytes) {}

  Result<CubinParameters> read() {
    std::uint64_t next = 0;
    while (next < info_.size()) {
      if (!info_.inside(next, 4)) return not_whole("an attribute is cut short");
      const auto format = static_cast<unsigned>(info_.number(next, 1));
      const auto attribute = static_cast<unsigned>(info_.number(next + 1, 1));
      const std::uint64_t value = info_.number(next + 2, 2);
      next += 4;
      if (format == 0 || format > kFormatSized) return not_whole("an attribute has an unknown format");
      const std::uint64_t bytes = format == kFormatSized ? value : 0;
      if (!info_.inside(next, bytes)) return not_whole("an attribute is cut short");
      SPARSMITH_RETURN_IF_ERROR(take(attribute, value, info_.part(next, bytes)));
      next += bytes;
    }
    return checked();
  }

 private:
  Status take(unsigned attribute, std::uint64_t value, const Bytes& bytes) {
    if (attribute == kParameterBytes) {
      if (all_bytes_ && *all_bytes_ != value) return not_whole("the size of all parameters stands twice");
      all_bytes_ = value;
    } else if (attribute == kParameterInfo) {
      if (bytes.size() != 12) return not_whole("a parameter is described in another size");
      const std::uint64_t ordinal = bytes.number(4, 2);
      if (ordinal >= kMaxParameters) return not_whole(fmt::format("parameter {}", ordinal));
      if (found_.size() <= ordinal) found_.resize(ordinal + 1);
      if (found_[ordinal]) return not_whole(fmt::format("parameter {} stands twice", ordinal));
      found_[ordinal] = {static_cast<std::int64_t>(bytes.number(6, 2)),
                         static_cast<std::int64_t>(bytes.number(8, 4) >> 18)};
    } else if (attribute == kMaxThreads) {
      if (bytes.size() != 12) return not_whole("the block's size is described in another size");
      std::uint64_t threads = 1;
      for (int i = 0; i < 3; ++i) {
        const std::uint64_t size = bytes.number(4 * i, 4);
        if (size < 1 || size > kMaxThreadsOfABlock) return not_whole("a block of no possible size");
        threads *= size;
      }
      kernel_.max_threads = std::min(static_cast<std::int64_t>(threads), kMaxThreadsOfABlock);
    }
    return {};
  }

  // Parameters follow each other, and end where all of them do.
  Result<CubinParameters> checked() {
    std::int64_t end = 0;
    for (std::size_t i = 0; i < found_.size(); ++i) {
      if (!found_[i]) return not_whole(fmt::format("parameter {} is not described", i));
      if (found_[i]->bytes < 1 || found_[i]->offset < end) {
        return not_whole(fmt::format("parameter {} has no bytes, or overlaps the one before", i));
      }
      end = found_[i]->offset + found_[i]->bytes;
      kernel_.parameters.push_back(*found_[i]);
    }
    if (static_cast<std::int64_t>(all_bytes_.value_or(states_all_bytes_ ? 0 : end)) != end) {
      return not_whole("the parameters do not add up to their size");
    }
    return std::move(kernel_);
  }

  Bytes info_;
  bool states_all_bytes_;
  CubinParameters kernel_;
  std::vector<std::optional<CubinParameters::Parameter>> found_;
  std::optional<std::uint64_t> all_bytes_;
};

}  // namespace

Result<CubinParameters> read_cubin_parameters(std::span<const std::byte> cubin, std::string_view kernel) {
  const Bytes file(cubin);
  SPARSMITH_RETURN_IF_ERROR(check_header(file));
  const std::uint64_t table = file.number(40, 8);
  const std::uint64_t sections = file.number(60, 2);
  const std::uint64_t names_section = file.number(62, 2);
  // The bytes of section `i`; nothing where they are not inside of the file.
  const auto bytes_of = [&](std::uint64_t i) -> std::optional<Bytes> {
    const std::uint64_t header = table + i * kSectionHeaderBytes;
    if (file.number(header + 4, 4) == kSectionWithoutBytes) return Bytes({});
    const std::uint64_t offset = file.number(header + 24, 8);
    const std::uint64_t bytes = file.number(header + 32, 8);
    if (!file.inside(offset, bytes)) return std::nullopt;
    return file.part(offset, bytes);
  };
  const std::optional<Bytes> names = names_section < sections ? bytes_of(names_section) : std::nullopt;
  if (!names) return not_whole("its sections have no names");

  // From sm_100 on a second section describes the kernel for the driver's own compiler; both say the same, but for the
  // size of all.
  const std::string info_name = fmt::format(".nv.info.{}", kernel);
  const std::string second_name = fmt::format(".nv.merc.nv.info.{}", kernel);
  const std::string code_name = fmt::format(".text.{}", kernel);
  std::optional<CubinParameters> found;
  std::optional<CubinParameters> second;
  bool has_code = false;
  for (std::uint64_t i = 0; i < sections; ++i) {
    const std::optional<Bytes> bytes = bytes_of(i);
    if (!bytes) return not_whole("it is cut short");
    const std::optional<std::string_view> name = names->text(file.number(table + i * kSectionHeaderBytes, 4));
    if (!name) return not_whole("a section has no name");
    has_code = has_code || (*name == code_name && bytes->size() > 0);
    if (*name != info_name && *name != second_name) continue;
    std::optional<CubinParameters>& place = *name == info_name ? found : second;
    if (place) return not_whole(fmt::format("{} stands twice", *name));
    SPARSMITH_ASSIGN_OR_RETURN(place, InfoReader(*bytes, *name == info_name).read());
  }
  if (!found || !has_code) return invalid_input(fmt::format("the cubin does not describe a kernel {}", kernel));
  if (second && second->parameters != found->parameters) return not_whole("its two descriptions of parameters differ");
  return *std::move(found);
}

}  // namespace sparsmith
