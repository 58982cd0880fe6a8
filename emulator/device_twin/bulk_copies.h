// Twin of snippets/device/bulk_copies.cuh.
#pragma once

#include "emulator/device_twin/threads.h"
#include "emulator/device_twin/types.h"

extern "C" {
void sparsmith_emulator_bulk_barrier_init(const void* barrier, int copies, int line);
void sparsmith_emulator_bulk_copy(void* shared, const void* global, int bytes, const void* barrier, int line);
void sparsmith_emulator_bulk_wait(const void* barrier, unsigned phase, int line);
}

namespace sparsmith {

constexpr bool kBulkCopies = true;
struct alignas(8) BulkBarrier {
  u64 state;
};
SPARSMITH_DEVICE void bulk_barrier_init(BulkBarrier* barrier, int copies = 1, int line = __builtin_LINE()) {
  sparsmith_emulator_bulk_barrier_init(barrier, copies, line);
}
SPARSMITH_DEVICE void bulk_copy(void* shared, const void* global, int bytes, BulkBarrier* barrier,
                                int line = __builtin_LINE()) {
  sparsmith_emulator_bulk_copy(shared, global, bytes, barrier, line);
}
SPARSMITH_DEVICE void bulk_wait_in_warp(BulkBarrier* barrier, u32 phase, int line = __builtin_LINE()) {
  sparsmith_emulator_bulk_wait(barrier, phase, line);
}
// The threads of a block meet as well: nothing less orders warps in the emulator.
SPARSMITH_DEVICE void bulk_wait(BulkBarrier* barrier, u32 phase, int line = __builtin_LINE()) {
  sparsmith_emulator_bulk_wait(barrier, phase, line);
  sparsmith_emulator_block_barrier(line);
}
SPARSMITH_DEVICE void bulk_prefetch(const void*, int) {}
SPARSMITH_DEVICE void bulk_copies_follow() {}

}  // namespace sparsmith
