#include "emulator/device_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace sparsmith {
namespace {

constexpr std::uint64_t kMegabyte = std::uint64_t{1} << 20;

// Of this process from now on, until the guard goes: `bytes` more address space than it has.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(std::uint64_t bytes) {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &before_);
    const rlimit limit = {pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + bytes, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressSpaceLimit() { setrlimit(RLIMIT_AS, &before_); }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(DeviceMemoryTest, AddressesAreUsedAgainWhenTheRangeIsUsedUp) {
  constexpr std::uint64_t kCapacity = 4 * kMegabyte;
  const auto memory = [] {
    const AddressSpaceLimit limit(250 * kMegabyte);
    return DeviceMemory::reserve(kCapacity);
  }();
  ASSERT_TRUE(memory.ok()) << memory.status().to_string();
  const auto kept = (*memory)->allocate(kMegabyte);
  ASSERT_TRUE(kept.ok());
  for (int i = 0; i < 30; ++i) {
    const auto address = (*memory)->allocate(3 * kMegabyte);
    ASSERT_TRUE(address.ok()) << i << ": " << address.status().to_string();
    EXPECT_GE(*address, *kept + kMegabyte);
    ASSERT_TRUE((*memory)->free(*address).ok());
  }
  EXPECT_EQ((*memory)->allocate(4 * kMegabyte).status().code(), StatusCode::kOutOfMemory);
}

}  // namespace
}  // namespace sparsmith
