#include "formats/two_four.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "formats/packed_format.h"
#include "formats/packed_reader.h"
#include "formats/stored_value.h"
#include "formats/two_four_layout.h"

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

using PlacesOfRow = std::array<GroupPlace, kStripColumns / kGroup>;

// Of the rows of a tile.
constexpr std::array<PlacesOfRow, kTileRows> kPlaces = [] {
  std::array<PlacesOfRow, kTileRows> places{};
  for (int row = 0; row < kTileRows; ++row)
    for (int column = 0; column < kStripColumns; column += kGroup)
      places[row][column / kGroup] = two_four::place_of_group(row, column);
  return places;
}();

// The end of the nonzeros from `first` on that lie in one group, in a row that ends at `end`.
std::int64_t end_of_group(const CsrMatrix& matrix, std::int64_t first, std::int64_t end) {
  const std::uint32_t group = matrix.column_indices[first] / kGroup;
  std::int64_t i = first + 1;
  while (i < end && matrix.column_indices[i] / kGroup == group) ++i;
  return i;
}

class Packer {
 public:
  Packer(const CsrMatrix& matrix, DataType type)
      : matrix_(matrix),
        type_(type),
        panels_(ceil_div(matrix.rows, kPanelRows)),
        strips_(ceil_div(matrix.cols, kStripColumns)) {}

  void pack(PackedWeight& packed) const {
    const std::int64_t panel_bytes = strips_ * kStripBytes;
    PackedArray tiles{"tiles", DataType::kUint8, std::vector<std::byte>(panels_ * panel_bytes)};
    parallel_each(panels_, [&](std::int64_t panel) { fill(panel, tiles.bytes.data() + panel * panel_bytes); });
    packed.facts = {{"panels", panels_}, {"strips", strips_}};
    packed.arrays.push_back(std::move(tiles));
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
    std::uint16_t values[2] = {half_bits(matrix_.values[first], type_), kNothing};
    std::uint32_t places[2] = {matrix_.column_indices[first] % kGroup, kGroup - 1};
    if (end - first == 2) {
      values[1] = half_bits(matrix_.values[first + 1], type_);
      places[1] = matrix_.column_indices[first + 1] % kGroup;
    } else if (places[0] == kGroup - 1) {  // nothing stands in front of it
      std::swap(values[0], values[1]);
      places[0] = kGroup - 2;
    }
    std::memcpy(tile + 2 * place.values, values, sizeof(values));
    auto& word = reinterpret_cast<std::uint32_t*>(tile + kValueBytes)[place.word];
    word = (word & ~(0xFU << place.bit)) | (places[0] | places[1] << 2) << place.bit;
  }

  const CsrMatrix& matrix_;
  const DataType type_;
  const std::int64_t panels_;
  const std::int64_t strips_;  // of a panel
};

// Which places a group may have, bit by bit, by the number of its values that are something: the first, 2 for the
// second.
constexpr std::array<std::uint32_t, 4> kLegalPlaces = [] {
  std::array<std::uint32_t, 4> legal{};
  for (unsigned first = 0; first < kGroup; ++first) {
    for (unsigned second = first + 1; second < kGroup; ++second) {
      const unsigned places = first | second << 2;
      legal[3] |= 1U << places;
      if (second == kGroup - 1) legal[1] |= 1U << places;
      if (second == kGroup - 1 && first == kGroup - 2) legal[2] |= 1U << places;
    }
  }
  legal[0] = 1U << two_four::kFirstPlaces;
  return legal;
}();

class TwoFourReader : public PackedReader {
 public:
  TwoFourReader(const PackedView& view, NoParameters /*packing*/, PackedParts& parts)
      : panels_(ceil_div(view.rows, kPanelRows)), strips_(ceil_div(view.cols, kStripColumns)) {
    parts.expect_fact("panels", panels_);
    parts.expect_fact("strips", strips_);
    tiles_ = parts.array<std::byte>("tiles", DataType::kUint8, panels_ * strips_ * kStripBytes);
  }

  Status check_bounds(int /*threads*/) override { return {}; }  // the arrays hold no address

  std::int64_t units() const override { return panels_; }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    rows.begin(unit, kPanelRows);
    for (std::int64_t strip = 0; strip < strips_; ++strip) {
      for (std::size_t row = 0; row < kPanelRows; ++row) {
        const std::byte* const tile = tiles_.at((unit * strips_ + strip) * kStripBytes) + row / kTileRows * kTileBytes;
        if (!read_row(tile, row, static_cast<std::uint32_t>(strip * kStripColumns), rows))
          return invalid_input(fmt::format("row {}, columns {} and on: places that no packer writes",
                                           unit * kPanelRows + static_cast<std::int64_t>(row), strip * kStripColumns));
      }
    }
    return rows.store_from(unit * kPanelRows);
  }

 private:
  // The row of a panel, in one of its tiles. False where places are not as packers write them.
  static bool read_row(const std::byte* tile, std::size_t row, std::uint32_t first_column, UnitRows& rows) {
    UnitRows::Entry* to = rows.room(row, kStripColumns);
    std::uint32_t legal = 1;
    for (std::uint32_t group = 0; group < kStripColumns / kGroup; ++group) {
      const GroupPlace& place = kPlaces[row % kTileRows][group];
      std::uint16_t values[2];
      std::uint32_t word = 0;
      std::memcpy(values, tile + 2 * place.values, sizeof(values));
      std::memcpy(&word, tile + kValueBytes + 4 * place.word, sizeof(word));
      const std::uint32_t places = word >> place.bit & 0xFU;
      const std::uint32_t first = values[0] != kNothing ? 1 : 0;
      const std::uint32_t second = values[1] != kNothing ? 1 : 0;
      legal &= kLegalPlaces[first + 2 * second] >> places;
      *to = {first_column + group * kGroup + places % kGroup, values[0]};
      to += first;
      *to = {first_column + group * kGroup + places / kGroup, values[1]};
      to += second;
    }
    rows.take(row, to);
    return (legal & 1U) != 0;
  }

  const std::int64_t panels_;
  const std::int64_t strips_;  // of a panel
  Elements<std::byte> tiles_;
};

std::optional<NoParameters> packing_named(std::string_view name) {
  return name == kTwoFourPacking ? std::optional(NoParameters()) : std::nullopt;
}

Status pack_weight(const CsrMatrix& matrix, NoParameters /*packing*/, DataType type, PackedWeight& packed) {
  SPARSMITH_RETURN_IF_ERROR(check_two_four(matrix).annotate(kTwoFourPacking));
  Packer(matrix, type).pack(packed);
  return {};
}

}  // namespace

Status check_two_four(const CsrMatrix& matrix) {
  return check_each(matrix.rows, kPanelRows, 0, [&](std::int64_t row) -> Status {
    const std::int64_t row_end = matrix.row_offsets[row + 1];
    for (std::int64_t i = matrix.row_offsets[row]; i < row_end;) {
      const std::int64_t group_end = end_of_group(matrix, i, row_end);
      if (group_end - i > 2)
        return invalid_argument(
            fmt::format("row {} has more than two nonzeros among four columns; prune the weight 2:4", row));
      i = group_end;
    }
    return {};
  });
}

PackedFormat two_four_format() {
  return format_of<TwoFourReader, packing_named, pack_weight, 2>(
      {.name = kTwoFourPacking, .value_arrays = {"tiles"}, .halves_only = true, .leaves_rest = true});
}

}  // namespace sparsmith
