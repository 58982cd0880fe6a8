// Programmatic launches (from sm_90 on): a kernel may begin before the one in front of it in the stream has ended.
// Every kernel allows it and waits, since it cannot know how it was launched; launched plainly, both do nothing.
#pragma once

#include "snippets/device/types.cuh"

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin/programmatic_launch.h"
#else

namespace sparsmith {

// The next kernel may begin as soon as every block has called this or has ended.
SPARSMITH_DEVICE void launch_dependents() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Until every kernel before this one has ended, and what it wrote is seen. In front of it only constant memory may be
// read (the packed weight) and nothing be written but shared memory. Every thread calls it, also one that then has
// nothing to do: a kernel that ended without would let the next one overtake the one before.
SPARSMITH_DEVICE void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
