// The machine, as snippets see it. Only the headers of snippets/device/ name a CUDA intrinsic or PTX, each for one
// subject; snippets include this one, which includes them all: what a thread has, memory, what works together, and what
// counts arrivals.
//
// None includes anything of CUDA's, so that NVRTC compiles them without a search path and in a few milliseconds.
// Compiled for the CPU emulator (SPARSMITH_EMULATOR) the same functions come from emulator/device_twin/: x.cuh has its
// twin in x.h, and what is added to the one is added to the other.
#pragma once

#include "snippets/device/arithmetic.cuh"
#include "snippets/device/programmatic_launch.cuh"
#include "snippets/device/threads.cuh"
#include "snippets/device/types.cuh"

#include "snippets/device/async_copies.cuh"
#include "snippets/device/global_memory.cuh"
#include "snippets/device/shared_memory.cuh"

#include "snippets/device/clusters.cuh"
#include "snippets/device/tensor_cores.cuh"
#include "snippets/device/warpgroups.cuh"

#include "snippets/device/arrival_barriers.cuh"
#include "snippets/device/bulk_copies.cuh"
#include "snippets/device/tensor_copies.cuh"
