#include "runtime/device_properties.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>

namespace sparsmith {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
constexpr std::int64_t kGiB = 1024 * kMiB;

constexpr double kCopied = 0.888;  // of what the bus carries: 4.26 of 4.8 TB/s on an H200
// Bytes per clock of a multiprocessor in the probe, from 15.7 TB/s of an H200. The blocks read in step, so one read of
// L2 serves several blocks.
constexpr double kL2BytesPerClock = 60.2;

// The defaults of DeviceProperties hold for A100 (80 GB), H200, B200 and every data-centre GPU since Ampere: 2,048
// threads, 32 blocks and 65,536 registers per SM.
DeviceProperties a100() {
  DeviceProperties device;
  device.name = "typical sm_80 (A100)";
  device.compute_capability = 80;
  device.sm_count = 108;
  device.l2_bytes = 40 * kMiB;
  device.memory_bytes = 80 * kGiB;
  device.shared_bytes_per_block = 163 * kKiB;
  device.shared_bytes_per_sm = 164 * kKiB;
  device.clock_khz = 1'410'000;
  device.memory_bandwidth = kCopied * 2.039e12;
  return device;
}

DeviceProperties h200() {
  DeviceProperties device;
  device.name = "typical sm_90 (H200)";
  device.compute_capability = 90;
  device.sm_count = 132;
  device.l2_bytes = 60 * kMiB;
  device.memory_bytes = 140 * kGiB;
  device.shared_bytes_per_block = 227 * kKiB;
  device.shared_bytes_per_sm = 228 * kKiB;
  device.clock_khz = 1'980'000;
  device.memory_bandwidth = kCopied * 4.8e12;
  return device;
}

DeviceProperties b200() {
  DeviceProperties device = h200();
  device.name = "typical sm_100 (B200)";
  device.compute_capability = 100;
  device.sm_count = 148;
  device.l2_bytes = 126 * kMiB;
  device.memory_bytes = 180 * kGiB;
  device.clock_khz = 1'965'000;
  device.memory_bandwidth = kCopied * 7.7e12;
  return device;
}

}  // namespace

std::string DeviceProperties::device_class() const {
  return fmt::format("{}sm_{} {} SMs", is_emulator ? "emulator " : "", compute_capability, sm_count);
}

std::string DeviceProperties::probe_key() const {
  return fmt::format("{}, {}, driver {}", name, device_class(), driver_version);
}

void DeviceProperties::set_speeds(const DeviceSpeeds& speeds) {
  if (speeds.memory_bandwidth > 0) memory_bandwidth = speeds.memory_bandwidth;
  if (speeds.l2_bandwidth > 0) l2_bandwidth = speeds.l2_bandwidth;
  if (speeds.launch_us > 0) launch_us = speeds.launch_us;
}

double typical_l2_bandwidth(int sm_count, int clock_khz) { return kL2BytesPerClock * sm_count * clock_khz * 1e3; }

double DeviceProperties::tensor_operations_per_second() const {
  const double of_an_sm = compute_capability >= 100 ? 8192 : compute_capability >= 90 ? 4096 : 2048;  // in a clock
  return of_an_sm * sm_count * clock_khz * 1e3;
}

int compute_capability_of(std::string_view architecture) {
  if (!architecture.starts_with("sm_")) return 0;
  architecture.remove_prefix(3);
  if (architecture.ends_with('a') || architecture.ends_with('f')) architecture.remove_suffix(1);
  const char* const begin = architecture.data();
  const char* const end = begin + architecture.size();
  int number = 0;
  const auto [last, error] = std::from_chars(begin, end, number);
  return error == std::errc() && last == end && number >= 10 && number < 10'000 ? number : 0;
}

DeviceProperties typical_device(int compute_capability) {
  DeviceProperties device = compute_capability >= 100 ? b200() : compute_capability >= 90 ? h200() : a100();
  device.l2_bandwidth = typical_l2_bandwidth(device.sm_count, device.clock_khz);
  device.launch_us = kTypicalLaunchUs;
  return device;
}

std::optional<DeviceProperties> device_of_class(const std::string& device_class) {
  int compute_capability = 0;
  int sm_count = 0;
  const std::size_t at = device_class.starts_with("emulator ") ? device_class.find(' ') + 1 : 0;
  const bool read = std::sscanf(device_class.c_str() + at, "sm_%4d %6d SMs", &compute_capability, &sm_count) == 2;
  if (!read || compute_capability < 1 || sm_count < 1) return std::nullopt;
  DeviceProperties device = typical_device(compute_capability);
  device.compute_capability = compute_capability;
  device.sm_count = sm_count;
  return device;
}

}  // namespace sparsmith
