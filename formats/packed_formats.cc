#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "formats/coding.h"
#include "formats/hybrid.h"
#include "formats/packed_format.h"

namespace sparsmith {

PackedFormat bitmap_format();
PackedFormat bsr_format();
PackedFormat bsr_strips_format();
PackedFormat csr_format();
PackedFormat dense_format();
PackedFormat panel_format();
PackedFormat region_masks_format();
PackedFormat scatter_format();
PackedFormat slots_format();
PackedFormat tile_masks_format();
PackedFormat two_four_format();

std::span<const PackedFormat> packed_formats() {
  // A name that begins with another one stands before it.
  static const PackedFormat kFormats[] = {bitmap_format(), bsr_strips_format(), bsr_format(),          csr_format(),
                                          dense_format(),  panel_format(),      region_masks_format(), scatter_format(),
                                          slots_format(),  tile_masks_format(), two_four_format()};
  return kFormats;
}

Result<const PackedFormat*> packed_format(std::string_view packing) {
  for (const PackedFormat& format : packed_formats()) {
    const std::string_view rest = packing.substr(std::min(packing.size(), format.name.size()));
    if (packing.starts_with(format.name) && (rest.empty() || rest.front() == '_')) return &format;
  }
  return invalid_input(fmt::format("\"{:.100}\" is a packing of no format that this program knows", packing));
}

std::vector<std::string> value_array_names(std::string_view packing) {
  const auto names = [](std::string_view of, std::string_view prefix, std::vector<std::string>& all) {
    for (const std::string_view name : packed_format(of).value()->value_arrays)
      all.push_back(fmt::format("{}{}", prefix, name));
  };
  std::vector<std::string> all;
  names(packing, "", all);
  if (const auto hybrid = HybridPacking::named(without_transposed(packing))) names(hybrid->rest, kRestPrefix, all);
  return all;
}

bool holds_values(std::string_view packing) {
  const Result<const PackedFormat*> format = packed_format(packing);
  return format.ok() && !(*format)->value_arrays.empty();
}

Status check_value_type(const PackedFormat& format, DataType type) {
  if (type == DataType::kFloat16 || type == DataType::kBFloat16) return {};
  if (type == DataType::kFloat32 && !format.halves_only) return {};
  return invalid_argument(fmt::format("{}: values are {}fp16 or bf16, not {}", format.name,
                                      format.halves_only ? "" : "fp32, ", short_name(type)));
}

namespace {
constexpr std::string_view kTransposed = "_transposed";
}

bool is_transposed(std::string_view packing) { return packing.ends_with(kTransposed); }

std::string transposed_packing(std::string_view packing) { return std::string(packing) + std::string(kTransposed); }

std::string_view without_transposed(std::string_view packing) {
  return packing.substr(0, packing.size() - (is_transposed(packing) ? kTransposed.size() : 0));
}

namespace {

Result<PackedWeight> pack_coded(const PackedFormat& format, const Coding& coding, std::string_view packing,
                                const CsrMatrix& matrix, DataType type) {
  if (!format.codes) return invalid_argument(fmt::format("{}: {} packings hold no codes", packing, format.name));
  if (!std::ranges::all_of(matrix.values, [](float value) { return std::isfinite(value); }))
    return invalid_argument(fmt::format("{}: a value that is not finite has no code", packing));
  CodedWeight coded = coding.encode(matrix, type);
  SPARSMITH_ASSIGN_OR_RETURN(PackedWeight packed, format.pack(without_coding(packing), coded.codes, coding.stored));
  packed.packing = packing;
  packed.value_type = type;
  packed.arrays.push_back({kScales, coding.scale, std::move(coded.scales)});
  return packed;
}

Result<PackedWeight> pack_hybrid(const HybridPacking& packing, const CsrMatrix& matrix, DataType type) {
  const auto pack_part = [&](const std::string& part, const CsrMatrix& of) -> Result<PackedWeight> {
    SPARSMITH_ASSIGN_OR_RETURN(const PackedFormat* format, packed_format(part));
    return format->pack(part, of, type);
  };
  const HybridParts parts = split_hybrid(matrix, packing.block);
  SPARSMITH_ASSIGN_OR_RETURN(PackedWeight structured, pack_part(packing.structured, parts.structured));
  SPARSMITH_ASSIGN_OR_RETURN(PackedWeight rest, pack_part(packing.rest, parts.rest));
  return join_packed(packing, std::move(structured), std::move(rest));
}

Result<PackedWeight> pack_rows(std::string_view packing, const CsrMatrix& matrix, DataType type) {
  SPARSMITH_ASSIGN_OR_RETURN(const PackedFormat* format, packed_format(packing));
  SPARSMITH_RETURN_IF_ERROR(check_value_type(*format, type));
  const Coding* const coding = coding_of(packing);
  if (coding != nullptr) return pack_coded(*format, *coding, packing, matrix, type);
  if (const auto hybrid = HybridPacking::named(packing)) return pack_hybrid(*hybrid, matrix, type);
  return format->pack(packing, matrix, type);
}

}  // namespace

Result<PackedWeight> pack(std::string_view packing, const CsrMatrix& matrix, DataType type) {
  if (!is_transposed(packing)) return pack_rows(packing, matrix, type);
  SPARSMITH_ASSIGN_OR_RETURN(PackedWeight packed, pack_rows(without_transposed(packing), transposed(matrix), type));
  packed.packing = packing;
  std::swap(packed.rows, packed.cols);
  return packed;
}

}  // namespace sparsmith
