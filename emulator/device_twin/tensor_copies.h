// Twin of snippets/device/tensor_copies.cuh.
#pragma once

#include "emulator/device_twin/arrival_barriers.h"
#include "emulator/device_twin/types.h"

namespace sparsmith {

// ThreadBlock::TensorMap.
struct alignas(64) TensorMap {
  u64 words[16];
};
extern void arrive_expecting(ArrivalBarrier* barrier, int bytes, int line = __builtin_LINE())
    SPARSMITH_EMULATED(arrive_expecting);
extern void copy_box(void* shared, const TensorMap* map, int element, int first_line, ArrivalBarrier* barrier,
                     u32 blocks, int line) SPARSMITH_EMULATED(box_copy);
SPARSMITH_DEVICE void box_copy(void* shared, const TensorMap& map, int element, int first_line, ArrivalBarrier* barrier,
                               u32 blocks, int line = __builtin_LINE()) {
  copy_box(shared, &map, element, first_line, barrier, blocks, line);
}
extern void array_copy(void* shared, const void* global, int bytes, ArrivalBarrier* barrier,
                       int line = __builtin_LINE()) SPARSMITH_EMULATED(array_copy);

}  // namespace sparsmith
