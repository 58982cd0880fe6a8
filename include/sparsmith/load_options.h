// How a tuned file is loaded. Plain values.
#pragma once

#include <cstddef>

namespace sparsmith {

// The source of a model's device memory, so that a framework can own and count it. Null functions: the CUDA driver.
struct DeviceAllocator {
  // Allocates memory of the model's device, aligned to 256 bytes. Null: loading ends with kOutOfMemory.
  void* (*allocate)(std::size_t bytes, void* context) = nullptr;
  // Frees a piece. Called once for each piece, by the thread that drops the last handle of the model.
  void (*free)(void* memory, void* context) = nullptr;
  void* context = nullptr;
};

struct LoadOptions {
  // The caller made the file. Structure, hashes, plans and sizes are always checked. In a file that is not trusted,
  // every packed array is checked too: no kernel is led outside of the array, and the weight is the tuned weight.
  bool trusted = false;
  int threads = 0;  // threads that check packed arrays; 0: one for each core
  // Weights may get new values (Weight::set_values). Takes 4 more bytes of device memory for each nonzero of each
  // packing, and more if the format pads. Loading packs each weight two to four times, in time and in host memory.
  bool updatable = false;
  DeviceAllocator allocator{};
};

}  // namespace sparsmith
