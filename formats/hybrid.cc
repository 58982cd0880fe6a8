#include "formats/hybrid.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/ceil_div.h"
#include "formats/packed_format.h"

namespace sparsmith {
namespace {

constexpr std::string_view kRest = "_rest_";
constexpr int kVersions = 100;  // of the packers of rests
constexpr int kBlocks[] = {0, 8, 16, 32, 64};

std::string structure_name(int block) { return block == 0 ? "2of4" : fmt::format("b{}", block); }

// Calls take(row, nonzero, whether it is of the structured part) for each nonzero in order.
template <class Take>
void each_of_groups(const SparsityPattern& pattern, const Take& take) {
  for (std::int64_t row = 0; row < pattern.rows; ++row) {
    std::int64_t first = pattern.row_offsets[row];  // of the group
    for (std::int64_t i = first; i < pattern.row_offsets[row + 1]; ++i) {
      if (pattern.column_indices[i] / 4 != pattern.column_indices[first] / 4) first = i;
      take(row, i, i < first + 2);
    }
  }
}

template <class Take>
void each_of_blocks(const SparsityPattern& pattern, std::int64_t block, const Take& take) {
  std::vector<std::int64_t> nonzeros(ceil_div(pattern.cols, block));  // of the blocks of a band of rows
  const auto column = [&](std::int64_t i) { return pattern.column_indices[i] / static_cast<std::uint32_t>(block); };
  for (std::int64_t first = 0; first < pattern.rows; first += block) {
    const std::int64_t end = std::min(pattern.rows, first + block);
    for (std::int64_t i = pattern.row_offsets[first]; i < pattern.row_offsets[end]; ++i) ++nonzeros[column(i)];
    for (std::int64_t row = first; row < end; ++row)
      for (std::int64_t i = pattern.row_offsets[row]; i < pattern.row_offsets[row + 1]; ++i)
        take(row, i, 2 * nonzeros[column(i)] >= block * block);
    // Takes no time for blocks that hold nothing: a weight may have far more of them than nonzeros.
    for (std::int64_t i = pattern.row_offsets[first]; i < pattern.row_offsets[end]; ++i) nonzeros[column(i)] = 0;
  }
}

bool same_pattern(const CsrMatrix& a, const CsrMatrix& b) {
  return a.row_offsets == b.row_offsets && a.column_indices == b.column_indices;
}

}  // namespace

std::string HybridPacking::name() const {
  return fmt::format("{}{}{}_{}", structured, kRest, structure_name(block), rest);
}

std::optional<HybridPacking> HybridPacking::named(std::string_view packing) {
  const std::size_t at = packing.find(kRest);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view behind = packing.substr(at + kRest.size());
  for (const int block : kBlocks) {
    const std::string structure = structure_name(block) + "_";
    if (!behind.starts_with(structure + "csr_")) continue;
    HybridPacking named{std::string(packing.substr(0, at)), block, std::string(behind.substr(structure.size()))};
    const Result<const PackedFormat*> format = packed_format(named.structured);
    if (format.ok() && (*format)->leaves_rest) return named;
  }
  return std::nullopt;
}

HybridParts split_hybrid(const CsrMatrix& matrix, int block) {
  HybridParts parts;
  for (CsrMatrix* part : {&parts.structured, &parts.rest}) {
    part->rows = matrix.rows;
    part->cols = matrix.cols;
    part->data_type = matrix.data_type;
    part->row_offsets.assign(matrix.rows + 1, 0);
  }
  const auto take = [&](std::int64_t row, std::int64_t i, bool structured) {
    CsrMatrix& part = structured ? parts.structured : parts.rest;
    part.column_indices.push_back(matrix.column_indices[i]);
    part.values.push_back(matrix.values[i]);
    part.row_offsets[row + 1] = part.nnz();
  };
  if (block == 0) {
    each_of_groups(matrix, take);
  } else {
    each_of_blocks(matrix, block, take);
  }
  for (CsrMatrix* part : {&parts.structured, &parts.rest})  // rows that hold nothing
    for (std::int64_t row = 0; row < matrix.rows; ++row)
      part->row_offsets[row + 1] = std::max(part->row_offsets[row + 1], part->row_offsets[row]);
  return parts;
}

Result<CsrMatrix> joined_hybrid(const HybridParts& parts, int block) {
  const auto& [structured, rest] = parts;
  CsrMatrix joined = structured;
  joined.column_indices.clear();
  joined.values.clear();
  for (std::int64_t row = 0; row < joined.rows; ++row) {
    std::int64_t own = structured.row_offsets[row];
    std::int64_t other = rest.row_offsets[row];
    const auto take = [&](const CsrMatrix& from, std::int64_t& i) {
      joined.column_indices.push_back(from.column_indices[i]);
      joined.values.push_back(from.values[i]);
      ++i;
    };
    while (own < structured.row_offsets[row + 1] || other < rest.row_offsets[row + 1]) {
      if (other == rest.row_offsets[row + 1] ||
          (own < structured.row_offsets[row + 1] && structured.column_indices[own] < rest.column_indices[other])) {
        take(structured, own);
      } else if (own < structured.row_offsets[row + 1] &&
                 structured.column_indices[own] == rest.column_indices[other]) {
        return invalid_input(fmt::format("row {}: column {} is in the structured part and in the rest", row,
                                         rest.column_indices[other]));
      } else {
        take(rest, other);
      }
    }
    joined.row_offsets[row + 1] = joined.nnz();
  }
  const HybridParts again = split_hybrid(joined, block);
  if (!same_pattern(again.structured, structured) || !same_pattern(again.rest, rest))
    return invalid_input(
        fmt::format("nonzeros of the rest are of the structure {}, or the other way round", structure_name(block)));
  return joined;
}

PackedWeight join_packed(const HybridPacking& packing, PackedWeight structured, PackedWeight rest) {
  PackedWeight packed = std::move(structured);
  packed.packing = packing.name();
  packed.packer_version = packed.packer_version * kVersions + rest.packer_version;
  packed.nnz += rest.nnz;
  for (PackedArray& array : rest.arrays) {
    array.name.insert(0, kRestPrefix);
    packed.arrays.push_back(std::move(array));
  }
  for (const auto& [name, value] : rest.facts) packed.facts[std::string(kRestPrefix) + name] = value;
  return packed;
}

HybridView::HybridView(const HybridPacking& packing, const PackedView& packed) : packing_(packing) {
  // Whose it is; without its prefix.
  const auto part_of = [](std::string& name) -> std::size_t {
    if (!name.starts_with(kRestPrefix)) return 0;
    name.erase(0, kRestPrefix.size());
    return 1;
  };
  for (PackedArrayView array : packed.arrays) {
    const std::size_t part = part_of(array.name);
    arrays_[part].push_back(std::move(array));
  }
  if (packed.facts != nullptr) {
    for (const auto& [name, value] : *packed.facts) {
      std::string own = name;
      const std::size_t part = part_of(own);
      facts_[part][own] = value;
    }
  }
  parts_ = {packed, packed};
  parts_[0].packing = packing_.structured;
  parts_[1].packing = packing_.rest;
  parts_[0].packer_version = packed.packer_version / kVersions;
  parts_[1].packer_version = packed.packer_version % kVersions;
  for (std::size_t part = 0; part < 2; ++part) {
    parts_[part].arrays = arrays_[part];
    parts_[part].facts = &facts_[part];
  }
}

}  // namespace sparsmith
