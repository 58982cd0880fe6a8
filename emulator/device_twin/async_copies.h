// Twin of snippets/device/async_copies.cuh.
#pragma once

#include "emulator/device_twin/shared_memory.h"
#include "emulator/device_twin/types.h"

namespace sparsmith {

extern void copy_async(void* shared, const void* global, int bytes, int line) SPARSMITH_EMULATED(async_copy);
extern void wait_async(int pending_groups, int line) SPARSMITH_EMULATED(async_wait);
extern void async_commit(int line = __builtin_LINE()) SPARSMITH_EMULATED(async_commit);

template <int kBytes>
SPARSMITH_DEVICE void async_copy(void* shared, const void* global, int line = __builtin_LINE()) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "an asynchronous copy is 4, 8 or 16 bytes");
  copy_async(shared, global, kBytes, line);
}
SPARSMITH_DEVICE void async_copy_streaming(void* shared, const void* global, int line = __builtin_LINE()) {
  copy_async(shared, global, 16, line);
}
SPARSMITH_DEVICE void async_copy_streaming(SharedAddress to, const void* global, int line = __builtin_LINE()) {
  copy_async(const_cast<u8*>(to.at), global, 16, line);
}
template <int kPendingGroups>
SPARSMITH_DEVICE void async_wait(int line = __builtin_LINE()) {
  wait_async(kPendingGroups, line);
}

}  // namespace sparsmith
