// Reads back packed arrays of unknown origin: the functions that check_packed() and unpack() need of a format.
//
// A reader is opened first: sizes, names and facts agree. Then it checks its bounds. Then threads read its units side
// by side. Last it checks what follows from all rows together. The arrays are not trusted before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "formats/packed_check.h"
#include "formats/packed_format.h"
#include "formats/unpacked_rows.h"
#include "sparsmith/status.h"

namespace sparsmith {

// Numbers in bytes of any alignment.
template <class T>
class Elements {
 public:
  Elements() = default;
  explicit Elements(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size() / sizeof(T)); }
  T operator[](std::int64_t i) const {
    T element;
    std::memcpy(&element, bytes_.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return element;
  }
  const std::byte* at(std::int64_t i) const { return bytes_.data() + static_cast<std::size_t>(i) * sizeof(T); }
  std::span<const std::byte> bytes() const { return bytes_; }
  // Whether the numbers equal `elements`, one for one.
  bool holds(std::span<const T> elements) const {
    return bytes_.size() == elements.size_bytes() &&
           (bytes_.empty() || std::memcmp(bytes_.data(), elements.data(), bytes_.size()) == 0);
  }
  // The same for the first numbers.
  bool begins_with(std::span<const T> elements) const {
    return bytes_.size() >= elements.size_bytes() && Elements(bytes_.first(elements.size_bytes())).holds(elements);
  }

 private:
  std::span<const std::byte> bytes_;
};

// The facts and arrays of a packed weight. A reader asks for each of them once. The first error stays. Until status()
// is called, facts are within their limits and wrong arrays are empty.
class PackedParts {
 public:
  // `version`: the packer's version that the reader knows.
  PackedParts(const PackedView& view, int version);

  std::int64_t fact(std::string_view name, std::int64_t least, std::int64_t most);
  void expect_fact(std::string_view name, std::int64_t value) { fact(name, value, value); }

  // `count`: the number of elements.
  template <class T>
  Elements<T> array(std::string_view name, DataType type, std::int64_t count) {
    return Elements<T>(bytes_of(name, type, sizeof(T), count));
  }
  // An array of any whole number of elements.
  template <class T>
  Elements<T> array(std::string_view name, DataType type) {
    return Elements<T>(bytes_of(name, type, sizeof(T), -1));
  }

  void require(bool holds, std::string_view reason);
  // Also an error if the reader has not asked for every fact and array.
  Status status();

 private:
  std::span<const std::byte> bytes_of(std::string_view name, DataType type, std::size_t size, std::int64_t count);

  const PackedView& view_;
  std::vector<std::string_view> asked_;  // arrays
  std::size_t facts_ = 0;
  Status status_;
};

class PackedReader {
 public:
  PackedReader() = default;
  PackedReader(const PackedReader&) = delete;
  PackedReader& operator=(const PackedReader&) = delete;
  virtual ~PackedReader() = default;

  // Checks all numbers that kernels use as addresses, and that each row of the weight is in exactly one unit.
  virtual Status check_bounds(int threads) = 0;

  // The functions below REQUIRE that bounds have been checked. Units hold whole rows of the weight.
  virtual std::int64_t units() const = 0;
  // Adds a unit's nonzeros to `rows`, which is empty, and stores them. Error: padding is not as packers write it, or an
  // error of UnitRows::store().
  virtual Status read(std::int64_t unit, UnitRows& rows) const = 0;
  // Checks what follows from all rows: their order, and facts that are counts.
  virtual Status check_whole(const UnpackedRows& /*rows*/) const { return {}; }
};

// The packing of a format with a single packing.
struct NoParameters {};

// Completes a format with the functions that its table entry points to.
//   kParse: makes a packing from its name; an empty result for other names.
//   kPack: adds facts and arrays to a packed weight.
//   Reader: reads facts and arrays; it is constructed from the view, the packing and its parts.
//   kVersion: the packer's version, or a function that computes it from a packing.
//   kCheck: kInvalidArgument for a packing that cannot hold a weight of this shape and type.
template <class Reader, auto kParse, auto kPack, auto kVersion, auto kCheck = nullptr>
PackedFormat format_of(PackedFormat format) {
  static constexpr auto kParsed = [](std::string_view name, std::int64_t rows, std::int64_t cols,
                                     [[maybe_unused]] DataType type, auto& packing) -> Status {
    packing = kParse(name);
    if (!packing) return invalid_input("a name of no packing of its format");
    SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(rows, cols));
    if constexpr (!std::is_null_pointer_v<decltype(kCheck)>) return kCheck(*packing, rows, cols, type);
    return {};
  };
  static constexpr auto kVersionOf = []([[maybe_unused]] const auto& packing) -> int {
    if constexpr (std::is_integral_v<decltype(kVersion)>) {
      return kVersion;
    } else {
      return kVersion(packing);
    }
  };
  format.pack = [](std::string_view name, const CsrMatrix& matrix, DataType type) -> Result<PackedWeight> {
    decltype(kParse(name)) packing;
    SPARSMITH_RETURN_IF_ERROR(kParsed(name, matrix.rows, matrix.cols, type, packing));
    PackedWeight packed{std::string(name), kVersionOf(*packing), matrix.rows, matrix.cols, matrix.nnz(), type};
    SPARSMITH_RETURN_IF_ERROR(kPack(matrix, *packing, type, packed));
    return packed;
  };
  format.open = [](const PackedView& view) -> Result<std::unique_ptr<PackedReader>> {
    decltype(kParse(view.packing)) packing;
    const Status status = kParsed(view.packing, view.rows, view.cols, view.value_type, packing);
    if (!status.ok()) return invalid_input(status.message());
    PackedParts parts(view, kVersionOf(*packing));
    auto reader = std::make_unique<Reader>(view, *packing, parts);
    SPARSMITH_RETURN_IF_ERROR(parts.status());
    return std::unique_ptr<PackedReader>(std::move(reader));
  };
  return format;
}

// The number of threads, of `threads` (0: all cores), that pay for their start with the size of `packed`.
int worthwhile_threads(const PackedView& packed, int threads);

// Calls check(begin, end) for consecutive ranges of at most `grain` that cover [0, count), on `threads` threads (0: all
// cores). Returns the error of the first range that has one.
Status check_ranges(std::int64_t count, std::int64_t grain, int threads,
                    const std::function<Status(std::int64_t, std::int64_t)>& check);

// Calls check(i) for each i of [0, count), in ranges as above.
template <class Check>
Status check_each(std::int64_t count, std::int64_t grain, int threads, const Check& check) {
  return check_ranges(count, grain, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) SPARSMITH_RETURN_IF_ERROR(check(i));
    return Status();
  });
}

bool all_zero(std::span<const std::byte> bytes);

// Whether each of `count` numbers of type T is less than `limit`, which is at most 2^31.
template <class T>
bool all_below(const std::byte* numbers, std::int64_t count, std::int64_t limit) {
  std::uint32_t wrong = 0;  // in the highest bit
  for (std::int64_t i = 0; i < count; ++i) {
    T number;
    std::memcpy(&number, numbers + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    wrong |= (static_cast<std::uint32_t>(limit) - 1U - number) | number;
  }
  return wrong >> 31 == 0;
}

// The number behind `prefix` in a piece of a packing's name, or -1.
std::int64_t number_of(std::string_view part, std::string_view prefix);

}  // namespace sparsmith
