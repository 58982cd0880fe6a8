// How packed arrays of unknown origin are read back: what check_packed() and unpack() ask of a format.
//
// A reader is opened (sizes, names and facts agree), then checks its bounds, then reads its units, which threads do
// side by side, and last looks at what follows from all rows together. Nothing in the arrays is believed before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
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

 private:
  std::span<const std::byte> bytes_;
};

// The facts and arrays of a packed weight, each to be asked for once. The first error stays; until status() is asked,
// facts keep to their limits and arrays that are wrong are empty.
class PackedParts {
 public:
  // `versions`: of the packer, that the reader knows.
  PackedParts(const PackedView& view, std::initializer_list<int> versions);

  std::int64_t fact(std::string_view name, std::int64_t least, std::int64_t most);
  void expect_fact(std::string_view name, std::int64_t value) { fact(name, value, value); }

  // `count`: elements.
  template <class T>
  Elements<T> array(std::string_view name, DataType type, std::int64_t count) {
    return Elements<T>(bytes_of(name, type, sizeof(T), count));
  }
  // Of any whole number of elements.
  template <class T>
  Elements<T> array(std::string_view name, DataType type) {
    return Elements<T>(bytes_of(name, type, sizeof(T), -1));
  }

  void require(bool holds, std::string_view reason);
  // Of rows, columns, types and version alone.
  const Status& shape() const { return status_; }
  // Also an error when something has not been asked for.
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

  // All that kernels use as addresses; and that each row of the weight is one unit's.
  virtual Status check_bounds(int threads) = 0;

  // The functions below REQUIRE that bounds are checked. Units hold whole rows of the weight.
  virtual std::int64_t units() const = 0;
  // Adds a unit's nonzeros to `rows`, which is empty, and stores them. Error: padding is not as packers write it, or
  // what UnitRows::store() says.
  virtual Status read(std::int64_t unit, UnitRows& rows) const = 0;
  // What follows from all rows: their order, and facts that count.
  virtual Status check_whole(const UnpackedRows& /*rows*/) const { return {}; }
};

// Opens the reader of one format, with what `more` its constructor takes between the view and its parts.
template <class Reader, class... More>
Result<std::unique_ptr<PackedReader>> open_reader(const PackedView& view, std::initializer_list<int> versions,
                                                  const More&... more) {
  PackedParts parts(view, versions);
  SPARSMITH_RETURN_IF_ERROR(parts.shape());
  auto reader = std::make_unique<Reader>(view, more..., parts);
  SPARSMITH_RETURN_IF_ERROR(parts.status());
  return std::unique_ptr<PackedReader>(std::move(reader));
}

// The format whose packings kParse makes of their names, kPack packs and Reader reads.
template <class Reader, auto kParse, auto kPack, int kVersion>
PackedFormat format_of(std::string_view name, std::initializer_list<std::string_view> value_arrays,
                       bool negative_zeros = false) {
  return {.name = name,
          .pack = [](std::string_view packing, const CsrMatrix& matrix, DataType type) -> Result<PackedWeight> {
            SPARSMITH_ASSIGN_OR_RETURN(const auto parsed, kParse(packing));
            return kPack(matrix, parsed, type);
          },
          .open = [](const PackedView& view) -> Result<std::unique_ptr<PackedReader>> {
            SPARSMITH_ASSIGN_OR_RETURN(const auto parsed, kParse(view.packing));
            return open_reader<Reader>(view, {kVersion}, parsed);
          },
          .value_arrays = value_arrays,
          .negative_zeros = negative_zeros};
}

// Threads that are worth their start for what `packed` holds, of `threads` (0: all cores).
int worthwhile_threads(const PackedView& packed, int threads);

// check(begin, end) for consecutive ranges of at most `grain` that cover [0, count), on `threads` threads (0: all
// cores). The error of the first range that has one.
Status check_ranges(std::int64_t count, std::int64_t grain, int threads,
                    const std::function<Status(std::int64_t, std::int64_t)>& check);

bool all_zero(std::span<const std::byte> bytes);

// Whether each of `count` numbers of type T is less than `limit`, of at most 2^31.
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

// The pieces of a packing's name, between underscores; and the number behind `prefix`, or -1.
std::vector<std::string_view> name_parts(std::string_view name);
std::int64_t number_of(std::string_view part, std::string_view prefix);

}  // namespace sparsmith
