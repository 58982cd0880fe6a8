#include "formats/packed_check.h"

#include <fmt/format.h>

#include <utility>

#include "formats/coding.h"
#include "formats/packed_format.h"
#include "formats/packed_reader.h"

namespace sparsmith {
namespace {

// A packed weight as the packer of its rows had it: not transposed, and of codes without their scales.
class InnerView {
 public:
  explicit InnerView(const PackedView& packed) : view_(packed), type_(packed.value_type) {
    if (is_transposed(packed.packing)) std::swap(view_.rows, view_.cols);
    view_.packing = without_transposed(packed.packing);
    coding_ = coding_of(view_.packing);
    if (coding_ == nullptr) return;
    view_.packing = without_coding(view_.packing);
    view_.value_type = coding_->stored;
    for (const PackedArrayView& array : packed.arrays) (array.name == kScales ? scales_ : codes_).push_back(array);
    view_.arrays = codes_;
  }
  InnerView(const InnerView&) = delete;
  InnerView& operator=(const InnerView&) = delete;

  const PackedView& view() const { return view_; }
  bool is_coded() const { return coding_ != nullptr; }

  Status check(const PackedFormat& format) const {
    if (const Status status = check_value_type(format, type_); !status.ok()) return invalid_input(status.message());
    if (coding_ == nullptr) return {};
    SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(view_.rows, view_.cols));
    const std::int64_t count = view_.rows * coding_->scales_of_row(view_.cols);
    const bool sound = format.codes && scales_.size() == 1 && scales_[0].type == coding_->scale &&
                       std::ssize(scales_[0].bytes) == count * static_cast<std::int64_t>(size_of(coding_->scale));
    return sound ? Status{} : invalid_input(fmt::format("array {} is missing, or not of {} elements", kScales, count));
  }

  // What `rows`, which are its own, make the weight.
  Result<CsrMatrix> matrix(const UnpackedRows& rows) const {
    return coding_ == nullptr ? rows.matrix() : coding_->decode(rows.matrix(), scales_[0].bytes, type_);
  }

 private:
  PackedView view_;
  DataType type_;
  const Coding* coding_ = nullptr;
  std::vector<PackedArrayView> codes_;
  std::vector<PackedArrayView> scales_;
};

Result<std::unique_ptr<PackedReader>> reader_of(const PackedFormat& format, const InnerView& inner, int threads) {
  SPARSMITH_RETURN_IF_ERROR(inner.check(format));
  SPARSMITH_ASSIGN_OR_RETURN(auto reader, format.open(inner.view()));
  SPARSMITH_RETURN_IF_ERROR(reader->check_bounds(threads));
  return reader;
}

Result<UnpackedRows> rows_of(const PackedFormat& format, const PackedView& packed, const PackedReader& reader,
                             int threads) {
  SPARSMITH_ASSIGN_OR_RETURN(UnpackedRows rows, UnpackedRows::read(packed, reader, format.negative_zeros, threads));
  SPARSMITH_RETURN_IF_ERROR(reader.check_whole(rows));
  return rows;
}

PackedClaim claim_of(const CsrMatrix& matrix) { return {matrix.nnz(), matrix.pattern_hash(), matrix.value_hash()}; }

// The weight of `packed`.
Result<CsrMatrix> matrix_of(const PackedView& packed, const InnerView& inner, const UnpackedRows& rows) {
  SPARSMITH_ASSIGN_OR_RETURN(CsrMatrix matrix, inner.matrix(rows));
  return is_transposed(packed.packing) ? transposed(matrix) : std::move(matrix);
}

Status check_with(const PackedFormat& format, const PackedView& packed, const PackedClaim& claim, PackedCheck depth,
                  int threads) {
  const InnerView inner(packed);
  SPARSMITH_ASSIGN_OR_RETURN(const auto reader, reader_of(format, inner, threads));
  if (depth == PackedCheck::kBounds) return {};
  SPARSMITH_ASSIGN_OR_RETURN(const UnpackedRows rows, rows_of(format, inner.view(), *reader, threads));
  PackedClaim held;
  if (is_transposed(packed.packing) || inner.is_coded()) {
    SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, matrix_of(packed, inner, rows));
    held = claim_of(matrix);
  } else {
    held = rows.claim(threads);
  }
  if (held.nnz != claim.nnz) return invalid_input(fmt::format("{} nonzeros, not {}", held.nnz, claim.nnz));
  if (held.pattern_hash != claim.pattern_hash) return invalid_input("nonzeros of another weight: the pattern differs");
  if (held.value_hash != claim.value_hash) return invalid_input("values of another weight");
  return {};
}

Result<CsrMatrix> unpack_with(const PackedFormat& format, const PackedView& packed) {
  const InnerView inner(packed);
  const int threads = worthwhile_threads(packed, 0);
  SPARSMITH_ASSIGN_OR_RETURN(const auto reader, reader_of(format, inner, threads));
  SPARSMITH_ASSIGN_OR_RETURN(const UnpackedRows rows, rows_of(format, inner.view(), *reader, threads));
  return matrix_of(packed, inner, rows);
}

}  // namespace

Status check_packed(const PackedView& packed, const PackedClaim& claim, PackedCheck depth, int threads) {
  SPARSMITH_ASSIGN_OR_RETURN(const PackedFormat* format, packed_format(packed.packing));
  const Status status = check_with(*format, packed, claim, depth, worthwhile_threads(packed, threads));
  return status.ok() ? status : status.annotate("packing " + std::string(packed.packing));
}

Result<CsrMatrix> unpack(const PackedView& packed) {
  SPARSMITH_ASSIGN_OR_RETURN(const PackedFormat* format, packed_format(packed.packing));
  Result<CsrMatrix> matrix = unpack_with(*format, packed);
  return matrix.ok() ? std::move(matrix) : matrix.status().annotate(std::string(packed.packing));
}

Result<CsrMatrix> unpack(const PackedWeight& packed) {
  std::vector<PackedArrayView> arrays;
  for (const PackedArray& array : packed.arrays) arrays.push_back({array.name, array.type, array.bytes});
  return unpack(PackedView{packed.packing, packed.packer_version, packed.rows, packed.cols, packed.value_type, arrays,
                           &packed.facts});
}

}  // namespace sparsmith
