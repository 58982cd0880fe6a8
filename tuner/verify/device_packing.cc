#include "tuner/verify/device_packing.h"

#include <fmt/format.h>

namespace sparsmith {

Result<DevicePacking> DevicePacking::upload(Executor& executor, PackedWeight packed, Fingerprinter* fingerprinter) {
  DevicePacking packing;
  packing.packed_ = std::move(packed);
  packing.fingerprinter_ = fingerprinter;
  for (const PackedArray& array : packing.packed_.arrays) {
    SPARSMITH_ASSIGN_OR_RETURN(GuardedBuffer buffer, GuardedBuffer::holding(executor, array.bytes));
    packing.arrays_.push_back(std::move(buffer));
  }
  if (fingerprinter != nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(packing.fingerprint_, packing.fingerprint());
  }
  return packing;
}

std::vector<LaunchBindings::Packed> DevicePacking::bindings() const {
  std::vector<LaunchBindings::Packed> bindings;
  for (std::size_t i = 0; i < arrays_.size(); ++i) bindings.push_back({packed_.arrays[i].name, arrays_[i].address()});
  return bindings;
}

Result<std::uint64_t> DevicePacking::fingerprint() const {
  std::vector<Fingerprinter::Range> ranges;
  for (const GuardedBuffer& array : arrays_) ranges.push_back(array.guarded_range());
  return fingerprinter_->of(ranges);
}

Result<std::string> DevicePacking::damage(Executor& executor) {
  if (fingerprinter_ != nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::uint64_t now, fingerprint());
    if (now == fingerprint_) return std::string();  // otherwise arrays are read back, to see what was done to which
  }
  std::string found;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::string_view done, arrays_[i].repair(executor, packed_.arrays[i].bytes));
    if (!done.empty()) found = fmt::format("{} packed array {}", done, packed_.arrays[i].name);
  }
  return found;
}

}  // namespace sparsmith
