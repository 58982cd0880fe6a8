#include "base/hash.h"

#include <gtest/gtest.h>

namespace sparsmith {
namespace {

// Files and caches hold these hashes: another version of the library, or another order of the halves, breaks them.
TEST(HashTest, IsXxh3) {
  EXPECT_EQ(hash_text(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_bytes({}), hash_text(""));
  EXPECT_EQ(hash64(""), 0x2D06800538D394C2U);
  EXPECT_NE(hash_text("a"), hash_text("b"));
  EXPECT_NE(hash64("a"), hash64("b"));
}

}  // namespace
}  // namespace sparsmith
