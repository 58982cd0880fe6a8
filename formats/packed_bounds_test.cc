// Damaged arrays that check_packed() finds in bounds, read as kernels read them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>

#include "base/ceil_div.h"
#include "base/split.h"
#include "formats/bitmap_layout.h"
#include "formats/bsr_layout.h"
#include "formats/bsr_strips_layout.h"
#include "formats/csr_layout.h"
#include "formats/packed_reader.h"
#include "formats/panel_layout.h"
#include "formats/panel_words.h"
#include "formats/region_masks_layout.h"
#include "formats/scatter_layout.h"
#include "formats/slots_layout.h"
#include "formats/slots_steps.h"
#include "formats/slots_tiles.h"
#include "formats/tile_masks_layout.h"
#include "tests/support/drawn_packings.h"
#include "tests/support/packing_checks.h"
#include "tests/support/slot_bits.h"

namespace sparsmith::test {
namespace {

// A packed weight whose elements are asked for by kernels. The first one that is outside fails the test.
class Addresses {
 public:
  explicit Addresses(const PackedWeight& packed) : packed_(packed) {}

  std::int64_t fact(const char* name) const { return packed_.facts.at(name); }
  bool has(const char* name) const { return packed_.array(name) != nullptr; }
  void inside(std::int64_t index, std::int64_t count, const char* what) {
    if (index < 0 || index >= count)
      ADD_FAILURE() << packed_.packing << ": " << what << " " << index << " of " << count;
  }
  template <class T>
  T at(const char* name, std::int64_t index) {
    const auto elements = packed_.array(name)->as<T>();
    const bool exists = index >= 0 && index < std::ssize(elements);
    if (!exists) ADD_FAILURE() << packed_.packing << ": " << name << "[" << index << "] of " << elements.size();
    return exists ? elements[static_cast<std::size_t>(index)] : T{};
  }
  const PackedWeight& packed() const { return packed_; }
  // Of what is packed; of a hybrid, of its structured part.
  std::string_view packing() const {
    const std::string_view packing = without_transposed(packed_.packing);
    return packing.substr(0, packing.find("_rest_"));
  }
  std::int64_t rows() const { return is_transposed(packed_.packing) ? packed_.cols : packed_.rows; }
  std::int64_t cols() const { return is_transposed(packed_.packing) ? packed_.rows : packed_.cols; }

 private:
  const PackedWeight& packed_;
};

void follow_csr(Addresses& weight) {
  const std::int64_t alignment = number_of(split(weight.packing(), "_")[2], "a");
  const bool narrow = weight.packed().array("columns")->type == DataType::kUint16;
  for (std::int64_t s = 0; s < weight.fact("segments"); ++s) {
    const auto segment = weight.at<csr::Segment>("segments", s);
    const std::uint32_t target =
        weight.fact("has_targets") != 0 ? weight.at<std::uint32_t>("targets", s) : static_cast<std::uint32_t>(s);
    if ((target & csr::kPartialFlag) != 0) {
      weight.inside(target & ~csr::kPartialFlag, weight.fact("slots"), "slot");
    } else {
      weight.inside(target, weight.rows(), "row");
    }
    weight.inside(segment.first % alignment, 1, "vector's start");
    for (std::int64_t i = segment.first; i < segment.first + ceil_div(segment.length, alignment) * alignment; ++i)
      weight.inside(narrow ? weight.at<std::uint16_t>("columns", i) : weight.at<std::uint32_t>("columns", i),
                    weight.cols(), "column");
  }
  if (const Coding* coding = coding_of(weight.packing()))
    weight.at<std::uint8_t>("scales", weight.rows() * coding->scales_of_row(weight.cols()) - 1);
  for (std::int64_t i = 0; i < weight.fact("split_rows"); ++i) {
    weight.inside(weight.at<std::uint32_t>("split_rows", i), weight.rows(), "row");
    weight.inside(weight.at<std::uint32_t>("slot_offsets", i), weight.at<std::uint32_t>("slot_offsets", i + 1),
                  "slot offset");
    weight.inside(weight.at<std::uint32_t>("slot_offsets", i + 1), weight.fact("slots") + 1, "slot offset");
  }
}

// The columns that a lane of a tile gathers, padding's too.
std::vector<std::uint32_t> gathered(const SlotsPacking& packing, const SlotTileSize& size, const std::byte* tile,
                                    int lane) {
  const std::byte* columns = tile + slots::kLanes * size.values;
  std::uint32_t where = 0;
  if (size.base > 0) std::memcpy(&where, columns + slots::kLanes * size.columns + lane * 2, 2);
  const std::uint32_t base = where;
  std::vector<std::uint32_t> result;
  for (int e = 0; e < packing.vector_width; ++e) {
    if (pads_long_steps(packing.columns)) {
      where += read_step(packing.columns, columns, lane, e, size.columns);
    } else {
      const int bytes = size.columns / packing.vector_width;
      std::uint32_t number = 0;
      std::memcpy(&number, columns + interleaved_at(lane, e * bytes, size.columns), static_cast<std::size_t>(bytes));
      if (size.base == 0) where = number;
      if (size.base > 0 && e > 0) where = (packing.columns == SlotColumns::kDelta8 ? where : base) + number;
    }
    result.push_back(where);
  }
  return result;
}

void follow_slots(Addresses& weight) {
  const SlotsPacking packing{static_cast<SlotColumns>(weight.fact("columns")),
                             static_cast<int>(weight.fact("vector_width")),
                             static_cast<int>(weight.fact("tiles_per_slot")), 1};
  const SlotTileSize size(packing, weight.packed().value_type);
  const slots::PartSizes sizes{static_cast<int>(weight.fact("heavy_parts")),
                               static_cast<int>(weight.fact("heavy_groups")), static_cast<int>(weight.fact("groups"))};
  const std::int64_t zero = size.base == 0 ? 1 : 0;  // a column K
  for (std::int64_t part = 0; part < weight.fact("parts"); ++part) {
    const std::int64_t first = sizes.first_group(part) * packing.tiles_per_slot;
    for (std::int64_t tile = first;
         tile < first + std::int64_t{sizes.groups_of(static_cast<int>(part))} * packing.tiles_per_slot; ++tile) {
      weight.at<std::byte>("slots", (tile + 1) * size.tile() - 1);
      for (int lane = 0; lane < slots::kLanes; ++lane)
        for (const std::uint32_t column :
             gathered(packing, size, weight.packed().array("slots")->bytes.data() + tile * size.tile(), lane))
          weight.inside(column, weight.cols() + zero, "column");
    }
    for (std::int64_t i = 0; i < weight.fact("rows_per_part"); ++i) {
      const auto row = weight.at<slots::Row>("rows", part * weight.fact("rows_per_part") + i);
      if (row.row == slots::kNoRow) continue;
      weight.inside(row.row, weight.rows(), "row");
      weight.inside((row.range & 0xFFFFU) + (row.range >> 16),
                    std::int64_t{sizes.groups_of(static_cast<int>(part))} * slots::kLanes + 1, "slot");
    }
  }
}

void follow_bitmap(Addresses& weight) {
  const auto name = split(weight.packing(), "_");
  const auto tiles = static_cast<int>(number_of(name[1], "r"));
  const auto run_bits = static_cast<int>(number_of(name[2], "b"));
  const bool stored = name[3] == "stored";
  const int runs = 32 / run_bits;
  for (std::int64_t strip = 0; strip < weight.fact("row_tiles") * weight.fact("strips"); ++strip) {
    const std::int64_t column = strip % weight.fact("strips");
    const bool first = column < weight.fact("first_strips");
    const std::int64_t begin = 16 * (first ? (strip / weight.fact("strips") * weight.fact("first_strips") + column) *
                                                 weight.fact("first_units")
                                           : weight.at<std::uint32_t>("strip_offsets", strip));
    const std::int64_t bytes = first ? 16 * weight.fact("first_units")
                                     : 16 * std::int64_t{weight.at<std::uint32_t>("strip_offsets", strip + 1)} - begin;
    if (!first) weight.inside(bytes, weight.fact("max_strip_bytes") + 1, "size of a strip");
    if (bytes == 0) continue;
    weight.at<std::byte>("strips", begin + bytes - 1);
    const auto number = [&](std::int64_t at, auto zero) {
      std::memcpy(&zero, weight.packed().array("strips")->bytes.data() + begin + at, sizeof(zero));
      return zero;
    };
    const int firsts = tiles * 128 * (stored ? 1 + 8 / run_bits : 1);
    for (int tile = 0; tile < tiles; ++tile) {
      for (int run = 0; run < runs; ++run) {
        std::int64_t counted = 0;
        for (int lane = 0; lane < 32; ++lane) {
          const auto bits = std::popcount(number(tile * 128 + lane * 4, std::uint32_t{}) >> (run * run_bits) &
                                          ((1U << run_bits) - 1));
          const int words = 8 / run_bits;  // of a lane's starts
          const std::int64_t start =
              stored
                  ? number(tiles * 128 + ((tile * 32 + lane) * words + run % words) * 4 + run / words, std::uint8_t{})
                  : counted;
          const std::int64_t from = bitmap::header_bytes(tiles, run_bits, stored) +
                                    number(firsts + (tile * runs + run) * 2, std::uint16_t{}) + 2 * start;
          weight.inside(from + 2 * bits, bytes + 1, "value");
          counted += bits;
        }
      }
    }
  }
}

void follow_bsr(Addresses& weight) {
  if (weight.packing().ends_with("all")) return;
  for (std::int64_t row = 0; row < weight.fact("block_rows"); ++row) {
    for (std::int64_t block = weight.at<std::uint32_t>("row_blocks", row);
         block < weight.at<std::uint32_t>("row_blocks", row + 1); ++block) {
      weight.inside(block, weight.fact("blocks"), "block");
      weight.inside(weight.at<std::uint32_t>("block_columns", block), weight.fact("block_columns"),
                    "column of a block");
    }
    if (weight.packing().starts_with("bsr_lines"))
      weight.inside(weight.at<std::uint32_t>("row_order", row), weight.fact("block_rows"), "row of blocks");
    if (weight.packing().starts_with("bsr_lines32"))
      for (std::int64_t half = 2 * row; half < 2 * (row + 1); ++half)
        weight.inside(weight.at<std::uint32_t>("half_rows", half), 2 * weight.fact("block_rows"), "half of a row");
  }
}

void follow_bsr_strips(Addresses& weight) {
  for (std::int64_t place = 0; place < weight.fact("panels"); ++place) {
    weight.inside(weight.at<std::uint32_t>("panels", place), weight.fact("panels"), "panel");
    std::int64_t strip = 0;
    for (std::int64_t quarter = place * 4; quarter < (place + 1) * 4; ++quarter) {
      const std::int64_t end_strip = (weight.fact("strips") + 3) / 4 * (quarter % 4 + 1);
      const std::int64_t last = weight.at<std::uint32_t>("part_steps", quarter + 1);
      for (std::int64_t step = weight.at<std::uint32_t>("part_steps", quarter); step < last; ++step) {
        weight.inside(step, weight.fact("steps"), "step");
        const std::int64_t own = weight.at<std::uint32_t>("steps", step) >> bsr_strips::kStripShift;
        weight.inside(own, std::min(end_strip, weight.fact("strips")), "strip");  // a kernel awaits no other
        EXPECT_GE(own, strip) << "a strip that is gone";
        strip = own;
      }
    }
  }
}

// What a kernel reads of a group, and the values that it stores.
void follow_tile_masks(Addresses& weight) {
  const auto parts = split(weight.packing(), "_");
  const std::int64_t columns = number_of(parts[2], "c");
  const std::int64_t rows = number_of(parts[3], "r") * tile_masks::kTileRows;
  for (std::int64_t group = 0; group < weight.fact("groups"); ++group) {
    weight.inside(weight.at<std::uint32_t>("group_panels", group), ceil_div(weight.rows(), rows), "panel");
    const std::int64_t begin = weight.at<std::uint32_t>("group_tiles", group);
    const std::int64_t end = weight.at<std::uint32_t>("group_tiles", group + 1);
    weight.inside(end - begin, number_of(parts[4], "g") / columns + 1, "tiles of a group");
    EXPECT_EQ((end - begin) * columns % tile_masks::kUnitColumns, 0);
    for (std::int64_t tile = begin; tile < end; ++tile) {
      weight.inside(weight.at<std::uint32_t>("columns", tile), ceil_div(weight.cols(), columns), "column of tiles");
      for (std::int64_t row = tile * rows; row < (tile + 1) * rows; ++row) {
        std::int64_t place = weight.at<std::uint32_t>("firsts", row);
        for (std::int64_t word = 0; word < columns / tile_masks::kWordColumns; ++word)
          place += std::popcount(weight.at<std::uint32_t>("masks", row * columns / tile_masks::kWordColumns + word));
        weight.inside(place, weight.fact("nonzeros") + 1, "place");
      }
    }
  }
}

// The same of a region.
void follow_region_masks(Addresses& weight) {
  for (std::int64_t region = 0; region < weight.fact("regions"); ++region) {
    const std::uint32_t panel = weight.at<std::uint32_t>("region_panels", region);
    weight.inside(panel, ceil_div(weight.rows(), std::int64_t{region_masks::kPanelRows}), "panel");
    EXPECT_EQ(panel, weight.at<std::uint32_t>("region_panels", region ^ 1)) << "two blocks of a cluster share rows";
    const std::int64_t begin = weight.at<std::uint32_t>("region_tiles", region);
    const std::int64_t end = weight.at<std::uint32_t>("region_tiles", region + 1);
    weight.inside(end - begin, number_of(split(weight.packing(), "_")[2], "t") + 1, "tiles of a region");
    std::int64_t boxes = 0;
    for (std::int64_t box = 0; box < region_masks::kBoxes; ++box) {
      const std::uint32_t column = weight.at<std::uint32_t>("columns", region * region_masks::kBoxes + box);
      if (column == region_masks::kNoColumns) continue;
      weight.inside(column, ceil_div(weight.cols(), std::int64_t{region_masks::kBoxColumns}), "columns");
      EXPECT_EQ(boxes++, box) << "columns behind those that are brought";
    }
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::uint32_t own = weight.at<std::uint32_t>("tiles", tile);
      weight.inside(own >> 8 & 0xFF, region_masks::kBands, "band");
      weight.inside(own & 0xFF, own >> 8 & 0xFF, "first band");
      weight.inside(own >> 16, 2 * boxes, "columns of a tile");
      for (std::int64_t row = tile * region_masks::kTileRows; row < (tile + 1) * region_masks::kTileRows; ++row) {
        const std::int64_t held = std::popcount(weight.at<std::uint32_t>("masks", row));
        weight.inside(weight.at<std::uint32_t>("firsts", row) + held, weight.fact("nonzeros") + 1, "place");
      }
    }
  }
}

void follow_scatter(Addresses& weight) {
  const auto name = split(weight.packing(), "_");
  const bool bytes = name[1] == "byte";
  const std::int64_t min_rounds = number_of(name.back(), "r");
  const std::int64_t fixed = bytes ? min_rounds / 4 * 3 : min_rounds;
  for (std::int64_t tile = 0; tile < weight.fact("row_blocks") * weight.fact("column_tiles"); ++tile) {
    const std::int64_t first = weight.at<std::uint32_t>("more_offsets", tile);
    const std::int64_t words = fixed + weight.at<std::uint32_t>("more_offsets", tile + 1) - first;
    weight.inside(words, scatter::kTileElements, "words of a tile");
    for (std::int64_t word = 0; word < words; ++word) {
      for (int lane = 0; lane < scatter::kLanes; ++lane) {
        const int stored =
            static_cast<int>(bytes ? scatter::fixed_order(static_cast<int>(min_rounds), static_cast<int>(word)) : word);
        const std::uint32_t bits =
            word < fixed
                ? weight.at<std::uint32_t>(
                      "entries", tile * fixed * 32 + scatter::fixed_index(static_cast<int>(fixed), lane, stored))
                : weight.at<std::uint32_t>("more_entries", (first + word - fixed) * 32 + lane);
        if (!bytes) weight.inside(bits >> 16, scatter::kTileBytes - 1, "byte of a tile");
        if (!bytes) weight.inside(bits >> 16 & 1U, 1, "alignment of an element");
        for (int i = 0; bytes && word % 3 == 0 && i < 4; ++i) {
          const std::uint32_t position = bits >> (8 * i) & 0xFFU;
          weight.inside((position >> 2) * 128 + 4 * (static_cast<std::uint32_t>(lane) + (position >> 1 & 1U)) +
                            2 * (position & 1U),
                        scatter::kTileBytes - 1, "byte of a tile");
        }
      }
    }
  }
}

void follow_panel(Addresses& weight) {
  const auto token_lanes = static_cast<int>(weight.fact("token_lanes"));
  const panel::StepWords words = panel::step_words(weight.packed().value_type, token_lanes, weight.cols());
  const std::int64_t limit = token_lanes > 0 ? weight.cols() + 1 : weight.fact("width") + panel::kZeroRows;
  const std::int64_t segments = weight.fact("segments");
  const auto store = static_cast<panel::RowStore>(weight.fact("row_store"));
  const bool whole_rows = store == panel::RowStore::kDirect || store == panel::RowStore::kStaged;
  const auto entries = weight.packed().array("entries")->as<std::uint32_t>();
  for (std::int64_t i = 0; i < weight.fact("parts") * weight.fact("column_parts"); ++i) {
    const auto part = weight.at<panel::Part>("parts", i);
    weight.inside(part.slot_count, weight.fact("slots") + 1, "slots");
    weight.inside(part.row_count, weight.fact("rows") + 1, "rows");
    weight.inside(std::int64_t{part.first_row} + part.row_count, weight.rows() + 1, "row");
    for (std::int64_t row = 0; row < part.row_count; ++row) {
      const std::uint32_t mask = whole_rows ? ~panel::kWholeRow : ~0U;
      weight.inside(weight.at<std::uint16_t>("row_slots", part.first_offset + row) & mask, part.slot_count + 1, "slot");
      weight.inside(weight.at<std::uint16_t>("row_slots", part.first_offset + row + 1) & mask, part.slot_count + 1,
                    "slot");
    }
    const auto look_up = [&](std::int64_t task) {
      for (std::int64_t segment = 0; segment < segments; ++segment) {
        std::uint32_t slot = weight.at<std::uint16_t>("task_slots", task * segments + segment);
        if (slot == panel::kNoSlot) continue;
        if (whole_rows && (slot & panel::kWholeRow) != 0) {
          weight.inside(slot & ~panel::kWholeRow, part.row_count, "whole row");
        } else {
          weight.inside(weight.fact("sweep_columns") > 0 ? slot & ~panel::kAddFlag : slot, part.slot_count, "slot");
        }
      }
    };
    for (std::int64_t s = i * weight.fact("warps"); s < (i + 1) * weight.fact("warps"); ++s) {
      const auto share = weight.at<panel::Share>("shares", s);
      std::vector<std::int64_t> task(static_cast<std::size_t>(words.lanes), share.first_task);
      for (std::int64_t step = 0; step < share.step_count; ++step) {
        const std::int64_t at = (s * weight.fact("share_steps") + step) * words.step();
        weight.at<std::uint32_t>("entries", at + words.step() - 1);
        for (int lane = 0; lane < words.lanes; ++lane) {
          for (int e = 0; e < words.entries(); ++e) {
            // As stored: what ends a task stands beside a lane's first row alone.
            std::uint32_t named = words.column(entries.data() + at, lane, e);
            weight.inside(named, limit, "row of the panel");
          }
          const std::uint32_t own = entries[static_cast<std::size_t>(
              at + (words.form == panel::EntryForm::kApart ? words.lanes * 4 + lane * 2 : lane * 4))];
          if ((own & words.task_end) != 0) look_up(task[static_cast<std::size_t>(lane)]++);
        }
      }
      for (const std::int64_t next : task)  // loaded, not used
        weight.at<std::uint16_t>("task_slots", (next + 1) * segments - 1);
    }
  }
}

void follow(std::string_view format, const PackedWeight& packed) {
  static const std::map<std::string_view, void (*)(Addresses&)> kFollow = {{"csr", follow_csr},
                                                                           {"slots", follow_slots},
                                                                           {"bitmap", follow_bitmap},
                                                                           {"bsr", follow_bsr},
                                                                           {"bsr_strips", follow_bsr_strips},
                                                                           {"scatter", follow_scatter},
                                                                           {"panel", follow_panel},
                                                                           {"region_masks", follow_region_masks},
                                                                           {"tile_masks", follow_tile_masks}};
  const auto follow_own = [](std::string_view of, const PackedWeight& weight) {
    Addresses addresses(weight);
    const auto found = kFollow.find(of);
    if (found != kFollow.end()) found->second(addresses);  // the others hold no addresses
  };
  follow_own(format, packed);
  const auto hybrid = HybridPacking::named(without_transposed(packed.packing));
  if (!hybrid) return;
  PackedWeight rest{.packing = hybrid->rest};
  rest.rows = is_transposed(packed.packing) ? packed.cols : packed.rows;
  rest.cols = is_transposed(packed.packing) ? packed.rows : packed.cols;
  for (const auto& [name, value] : packed.facts)
    if (name.starts_with(kRestPrefix)) rest.facts[name.substr(kRestPrefix.size())] = value;
  for (PackedArray array : packed.arrays) {
    if (!array.name.starts_with(kRestPrefix)) continue;
    array.name.erase(0, kRestPrefix.size());
    rest.arrays.push_back(std::move(array));
  }
  follow_own("csr", rest);
}

class PackedBoundsTest : public testing::TestWithParam<PackedFormat> {};

INSTANTIATE_TEST_SUITE_P(Formats, PackedBoundsTest, testing::ValuesIn(packed_formats().begin(), packed_formats().end()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(PackedBoundsTest, KernelsStayInside) {
  DrawnRandom random;
  int passed = 0;
  for (int round = 0; round < 60; ++round) {
    const auto drawn = draw_packing(random, GetParam().name);
    ASSERT_TRUE(drawn.ok()) << drawn.status().to_string();
    follow(GetParam().name, drawn->packed);
    for (int attempt = 0; attempt < 25; ++attempt) {
      PackedWeight packed = drawn->packed;
      damage(random, packed);
      if (attempt % 2 == 0) damage(random, packed);
      if (!check_packed(packed, {}, PackedCheck::kBounds).ok()) continue;
      ++passed;
      follow(GetParam().name, packed);
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(passed, GetParam().name == "csr" ? 5 : 50);
}

}  // namespace
}  // namespace sparsmith::test
