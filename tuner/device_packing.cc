#include "tuner/device_packing.h"

namespace sparsmith {

Result<DevicePacking> DevicePacking::upload(Executor& executor, PackedWeight packed, Fingerprinter* fingerprinter) {
  DevicePacking packing;
  packing.packed_ = std::move(packed);
  packing.fingerprinter_ = fingerprinter;
  for (const PackedArray& array : packing.packed_.arrays) {
    SPARSMITH_ASSIGN_OR_RETURN(GuardedBuffer buffer, GuardedBuffer::holding(executor, array.bytes));
    std::uint64_t fingerprint = 0;
    if (fingerprinter != nullptr) {
      SPARSMITH_ASSIGN_OR_RETURN(fingerprint, fingerprinter->of(buffer.guarded_address(), buffer.guarded_bytes()));
    }
    packing.arrays_.push_back({std::move(buffer), fingerprint});
  }
  return packing;
}

std::vector<LaunchBindings::Packed> DevicePacking::bindings() const {
  std::vector<LaunchBindings::Packed> bindings;
  for (std::size_t i = 0; i < arrays_.size(); ++i)
    bindings.push_back({packed_.arrays[i].name, arrays_[i].buffer.address()});
  return bindings;
}

// By its fingerprint: only what has another one is read back, to see what was done to it.
Result<bool> DevicePacking::is_intact(Executor& executor, std::size_t index) {
  const Array& array = arrays_[index];
  if (fingerprinter_ == nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(const bool guards, array.buffer.guards_intact(executor));
    if (!guards) return false;
    return array.buffer.holds(executor, packed_.arrays[index].bytes);
  }
  SPARSMITH_ASSIGN_OR_RETURN(const std::uint64_t now,
                             fingerprinter_->of(array.buffer.guarded_address(), array.buffer.guarded_bytes()));
  return now == array.fingerprint;
}

Result<std::string> DevicePacking::damage(Executor& executor) {
  std::string found;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(const bool intact, is_intact(executor, i));
    if (intact) continue;
    const PackedArray& array = packed_.arrays[i];
    const GuardedBuffer& buffer = arrays_[i].buffer;
    SPARSMITH_ASSIGN_OR_RETURN(const bool contents, buffer.holds(executor, array.bytes));
    found = (contents ? "wrote outside of packed array " : "changed packed array ") + array.name;
    SPARSMITH_RETURN_IF_ERROR(buffer.reset(executor));
    SPARSMITH_RETURN_IF_ERROR(executor.write(buffer.address(), array.bytes));
  }
  return found;
}

}  // namespace sparsmith
