// The order of a row's tiles, where those inside stand in the order of their columns: a lane's tile may be any of its
// row's. It is chosen so that the 32 gathers of a step meet different banks of shared memory where they can.
//
// By simulation at 8192 columns in fp16, 50 / 80 / 90 % zeros: 2.4 / 2.7 / 2.8 words of the fullest bank, and 3.4
// to 3.7 in the order of columns. The fewer tiles are left of a row, the less there is to choose from.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace sparsmith {

// Nonzeros of a row that are neighbours: as many as a lane's tile takes.
struct SlotTile {
  std::int64_t first = 0;  // in the matrix's arrays
  std::int64_t count = 0;
};

class SlotTileOrder {
 public:
  static constexpr int kBanks = 32;
  static constexpr std::uint8_t kNoBank = kBanks;  // of a place that gathers nothing worth counting

  SlotTileOrder(int vector_width, int tiles_per_slot);

  // Puts the tiles of a part's next row in order, empty ones included.
  //   banks: [tiles][V], what each place gathers from; moves along with its tile.
  void order_row(std::span<SlotTile> tiles, std::span<std::uint8_t> banks);

 private:
  // Of one step of a group: what another gather from a bank costs.
  using Costs = std::array<std::uint16_t, 2 * kBanks>;  // kNoBank among them

  template <int kWidth>
  void order_row_of(std::span<SlotTile> tiles, std::span<std::uint8_t> banks);
  template <int kWidth>
  static std::int64_t cheapest(const Costs* steps, std::span<const std::uint8_t> banks);

  int vector_width_;
  std::int64_t tiles_per_slot_;
  std::int64_t next_ = 0;     // tile of the part
  std::vector<Costs> costs_;  // [P][V], of the group that is being filled
};

}  // namespace sparsmith
