// Copies from global to shared memory by the tensor memory accelerator (from sm_90 on): boxes of a matrix, also to the
// blocks of a cluster at once, and neighbouring bytes. One thread starts a copy; an arrival barrier counts what has
// landed.
#pragma once

#include "snippets/device/arrival_barriers.cuh"
#include "snippets/device/types.cuh"

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin/tensor_copies.h"
#else

namespace sparsmith {

// A parameter of the kernel, const __grid_constant__ (PlanArgument::Kind::kTensorMap).
struct alignas(64) TensorMap {
  u64 words[16];
};
// The map knows the lines of a box, of 64 or 32 elements of 16 bits. In shared memory lines of 128 bytes stand one
// behind the other, chunk h of 16 bytes of line r at h ^ (r % 8), from a multiple of 1,024 on; lines of 64 bytes at h ^
// (r / 2 % 4), from a multiple of 512 on. Outside of the matrix a box is 0.

// Arrives, and has the barrier's phase wait for so many bytes as well.
SPARSMITH_DEVICE void arrive_expecting(ArrivalBarrier* barrier, int bytes) {
  const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
  SPARSMITH_ASM_SM_90("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
// Copies the box at these coordinates to `shared` of each block of the cluster whose bit is set in `blocks`, where the
// barrier at the same place counts it.
SPARSMITH_DEVICE void box_copy(void* shared, const TensorMap& map, int element, int line, ArrivalBarrier* barrier,
                               u32 blocks) {
  const u32 to = static_cast<u32>(__cvta_generic_to_shared(shared));
  const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
  SPARSMITH_ASM_SM_90(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
      "%3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(element), "r"(line), "r"(at), "h"(static_cast<u16>(blocks)) : "memory");
}
// Copies neighbouring bytes, a multiple of 16 below 2^20, between places that are aligned to 16; the barrier counts
// them.
SPARSMITH_DEVICE void array_copy(void* shared, const void* global, int bytes, ArrivalBarrier* barrier) {
  const u32 to = static_cast<u32>(__cvta_generic_to_shared(shared));
  const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
  SPARSMITH_ASM_SM_90(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(global),
      "r"(bytes), "r"(at) : "memory");
}

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
