#include "tests/fuzz/packed_bytes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "formats/packed_format.h"
#include "tests/fuzz/parsed_matrix.h"

namespace sparsmith::fuzz {
namespace {

constexpr auto kLastType = static_cast<std::uint8_t>(DataType::kInt8);

class Writer {
 public:
  template <class T>
  void number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void name(const std::string& name) {
    number(static_cast<std::uint8_t>(name.size()));
    text_ += name;
  }
  void bytes(const std::vector<std::byte>& bytes) {
    number(static_cast<std::uint32_t>(bytes.size()));
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T number() {
    T value{};
    const auto part = take(sizeof value);
    if (!part.empty()) std::memcpy(&value, part.data(), part.size());
    return value;
  }
  std::string name() {
    const auto part = take(number<std::uint8_t>());
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::vector<std::byte> bytes() {
    const auto part = take(number<std::uint32_t>());
    return {part.begin(), part.end()};
  }
  DataType type() { return static_cast<DataType>(number<std::uint8_t>() % (kLastType + 1)); }

 private:
  std::span<const std::byte> take(std::size_t count) {
    const auto part = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(part.size());
    return part;
  }

  std::span<const std::byte> bytes_;
};

}  // namespace

std::string packed_to_bytes(const PackedWeight& packed) {
  Writer writer;
  writer.name(packed.packing);
  writer.number(static_cast<std::uint8_t>(packed.packer_version));
  writer.number(static_cast<std::uint8_t>(packed.value_type));
  writer.number(packed.rows);
  writer.number(packed.cols);
  writer.number(static_cast<std::uint8_t>(packed.facts.size()));
  for (const auto& [name, value] : packed.facts) {
    writer.name(name);
    writer.number(value);
  }
  writer.number(static_cast<std::uint8_t>(packed.arrays.size()));
  for (const PackedArray& array : packed.arrays) {
    writer.name(array.name);
    writer.number(static_cast<std::uint8_t>(array.type));
    writer.bytes(array.bytes);
  }
  return writer.take();
}

PackedWeight packed_from_bytes(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  PackedWeight packed;
  packed.packing = reader.name();
  packed.packer_version = reader.number<std::uint8_t>();
  packed.value_type = reader.type();
  packed.rows = reader.number<std::int64_t>();
  packed.cols = reader.number<std::int64_t>();
  for (int left = reader.number<std::uint8_t>(); left > 0; --left) {
    const std::string name = reader.name();
    packed.facts[name] = reader.number<std::int64_t>();
  }
  for (int left = reader.number<std::uint8_t>(); left > 0; --left) {
    PackedArray& array = packed.arrays.emplace_back();
    array.name = reader.name();
    array.type = reader.type();
    array.bytes = reader.bytes();
  }
  return packed;
}

void check_reading(std::span<const std::byte> bytes) {
  const PackedWeight packed = packed_from_bytes(bytes);
  std::vector<PackedArrayView> arrays;
  for (const PackedArray& array : packed.arrays) arrays.push_back({array.name, array.type, array.bytes});
  const PackedView view{packed.packing, packed.packer_version, packed.rows, packed.cols, packed.value_type,
                        arrays,         &packed.facts};
  const bool inside = check_packed(view, {}, PackedCheck::kBounds, 1).ok();
  const Result<CsrMatrix> matrix = unpack(packed);
  expect_refused_or_valid(matrix);
  if (!matrix.ok()) return;
  const PackedClaim claim{matrix->nnz(), matrix->pattern_hash(), matrix->value_hash()};
  if (!inside || !check_packed(view, claim, PackedCheck::kContents, 1).ok()) std::abort();
}

}  // namespace sparsmith::fuzz
