// Twin of snippets/device/arrival_barriers.cuh.
#pragma once

#include "emulator/device_twin/types.h"

namespace sparsmith {

struct alignas(8) ArrivalBarrier {
  u64 state;
};
extern void arrival_barrier_init(ArrivalBarrier* barrier, int arrivals, int line = __builtin_LINE())
    SPARSMITH_EMULATED(arrival_barrier_init);
extern void arrival_barrier_end(ArrivalBarrier* barrier, int line = __builtin_LINE())
    SPARSMITH_EMULATED(arrival_barrier_end);
extern void arrive(ArrivalBarrier* barrier, int line = __builtin_LINE()) SPARSMITH_EMULATED(arrive);
extern void arrive_in_block(ArrivalBarrier* barrier, int rank, int line = __builtin_LINE())
    SPARSMITH_EMULATED(arrive_in_block);
extern void await(ArrivalBarrier* barrier, u32 parity, int line = __builtin_LINE()) SPARSMITH_EMULATED(await_arrivals);

}  // namespace sparsmith
