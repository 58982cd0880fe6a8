#include "formats/csr.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "formats/csr_layout.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

std::vector<std::uint32_t> ordered_rows(const CsrMatrix& matrix, RowOrder order) {
  std::vector<std::uint32_t> rows(static_cast<std::size_t>(matrix.rows));
  std::iota(rows.begin(), rows.end(), 0U);
  if (order == RowOrder::kNatural) return rows;
  const auto key = [&](std::uint32_t row) {
    const auto length = static_cast<std::uint64_t>(matrix.row_length(row));
    return order == RowOrder::kSorted ? length : static_cast<std::uint64_t>(std::bit_width(length));
  };
  std::stable_sort(rows.begin(), rows.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) > key(b); });
  return rows;
}

template <class T>
PackedArray array_of(std::string name, DataType type, const std::vector<T>& elements) {
  PackedArray array{std::move(name), type, {}};
  array.bytes.resize(elements.size() * sizeof(T));
  if (!elements.empty()) std::memcpy(array.bytes.data(), elements.data(), array.bytes.size());
  return array;
}

// The segments of a weight and where each one's nonzeros come from.
struct Segmentation {
  std::vector<csr::Segment> segments;
  std::vector<std::int64_t> sources;  // first nonzero of each segment in the matrix
  std::vector<std::uint32_t> targets;
  std::vector<std::uint32_t> split_rows;
  std::vector<std::uint32_t> slot_offsets{0};
  std::int64_t stored = 0;
};

Segmentation cut(const CsrMatrix& matrix, const CsrPacking& packing) {
  Segmentation result;
  const auto add = [&](std::int64_t source, std::int64_t length, std::uint32_t target) {
    result.segments.push_back({static_cast<unsigned>(result.stored), static_cast<unsigned>(length)});
    result.sources.push_back(source);
    result.targets.push_back(target);
    result.stored += (length + packing.alignment - 1) / packing.alignment * packing.alignment;
  };
  for (const std::uint32_t row : ordered_rows(matrix, packing.order)) {
    const std::int64_t begin = matrix.row_offsets[row];
    const std::int64_t length = matrix.row_length(row);
    if (packing.split_length == 0 || length <= packing.split_length) {
      add(begin, length, row);
      continue;
    }
    const std::int64_t pieces = (length + packing.split_length - 1) / packing.split_length;
    const std::uint32_t first_slot = result.slot_offsets.back();
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const std::int64_t at = piece * packing.split_length;
      const auto slot =
          first_slot + (packing.partials == PartialSums::kTwoPass ? static_cast<std::uint32_t>(piece) : 0U);
      add(begin + at, std::min(packing.split_length, length - at), csr::kPartialFlag | slot);
    }
    result.split_rows.push_back(row);
    result.slot_offsets.push_back(
        first_slot + (packing.partials == PartialSums::kTwoPass ? static_cast<std::uint32_t>(pieces) : 1U));
  }
  return result;
}

template <class Index>
PackedArray pack_columns(const CsrMatrix& matrix, const Segmentation& cuts, DataType type) {
  PackedArray array{"columns", type, std::vector<std::byte>(static_cast<std::size_t>(cuts.stored) * sizeof(Index))};
  auto* columns = reinterpret_cast<Index*>(array.bytes.data());
  for (std::size_t s = 0; s < cuts.segments.size(); ++s) {
    const std::uint32_t* from = matrix.column_indices.data() + cuts.sources[s];
    std::transform(from, from + cuts.segments[s].length, columns + cuts.segments[s].first,
                   [](std::uint32_t column) { return static_cast<Index>(column); });
  }
  return array;
}

template <class Stored, class Convert>
PackedArray pack_values(const CsrMatrix& matrix, const Segmentation& cuts, DataType type, Convert convert) {
  PackedArray array{"values", type, std::vector<std::byte>(static_cast<std::size_t>(cuts.stored) * sizeof(Stored))};
  auto* values = reinterpret_cast<Stored*>(array.bytes.data());
  for (std::size_t s = 0; s < cuts.segments.size(); ++s) {
    const float* from = matrix.values.data() + cuts.sources[s];
    std::transform(from, from + cuts.segments[s].length, values + cuts.segments[s].first, convert);
  }
  return array;
}

Status check(const CsrMatrix& matrix, const CsrPacking& packing, DataType type) {
  if (packing.index_bytes != 2 && packing.index_bytes != 4)
    return invalid_argument(fmt::format("csr: columns take 2 or 4 bytes, not {}", packing.index_bytes));
  if (packing.index_bytes == 2 && matrix.cols > 65536)
    return invalid_argument(fmt::format("csr: K = {} does not fit 16-bit columns; pack with 32-bit ones", matrix.cols));
  if (packing.alignment < 1 || packing.alignment > 8 || !std::has_single_bit(static_cast<unsigned>(packing.alignment)))
    return invalid_argument(fmt::format("csr: alignment is 1, 2, 4 or 8, not {}", packing.alignment));
  if (packing.split_length < 0 || packing.split_length % packing.alignment != 0)
    return invalid_argument(fmt::format("csr: split length {} is no multiple of the alignment {}", packing.split_length,
                                        packing.alignment));
  if ((packing.split_length == 0) != (packing.partials == PartialSums::kNone))
    return invalid_argument("csr: partial sums are kept exactly when rows are split");
  if (matrix.rows >= (std::int64_t{1} << 31) || matrix.nnz() + matrix.rows * 7 >= (std::int64_t{1} << 32))
    return invalid_argument(
        fmt::format("csr: {} rows with {} nonzeros exceed 32-bit offsets", matrix.rows, matrix.nnz()));
  if (type != DataType::kFloat32 && type != DataType::kFloat16 && type != DataType::kBFloat16 &&
      type != DataType::kInt8)
    return invalid_argument(
        fmt::format("csr: values are fp32, fp16 or bf16, or 8-bit codes, not {}", short_name(type)));
  if (size_of(type) * static_cast<std::size_t>(packing.alignment) < 2)
    return invalid_argument("csr: 8-bit codes are loaded by two at least; align to 2");
  return {};
}

}  // namespace

std::string_view row_order_name(RowOrder order) {
  switch (order) {
    case RowOrder::kNatural: return "natural";
    case RowOrder::kSorted: return "sorted";
    case RowOrder::kBinned: return "binned";
  }
  return "?";
}

std::string_view partial_sums_name(PartialSums partials) {
  switch (partials) {
    case PartialSums::kNone: return "none";
    case PartialSums::kAtomic: return "atomic";
    case PartialSums::kTwoPass: return "two_pass";
  }
  return "?";
}

std::string CsrPacking::name() const {
  std::string text = fmt::format("csr_u{}_a{}_{}", index_bytes * 8, alignment, row_order_name(order));
  if (split_length > 0) text += fmt::format("_l{}_{}", split_length, partial_sums_name(partials));
  return text;
}

Result<PackedWeight> pack_csr(const CsrMatrix& matrix, const CsrPacking& packing, DataType type) {
  SPARSMITH_RETURN_IF_ERROR(check(matrix, packing, type));
  const Segmentation cuts = cut(matrix, packing);
  PackedWeight packed;
  packed.packing = packing.name();
  packed.rows = matrix.rows;
  packed.cols = matrix.cols;
  packed.nnz = matrix.nnz();
  packed.value_type = type;
  packed.arrays.push_back(array_of("segments", DataType::kUint32, cuts.segments));
  packed.arrays.push_back(packing.index_bytes == 2 ? pack_columns<std::uint16_t>(matrix, cuts, DataType::kUint16)
                                                   : pack_columns<std::uint32_t>(matrix, cuts, DataType::kUint32));
  switch (type) {
    case DataType::kFloat16:
      packed.arrays.push_back(pack_values<std::uint16_t>(
          matrix, cuts, type, [](float value) { return half_bits(value, DataType::kFloat16); }));
      break;
    case DataType::kBFloat16:
      packed.arrays.push_back(pack_values<std::uint16_t>(
          matrix, cuts, type, [](float value) { return half_bits(value, DataType::kBFloat16); }));
      break;
    case DataType::kInt8:
      packed.arrays.push_back(
          pack_values<std::int8_t>(matrix, cuts, type, [](float value) { return static_cast<std::int8_t>(value); }));
      break;
    default:
      packed.arrays.push_back(pack_values<float>(matrix, cuts, type, [](float value) { return value + 0.0F; }));
      break;
  }
  const bool has_targets = packing.order != RowOrder::kNatural || packing.split_length > 0;
  if (has_targets) packed.arrays.push_back(array_of("targets", DataType::kUint32, cuts.targets));
  if (!cuts.split_rows.empty()) {
    packed.arrays.push_back(array_of("split_rows", DataType::kUint32, cuts.split_rows));
    packed.arrays.push_back(array_of("slot_offsets", DataType::kUint32, cuts.slot_offsets));
  }
  packed.facts = {{"segments", static_cast<std::int64_t>(cuts.segments.size())},
                  {"split_rows", static_cast<std::int64_t>(cuts.split_rows.size())},
                  {"slots", cuts.slot_offsets.back()},
                  {"stored", cuts.stored},
                  {"has_targets", has_targets ? 1 : 0}};
  return packed;
}

}  // namespace sparsmith
