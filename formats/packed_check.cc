#include "formats/packed_check.h"

#include <fmt/format.h>

#include <utility>

#include "formats/packed_format.h"
#include "formats/packed_reader.h"

namespace sparsmith {
namespace {

Result<std::unique_ptr<PackedReader>> reader_of(const PackedFormat& format, const PackedView& packed, int threads) {
  SPARSMITH_ASSIGN_OR_RETURN(auto reader, format.open(packed));
  SPARSMITH_RETURN_IF_ERROR(reader->check_bounds(threads));
  return reader;
}

Result<UnpackedRows> rows_of(const PackedFormat& format, const PackedView& packed, const PackedReader& reader,
                             int threads) {
  SPARSMITH_ASSIGN_OR_RETURN(UnpackedRows rows, UnpackedRows::read(packed, reader, format.negative_zeros, threads));
  SPARSMITH_RETURN_IF_ERROR(reader.check_whole(rows));
  return rows;
}

// As the packer of the rows had it.
PackedView as_packed(PackedView view) {
  if (is_transposed(view.packing)) std::swap(view.rows, view.cols);
  view.packing = without_transposed(view.packing);
  return view;
}

PackedClaim claim_of(const CsrMatrix& matrix) { return {matrix.nnz(), matrix.pattern_hash(), matrix.value_hash()}; }

Status check_with(const PackedFormat& format, const PackedView& packed, const PackedClaim& claim, PackedCheck depth,
                  int threads) {
  const PackedView view = as_packed(packed);
  SPARSMITH_ASSIGN_OR_RETURN(const auto reader, reader_of(format, view, threads));
  if (depth == PackedCheck::kBounds) return {};
  SPARSMITH_ASSIGN_OR_RETURN(const UnpackedRows rows, rows_of(format, view, *reader, threads));
  const PackedClaim held = is_transposed(packed.packing) ? claim_of(transposed(rows.matrix())) : rows.claim(threads);
  if (held.nnz != claim.nnz) return invalid_input(fmt::format("{} nonzeros, not {}", held.nnz, claim.nnz));
  if (held.pattern_hash != claim.pattern_hash) return invalid_input("nonzeros of another weight: the pattern differs");
  if (held.value_hash != claim.value_hash) return invalid_input("values of another weight");
  return {};
}

Result<CsrMatrix> unpack_with(const PackedFormat& format, const PackedView& packed) {
  const PackedView view = as_packed(packed);
  const int threads = worthwhile_threads(view, 0);
  SPARSMITH_ASSIGN_OR_RETURN(const auto reader, reader_of(format, view, threads));
  SPARSMITH_ASSIGN_OR_RETURN(const UnpackedRows rows, rows_of(format, view, *reader, threads));
  return is_transposed(packed.packing) ? transposed(rows.matrix()) : rows.matrix();
}

}  // namespace

Status check_packed(const PackedView& packed, const PackedClaim& claim, PackedCheck depth, int threads) {
  SPARSMITH_ASSIGN_OR_RETURN(const PackedFormat* format, packed_format(packed.packing));
  const Status status = check_with(*format, packed, claim, depth, worthwhile_threads(packed, threads));
  return status.ok() ? status : status.annotate("packing " + std::string(packed.packing));
}

Result<CsrMatrix> unpack(const PackedWeight& packed) {
  SPARSMITH_ASSIGN_OR_RETURN(const PackedFormat* format, packed_format(packed.packing));
  std::vector<PackedArrayView> arrays;
  for (const PackedArray& array : packed.arrays) arrays.push_back({array.name, array.type, array.bytes});
  Result<CsrMatrix> matrix = unpack_with(*format, {packed.packing, packed.packer_version, packed.rows, packed.cols,
                                                   packed.value_type, arrays, &packed.facts});
  return matrix.ok() ? std::move(matrix) : matrix.status().annotate(packed.packing);
}

}  // namespace sparsmith
