// Twin of snippets/device/programmatic_launch.cuh. Launches of the emulator never overlap; what a kernel touches before
// it waits is reported all the same.
#pragma once

#include "emulator/device_twin/types.h"

extern "C" {
void sparsmith_emulator_wait_for_previous();
}

namespace sparsmith {

SPARSMITH_DEVICE void launch_dependents() {}
SPARSMITH_DEVICE void wait_for_previous() { sparsmith_emulator_wait_for_previous(); }

}  // namespace sparsmith
