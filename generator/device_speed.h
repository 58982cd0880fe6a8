// The constants of the cost models were fitted on an H200. They are scaled to other devices by the probe of the device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "base/ceil_div.h"

#include "runtime/device_properties.h"

namespace sparsmith {

// The rates by which the models divide. A device that reports no rate counts as a slow one.
struct DeviceRates {
  explicit DeviceRates(const DeviceProperties& device)
      : sms(std::max(device.sm_count, 1)),
        clock_mhz(std::max(device.clock_khz, 1000000) / 1000.0),
        hbm(std::max(device.memory_bandwidth, 1e11) / 1e6) {}
  double sms;
  double clock_mhz;
  double hbm;  // bytes a microsecond
};

// The device's L2 bandwidth, relative to the H200 of the models' constants.
inline double l2_speed(const DeviceProperties& device) {
  static const double fitted = typical_device(90).l2_bandwidth;
  return device.l2_bandwidth > 0 ? device.l2_bandwidth / fitted : 1.0;
}

// The number of multiprocessors that get a block, one block each, if clusters of `cluster` blocks run. The blocks of a
// cluster lie in one GPC. An H200 has GPCs of 16 and of 18 multiprocessors, and not every four of them make a cluster:
// 30 clusters of 4 fit on 132.
inline std::int64_t multiprocessors_for_clusters(std::int64_t cluster, const DeviceProperties& device) {
  const std::int64_t all = std::max(device.sm_count, 1);
  return cluster > 2 ? std::max(cluster, all * 30 / 33 / cluster * cluster) : all;
}

// The share of multiprocessors at work if blocks, in clusters of `cluster`, run in waves of one block per
// multiprocessor.
inline double use_of_sms(std::int64_t blocks, std::int64_t cluster, const DeviceProperties& device) {
  const auto waves = static_cast<double>(ceil_div(blocks, multiprocessors_for_clusters(cluster, device)));
  return static_cast<double>(blocks) / (waves * static_cast<double>(std::max(device.sm_count, 1)));
}

// The time under bounds that overlap nearly, but not wholly: a little more than the largest bound. A larger `sharpness`
// brings it closer to the largest.
inline double together(std::initializer_list<double> bounds_us, double sharpness) {
  double sum = 0;
  for (const double bound : bounds_us) sum += std::pow(bound, sharpness);
  return std::pow(sum, 1 / sharpness);
}

// Microseconds of a launch on this device beyond those on an H200.
inline double launch_delay_us(const DeviceProperties& device) {
  return device.launch_us > 0 ? device.launch_us - kTypicalLaunchUs : 0.0;
}

}  // namespace sparsmith
