// Twin of snippets/device/bulk_copies.cuh.
#pragma once

#include "emulator/device_twin/threads.h"
#include "emulator/device_twin/types.h"

namespace sparsmith {

constexpr bool kBulkCopies = true;
struct alignas(8) BulkBarrier {
  u64 state;
};
extern void bulk_barrier_init(BulkBarrier* barrier, int copies = 1, int line = __builtin_LINE())
    SPARSMITH_EMULATED(bulk_barrier_init);
extern void bulk_copy(void* shared, const void* global, int bytes, BulkBarrier* barrier, int line = __builtin_LINE())
    SPARSMITH_EMULATED(bulk_copy);
extern void bulk_wait_in_warp(BulkBarrier* barrier, u32 phase, int line = __builtin_LINE())
    SPARSMITH_EMULATED(bulk_wait);
// The threads of a block meet as well: nothing less orders warps in the emulator.
SPARSMITH_DEVICE void bulk_wait(BulkBarrier* barrier, u32 phase, int line = __builtin_LINE()) {
  bulk_wait_in_warp(barrier, phase, line);
  block_barrier(line);
}
SPARSMITH_DEVICE void bulk_prefetch(const void*, int) {}
SPARSMITH_DEVICE void bulk_copies_follow() {}

}  // namespace sparsmith
