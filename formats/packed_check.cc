#include "formats/packed_check.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "formats/coding.h"
#include "formats/hybrid.h"
#include "formats/packed_format.h"
#include "formats/packed_reader.h"

namespace sparsmith {
namespace {

// A packed weight as the packer of its rows had it: not transposed, of codes without their scales, a hybrid in its
// parts.
class InnerView {
 public:
  explicit InnerView(const PackedView& packed) : view_(packed), type_(packed.value_type) {
    if (is_transposed(packed.packing)) std::swap(view_.rows, view_.cols);
    view_.packing = without_transposed(packed.packing);
    coding_ = coding_of(view_.packing);
    if (coding_ == nullptr) {
      hybrid_ = HybridPacking::named(view_.packing);
      if (hybrid_) parts_.emplace(*hybrid_, view_);
      return;
    }
    view_.packing = without_coding(view_.packing);
    view_.value_type = coding_->stored;
    for (const PackedArrayView& array : packed.arrays) (array.name == kScales ? scales_ : codes_).push_back(array);
    view_.arrays = codes_;
  }
  InnerView(const InnerView&) = delete;
  InnerView& operator=(const InnerView&) = delete;

  // One, or the structured part and the rest.
  std::span<const PackedView> views() const {
    return parts_ ? std::span<const PackedView>(parts_->parts()) : std::span(&view_, 1);
  }
  bool is_plain() const { return coding_ == nullptr && !hybrid_; }

  Status check(const PackedFormat& format) const {
    if (const Status status = check_value_type(format, type_); !status.ok()) return invalid_input(status.message());
    if (coding_ == nullptr) return {};
    SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(view_.rows, view_.cols));
    const std::int64_t count = view_.rows * coding_->scales_of_row(view_.cols);
    const bool sound = format.codes && scales_.size() == 1 && scales_[0].type == coding_->scale &&
                       std::ssize(scales_[0].bytes) == count * static_cast<std::int64_t>(size_of(coding_->scale));
    return sound ? Status{} : invalid_input(fmt::format("array {} is missing, or not of {} elements", kScales, count));
  }

  // What the rows of all views, which are its own, make the weight.
  Result<CsrMatrix> matrix(const std::vector<UnpackedRows>& rows) const {
    if (hybrid_) return joined_hybrid({rows[0].matrix(), rows[1].matrix()}, hybrid_->block);
    return coding_ == nullptr ? rows[0].matrix() : coding_->decode(rows[0].matrix(), scales_[0].bytes, type_);
  }

 private:
  PackedView view_;
  DataType type_;
  const Coding* coding_ = nullptr;
  std::vector<PackedArrayView> codes_;
  std::vector<PackedArrayView> scales_;
  std::optional<HybridPacking> hybrid_;
  std::optional<HybridView> parts_;
};

// A reader for each view, in order. Their bounds are checked.
using Readers = std::vector<std::unique_ptr<PackedReader>>;
Result<Readers> readers_of(const PackedFormat& format, const InnerView& inner, int threads) {
  SPARSMITH_RETURN_IF_ERROR(inner.check(format));
  Readers readers;
  for (const PackedView& view : inner.views()) {
    SPARSMITH_ASSIGN_OR_RETURN(const PackedFormat* of_view, packed_format(view.packing));
    SPARSMITH_ASSIGN_OR_RETURN(auto reader, of_view->open(view));
    SPARSMITH_RETURN_IF_ERROR(reader->check_bounds(threads));
    readers.push_back(std::move(reader));
  }
  return readers;
}

Result<std::vector<UnpackedRows>> rows_of(const PackedFormat& format, const InnerView& inner, const Readers& readers,
                                          int threads) {
  std::vector<UnpackedRows> all;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(UnpackedRows rows,
                               UnpackedRows::read(inner.views()[i], *readers[i], format.negative_zeros, threads));
    SPARSMITH_RETURN_IF_ERROR(readers[i]->check_whole(rows));
    all.push_back(std::move(rows));
  }
  return all;
}

PackedClaim claim_of(const CsrMatrix& matrix) { return {matrix.nnz(), matrix.pattern_hash(), matrix.value_hash()}; }

// The weight of `packed`.
Result<CsrMatrix> matrix_of(const PackedView& packed, const InnerView& inner, const std::vector<UnpackedRows>& rows) {
  SPARSMITH_ASSIGN_OR_RETURN(CsrMatrix matrix, inner.matrix(rows));
  return is_transposed(packed.packing) ? transposed(matrix) : std::move(matrix);
}

Status check_with(const PackedFormat& format, const PackedView& packed, const PackedClaim& claim, PackedCheck depth,
                  int threads) {
  const InnerView inner(packed);
  SPARSMITH_ASSIGN_OR_RETURN(const Readers readers, readers_of(format, inner, threads));
  if (depth == PackedCheck::kBounds) return {};
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<UnpackedRows> rows, rows_of(format, inner, readers, threads));
  PackedClaim held;
  if (is_transposed(packed.packing) || !inner.is_plain()) {
    SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, matrix_of(packed, inner, rows));
    held = claim_of(matrix);
  } else {
    held = rows[0].claim(threads);
  }
  if (held.nnz != claim.nnz) return invalid_input(fmt::format("{} nonzeros, not {}", held.nnz, claim.nnz));
  if (held.pattern_hash != claim.pattern_hash) return invalid_input("nonzeros of another weight: the pattern differs");
  if (!format.value_arrays.empty() && held.value_hash != claim.value_hash)
    return invalid_input("values of another weight");
  return {};
}

Result<CsrMatrix> unpack_with(const PackedFormat& format, const PackedView& packed) {
  const InnerView inner(packed);
  const int threads = worthwhile_threads(packed, 0);
  SPARSMITH_ASSIGN_OR_RETURN(const Readers readers, readers_of(format, inner, threads));
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<UnpackedRows> rows, rows_of(format, inner, readers, threads));
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
