#include "formats/two_four.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>

#include "base/ceil_div.h"
#include "base/half.h"
#include "base/parallel_for.h"
#include "formats/two_four_layout.h"
#include "formats/unpacked_rows.h"

namespace sparsmith {
namespace {

using two_four::GroupPlace;
using two_four::kGroup;
using two_four::kNothing;
using two_four::kPanelRows;
using two_four::kStripBytes;
using two_four::kStripColumns;
using two_four::kTileBytes;
using two_four::kTileRows;
using two_four::kValueBytes;

constexpr std::int64_t kNoRow = std::numeric_limits<std::int64_t>::max();

using PlacesOfRow = std::array<GroupPlace, kStripColumns / kGroup>;

// Of the rows of a tile.
constexpr std::array<PlacesOfRow, kTileRows> kPlaces = [] {
  std::array<PlacesOfRow, kTileRows> places{};
  for (int row = 0; row < kTileRows; ++row)
    for (int column = 0; column < kStripColumns; column += kGroup)
      places[static_cast<std::size_t>(row)][static_cast<std::size_t>(column / kGroup)] =
          two_four::place_of_group(row, column);
  return places;
}();

// The end of the nonzeros from `first` on that lie in one group, in a row that ends at `end`.
std::int64_t end_of_group(const CsrMatrix& matrix, std::int64_t first, std::int64_t end) {
  const std::uint32_t group = matrix.column_indices[first] / kGroup;
  std::int64_t i = first + 1;
  while (i < end && matrix.column_indices[i] / kGroup == group) ++i;
  return i;
}

// The first row with more than two nonzeros in a group, or kNoRow.
std::int64_t first_illegal_row(const CsrMatrix& matrix) {
  std::atomic<std::int64_t> first = kNoRow;
  parallel_for(matrix.rows, kPanelRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t row_end = matrix.row_offsets[row + 1];
      for (std::int64_t i = matrix.row_offsets[row]; i < row_end;) {
        const std::int64_t group_end = end_of_group(matrix, i, row_end);
        if (group_end - i > 2) {
          std::int64_t known = first;
          while (row < known && !first.compare_exchange_weak(known, row)) {
          }
          return;  // the others of this range are further down
        }
        i = group_end;
      }
    }
  });
  return first;
}

class Packer {
 public:
  Packer(const CsrMatrix& matrix, DataType type)
      : matrix_(matrix),
        type_(type),
        panels_(ceil_div(matrix.rows, kPanelRows)),
        strips_(ceil_div(matrix.cols, kStripColumns)) {}

  PackedWeight pack() const {
    const auto panel_bytes = static_cast<std::size_t>(strips_) * kStripBytes;
    PackedArray tiles{"tiles", DataType::kUint8,
                      std::vector<std::byte>(static_cast<std::size_t>(panels_) * panel_bytes)};
    parallel_for(panels_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t panel = begin; panel < end; ++panel)
        fill(panel, tiles.bytes.data() + static_cast<std::size_t>(panel) * panel_bytes);
    });
    PackedWeight packed;
    packed.packing = kTwoFourPacking;
    packed.rows = matrix_.rows;
    packed.cols = matrix_.cols;
    packed.nnz = matrix_.nnz();
    packed.value_type = type_;
    packed.facts = {{"panels", panels_}, {"strips", strips_}};
    packed.arrays.push_back(std::move(tiles));
    return packed;
  }

 private:
  void fill(std::int64_t panel, std::byte* strips) const {
    clear(strips);
    const std::int64_t first_row = panel * kPanelRows;
    for (std::int64_t row = first_row; row < std::min(matrix_.rows, first_row + kPanelRows); ++row) {
      const auto in_panel = static_cast<std::size_t>(row - first_row);
      const PlacesOfRow& places = kPlaces[in_panel % kTileRows];
      std::byte* const tiles = strips + in_panel / kTileRows * kTileBytes;
      const std::int64_t end = matrix_.row_offsets[row + 1];
      for (std::int64_t i = matrix_.row_offsets[row]; i < end;) {
        const std::int64_t group_end = end_of_group(matrix_, i, end);
        const std::uint32_t column = matrix_.column_indices[i];
        put(tiles + std::size_t{column / kStripColumns} * kStripBytes, places[column % kStripColumns / kGroup], i,
            group_end);
        i = group_end;
      }
    }
  }

  // A panel without a nonzero.
  void clear(std::byte* strips) const {
    constexpr std::uint32_t kNoPlaces = two_four::kFirstPlaces * 0x11111111U;
    for (std::int64_t tile = 0; tile < strips_ * two_four::kPanelTiles; ++tile, strips += kTileBytes) {
      std::fill_n(reinterpret_cast<std::uint16_t*>(strips), kValueBytes / 2, kNothing);
      std::fill_n(reinterpret_cast<std::uint32_t*>(strips + kValueBytes), two_four::kLanes, kNoPlaces);
    }
  }

  // The nonzeros from `first` to `end`, which are one or two, as a group.
  void put(std::byte* tile, const GroupPlace& place, std::int64_t first, std::int64_t end) const {
    std::uint16_t values[2] = {convert(matrix_.values[first]), kNothing};
    std::uint32_t places[2] = {matrix_.column_indices[first] % kGroup, kGroup - 1};
    if (end - first == 2) {
      values[1] = convert(matrix_.values[first + 1]);
      places[1] = matrix_.column_indices[first + 1] % kGroup;
    } else if (places[0] == kGroup - 1) {  // nothing stands in front of it
      std::swap(values[0], values[1]);
      places[0] = kGroup - 2;
    }
    std::memcpy(tile + 2 * place.values, values, sizeof(values));
    auto& word = reinterpret_cast<std::uint32_t*>(tile + kValueBytes)[place.word];
    word = (word & ~(0xFU << place.bit)) | (places[0] | places[1] << 2) << place.bit;
  }

  std::uint16_t convert(float value) const {
    const std::uint16_t bits = type_ == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
    return bits == kNothing ? std::uint16_t{0} : bits;
  }

  const CsrMatrix& matrix_;
  const DataType type_;
  const std::int64_t panels_;
  const std::int64_t strips_;  // of a panel
};

// Adds the group of `row` (of the weight) that begins at `column` to the rows.
Status unpack_group(const std::byte* tile, std::int64_t row, std::uint32_t column, UnpackedRows& unpacked) {
  const GroupPlace& place = kPlaces[static_cast<std::size_t>(row % kTileRows)][column % kStripColumns / kGroup];
  std::uint16_t values[2];
  std::uint32_t word = 0;
  std::memcpy(values, tile + 2 * place.values, sizeof(values));
  std::memcpy(&word, tile + kValueBytes + 4 * place.word, sizeof(word));
  const std::uint32_t first = word >> place.bit & 3U;
  const std::uint32_t second = word >> (place.bit + 2) & 3U;
  if (first >= second)
    return invalid_input(
        fmt::format("two_four: row {}, columns {} and on: place {} stands in front of {}", row, column, first, second));
  if (values[0] != kNothing) unpacked.add(row, column + first, values[0]);
  if (values[1] != kNothing) unpacked.add(row, column + second, values[1]);
  return {};
}

}  // namespace

Result<PackedWeight> pack_two_four(const CsrMatrix& matrix, DataType type) {
  if (type != DataType::kFloat16 && type != DataType::kBFloat16)
    return invalid_argument(fmt::format("two_four: values are fp16 or bf16, not {}", short_name(type)));
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (matrix.rows >= kMost - kPanelRows || matrix.cols >= kMost - kStripColumns)
    return invalid_argument(fmt::format("two_four: {} x {} exceeds 32-bit indices", matrix.rows, matrix.cols));
  const std::int64_t illegal = first_illegal_row(matrix);
  if (illegal != kNoRow)
    return invalid_argument(
        fmt::format("two_four: row {} has more than two nonzeros among four columns; prune the weight 2:4", illegal));
  return Packer(matrix, type).pack();
}

Result<CsrMatrix> unpack_two_four(const PackedWeight& packed) {
  if (packed.packing != kTwoFourPacking)
    return invalid_input(fmt::format("two_four: no packing is named '{}'", packed.packing));
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(packed.rows, packed.cols));
  if (size_of(packed.value_type) != sizeof(std::uint16_t))
    return invalid_input(fmt::format("two_four: values are fp16 or bf16, not {}", short_name(packed.value_type)));
  const std::int64_t panels = ceil_div(packed.rows, kPanelRows);
  const std::int64_t strips = ceil_div(packed.cols, kStripColumns);
  const PackedArray* tiles = packed.array("tiles");
  if (tiles == nullptr || tiles->type != DataType::kUint8 || tiles->size() % kStripBytes != 0)
    return invalid_input("two_four: array 'tiles' is missing, or is not whole strips");
  const std::int64_t stored = tiles->size() / kStripBytes;
  if (panels == 0 ? stored != 0 : stored % panels != 0 || stored / panels != strips)
    return invalid_input(fmt::format("two_four: {} strips for {} x {}", stored, packed.rows, packed.cols));

  SPARSMITH_ASSIGN_OR_RETURN(UnpackedRows unpacked, UnpackedRows::create(packed, panels * kPanelRows));
  for (std::int64_t row = 0; row < packed.rows; ++row) {
    const auto first_strip = static_cast<std::size_t>(row / kPanelRows * strips);
    const std::byte* const in_strips =
        tiles->bytes.data() + first_strip * kStripBytes + row % kPanelRows / kTileRows * kTileBytes;
    for (std::int64_t column = 0; column < packed.cols; column += kGroup) {
      const std::byte* const tile = in_strips + column / kStripColumns * kStripBytes;
      SPARSMITH_RETURN_IF_ERROR(unpack_group(tile, row, static_cast<std::uint32_t>(column), unpacked));
    }
  }
  return std::move(unpacked).matrix();
}

}  // namespace sparsmith
