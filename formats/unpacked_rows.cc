#include "formats/unpacked_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/half.h"

namespace sparsmith {
namespace {

float value_of(std::uint32_t bits, DataType type) {
  switch (type) {
    case DataType::kFloat16: return float_from_fp16(static_cast<std::uint16_t>(bits));
    case DataType::kBFloat16: return float_from_bf16(static_cast<std::uint16_t>(bits));
    default: return std::bit_cast<float>(bits);
  }
}

}  // namespace

Result<UnpackedRows> UnpackedRows::create(const PackedWeight& packed, std::int64_t described) {
  const Status shape = check_matrix_shape(packed.rows, packed.cols);
  if (!shape.ok()) return invalid_input(fmt::format("{}: {}", packed.packing, shape.message()));
  if (packed.rows > described)
    return invalid_input(
        fmt::format("{}: {} rows, of which its arrays hold {} at most", packed.packing, packed.rows, described));
  if (packed.value_type != DataType::kFloat32 && packed.value_type != DataType::kFloat16 &&
      packed.value_type != DataType::kBFloat16)
    return invalid_input(fmt::format("{}: values are fp32, fp16 or bf16", packed.packing));
  UnpackedRows result;
  result.matrix_.rows = packed.rows;
  result.matrix_.cols = packed.cols;
  result.matrix_.data_type = packed.value_type;
  result.rows_.resize(static_cast<std::size_t>(packed.rows));
  return result;
}

Result<CsrMatrix> UnpackedRows::matrix() && {
  matrix_.row_offsets.reserve(rows_.size() + 1);
  for (auto& row : rows_) {
    std::sort(row.begin(), row.end(), [](const Entry& a, const Entry& b) { return a.column < b.column; });
    for (const Entry& entry : row) {
      matrix_.column_indices.push_back(entry.column);
      matrix_.values.push_back(value_of(entry.value, matrix_.data_type));
    }
    matrix_.row_offsets.push_back(matrix_.nnz());
  }
  const Status status = matrix_.validate();
  if (!status.ok()) return invalid_input(status.message());
  return std::move(matrix_);
}

}  // namespace sparsmith
