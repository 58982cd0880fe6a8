#include "runtime/device_properties.h"

#include <gtest/gtest.h>

namespace sparsmith {
namespace {

TEST(DeviceProperties, ADeviceIsFoundByItsClass) {
  for (const char* const name : {"sm_90 132 SMs", "sm_86 84 SMs"}) {
    const auto device = device_of_class(name);
    ASSERT_TRUE(device) << name;
    EXPECT_EQ(device->device_class(), name);
    const auto emulated = device_of_class(std::string("emulator ") + name);
    ASSERT_TRUE(emulated) << name;
    EXPECT_EQ(emulated->device_class(), name);
  }
  for (const char* const none : {"", "emulator ", "sm_90", "sm_0 132 SMs", "sm_90 -1 SMs", "gfx90a"})
    EXPECT_FALSE(device_of_class(none)) << none;
}

TEST(DeviceProperties, TypicalDevicesAreThoseAskedForOrTheNearestBelow) {
  EXPECT_EQ(typical_device(80).device_class(), "sm_80 108 SMs");
  EXPECT_EQ(typical_device(90).device_class(), "sm_90 132 SMs");
  EXPECT_EQ(typical_device(100).device_class(), "sm_100 148 SMs");
  EXPECT_EQ(typical_device(75).compute_capability, 80);
  EXPECT_EQ(typical_device(89).compute_capability, 80);
  EXPECT_EQ(typical_device(120).compute_capability, 100);
}

TEST(DeviceProperties, ABlockNeverGetsAllSharedMemoryOfAnSm) {
  for (const int capability : {80, 90, 100}) {
    const DeviceProperties device = typical_device(capability);
    EXPECT_EQ(device.shared_bytes_per_sm - device.shared_bytes_per_block, 1024) << "the system keeps 1 KiB a block";
    EXPECT_GT(device.memory_bandwidth, 1e12);
  }
}

TEST(DeviceProperties, TensorCoresReachWhatTheVendorStates) {
  EXPECT_NEAR(typical_device(80).tensor_operations_per_second(), 312e12, 5e12) << "A100";
  DeviceProperties hopper = typical_device(90);
  hopper.clock_khz = 1'830'000;  // the one that the statement is for
  EXPECT_NEAR(hopper.tensor_operations_per_second(), 989e12, 5e12) << "H200";
  hopper.clock_khz = 0;
  EXPECT_EQ(hopper.tensor_operations_per_second(), 0);
}

TEST(DeviceProperties, TheEmulatorIsAClassOfItsOwn) {
  DeviceProperties device = typical_device(90);
  device.is_emulator = true;
  EXPECT_EQ(device.device_class(), "emulator sm_90 132 SMs");
}

}  // namespace
}  // namespace sparsmith
