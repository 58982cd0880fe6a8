#include "formats/scatter_rounds.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "formats/scatter_layout.h"

namespace sparsmith::scatter {

std::int64_t fixed_words(const ScatterPacking& packing) {
  return packing.entry == ScatterEntry::kWord ? packing.min_rounds : packing.min_rounds / 4 * 3;
}

std::vector<std::uint16_t> fixed_places(const ScatterPacking& packing) {
  const int words = static_cast<int>(fixed_words(packing));
  std::vector<std::uint16_t> places;
  for (int word = 0; word < words; ++word) {
    const int stored = packing.entry == ScatterEntry::kByte ? fixed_order(packing.min_rounds, word) : word;
    for (int lane = 0; lane < kLanes; ++lane)
      places.push_back(static_cast<std::uint16_t>(fixed_index(words, lane, stored)));
  }
  return places;
}

std::vector<std::uint16_t> element_indices(const ScatterPacking& packing) {
  const auto tile_columns = static_cast<std::uint32_t>(packing.tile_columns());
  std::vector<std::uint16_t> indices;
  for (std::uint32_t at = 0; at < kTileElements; ++at) {
    const std::uint32_t row = at / tile_columns;
    const std::uint32_t chunk = at % tile_columns / 8 ^ row % 8;
    const std::uint32_t element = at % 8;
    const std::uint32_t column =
        packing.columns == ScatterColumns::kNatural
            ? chunk * 8 + element
            : chunk / 4 * 32 + element / 2 * 8 + chunk / 2 % 2 * 4 + chunk % 2 * 2 + element % 2;
    indices.push_back(static_cast<std::uint16_t>(row * tile_columns + column));
  }
  return indices;
}

Facts facts_of(std::vector<std::int64_t> rounds, std::int64_t row_blocks, std::int64_t column_tiles, std::int64_t nnz) {
  const std::int64_t all = std::accumulate(rounds.begin(), rounds.end(), std::int64_t{0});
  std::ranges::sort(rounds);
  const auto quantile = [&](double share) {
    return rounds.empty() ? 0 : rounds[static_cast<std::size_t>(share * static_cast<double>(rounds.size() - 1))];
  };
  return {{"row_blocks", row_blocks},      {"column_tiles", column_tiles}, {"rounds", all},
          {"padding", all * kLanes - nnz}, {"rounds_p5", quantile(0.05)},  {"rounds_p95", quantile(0.95)},
          {"rounds_max", quantile(1)}};
}

std::span<const std::uint32_t> RoundDealer::deal(std::span<const Entry> entries) {
  choose_rounds(entries);
  dealt_.assign(rounds_ * 32, 0);
  if (form_ == ScatterEntry::kWord) {
    deal_words(entries);
    return dealt_;
  }
  sort_banks(entries);
  deal_lanes();
  pack_bytes();
  return words_;
}

void RoundDealer::pack_bytes() {
  words_.resize((rounds_ / 4 * 3 + rounds_ % 4) * 32);
  for (std::int64_t first = 0; first < rounds_; first += 4) {
    const int rounds = static_cast<int>(std::min<std::int64_t>(4, rounds_ - first));
    for (int lane = 0; lane < 32; ++lane) {
      std::array<std::uint32_t, 3> words = {};
      for (int i = 0; i < rounds; ++i) {
        const Entry entry = at(first + i, lane);
        // From the lane's first word of line 0 on: 128 bytes a line, 4 to the next bank, 2 to the next half.
        const std::uint32_t distance = offset_of(entry) - static_cast<std::uint32_t>(lane) * 4;
        const std::uint32_t position = distance / 128 << 2 | distance % 128 / 2;
        words[0] |= position << (8 * i);
        words[1 + i / 2] |= (entry & 0xFFFFU) << (16 * (i % 2));
      }
      for (int w = 0; w < 1 + rounds / 2; ++w) words_[first / 4 * 96 + w * 32 + lane] = words[w];
    }
  }
}

void RoundDealer::count_banks(std::span<const Entry> entries) {
  std::fill(std::begin(counts_), std::end(counts_), 0);
  for (const Entry entry : entries) ++counts_[bank_of(entry)];
  unmovable_ = 0;
  for (std::size_t i = 0; i < entries.size() && line_of(entries[i]) == 0; ++i) unmovable_ += bank_of(entries[i]) == 0;
}

// The fewest moves from each bank to the lane before it with which no lane has more than `rounds` entries; false when
// there are none. Lane 31 is before bank 0: what it takes, it passes on, so the ring is gone round until it closes.
bool RoundDealer::moves_fit(std::int64_t rounds) {
  for (std::int64_t start = 0; start <= counts_[0] - unmovable_;) {
    moved_[32] = start;
    for (int bank = 31; bank >= 0; --bank) {
      moved_[bank] = std::max<std::int64_t>(0, counts_[bank] + moved_[bank + 1] - rounds);
      if (moved_[bank] > counts_[bank]) return false;
    }
    if (moved_[0] == start) return true;
    start = moved_[0];
  }
  return false;
}

void RoundDealer::choose_rounds(std::span<const Entry> entries) {
  const auto count = static_cast<std::int64_t>(entries.size());
  rounds_ = std::max<std::int64_t>((count + 31) / 32, min_rounds_);
  if (form_ == ScatterEntry::kWord) return;
  count_banks(entries);
  rounds_ += rounds_ % 2;
  while (!moves_fit(rounds_)) rounds_ += 2;
}

void RoundDealer::sort_banks(std::span<const Entry> entries) {
  for (std::vector<Entry>& bank : banks_) bank.clear();
  for (const Entry entry : entries) banks_[bank_of(entry)].push_back(entry);
}

void RoundDealer::deal_lanes() {
  for (int bank = 0; bank < 32; ++bank) {
    // A lane with room to spare has its bank to itself, and repeats an entry of its own; else it stores a 0 there.
    const Entry pad = banks_[bank].empty() ? static_cast<Entry>(bank) * 4 << 16 : banks_[bank].front();
    for (std::int64_t round = counts_[bank] - moved_[bank]; round < rounds_ - moved_[bank + 1]; ++round)
      at(round, bank) = pad;
  }
  for (int bank = 0; bank < 32; ++bank) deal_bank(bank);
}

// A bank's own lane fills its rounds from the front; the lane before fills its last ones with what was moved. Where
// both store to the bank in one round, they shall store to the two halves of one word: that takes one turn, not two.
void RoundDealer::deal_bank(int bank) {
  const std::vector<Entry>& list = banks_[bank];
  const int before = (bank + 31) % 32;
  const std::int64_t kept = counts_[bank] - moved_[bank];
  const std::int64_t first_move = rounds_ - moved_[bank];
  taken_.assign(list.size(), 0);
  std::int64_t shared = first_move;  // the next round in which both store to the bank
  // Of bank 0, enough must be left that can be moved.
  const std::int64_t shared_end = bank == 0 ? std::min(kept, first_move + kept - unmovable_) : kept;
  for (std::size_t i = 0; i + 1 < list.size() && shared < shared_end; ++i) {
    if (offset_of(list[i]) / 4 != offset_of(list[i + 1]) / 4 || (bank == 0 && line_of(list[i]) == 0)) continue;
    at(shared, bank) = list[i];
    at(shared, before) = list[i + 1];
    taken_[i] = taken_[i + 1] = 1;
    ++shared;
    ++i;
  }
  // From the end on, since the very first ones of bank 0 cannot be moved.
  std::size_t next = list.size();
  const auto draw = [&] {
    do --next;
    while (taken_[next] != 0);
    return list[next];
  };
  for (std::int64_t round = shared; round < rounds_; ++round) at(round, before) = draw();
  for (std::int64_t round = 0; round < kept; ++round)
    if (round < first_move || round >= shared) at(round, bank) = draw();
}

// Entries of a bank go to rounds one after another, so that a round meets a bank as seldom as can be; where it does so
// twice, with both halves of a word if the bank has such a pair left.
void RoundDealer::deal_words(std::span<const Entry> entries) {
  padded_.assign(entries.begin(), entries.end());
  const auto padding = static_cast<std::size_t>(rounds_ * 32) - entries.size();
  if (padding > 0) {
    taken_.assign(kTileElements, 0);
    for (const Entry entry : entries) taken_[offset_of(entry) / 2] = 1;
    for (std::uint32_t at = 0; padded_.size() < entries.size() + padding; ++at)
      if (taken_[at] == 0) padded_.push_back(at * 2 << 16);
    std::stable_sort(padded_.begin(), padded_.end(), [](Entry a, Entry b) { return line_of(a) < line_of(b); });
  }
  sort_banks(padded_);
  std::vector<int> fill(rounds_, 0);
  std::int64_t round = 0;
  const auto put = [&](Entry entry) {
    at(round, fill[round]++) = entry;
    round = round + 1 == rounds_ ? 0 : round + 1;
  };
  for (const std::vector<Entry>& list : banks_) {
    const auto size = static_cast<std::int64_t>(list.size());
    const std::int64_t most = size > rounds_ ? size - rounds_ : 0;  // entries that meet another of the bank
    taken_.assign(list.size(), 0);
    std::vector<std::size_t> seconds;
    for (std::size_t i = 0; i + 1 < list.size() && static_cast<std::int64_t>(seconds.size()) < std::min(most, rounds_);
         ++i) {
      if (offset_of(list[i]) / 4 != offset_of(list[i + 1]) / 4) continue;
      put(list[i]);
      taken_[i] = taken_[i + 1] = 1;
      seconds.push_back(++i);
    }
    const std::int64_t alone =
        rounds_ - static_cast<std::int64_t>(seconds.size());  // before the first of a pair comes again
    std::size_t next = 0;
    const auto rest = [&](std::int64_t count) {
      for (; next < list.size() && count > 0; ++next) {
        if (taken_[next] != 0) continue;
        put(list[next]);
        --count;
      }
    };
    if (!seconds.empty()) rest(alone);
    for (const std::size_t second : seconds) put(list[second]);
    rest(size);
  }
}

}  // namespace sparsmith::scatter
