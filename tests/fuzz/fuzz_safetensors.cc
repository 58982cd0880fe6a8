#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "matrix/dense_matrix.h"
#include "matrix/safetensors.h"
#include "tests/fuzz/parsed_matrix.h"

namespace sparsmith {
namespace {

// Reads a matrix both ways; they must agree on whether it is sound.
void read_tensor(std::span<const std::byte> file, const SafetensorsEntry& entry) {
  const auto type = data_type_from_safetensors_name(entry.dtype);
  const bool is_weight = type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBFloat16;
  if (!is_weight || entry.shape.size() != 2) return;
  const DenseMatrix dense{file.data() + entry.begin, entry.shape[0], entry.shape[1], *type};
  const Result<CsrMatrix> matrix = csr_from_dense(dense);
  fuzz::expect_refused_or_valid(matrix);
  const Result<SparsityStatistics> statistics = compute_dense_statistics(dense, 1);
  if (matrix.ok() != statistics.ok() || (matrix.ok() && matrix->nnz() != statistics->nnz)) std::abort();
}

}  // namespace
}  // namespace sparsmith

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto header = sparsmith::parse_safetensors_header(file);
  if (!header.ok()) return 0;
  for (const auto& entry : header->tensors) sparsmith::read_tensor(file, entry);
  return 0;
}
