// Twin of snippets/device/programmatic_launch.cuh. Launches of the emulator never overlap; what a kernel touches before
// it waits is reported all the same.
#pragma once

#include "emulator/device_twin/types.h"

namespace sparsmith {

SPARSMITH_DEVICE void launch_dependents() {}
extern void wait_for_previous() SPARSMITH_EMULATED(wait_for_previous);

}  // namespace sparsmith
