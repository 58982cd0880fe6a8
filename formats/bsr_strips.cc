#include "formats/bsr_strips.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "formats/bsr_strips_layout.h"
#include "formats/packed_reader.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

using bsr_strips::element_index;
using bsr_strips::kChunkBits;
using bsr_strips::kChunkColumns;
using bsr_strips::kNothing;
using bsr_strips::kQuarters;
using bsr_strips::kStepColumns;
using bsr_strips::kStripChunks;
using bsr_strips::kStripColumns;
using bsr_strips::kStripShift;
using bsr_strips::kTileElements;
using bsr_strips::kTileRows;

constexpr std::int64_t kStripLimit = std::int64_t{1} << (32 - kStripShift);

// How a weight is cut up, and where the elements of a step's tile lie: [row][column].
struct Grid {
  Grid(const BsrStripsPacking& packing, std::int64_t weight_rows, std::int64_t weight_cols)
      : tiles(packing.tiles),
        panel_rows(packing.rows()),
        panels(ceil_div(weight_rows, panel_rows)),
        strips(ceil_div(weight_cols, std::int64_t{kStripColumns})),
        quarter_strips(ceil_div(strips, std::int64_t{kQuarters})) {
    for (int row = 0; row < kTileRows; ++row)
      for (int column = 0; column < kStepColumns; ++column)
        places[row * kStepColumns + column] = static_cast<std::uint16_t>(element_index(row, column));
  }
  std::int64_t step_elements() const { return tiles * kTileElements; }
  // Of an element of a step.
  std::int64_t place(std::int64_t row, std::int64_t column) const {
    return row / kTileRows * kTileElements + places[row % kTileRows * kStepColumns + column];
  }

  std::int64_t tiles;  // of a panel
  std::int64_t panel_rows;
  std::int64_t panels;
  std::int64_t strips;
  std::int64_t quarter_strips;
  std::array<std::uint16_t, kTileElements> places;
};

std::optional<BsrStripsPacking> packing_named(std::string_view name) {
  for (const int tiles : {1, 2})
    if (const BsrStripsPacking packing{tiles}; packing.name() == name) return packing;
  return std::nullopt;
}

Status check(const BsrStripsPacking& packing, std::int64_t rows, std::int64_t cols, DataType /*type*/) {
  const Grid grid(packing, rows, cols);
  if (grid.strips < kStripLimit && grid.panels * grid.strips * (kStripChunks / 2) < std::int64_t{1} << 31) return {};
  return invalid_argument(fmt::format("bsr_strips: {} x {} exceeds 32-bit indices", rows, cols));
}

// The chunks of a panel, in ascending order.
std::vector<std::uint32_t> chunks_of(const CsrMatrix& matrix, std::int64_t first_row, std::int64_t end_row) {
  std::vector<std::uint32_t> chunks;
  for (std::int64_t i = matrix.row_offsets[first_row]; i < matrix.row_offsets[end_row]; ++i) {
    const std::uint32_t chunk = matrix.column_indices[i] / kChunkColumns;
    if (chunks.empty() || chunks.back() != chunk) chunks.push_back(chunk);
  }
  std::ranges::sort(chunks);
  chunks.erase(std::ranges::unique(chunks).begin(), chunks.end());
  return chunks;
}

// Pairs of chunks of the same strip become steps. Chunk i is half `halves[i] % 2` of step `halves[i] / 2`.
struct PanelSteps {
  std::vector<std::uint32_t> words;
  std::vector<std::uint32_t> chunks;
  std::vector<std::uint32_t> halves;
};
PanelSteps steps_of(std::vector<std::uint32_t> chunks) {
  PanelSteps steps;
  bool open = false;  // the last step lacks its second chunk
  for (const std::uint32_t chunk : chunks) {
    const std::uint32_t strip = chunk / kStripChunks;
    const std::uint32_t in_strip = chunk % kStripChunks;
    open = open && steps.words.back() >> kStripShift == strip;
    if (open) {
      std::uint32_t& word = steps.words.back();
      word = (word & ~((kStripChunks - 1U) << kChunkBits)) | in_strip << kChunkBits;
    } else {
      steps.words.push_back(strip << kStripShift | in_strip << kChunkBits | in_strip);
    }
    steps.halves.push_back(static_cast<std::uint32_t>(steps.words.size() - 1) * 2 + (open ? 1 : 0));
    open = !open;
  }
  steps.chunks = std::move(chunks);
  return steps;
}

Status pack_weight(const CsrMatrix& matrix, const BsrStripsPacking& packing, DataType type, PackedWeight& packed) {
  const Grid grid(packing, matrix.rows, matrix.cols);
  const auto first_row = [&](std::int64_t panel) { return std::min(matrix.rows, panel * grid.panel_rows); };
  std::vector<PanelSteps> panels(grid.panels);
  parallel_each(
      grid.panels,
      [&](std::int64_t panel) { panels[panel] = steps_of(chunks_of(matrix, first_row(panel), first_row(panel + 1))); },
      4);
  std::vector<std::uint32_t> order(grid.panels);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::greater(), [&](std::uint32_t panel) { return panels[panel].words.size(); });

  std::vector<std::uint32_t> words;
  std::vector<std::uint32_t> part_steps;
  for (const std::uint32_t panel : order) {
    const std::vector<std::uint32_t>& own = panels[panel].words;
    for (std::int64_t quarter = 0; quarter < kQuarters; ++quarter) {
      const auto first = static_cast<std::uint32_t>(std::min(grid.strips, quarter * grid.quarter_strips));
      const auto before =
          std::ranges::lower_bound(own, first, {}, [](std::uint32_t word) { return word >> kStripShift; });
      part_steps.push_back(static_cast<std::uint32_t>(std::ssize(words) + (before - own.begin())));
    }
    words.insert(words.end(), own.begin(), own.end());
  }
  part_steps.push_back(static_cast<std::uint32_t>(words.size()));
  packed.facts = {{"panels", grid.panels}, {"strips", grid.strips}, {"steps", std::ssize(words)}};

  PackedArray values{"values", type,
                     std::vector<std::byte>(words.size() * grid.step_elements() * sizeof(std::uint16_t))};
  const auto fill_panel = [&](std::int64_t place) {
    const std::int64_t panel = order[place];
    const PanelSteps& own = panels[panel];
    auto* const to =
        reinterpret_cast<std::uint16_t*>(values.bytes.data()) + part_steps[place * kQuarters] * grid.step_elements();
    std::fill_n(to, std::ssize(own.words) * grid.step_elements(), kNothing);
    for (std::int64_t row = first_row(panel); row < first_row(panel + 1); ++row) {
      std::int64_t chunk = 0;  // columns ascend in a row, too
      for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
        const std::uint32_t column = matrix.column_indices[i];
        while (own.chunks[chunk] < column / kChunkColumns) ++chunk;
        const std::uint32_t half = own.halves[chunk];
        to[half / 2 * grid.step_elements() +
           grid.place(row - first_row(panel), half % 2 * kChunkColumns + column % kChunkColumns)] =
            half_bits(matrix.values[i], type);
      }
    }
  };
  parallel_each(grid.panels, fill_panel, 4);
  packed.arrays.push_back(std::move(values));
  packed.arrays.push_back(array_of("steps", DataType::kUint32, words));
  packed.arrays.push_back(array_of("part_steps", DataType::kUint32, part_steps));
  packed.arrays.push_back(array_of("panels", DataType::kUint32, order));
  return {};
}

class BsrStripsReader : public PackedReader {
 public:
  BsrStripsReader(const PackedView& view, const BsrStripsPacking& packing, PackedParts& parts)
      : grid_(packing, view.rows, view.cols) {
    parts.expect_fact("panels", grid_.panels);
    parts.expect_fact("strips", grid_.strips);
    stored_ = parts.fact("steps", 0, (std::int64_t{1} << 31) - 1);
    values_ = parts.array<std::uint16_t>("values", view.value_type, stored_ * grid_.step_elements());
    words_ = parts.array<std::uint32_t>("steps", DataType::kUint32, stored_);
    part_steps_ = parts.array<std::uint32_t>("part_steps", DataType::kUint32, kQuarters * grid_.panels + 1);
    panels_ = parts.array<std::uint32_t>("panels", DataType::kUint32, grid_.panels);
  }

  Status check_bounds(int threads) override {
    if (part_steps_[0] != 0 || part_steps_[kQuarters * grid_.panels] != stored_)
      return invalid_input(fmt::format("part_steps does not share out {} steps", stored_));
    places_.assign(grid_.panels, -1);
    for (std::int64_t place = 0; place < grid_.panels; ++place) {
      const std::int64_t panel = panels_[place];
      if (panel >= grid_.panels || places_[panel] >= 0)
        return invalid_input(
            fmt::format("panels: place {} has panel {}, which is not there or has a place already", place, panel));
      places_[panel] = place;
    }
    return check_each(kQuarters * grid_.panels, 1024, threads, [&](std::int64_t part) { return check_part(part); });
  }

  std::int64_t units() const override { return grid_.panels; }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    rows.begin(unit, grid_.panel_rows);
    const std::int64_t first = part_steps_[places_[unit] * kQuarters];
    const std::int64_t end = part_steps_[(places_[unit] + 1) * kQuarters];
    for (std::int64_t step = first; step < end; ++step) SPARSMITH_RETURN_IF_ERROR(read_step(step, rows));
    return rows.store_from(unit * grid_.panel_rows);
  }

 private:
  std::int64_t chunk(std::int64_t step, int half) const {
    const std::int64_t word = words_[step];
    return (word >> kStripShift) * kStripChunks + (word >> half * kChunkBits) % kStripChunks;
  }

  // The steps of a quarter of a place: in order, in its strips.
  Status check_part(std::int64_t part) const {
    const std::int64_t last = part_steps_[part + 1];
    if (part_steps_[part] > last || last > stored_)
      return invalid_input(fmt::format("part_steps: quarter {} ends before it begins", part));
    const std::int64_t quarter = part % kQuarters;
    const std::int64_t first_strip = std::min(grid_.strips, quarter * grid_.quarter_strips);
    const std::int64_t end_strip = std::min(grid_.strips, (quarter + 1) * grid_.quarter_strips);
    std::int64_t before = first_strip * kStripChunks - 1;  // the last chunk
    for (std::int64_t step = part_steps_[part]; step < last; ++step) {
      for (const int half : {0, 1}) {
        const bool alone = half == 1 && chunk(step, 1) == chunk(step, 0);
        if (alone ? step + 1 < last && words_[step + 1] >> kStripShift == words_[step] >> kStripShift
                  : chunk(step, half) <= before)
          return invalid_input(fmt::format("steps: chunk {} of step {} follows {}", chunk(step, half), step, before));
        before = chunk(step, half);
      }
      if (before >= end_strip * kStripChunks)
        return invalid_input(fmt::format("steps: chunk {} of step {} is not in its quarter", before, step));
    }
    return {};
  }

  Status read_step(std::int64_t step, UnitRows& rows) const {
    const Elements<std::uint16_t> values(
        values_.bytes().subspan(step * grid_.step_elements() * 2, grid_.step_elements() * 2));
    for (const int half : {0, 1}) {
      const bool alone = half == 1 && chunk(step, 1) == chunk(step, 0);
      const auto first_column = static_cast<std::uint32_t>(chunk(step, half) * kChunkColumns);
      std::int64_t nonzeros = 0;
      for (std::int64_t row = 0; row < grid_.panel_rows; ++row) {
        UnitRows::Entry* const begin = rows.room(row, kChunkColumns);
        UnitRows::Entry* to = begin;
        for (std::uint32_t column = 0; column < kChunkColumns; ++column) {
          const std::uint16_t bits = values[grid_.place(row, half * kChunkColumns + column)];
          *to = {first_column + column, bits};
          to += bits != kNothing ? 1 : 0;
        }
        rows.take(row, to);
        nonzeros += to - begin;
      }
      if (alone != (nonzeros == 0))
        return invalid_input(
            fmt::format("half {} of step {} {}", half, step, alone ? "has elements of no chunk" : "holds nothing"));
    }
    return {};
  }

  const Grid grid_;
  std::int64_t stored_ = 0;  // steps
  Elements<std::uint16_t> values_;
  Elements<std::uint32_t> words_, part_steps_, panels_;
  std::vector<std::int64_t> places_;  // of panels
};

}  // namespace

std::string BsrStripsPacking::name() const { return fmt::format("bsr_strips_r{}", tiles); }

PackedFormat bsr_strips_format() {
  return format_of<BsrStripsReader, packing_named, pack_weight, 1, check>({.name = "bsr_strips",
                                                                           .value_arrays = {"values"},
                                                                           .values_alone = true,
                                                                           .halves_only = true,
                                                                           .leaves_rest = true});
}

}  // namespace sparsmith
