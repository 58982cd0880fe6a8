// What a run searches on: one session of each device, or several that take turns.
#pragma once

#include <vector>

#include "search/trial/device_session.h"

namespace sparsmith {

// The first session of each device, then the further ones. `searches`: sessions of a device, at most; only one where
// the device has no lock by which they could take turns, no memory for several weights, or is not lent twice.
//   Errors: kInvalidArgument without devices, or for devices of different classes; what a factory says when there is
//   no such device.
Result<std::vector<DeviceSession>> open_sessions(const std::vector<WorkerFactory>& factories, int searches);

}  // namespace sparsmith
