// Packed weights of packings that are given by their parameters.
#pragma once

#include "formats/bitmap.h"
#include "formats/bsr.h"
#include "formats/bsr_strips.h"
#include "formats/csr.h"
#include "formats/packed_format.h"
#include "formats/panel.h"
#include "formats/region_masks.h"
#include "formats/scatter.h"
#include "formats/slots.h"
#include "formats/tile_masks.h"
#include "formats/two_four.h"

namespace sparsmith {

inline Result<PackedWeight> pack_bitmap(const CsrMatrix& matrix, const BitmapPacking& packing, DataType type) {
  return pack(packing.name(), matrix, type);
}
inline Result<PackedWeight> pack_bsr(const CsrMatrix& matrix, const BsrPacking& packing, DataType type) {
  return pack(packing.name(), matrix, type);
}
inline Result<PackedWeight> pack_csr(const CsrMatrix& matrix, const CsrPacking& packing, DataType type) {
  return pack(packing.name(), matrix, type);
}
inline Result<PackedWeight> pack_panel(const CsrMatrix& matrix, const PanelPacking& packing, DataType type) {
  return pack(packing.name(), matrix, type);
}
inline Result<PackedWeight> pack_scatter(const CsrMatrix& matrix, const ScatterPacking& packing, DataType type) {
  return pack(packing.name(), matrix, type);
}
inline Result<PackedWeight> pack_slots(const CsrMatrix& matrix, const SlotsPacking& packing, DataType type) {
  return pack(packing.name(), matrix, type);
}
inline Result<PackedWeight> pack_bsr_strips(const CsrMatrix& matrix, const BsrStripsPacking& packing, DataType type) {
  return pack(packing.name(), matrix, type);
}
inline Result<PackedWeight> pack_region_masks(const CsrMatrix& matrix, const RegionMasksPacking& packing,
                                              DataType type) {
  return pack(packing.name(), matrix, type);
}
inline Result<PackedWeight> pack_tile_masks(const CsrMatrix& matrix, const TileMasksPacking& packing, DataType type) {
  return pack(packing.name(), matrix, type);
}
inline Result<PackedWeight> pack_two_four(const CsrMatrix& matrix, DataType type) {
  return pack(kTwoFourPacking, matrix, type);
}

}  // namespace sparsmith
