#include "formats/packed_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "formats/packed_reader.h"
#include "tests/support/drawn_packings.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

// Every test runs for every format of the table.
class PackedCheckTest : public testing::TestWithParam<PackedFormat> {
 protected:
  DrawnPacking draw() {
    auto drawn = draw_packing(random_, GetParam().name);
    EXPECT_TRUE(drawn.ok()) << drawn.status().to_string();
    return *std::move(drawn);
  }

  DrawnRandom random_;
};

INSTANTIATE_TEST_SUITE_P(Formats, PackedCheckTest, testing::ValuesIn(packed_formats().begin(), packed_formats().end()),
                         [](const auto& each) { return std::string(each.param.name); });

Status contents(const DrawnPacking& drawn) {
  return check_packed(drawn.packed, claim_of(drawn.matrix), PackedCheck::kContents);
}

TEST_P(PackedCheckTest, PackedWeightsPass) {
  for (int round = 0; round < 60; ++round) {
    const DrawnPacking drawn = draw();
    for (const PackedCheck depth : {PackedCheck::kBounds, PackedCheck::kContents}) {
      const Status status = check_packed(drawn.packed, claim_of(drawn.matrix), depth, 1 + round % 3);
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
  }
}

TEST_P(PackedCheckTest, ArraysNeedNoAlignment) {
  const DrawnPacking drawn = draw();
  std::vector<std::vector<std::byte>> copies;
  std::vector<PackedArrayView> arrays = array_views(drawn.packed);
  for (PackedArrayView& array : arrays) {
    std::vector<std::byte>& copy = copies.emplace_back(1);
    copy.insert(copy.end(), array.bytes.begin(), array.bytes.end());
    array.bytes = std::span(copy).subspan(1);
  }
  const PackedWeight& packed = drawn.packed;
  const Status status = check_packed(PackedView{packed.packing, packed.packer_version, packed.rows, packed.cols,
                                                packed.value_type, arrays, &packed.facts},
                                     claim_of(drawn.matrix), PackedCheck::kContents, 1);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

// Bytes of all arrays, one at a time or a word of them, with the claim of the weight kept.
TEST_P(PackedCheckTest, EveryAlteredByteIsRefused) {
  for (int round = 0; round < 12; ++round) {
    const DrawnPacking drawn = draw();
    const PackedClaim claim = claim_of(drawn.matrix);
    DrawnPacking altered = drawn;
    for (std::size_t a = 0; a < drawn.packed.arrays.size(); ++a) {
      const std::vector<std::byte>& whole = drawn.packed.arrays[a].bytes;
      std::vector<std::byte>& bytes = altered.packed.arrays[a].bytes;
      const std::size_t stride = 1 + whole.size() / 400;
      for (std::size_t at = random_() % stride; at < whole.size(); at += stride) {
        if (random_() % 3 == 0) {
          std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), std::min<std::size_t>(4, whole.size() - at),
                      std::byte{0xFF});
        } else {
          bytes[at] ^= static_cast<std::byte>(random_() % 2 == 0 ? 1U << random_() % 8 : 1 + random_() % 255);
        }
        const bool passes = check_packed(altered.packed, claim, PackedCheck::kContents).ok();
        if (passes && GetParam().name == std::string_view("scatter")) {
          expect_unpacks_to(drawn.matrix, altered.packed);  // an entry that fills a round may clear another empty place
        } else if (bytes != whole) {
          EXPECT_FALSE(passes) << drawn.packed.packing << ", " << drawn.packed.rows << " x " << drawn.packed.cols
                               << ": byte " << at << " of " << drawn.packed.arrays[a].name
                               << fmt::format(", {:02x} -> {:02x}", whole[at], bytes[at]);
        }
        bytes = whole;
      }
    }
  }
}

TEST_P(PackedCheckTest, EveryAlteredFactIsRefused) {
  for (int round = 0; round < 20; ++round) {
    const DrawnPacking drawn = draw();
    for (const auto& [name, value] : drawn.packed.facts) {
      for (const std::int64_t other : {value - 1, value + 1, std::int64_t{-1}, value + (std::int64_t{1} << 32)}) {
        if (other == value) continue;
        DrawnPacking altered = drawn;
        altered.packed.facts[name] = other;
        EXPECT_FALSE(contents(altered).ok()) << drawn.packed.packing << ": " << name << " " << value << " -> " << other;
      }
      DrawnPacking altered = drawn;
      altered.packed.facts.erase(name);
      EXPECT_FALSE(contents(altered).ok()) << name;
    }
    DrawnPacking altered = drawn;
    altered.packed.facts["another"] = 1;
    EXPECT_FALSE(contents(altered).ok());
  }
}

TEST_P(PackedCheckTest, ArraysOfOtherNamesTypesAndSizesAreRefused) {
  for (int round = 0; round < 20; ++round) {
    const DrawnPacking drawn = draw();
    const auto refused = [&](const char* how, const auto& alter) {
      for (std::size_t a = 0; a < drawn.packed.arrays.size(); ++a) {
        DrawnPacking altered = drawn;
        PackedArray& array = altered.packed.arrays[a];
        const std::string name = array.name;
        alter(altered.packed.arrays, array);
        for (const PackedCheck depth : {PackedCheck::kBounds, PackedCheck::kContents})
          EXPECT_FALSE(check_packed(altered.packed, claim_of(drawn.matrix), depth).ok())
              << drawn.packed.packing << ": " << name << " " << how;
      }
    };
    refused("renamed", [](auto&, PackedArray& array) { array.name += "s"; });
    refused("of another type", [](auto&, PackedArray& array) { array.type = DataType::kInt32; });
    refused("a byte longer", [](auto&, PackedArray& array) { array.bytes.push_back({}); });
    refused("longer", [](auto&, PackedArray& array) { array.bytes.resize(array.bytes.size() + 1024); });
    refused("twice", [](auto& arrays, PackedArray& array) { arrays.push_back(PackedArray(array)); });
    refused("shorter", [](auto&, PackedArray& array) {
      array.bytes.empty()
          ? array.bytes.resize(4)
          : array.bytes.resize(array.bytes.size() - std::min<std::size_t>(array.bytes.size(), size_of(array.type)));
    });
  }
}

TEST_P(PackedCheckTest, AnotherShapeVersionOrWeightIsRefused) {
  for (int round = 0; round < 20; ++round) {
    const DrawnPacking drawn = draw();
    const auto refused = [&](const char* what, const auto& alter) {
      PackedWeight packed = drawn.packed;
      PackedClaim claim = claim_of(drawn.matrix);
      alter(packed, claim);
      const Status status = check_packed(packed, claim, PackedCheck::kContents);
      EXPECT_FALSE(status.ok()) << drawn.packed.packing << ": " << what;
      EXPECT_THAT(status.message(), testing::HasSubstr(packed.packing)) << what;
    };
    for (const std::int64_t other :
         {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 26, std::int64_t{1} << 62}) {
      if (other != drawn.packed.rows) refused("rows", [&](auto& packed, auto&) { packed.rows = other; });
      if (other != drawn.packed.cols) refused("cols", [&](auto& packed, auto&) { packed.cols = other; });
    }
    refused("a row more", [](auto& packed, auto&) { ++packed.rows; });
    refused("a row less", [](auto& packed, auto&) { --packed.rows; });
    refused("a column more", [](auto& packed, auto&) { ++packed.cols; });
    refused("a column less", [](auto& packed, auto&) { --packed.cols; });
    refused("version", [](auto& packed, auto&) { ++packed.packer_version; });
    // Zeros and codes are the same in both types, and patterns have none.
    const bool values = holds_values(drawn.packed.packing);
    const bool tells_types = values && coding_of(without_transposed(drawn.packed.packing)) == nullptr &&
                             std::ranges::any_of(drawn.matrix.values, [](float value) { return value != 0; });
    if (tells_types) refused("type", [](auto& packed, auto&) { packed.value_type = DataType::kBFloat16; });
    refused("name", [](auto& packed, auto&) { packed.packing += "_"; });
    refused("nnz", [](auto&, auto& claim) { ++claim.nnz; });
    refused("pattern", [](auto&, auto& claim) { claim.pattern_hash.back() ^= 1; });
    if (values) refused("values", [](auto&, auto& claim) { claim.value_hash.back() ^= 1; });
  }
}

TEST(PackedFormatsTest, UnknownNamesAreRefused) {
  for (const char* name : {"", "csr", "csrs", "dense_", "two_fourth", "panels_r1", "panel", "panel_r1_k1"}) {
    PackedWeight packed;
    packed.packing = name;
    EXPECT_FALSE(check_packed(packed, {}, PackedCheck::kBounds).ok()) << name;
  }
}

}  // namespace
}  // namespace sparsmith::test
