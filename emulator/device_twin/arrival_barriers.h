// Twin of snippets/device/arrival_barriers.cuh.
#pragma once

#include "emulator/device_twin/types.h"

extern "C" {
void sparsmith_emulator_arrival_barrier_init(const void* barrier, int arrivals, int line);
void sparsmith_emulator_arrival_barrier_end(const void* barrier, int line);
void sparsmith_emulator_arrive(const void* barrier, int line);
void sparsmith_emulator_await_arrivals(const void* barrier, unsigned parity, int line);
}

namespace sparsmith {

struct alignas(8) ArrivalBarrier {
  u64 state;
};
SPARSMITH_DEVICE void arrival_barrier_init(ArrivalBarrier* barrier, int arrivals, int line = __builtin_LINE()) {
  sparsmith_emulator_arrival_barrier_init(barrier, arrivals, line);
}
SPARSMITH_DEVICE void arrival_barrier_end(ArrivalBarrier* barrier, int line = __builtin_LINE()) {
  sparsmith_emulator_arrival_barrier_end(barrier, line);
}
SPARSMITH_DEVICE void arrive(ArrivalBarrier* barrier, int line = __builtin_LINE()) {
  sparsmith_emulator_arrive(barrier, line);
}
SPARSMITH_DEVICE void await(ArrivalBarrier* barrier, u32 parity, int line = __builtin_LINE()) {
  sparsmith_emulator_await_arrivals(barrier, parity, line);
}

}  // namespace sparsmith
