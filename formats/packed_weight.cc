#include "formats/packed_weight.h"

#include <algorithm>

#include "base/hash.h"

namespace sparsmith {

const PackedArray* PackedWeight::array(const std::string& name) const {
  for (const PackedArray& array : arrays)
    if (array.name == name) return &array;
  return nullptr;
}

std::int64_t PackedWeight::bytes() const { return gpu_bytes(arrays); }

std::int64_t PackedWeight::read_bytes() const {
  const auto unread = facts.find("unread_bytes");
  return unread == facts.end() ? bytes() : std::max<std::int64_t>(0, bytes() - unread->second);
}

std::string PackedWeight::contents_hash() const {
  std::string all = packing;
  for (const PackedArray& array : arrays) all += '\n' + array.name + '=' + hash_bytes(array.bytes);
  return hash_text(all);
}

}  // namespace sparsmith
