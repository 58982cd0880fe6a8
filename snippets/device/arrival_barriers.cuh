// Barriers in shared memory (from sm_90 on) at which some threads arrive and others wait: warps of different roles hand
// places to each other.
#pragma once

#include "snippets/device/bulk_copies.cuh"
#include "snippets/device/types.cuh"

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin/arrival_barriers.h"
#else

namespace sparsmith {

struct alignas(8) ArrivalBarrier {
  u64 state;
};
// arrivals: that complete a phase. One thread makes it ready, and a barrier of the block comes before anyone uses it.
SPARSMITH_DEVICE void arrival_barrier_init(ArrivalBarrier* barrier, int arrivals) { barrier_init(barrier, arrivals); }
// It may be made ready again, or the place be used for something else, when nobody uses it any more.
SPARSMITH_DEVICE void arrival_barrier_end(ArrivalBarrier* barrier) {
  const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
  SPARSMITH_ASM_SM_90("mbarrier.inval.shared.b64 [%0];" ::"r"(at) : "memory");
}
// What this thread did before it, and what others had before they met it at a warp barrier, is seen by those who
// waited.
SPARSMITH_DEVICE void arrive(ArrivalBarrier* barrier) {
  const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
  SPARSMITH_ASM_SM_90("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
}
// At the barrier that stands at the same place of another block of the cluster, or of this one.
SPARSMITH_DEVICE void arrive_in_block(ArrivalBarrier* barrier, int rank) {
  const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
  SPARSMITH_ASM_SM_90(
      "{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\tmbarrier.arrive.shared::cluster.b64 _, "
      "[there];\n\t}" ::"r"(at),
      "r"(rank) : "memory");
}
// Until the phase of that parity is over: the first one has 0, the one that was over before it 1. Every lane of a warp
// calls it.
SPARSMITH_DEVICE void await(ArrivalBarrier* barrier, u32 parity) { barrier_wait(barrier, parity); }

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
