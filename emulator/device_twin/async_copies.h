// Twin of snippets/device/async_copies.cuh.
#pragma once

#include "emulator/device_twin/shared_memory.h"
#include "emulator/device_twin/types.h"

extern "C" {
void sparsmith_emulator_async_copy(void* shared, const void* global, int bytes, int line);
void sparsmith_emulator_async_commit();
void sparsmith_emulator_async_wait(int pending_groups, int line);
}

namespace sparsmith {

template <int kBytes>
SPARSMITH_DEVICE void async_copy(void* shared, const void* global, int line = __builtin_LINE()) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "an asynchronous copy is 4, 8 or 16 bytes");
  sparsmith_emulator_async_copy(shared, global, kBytes, line);
}
SPARSMITH_DEVICE void async_copy_streaming(void* shared, const void* global, int line = __builtin_LINE()) {
  sparsmith_emulator_async_copy(shared, global, 16, line);
}
SPARSMITH_DEVICE void async_copy_streaming(SharedAddress to, const void* global, int line = __builtin_LINE()) {
  sparsmith_emulator_async_copy(const_cast<u8*>(to.at), global, 16, line);
}
SPARSMITH_DEVICE void async_commit() { sparsmith_emulator_async_commit(); }
template <int kPendingGroups>
SPARSMITH_DEVICE void async_wait(int line = __builtin_LINE()) {
  sparsmith_emulator_async_wait(kPendingGroups, line);
}

}  // namespace sparsmith
