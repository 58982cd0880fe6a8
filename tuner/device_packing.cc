#include "tuner/device_packing.h"

namespace sparsmith {

Result<DevicePacking> DevicePacking::upload(Executor& executor, PackedWeight packed) {
  DevicePacking packing;
  packing.packed_ = std::move(packed);
  for (const PackedArray& array : packing.packed_.arrays) {
    SPARSMITH_ASSIGN_OR_RETURN(GuardedBuffer buffer, GuardedBuffer::holding(executor, array.bytes));
    packing.arrays_.push_back(std::move(buffer));
  }
  return packing;
}

std::vector<LaunchBindings::Packed> DevicePacking::bindings() const {
  std::vector<LaunchBindings::Packed> bindings;
  for (std::size_t i = 0; i < arrays_.size(); ++i) bindings.push_back({packed_.arrays[i].name, arrays_[i].address()});
  return bindings;
}

Result<std::string> DevicePacking::damage(Executor& executor) {
  std::string found;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const PackedArray& array = packed_.arrays[i];
    SPARSMITH_ASSIGN_OR_RETURN(const bool guards, arrays_[i].guards_intact(executor));
    SPARSMITH_ASSIGN_OR_RETURN(const bool contents, arrays_[i].holds(executor, array.bytes));
    if (guards && contents) continue;
    found = (contents ? "wrote outside of packed array " : "changed packed array ") + array.name;
    SPARSMITH_RETURN_IF_ERROR(arrays_[i].reset(executor));
    SPARSMITH_RETURN_IF_ERROR(executor.write(arrays_[i].address(), array.bytes));
  }
  return found;
}

}  // namespace sparsmith
