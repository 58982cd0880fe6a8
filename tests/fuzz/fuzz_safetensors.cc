#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "matrix/bitmask_matrix.h"
#include "matrix/dense_matrix.h"
#include "matrix/safetensors.h"
#include "tests/fuzz/parsed_matrix.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kMost = 1 << 28;

bool is_weight(const SafetensorsEntry& entry) {
  const auto type = data_type_from_safetensors_name(entry.dtype);
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBFloat16;
}

// Reads a matrix both ways; they must agree on whether it is sound.
void read_tensor(std::span<const std::byte> file, const SafetensorsEntry& entry) {
  if (!is_weight(entry) || entry.shape.size() != 2) return;
  const DenseMatrix dense{file.data() + entry.begin, entry.shape[0], entry.shape[1],
                          *data_type_from_safetensors_name(entry.dtype)};
  const Result<CsrMatrix> matrix = csr_from_dense(dense);
  fuzz::expect_refused_or_valid(matrix);
  const Result<SparsityStatistics> statistics = compute_dense_statistics(dense, 1);
  if (matrix.ok() != statistics.ok() || (matrix.ok() && matrix->nnz() != statistics->nnz)) std::abort();
}

// Columns whose counters are worth the time.
constexpr std::int64_t kMostCounted = 1 << 16;

// A weight that is read has one bit for each element, whatever the value.
void read_compressed(std::span<const std::byte> file, std::string_view module, const BitmaskTensors& tensors) {
  const Result<BitmaskMatrix> weight = bitmask_matrix(module, tensors, {&file, 1});
  const SafetensorsEntry* const compressed = tensors.find(BitmaskPart::kCompressed);
  if (!weight.ok() || !is_weight(*compressed)) return;
  const Result<CsrMatrix> matrix = csr_from_bitmask(*weight, kMost);
  fuzz::expect_refused_or_valid(matrix);
  if (weight->cols <= kMostCounted && matrix.status().code() != StatusCode::kOutOfMemory) {
    const Result<SparsityStatistics> statistics = compute_bitmask_statistics(*weight, 1);
    if (matrix.status().to_string() != statistics.status().to_string()) std::abort();
    if (matrix.ok() && matrix->nnz() != statistics->nnz) std::abort();
  }
  if (!matrix.ok()) return;
  std::int64_t bits = 0;
  for (const std::byte byte : weight->bitmask) bits += std::popcount(std::to_integer<unsigned>(byte));
  if (bits != weight->stored || matrix->nnz() > bits) std::abort();
}

}  // namespace
}  // namespace sparsmith

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto header = sparsmith::parse_safetensors_header(file);
  if (!header.ok()) return 0;
  for (const auto& entry : header->tensors) sparsmith::read_tensor(file, entry);
  for (const auto& [module, tensors] : sparsmith::find_bitmask_tensors({&*header, 1}))
    sparsmith::read_compressed(file, module, tensors);
  return 0;
}
