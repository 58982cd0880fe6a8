// What is known of a device: the one home of device limits.
#pragma once

#include <cstdint>
#include <string>

namespace sparsmith {

// What a device reaches, as a short probe found it.
struct DeviceSpeeds {
  double memory_bandwidth = 0;  // bytes/s, read plus written, of a large copy
  double l2_bandwidth = 0;      // bytes/s, of all multiprocessors reading the same few megabytes; 0: not known
  double launch_us = 0;         // a kernel that does nothing, in a graph of many; 0: not known
};

struct DeviceProperties {
  std::string name;            // "NVIDIA H200", "emulator"
  int compute_capability = 0;  // 10 * major + minor: 90
  int sm_count = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  int max_threads_per_block = 1024;
  int max_threads_per_sm = 2048;
  int max_blocks_per_sm = 32;
  std::int64_t shared_bytes_per_block = 0;  // the opt-in maximum
  std::int64_t shared_bytes_per_sm = 0;
  int registers_per_sm = 65536;
  int clock_khz = 0;
  // As in DeviceSpeeds where they were measured. Otherwise from the bus, scaled from an H200's, and an H200's.
  double memory_bandwidth = 0;
  double l2_bandwidth = 0;
  double launch_us = 0;
  std::string driver_version;
  std::string pci_address;  // "0000:1b:00", whatever the process sees of the machine; empty: no GPU
  bool is_emulator = false;

  // "sm_90 132 SMs", "emulator sm_90 132 SMs": devices of one class share choices.
  std::string device_class() const;

  // What a probe's results hold for: the device's name and class, and its driver.
  std::string probe_key() const;
  // Takes over what is known.
  void set_speeds(const DeviceSpeeds& speeds);
  // The peak of the tensor cores on 16-bit values, at the clock above; a multiply-add is two operations. 0: no clock.
  double tensor_operations_per_second() const;
};

// The figures by which kernels are filtered and ranked where no device of that architecture is at hand.
// compute_capability 80, 90 or 100; for others the device is the nearest one below (80 below that).
DeviceProperties typical_device(int compute_capability);

// What the probe (tuner/speed_probe.h) finds on an H200, if it had `sm_count` multiprocessors at `clock_khz`, and for a
// launch. The cost models' constants hold for a device of which the probe finds the same.
double typical_l2_bandwidth(int sm_count, int clock_khz);
constexpr double kTypicalLaunchUs = 0.63;

}  // namespace sparsmith
