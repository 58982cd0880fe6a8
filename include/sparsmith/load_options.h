// How a tuned file is loaded. Plain values.
#pragma once

#include <cstddef>

namespace sparsmith {

// Where a model's device memory comes from, so that a framework may own and count it. Null functions: the CUDA driver.
struct DeviceAllocator {
  // Memory of the model's device, aligned to 256 bytes. Null: there is none, and loading ends with kOutOfMemory.
  void* (*allocate)(std::size_t bytes, void* context) = nullptr;
  // Called once for each piece, when the model is no longer used, by whichever thread let it go.
  void (*free)(void* memory, void* context) = nullptr;
  void* context = nullptr;
};

struct LoadOptions {
  // A file from nobody but yourself. Structure, hashes, plans and sizes are checked in any case; of a file that is not
  // trusted, also every packed array, so that no kernel is led outside of it and the weight is the one that was tuned.
  bool trusted = false;
  int threads = 0;  // that check packed arrays; 0: as many as the machine has cores
  // Weights may be given new values (Weight::set_values). Takes device memory, 4 bytes a nonzero in each packing and
  // more where a format pads; loading packs each weight two to four times, which takes time and host memory.
  bool updatable = false;
  DeviceAllocator allocator{};
};

}  // namespace sparsmith
