// Constants of the cost models were fitted on an H200. What another device takes for the same goes by its probe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/device_properties.h"

namespace sparsmith {

// How many times what an H200 of the models' constants gives the device reads from L2.
inline double l2_speed(const DeviceProperties& device) {
  static const double fitted = typical_device(90).l2_bandwidth;
  return device.l2_bandwidth > 0 ? device.l2_bandwidth / fitted : 1.0;
}

// Multiprocessors that blocks find room on, one to each, where clusters of `cluster` blocks run: the blocks of one lie
// in one GPC, of which an H200 has some of 16 and some of 18 multiprocessors, and not every four of them make a
// cluster. 30 clusters of 4 fit on 132.
inline std::int64_t multiprocessors_for_clusters(std::int64_t cluster, const DeviceProperties& device) {
  const std::int64_t all = std::max(device.sm_count, 1);
  return cluster > 2 ? std::max(cluster, all * 30 / 33 / cluster * cluster) : all;
}

// Microseconds that a launch takes there, beyond one of an H200.
inline double launch_delay_us(const DeviceProperties& device) {
  return device.launch_us > 0 ? device.launch_us - kTypicalLaunchUs : 0.0;
}

}  // namespace sparsmith
