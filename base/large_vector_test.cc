#include "base/large_vector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace sparsmith {
namespace {

TEST(LargeVectorTest, KeepsValuesAsItGrows) {
  LargeVector<double> numbers(3, 0.5);
  EXPECT_EQ(numbers, (LargeVector<double>{0.5, 0.5, 0.5}));
  numbers.resize(std::size_t{2} << 20);  // 16 MiB
  EXPECT_EQ(std::ranges::count(numbers.begin(), numbers.begin() + 3, 0.5), 3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(numbers.data()) % (2 << 20), 0U) << "in large pages";
  numbers.back() = 4;
  LargeVector<double> moved = std::move(numbers);
  EXPECT_EQ(moved.back(), 4);
  moved.resize(1);
  moved.shrink_to_fit();
  EXPECT_EQ(moved, LargeVector<double>{0.5});
}

TEST(LargeVectorTest, MoreThanAnAddressCountsIsAnException) {
  EXPECT_THROW(LargeAllocator<double>().allocate(std::numeric_limits<std::size_t>::max() / 8), std::bad_alloc);
}

}  // namespace
}  // namespace sparsmith
