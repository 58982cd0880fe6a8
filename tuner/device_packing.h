// A packed weight on a device.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "formats/packed_weight.h"
#include "tuner/fingerprint.h"
#include "tuner/guarded_buffer.h"

namespace sparsmith {

// Movable. The executor outlives it. Keeps the packed weight in host memory, to see and undo changes.
class DevicePacking {
 public:
  // `fingerprinter`: spares reading arrays back while they are as they were; outlives the packing. Null: there is none.
  static Result<DevicePacking> upload(Executor& executor, PackedWeight packed, Fingerprinter* fingerprinter = nullptr);

  const PackedWeight& packed() const { return packed_; }
  // Of each array, in the order of packed().arrays.
  std::vector<LaunchBindings::Packed> bindings() const;

  // Empty when arrays and guards are as they were; otherwise what was done to them, and it is undone.
  Result<std::string> damage(Executor& executor);

 private:
  // With the guards of all arrays. REQUIRES: there is a fingerprinter.
  Result<std::uint64_t> fingerprint() const;

  PackedWeight packed_;
  Fingerprinter* fingerprinter_ = nullptr;
  std::uint64_t fingerprint_ = 0;  // where there is a fingerprinter
  std::vector<GuardedBuffer> arrays_;
};

}  // namespace sparsmith
