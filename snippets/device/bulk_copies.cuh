// Bulk copies from global to shared memory (from sm_90 on): one thread starts them, a warp or the block waits for them.
#pragma once

#include "snippets/device/types.cuh"

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin/bulk_copies.h"
#else

namespace sparsmith {

constexpr bool kBulkCopies = SPARSMITH_SM_90;  // otherwise the functions below are not to be called

// A barrier in shared memory whose phases so many arrivals complete, and the wait for a phase of that parity.
SPARSMITH_DEVICE void barrier_init(const void* barrier, int arrivals) {
  const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
  SPARSMITH_ASM_SM_90("mbarrier.init.shared.b64 [%0], %1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(at),
                      "r"(arrivals) : "memory");
}
SPARSMITH_DEVICE void barrier_wait(const void* barrier, u32 parity) {
  const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
  SPARSMITH_ASM_SM_90(
      "{\n\t.reg .pred p;\n\tWAIT:\n\tmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n\t@!p bra WAIT;\n\t}" ::"r"(at),
      "r"(parity) : "memory");
}

// In shared memory. One thread makes it ready, and a barrier of those who use it comes before anyone does.
struct alignas(8) BulkBarrier {
  u64 state;
};
// copies: that each wait is for.
SPARSMITH_DEVICE void bulk_barrier_init(BulkBarrier* barrier, int copies = 1) { barrier_init(barrier, copies); }
// Both sides are aligned to 16 bytes (a shared one that is not to 128 is slow); `bytes` is a multiple of 16, neither 0
// nor 2^20 or more.
SPARSMITH_DEVICE void bulk_copy(void* shared, const void* global, int bytes, BulkBarrier* barrier) {
  const u32 to = static_cast<u32>(__cvta_generic_to_shared(shared));
  const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
  SPARSMITH_ASM_SM_90("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
  SPARSMITH_ASM_SM_90(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(global),
      "r"(bytes), "r"(at) : "memory");
}
// Asks for `bytes` of global memory as far as L2: both are multiples of 16. Where there are no bulk copies, for
// nothing.
SPARSMITH_DEVICE void bulk_prefetch(const void* global, int bytes) {
  if constexpr (kBulkCopies) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes));
  }
}
// Every lane of the warp whose copy it is calls it. `phase`: 0 for the first copies of a barrier, then 1, 0, 1, ...
SPARSMITH_DEVICE void bulk_wait_in_warp(BulkBarrier* barrier, u32 phase) { barrier_wait(barrier, phase); }
// The same for a copy of the block: every thread calls it.
SPARSMITH_DEVICE void bulk_wait(BulkBarrier* barrier, u32 phase) { bulk_wait_in_warp(barrier, phase); }
// What this thread wrote to shared memory comes before the bulk copies to the same place that are started behind the
// next barrier.
SPARSMITH_DEVICE void bulk_copies_follow() {
  if constexpr (kBulkCopies) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
