#include "formats/packed_check.h"

#include <fmt/format.h>

#include "formats/packed_reader.h"

namespace sparsmith {
namespace {

Status check_with(OpenPacked open, const PackedView& packed, const PackedClaim& claim, PackedCheck depth, int threads) {
  SPARSMITH_ASSIGN_OR_RETURN(const auto reader, open(packed));
  SPARSMITH_RETURN_IF_ERROR(reader->check_bounds(threads));
  if (depth == PackedCheck::kBounds) return {};
  SPARSMITH_ASSIGN_OR_RETURN(const UnpackedRows rows, UnpackedRows::read(packed, *reader, threads));
  SPARSMITH_RETURN_IF_ERROR(reader->check_whole(rows));
  const PackedClaim held = rows.claim(threads);
  if (held.nnz != claim.nnz) return invalid_input(fmt::format("{} nonzeros, not {}", held.nnz, claim.nnz));
  if (held.pattern_hash != claim.pattern_hash) return invalid_input("nonzeros of another weight: the pattern differs");
  if (held.value_hash != claim.value_hash) return invalid_input("values of another weight");
  return {};
}

}  // namespace

Status check_packed(const PackedView& packed, const PackedClaim& claim, PackedCheck depth, int threads) {
  SPARSMITH_ASSIGN_OR_RETURN(const PackedFormat* format, packed_format(packed.packing));
  const Status status = check_with(format->open, packed, claim, depth, worthwhile_threads(packed, threads));
  return status.ok() ? status : status.annotate("packing " + std::string(packed.packing));
}

Result<CsrMatrix> unpack(const PackedWeight& packed) {
  SPARSMITH_ASSIGN_OR_RETURN(const PackedFormat* format, packed_format(packed.packing));
  return unpack_with(format->open, packed);
}

}  // namespace sparsmith
