// Properties of a device. All device limits are here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sparsmith {

// The speeds of a device, measured by a short probe.
struct DeviceSpeeds {
  double memory_bandwidth = 0;  // bytes/s, read plus written, of a large copy
  double l2_bandwidth = 0;      // bytes/s, of all multiprocessors reading the same few megabytes; 0: not known
  double launch_us = 0;         // time of an empty kernel in a graph of many; 0: not known
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
  // As in DeviceSpeeds when measured. Otherwise memory_bandwidth comes from clock and width of the memory bus,
  // l2_bandwidth is scaled from an H200, and launch_us is an H200's.
  double memory_bandwidth = 0;
  double l2_bandwidth = 0;
  double launch_us = 0;
  std::string driver_version;
  std::string pci_address;  // "0000:1b:00", the same in every process of the machine; empty: no GPU
  bool is_emulator = false;

  // "sm_90 132 SMs", "emulator sm_90 132 SMs": devices of one class share choices.
  std::string device_class() const;

  // The key of a probe's results: the device's name and class, and its driver.
  std::string probe_key() const;
  // Takes over the speeds that are known.
  void set_speeds(const DeviceSpeeds& speeds);
  // The peak of the tensor cores on 16-bit values, at the clock above; a multiply-add is two operations. 0: no clock.
  double tensor_operations_per_second() const;
};

// 90 for "sm_90" and "sm_90a"; 0 for a text that is no architecture.
int compute_capability_of(std::string_view architecture);

// A device for filtering and ranking kernels when no real device of that architecture is present. compute_capability:
// 80, 90 or 100; other values give the next lower of these (below 80: 80).
DeviceProperties typical_device(int compute_capability);

// The typical device of a class (DeviceProperties::device_class), "sm_90 132 SMs" or "emulator sm_90 132 SMs", with
// that number of multiprocessors. No value for any other text.
std::optional<DeviceProperties> device_of_class(const std::string& device_class);

// The L2 bandwidth and launch time that the probe (tuner/time/speed_probe.h) finds on an H200; the bandwidth is scaled
// to `sm_count` multiprocessors at `clock_khz`. The constants of the cost models are right for a device with these
// figures.
double typical_l2_bandwidth(int sm_count, int clock_khz);
constexpr double kTypicalLaunchUs = 0.63;

}  // namespace sparsmith
