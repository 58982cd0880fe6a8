#include "matrix/dense_matrix.h"
#include "matrix/mask_statistics.h"

namespace sparsmith {

Result<SparsityStatistics> compute_dense_statistics(const DenseMatrix& matrix, int threads,
                                                    const ReleaseBytes& release) {
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(matrix.rows, matrix.cols));
  PatternCounts counts(matrix);
  const auto row_bytes = static_cast<std::int64_t>(matrix.row_bytes());
  MaskedRows rows{.read = [&](std::int64_t row, std::uint64_t* mask) { return nonzero_mask(matrix, row, mask); },
                  .row_bytes = row_bytes};
  if (release)
    rows.release = [&](std::int64_t begin, std::int64_t end) { release(begin * row_bytes, (end - begin) * row_bytes); };
  const std::int64_t first_bad_row = count_masks(rows, threads, counts);
  // Once more as a whole: the system maps pages around a fault, so some came back after their chunk was released.
  if (release) release(0, matrix.rows * row_bytes);
  if (first_bad_row < matrix.rows) return not_finite_error(matrix, first_bad_row);
  return statistics_of(std::move(counts));
}

}  // namespace sparsmith
