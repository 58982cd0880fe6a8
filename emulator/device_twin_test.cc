// The twin declares what snippets/device.cuh declares, and computes the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <regex>
#include <set>

#include "base/file.h"
#include "base/half.h"
#include "emulator/kernel_bench.h"
#include "emulator/kernel_text.h"

namespace sparsmith {
namespace {

// Names that a device header offers: functions, types and macros. Members of GlobalLoad are device.cuh's own affair.
std::set<std::string> offered_names(const std::string& text) {
  std::set<std::string> names;
  const std::regex pattern(
      R"((?:^|\n)(?:template <[^>]*>\n)?(?:SPARSMITH_DEVICE (?:\w+[ *&]+)+(\w+)\(|struct (?:alignas\([^\n]*\) )?(\w+)[ ;<]|using (\w+) =|#define (SPARSMITH_\w+)))");
  for (std::sregex_iterator found(text.begin(), text.end(), pattern), end; found != end; ++found) {
    for (std::size_t group = 1; group < found->size(); ++group) {
      if ((*found)[group].matched) names.insert((*found)[group]);
    }
  }
  names.erase("GlobalLoad");
  return names;
}

TEST(DeviceTwinTest, OffersWhatTheDeviceHeaderOffers) {
  const Result<std::string> device = read_file(std::string(SPARSMITH_SOURCE_DIR) + "/snippets/device.cuh");
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  const std::set<std::string> wanted = offered_names(*device);
  const std::set<std::string> offered = offered_names(std::string(device_twin_text()));
  EXPECT_THAT(wanted,
              testing::IsSupersetOf({"block_barrier", "shared_memory", "half", "u16", "async_wait", "load_cached"}))
      << "the pattern of this test no longer finds what device.cuh declares";
  std::string missing;
  for (const std::string& name : wanted) {
    if (!offered.contains(name)) missing += "\n  " + name;
  }
  EXPECT_EQ(missing, "") << "emulator/device_twin.h lacks what snippets/device.cuh offers:" << missing;
}

bool same_float(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

TEST(DeviceTwinTest, EverySixteenBitValueConvertsAsOnTheHost) {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  KernelBench bench;
  bench.add(bits);
  const int halves = bench.add_unwritten<float>(bits.size());
  const int bfloats = bench.add_unwritten<float>(bits.size());
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(256) test(const u16* bits, float* halves, float* bfloats) {
  const int i = block_index_x() * 256 + thread_index();
  halves[i] = to_float(half{bits[i]});
  bfloats[i] = to_float(bfloat16{bits[i]});
})",
                                  256, 256);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<float> from_halves = bench.read<float>(halves, bits.size());
  const std::vector<float> from_bfloats = bench.read<float>(bfloats, bits.size());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    ASSERT_TRUE(same_float(from_halves[i], float_from_fp16(bits[i]))) << std::hex << i;
    ASSERT_TRUE(same_float(from_bfloats[i], float_from_bf16(bits[i]))) << std::hex << i;
  }
}

// Floats of every magnitude, and all those about which rounding to 16 bits has to decide: ties and their neighbours.
std::vector<float> awkward_floats() {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    for (const float exact :
         {float_from_fp16(static_cast<std::uint16_t>(bits)), float_from_bf16(static_cast<std::uint16_t>(bits))}) {
      const std::uint32_t base = std::bit_cast<std::uint32_t>(exact);
      for (const std::uint32_t half_step : {0x1000U, 0x8000U}) {
        for (const std::uint32_t offset : {half_step - 1, half_step, half_step + 1}) {
          values.push_back(std::bit_cast<float>(base + offset));
        }
      }
    }
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 65536 * 4; ++i) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  values.resize(values.size() / 256 * 256);
  return values;
}

TEST(DeviceTwinTest, FloatsRoundAsOnTheHost) {
  const std::vector<float> values = awkward_floats();
  KernelBench bench;
  bench.add(values);
  const int halves = bench.add_unwritten<std::uint16_t>(values.size());
  const int bfloats = bench.add_unwritten<std::uint16_t>(values.size());
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(256) test(const float* values, half* halves, bfloat16* bfloats) {
  const int i = block_index_x() * 256 + thread_index();
  halves[i] = from_float<half>(values[i]);
  bfloats[i] = from_float<bfloat16>(values[i]);
})",
                                  static_cast<std::int64_t>(values.size() / 256), 256);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<std::uint16_t> to_halves = bench.read<std::uint16_t>(halves, values.size());
  const std::vector<std::uint16_t> to_bfloats = bench.read<std::uint16_t>(bfloats, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(to_halves[i], fp16_from_float(values[i])) << std::hexfloat << values[i];
    ASSERT_EQ(to_bfloats[i], bf16_from_float(values[i])) << std::hexfloat << values[i];
  }
}

TEST(DeviceTwinTest, ArithmeticRoundsOnce) {
  const std::vector<float> values{0x1.000002p0F, 0x1.000002p0F, -0x1.000004p0F};
  KernelBench bench;
  bench.add(values);
  const int out = bench.add_unwritten<float>(4);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(1) test(const float* v, float* out) {
  out[0] = multiply_add(v[0], v[1], v[2]);
  out[1] = v[0] * v[1] + v[2];
  out[2] = exponential(1.0f);
  out[3] = error_function(0.5f);
})",
                                  1, 1);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<float> result = bench.read<float>(out, 4);
  EXPECT_EQ(result[0], 0x1p-46F);
  EXPECT_EQ(result[1], 0.0F) << "a product and a sum were contracted into one operation";
  EXPECT_NEAR(result[2], std::exp(1.0), 1e-6);
  EXPECT_NEAR(result[3], std::erf(0.5), 1e-6);
}

}  // namespace
}  // namespace sparsmith
