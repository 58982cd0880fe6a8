#include "runtime/device_properties.h"

#include <fmt/format.h>

namespace sparsmith {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
constexpr std::int64_t kGiB = 1024 * kMiB;

// What A100 (80 GB), H200 and B200 have in common with every data-centre GPU since Ampere stands in the defaults
// of DeviceProperties: 2,048 threads, 32 blocks and 65,536 registers an SM.
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
  device.memory_bandwidth = 2.039e12;
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
  device.memory_bandwidth = 4.8e12;
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
  device.memory_bandwidth = 7.7e12;
  return device;
}

}  // namespace

std::string DeviceProperties::device_class() const {
  return fmt::format("{}sm_{} {} SMs", is_emulator ? "emulator " : "", compute_capability, sm_count);
}

double DeviceProperties::tensor_operations_per_second() const {
  const double of_an_sm = compute_capability >= 100 ? 8192 : compute_capability >= 90 ? 4096 : 2048;  // in a clock
  return of_an_sm * sm_count * clock_khz * 1e3;
}

DeviceProperties typical_device(int compute_capability) {
  if (compute_capability >= 100) return b200();
  return compute_capability >= 90 ? h200() : a100();
}

}  // namespace sparsmith
