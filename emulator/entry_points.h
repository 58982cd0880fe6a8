// The functions that compiled kernel text calls: those of device_twin/, the callbacks of -fsanitize=thread, and
// memcpy and its like, which the compiler calls on its own. Compilers bind the names to these addresses.
#pragma once

#include <span>

namespace sparsmith {

struct EntryPoint {
  const char* symbol;
  void* address;
  bool does_nothing = false;
};

// In a fixed order.
std::span<const EntryPoint> entry_points();

}  // namespace sparsmith
