#include "formats/slots_tile_order.h"

#include <algorithm>

#include "formats/slots_layout.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kChoices = 64;  // tiles that are looked at for a lane: more gain little

// Of a gather from a bank that so many lanes use already. A third one makes most steps longer, a second hardly any.
constexpr std::uint16_t kCosts[] = {1, 4, 32, 256, 1024, 2048};

std::uint16_t next_cost(std::uint16_t cost) {
  const auto* const next = std::upper_bound(std::begin(kCosts), std::end(kCosts), cost);
  return next == std::end(kCosts) ? cost : *next;
}

}  // namespace

SlotTileOrder::SlotTileOrder(int vector_width, int tiles_per_slot)
    : vector_width_(vector_width),
      tiles_per_slot_(tiles_per_slot),
      costs_(static_cast<std::size_t>(vector_width) * static_cast<std::size_t>(tiles_per_slot)) {}

void SlotTileOrder::order_row(std::span<SlotTile> tiles, std::span<std::uint8_t> banks) {
  switch (vector_width_) {
    case 4: order_row_of<4>(tiles, banks); break;
    case 8: order_row_of<8>(tiles, banks); break;
    case 16: order_row_of<16>(tiles, banks); break;
    default: order_row_of<32>(tiles, banks);
  }
}

template <int kWidth>
void SlotTileOrder::order_row_of(std::span<SlotTile> tiles, std::span<std::uint8_t> banks) {
  for (std::size_t i = 0; i < tiles.size(); ++i, ++next_) {
    if (next_ % (slots::kLanes * tiles_per_slot_) == 0) {
      Costs fresh;
      fresh.fill(kCosts[0]);
      fresh[kNoBank] = 0;
      std::fill(costs_.begin(), costs_.end(), fresh);
    }
    Costs* steps = costs_.data() + next_ % tiles_per_slot_ * kWidth;
    const std::size_t best = i + static_cast<std::size_t>(cheapest<kWidth>(steps, banks.subspan(i * kWidth)));
    std::uint8_t* at = banks.data() + i * kWidth;
    if (best != i) {
      std::swap(tiles[i], tiles[best]);
      std::swap_ranges(at, at + kWidth, banks.data() + best * kWidth);
    }
    for (int e = 0; e < kWidth; ++e)
      if (at[e] != kNoBank) steps[e][at[e]] = next_cost(steps[e][at[e]]);
  }
}

// Which of the next tiles: the first that costs least.
template <int kWidth>
std::int64_t SlotTileOrder::cheapest(const Costs* steps, std::span<const std::uint8_t> banks) {
  const std::int64_t choices = std::min(kChoices, std::ssize(banks) / kWidth);
  std::int64_t best = 0;
  unsigned least = ~0U;
  for (std::int64_t choice = 0; choice < choices && least > kWidth * kCosts[0]; ++choice) {
    const std::uint8_t* of_choice = banks.data() + choice * kWidth;
    unsigned cost = 0;
    for (int e = 0; e < kWidth / 2; ++e) cost += steps[e][of_choice[e]];
    if (cost >= least) continue;
    for (int e = kWidth / 2; e < kWidth; ++e) cost += steps[e][of_choice[e]];
    if (cost >= least) continue;
    least = cost;
    best = choice;
  }
  return best;
}

}  // namespace sparsmith
