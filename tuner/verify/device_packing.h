// A packed weight on a device.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "formats/packed_weight.h"
#include "tuner/verify/fingerprint.h"
#include "tuner/verify/guarded_buffer.h"

namespace sparsmith {

// Movable. The executor outlives the object. Keeps the packed weight in host memory, to detect and undo changes.
class DevicePacking {
 public:
  // `fingerprinter`: detects changes without reading the arrays back. It outlives the packing. May be null.
  static Result<DevicePacking> upload(Executor& executor, PackedWeight packed, Fingerprinter* fingerprinter = nullptr);

  const PackedWeight& packed() const { return packed_; }
  // The bindings of the arrays, in the order of packed().arrays.
  std::vector<LaunchBindings::Packed> bindings() const;

  // Empty when arrays and guards are unchanged. Otherwise the text describes the change, and the change is undone.
  Result<std::string> damage(Executor& executor);

 private:
  // The fingerprint of all arrays with their guards. REQUIRES: fingerprinter_ is not null.
  Result<std::uint64_t> fingerprint() const;

  PackedWeight packed_;
  Fingerprinter* fingerprinter_ = nullptr;
  std::uint64_t fingerprint_ = 0;  // valid with a fingerprinter
  std::vector<GuardedBuffer> arrays_;
};

}  // namespace sparsmith
