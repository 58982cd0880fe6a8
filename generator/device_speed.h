// Constants of the cost models were fitted on an H200. What another device takes for the same goes by its probe.
#pragma once

#include "runtime/device_properties.h"

namespace sparsmith {

// How many times what an H200 of the models' constants gives the device reads from L2.
inline double l2_speed(const DeviceProperties& device) {
  static const double fitted = typical_device(90).l2_bandwidth;
  return device.l2_bandwidth > 0 ? device.l2_bandwidth / fitted : 1.0;
}

// Microseconds that a launch takes there, beyond one of an H200.
inline double launch_delay_us(const DeviceProperties& device) {
  return device.launch_us > 0 ? device.launch_us - kTypicalLaunchUs : 0.0;
}

}  // namespace sparsmith
