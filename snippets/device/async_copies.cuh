// Asynchronous copies from global to shared memory, cp.async: each thread copies, and waits for what it copied.
#pragma once

#include "snippets/device/shared_memory.cuh"
#include "snippets/device/types.cuh"

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin/async_copies.h"
#else

namespace sparsmith {

// Asynchronous copies from global to shared memory of kBytes = 4, 8 or 16, both sides aligned to kBytes. What was
// copied may be read after async_wait<0>() (by the copying thread), and after a barrier by the others.
template <int kBytes>
SPARSMITH_DEVICE void async_copy(void* shared, const void* global) {
  const u32 to = static_cast<u32>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(kBytes) : "memory");
}
// 16 bytes that are read once: past L1.
SPARSMITH_DEVICE void async_copy_streaming(void* shared, const void* global) {
  const u32 to = static_cast<u32>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}
// As async_copy_streaming(): places a known distance apart then need one register together.
SPARSMITH_DEVICE void async_copy_streaming(SharedAddress to, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to.at), "l"(global) : "memory");
}
SPARSMITH_DEVICE void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPendingGroups>
SPARSMITH_DEVICE void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPendingGroups) : "memory");
}

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
