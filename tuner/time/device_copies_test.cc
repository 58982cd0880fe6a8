// Runs on the fake driver.
#include "tuner/time/device_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "tests/support/fake_cuda_driver.h"

namespace sparsmith {
namespace {

TEST(DeviceCopiesTest, EachCopyHoldsWhatTheOriginalsHold) {
  fake_cuda() = FakeCudaState();
  const auto executor = GpuExecutor::create(0);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  const std::vector<std::vector<std::uint8_t>> contents = {std::vector<std::uint8_t>(300, 1), {}, {2, 3, 4}};
  std::vector<DeviceAllocation> buffers;
  std::vector<DeviceCopies::Array> originals;
  for (const std::vector<std::uint8_t>& bytes : contents) {
    auto buffer = DeviceAllocation::holding(**executor, std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(buffer.ok()) << buffer.status().to_string();
    originals.push_back({buffer->address(), bytes.size()});
    buffers.push_back(*std::move(buffer));
  }
  DeviceCopies copies(**executor, originals);
  EXPECT_EQ(copies.count(), 1);
  for (const int count : {1, 4, 2, 9}) {  // more of them, never fewer
    const int had = copies.count();
    ASSERT_TRUE(copies.make(count).ok());
    EXPECT_EQ(copies.count(), std::max(count, had));
  }
  std::set<DeviceAddress> places;
  for (int copy = 0; copy < copies.count(); ++copy) {
    EXPECT_TRUE(places.insert(copies.address(copy, 0)).second);
    for (std::size_t array = 0; array < contents.size(); ++array) {
      std::vector<std::uint8_t> found(contents[array].size());
      ASSERT_TRUE((*executor)->read(std::as_writable_bytes(std::span(found)), copies.address(copy, array)).ok());
      EXPECT_EQ(found, contents[array]) << "array " << array << " of copy " << copy;
    }
  }
  EXPECT_EQ(copies.address(0, 2), originals[2].address);
}

}  // namespace
}  // namespace sparsmith
