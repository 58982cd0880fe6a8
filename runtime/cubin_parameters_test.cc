#include "runtime/cubin_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <span>
#include <vector>

#include "base/file.h"
#include "tests/support/fake_cuda_driver.h"

namespace sparsmith {
namespace {

using Parameter = CubinParameters::Parameter;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(CubinParameters, AreThoseOfTheKernel) {
  const std::vector<std::byte> cubin = fake_cubin("k", {8, 4, 8, 4});
  const auto read = read_cubin_parameters(cubin, "k");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_THAT(read->parameters, ElementsAre(Parameter{0, 8}, Parameter{8, 4}, Parameter{16, 8}, Parameter{24, 4}));
  EXPECT_EQ(read->max_threads, 0);
  EXPECT_TRUE(read_cubin_parameters(fake_cubin("k"), "k")->parameters.empty());
  EXPECT_THAT(read_cubin_parameters(cubin, "other").status().message(), HasSubstr("does not describe a kernel other"));
}

// kern(const int*, const int*, float*, int, long long, float) with __launch_bounds__(256), compiled for each.
TEST(CubinParameters, AreReadFromCompiledKernels) {
  const auto seeds = std::filesystem::path(SPARSMITH_SOURCE_DIR) / "tests/fuzz/seeds/cubin_parameters";
  for (const char* architecture : {"80", "90a", "100"}) {
    const auto cubin = read_file((seeds / (std::string("k") + architecture + ".cubin")).string());
    ASSERT_TRUE(cubin.ok()) << cubin.status().to_string();
    const auto read = read_cubin_parameters(std::as_bytes(std::span(*cubin)), "kern");
    ASSERT_TRUE(read.ok()) << architecture << ": " << read.status().to_string();
    EXPECT_THAT(read->parameters, ElementsAre(Parameter{0, 8}, Parameter{8, 8}, Parameter{16, 8}, Parameter{24, 4},
                                              Parameter{32, 8}, Parameter{40, 4}));
    EXPECT_EQ(read->max_threads, 256);
    EXPECT_TRUE(read_cubin_parameters(std::as_bytes(std::span(*cubin)), "none")->parameters.empty());
  }
}

TEST(CubinParameters, RefusesDamage) {
  const std::vector<std::byte> whole = fake_cubin("k", {8, 4});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_FALSE(read_cubin_parameters(cut, "k").ok()) << size;
  }
  const auto changed = [&whole](std::vector<unsigned char> from, std::vector<unsigned char> to) {
    std::vector<std::byte> cubin = whole;
    const auto same = [](std::byte a, unsigned char b) { return std::to_integer<unsigned char>(a) == b; };
    const auto at = std::search(cubin.begin(), cubin.end(), from.begin(), from.end(), same);
    EXPECT_NE(at, cubin.end());
    std::transform(to.begin(), to.end(), at, [](unsigned char byte) { return std::byte{byte}; });
    return read_cubin_parameters(cubin, "k").status().message();
  };
  // Format, attribute, size; index; ordinal, offset; the size shifted by 18.
  const std::vector<unsigned char> second = {4, 0x17, 12, 0, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0x10, 0};
  EXPECT_THAT(changed(second, {4, 0x17, 12, 0, 0, 0, 0, 0, 0, 0}), HasSubstr("parameter 0 stands twice"));
  EXPECT_THAT(changed(second, {4, 0x17, 12, 0, 0, 0, 0, 0, 2, 0}), HasSubstr("parameter 1 is not described"));
  EXPECT_THAT(changed(second, {4, 0x17, 12, 0, 0, 0, 0, 0, 1, 0, 7, 0}), HasSubstr("overlaps"));
  EXPECT_THAT(changed(second, {4, 0x17, 12, 0, 0, 0, 0, 0, 1, 0, 9, 0}), HasSubstr("do not add up"));
  EXPECT_THAT(changed(second, {4, 0x17, 12, 0, 0, 0, 0, 0, 255, 255}), HasSubstr("parameter 65535"));
  EXPECT_THAT(changed(second, {4, 0x17, 11, 0}), HasSubstr("another size"));
  EXPECT_THAT(changed(second, {5, 0x17}), HasSubstr("unknown format"));
  EXPECT_THAT(changed(second, {4, 0x18}), HasSubstr("do not add up"));
  EXPECT_THAT(changed({3, 0x19, 12, 0}, {3, 0x19, 13, 0}), HasSubstr("do not add up"));
  EXPECT_THAT(changed({3, 0x19, 12, 0}, {4, 0x19, 12, 0}), HasSubstr("cut short"));
}

TEST(CubinParameters, DrawnDamageNeverCrashes) {
  constexpr std::uint64_t kSeed = 5;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  const std::vector<std::byte> whole = fake_cubin("k", {8, 4, 8});
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> cubin = whole;
    for (std::uint64_t edits = 1 + random() % 4; edits > 0; --edits)
      cubin[random() % cubin.size()] = static_cast<std::byte>(random() % 2 == 0 ? 0xFF : random());
    const auto read = read_cubin_parameters(cubin, "k");
    if (read.ok()) {
      ASSERT_LE(read->parameters.size(), 3U);
    }
  }
}

}  // namespace
}  // namespace sparsmith
