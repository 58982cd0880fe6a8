#include "formats/packed_weight.h"

namespace sparsmith {

const PackedArray* PackedWeight::array(const std::string& name) const {
  for (const PackedArray& array : arrays)
    if (array.name == name) return &array;
  return nullptr;
}

std::int64_t PackedWeight::bytes() const {
  std::int64_t total = 0;
  for (const PackedArray& array : arrays) total += static_cast<std::int64_t>(array.bytes.size());
  return total;
}

}  // namespace sparsmith
