// The twins declare what the headers of snippets/device/ declare, and compute the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <random>
#include <regex>
#include <set>

#include "base/file.h"
#include "base/half.h"
#include "emulator/kernel_text.h"
#include "tests/support/drawn_matrix.h"
#include "tests/support/kernel_bench.h"

namespace sparsmith {
namespace {

// Names that a device header offers: functions, types and macros. How one loads, and spells instructions of many
// operands, is its own affair.
std::set<std::string> offered_names(const std::string& text) {
  std::set<std::string> names;
  const std::regex pattern(
      R"((?:^|\n)(?:template <[^>]*>\n)?(?:(?:SPARSMITH_DEVICE|extern) (?:\w+[ *&]+)+(\w+)\(|struct (?:alignas\([^\n]*\) )?(\w+)[ ;<]|using (\w+) =|#define (SPARSMITH_\w+)))");
  for (std::sregex_iterator found(text.begin(), text.end(), pattern), end; found != end; ++found) {
    for (std::size_t group = 1; group < found->size(); ++group) {
      if ((*found)[group].matched) names.insert((*found)[group]);
    }
  }
  for (const char* own :
       {"GlobalLoad", "load_global", "SPARSMITH_SM_90", "SPARSMITH_ASM_SM_90", "barrier_init", "barrier_wait"})
    names.erase(own);
  const std::regex undefined("#undef (\\w+)");
  for (std::sregex_iterator found(text.begin(), text.end(), undefined), end; found != end; ++found)
    names.erase((*found)[1]);
  return names;
}

// emulator/device_twin/<name>.h; empty: there is none.
std::string twin_text(const std::string& name) {
  const std::string path = "emulator/device_twin/" + name + ".h";
  const auto found = std::ranges::find(device_twins(), path, &TwinHeader::path);
  return found == device_twins().end() ? "" : std::string(found->text);
}

TEST(DeviceTwinTest, EachOffersWhatItsDeviceHeaderOffers) {
  std::set<std::string> known;
  for (const auto& entry : std::filesystem::directory_iterator(SPARSMITH_SOURCE_DIR "/snippets/device")) {
    const Result<std::string> device = read_file(entry.path().string());
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    const std::set<std::string> wanted = offered_names(*device);
    const std::set<std::string> offered = offered_names(twin_text(entry.path().stem().string()));
    for (const std::string& name : wanted)
      EXPECT_TRUE(offered.contains(name)) << "the twin of " << entry.path() << " lacks " << name;
    known.insert(wanted.begin(), wanted.end());
  }
  EXPECT_THAT(known,
              testing::IsSupersetOf({"block_barrier", "shared_memory", "half", "u16", "async_wait", "load_cached"}))
      << "the pattern of this test no longer finds what the headers declare";
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

// One warp multiplies A [16][16] by B [16][8] and adds to D [16][8], all row-major, by the fragments of the PTX ISA.
constexpr const char* kMatrixKernel = R"(
extern "C" __global__ void __launch_bounds__(32) test(const u16* a, const u16* b, float* d) {
  const int lane = thread_index();
  const int group = lane >> 2;
  const int in_group = lane % 4;
  u32 left[4], right[2];
  for (int i = 0; i < 8; ++i) {
    const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
    const int column = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
    const u32 value = a[row * 16 + column];
    left[i / 2] = i % 2 == 0 ? value : left[i / 2] | value << 16;
  }
  for (int i = 0; i < 4; ++i) {
    const int row = in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0);
    const u32 value = b[row * 8 + group];
    right[i / 2] = i % 2 == 0 ? value : right[i / 2] | value << 16;
  }
  float sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = d[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)];
  if (kMissing == lane) return;
  TensorMultiply<Type>::add(sums, left, right[0], right[1]);
  for (int i = 0; i < 4; ++i) d[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)] = sums[i];
})";

TEST(DeviceTwinTest, TensorCoresMultiplyAsOnTheHost) {
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-2.0F, 2.0F);
  for (const bool bfloat16 : {false, true}) {
    const auto draw = [&](std::size_t count, std::vector<float>& values) {
      std::vector<std::uint16_t> bits(count);
      for (std::uint16_t& each : bits) {
        each = bfloat16 ? bf16_from_float(uniform(random)) : fp16_from_float(uniform(random));
        values.push_back(bfloat16 ? float_from_bf16(each) : float_from_fp16(each));
      }
      return bits;
    };
    std::vector<float> a;
    std::vector<float> b;
    std::vector<float> d(16 * 8);
    for (float& each : d) each = uniform(random);
    KernelBench bench;
    bench.add(draw(16 * 16, a));
    bench.add(draw(16 * 8, b));
    const int out = bench.add(d);
    const std::string type = bfloat16 ? "bfloat16" : "half";
    const Status status =
        bench.run("using Type = " + type + ";\nconstexpr int kMissing = -1;\n" + kMatrixKernel, 1, 32);
    ASSERT_TRUE(status.ok()) << status.to_string();
    const std::vector<float> product = bench.read<float>(out, d.size());
    for (std::size_t row = 0; row < 16; ++row) {
      for (std::size_t column = 0; column < 8; ++column) {
        double expected = d[row * 8 + column];
        for (std::size_t k = 0; k < 16; ++k) expected += static_cast<double>(a[row * 16 + k]) * b[k * 8 + column];
        EXPECT_NEAR(product[row * 8 + column], expected, 1e-4)
            << "seed " << seed << ", " << type << ", row " << row << ", column " << column;
      }
    }
  }
}

TEST(DeviceTwinTest, TensorCoresNeedTheWholeWarp) {
  KernelBench bench;
  bench.add(std::vector<std::uint16_t>(16 * 16));
  bench.add(std::vector<std::uint16_t>(16 * 8));
  bench.add(std::vector<float>(16 * 8));
  const Status status =
      bench.run(std::string("using Type = half;\nconstexpr int kMissing = 5;\n") + kMatrixKernel, 1, 32);
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
}

// One warp multiplies A [16][8 groups][2 elements], whose places are [16][8], four bits a group, by B [32][8] and adds
// to D [16][8], by the fragments of the PTX ISA. The lanes of the other pairs bring nonsense for metadata.
constexpr const char* kSparseKernel = R"(
template <int kPair>
SPARSMITH_DEVICE void multiply(const u32* a, const u8* places, const u16* b, float* d) {
  const int lane = thread_index();
  const int g = lane / 4;
  const int t = lane % 4;
  u32 left[4], right[4];
  for (int i = 0; i < 4; ++i) left[i] = a[(g + 8 * (i % 2)) * 8 + t + 4 * (i / 2)];
  for (int i = 0; i < 4; ++i) {
    const int row = 2 * t + 8 * i;
    right[i] = b[row * 8 + g] | static_cast<u32>(b[(row + 1) * 8 + g]) << 16;
  }
  u32 metadata = 0xFFFFFFFFU;
  if (t / 2 == kPair) {
    metadata = 0;
    for (int u = 0; u < 4; ++u) {
      metadata |= static_cast<u32>(places[g * 8 + u + t % 2 * 4]) << (4 * u);
      metadata |= static_cast<u32>(places[(g + 8) * 8 + u + t % 2 * 4]) << (16 + 4 * u);
    }
  }
  float sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = d[(g + i / 2 * 8) * 8 + t * 2 + i % 2];
  SparseTensorMultiply<Type>::template add<kPair>(sums, left, right, metadata);
  for (int i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = sums[i];
}
extern "C" __global__ void __launch_bounds__(32) test(const u32* a, const u8* places, const u16* b, float* d) {
  multiply<kPairUsed>(a, places, b, d);
})";

// The first place in the lower two bits.
constexpr std::array<std::uint8_t, 6> kPlaces = {0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110};

TEST(DeviceTwinTest, SparseTensorCoresMultiplyWhatTheMetadataNames) {
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int> eighths(-16, 16);
  for (const bool bfloat16 : {false, true}) {
    for (const int pair : {0, 1}) {
      const auto bits_of = [&](float value) { return bfloat16 ? bf16_from_float(value) : fp16_from_float(value); };
      std::vector<std::uint32_t> a(16 * 8);
      std::vector<std::uint8_t> places(16 * 8);
      std::vector<std::uint16_t> b;
      std::vector<float> b_values;
      std::vector<double> expected(16 * 8);
      for (int i = 0; i < 32 * 8; ++i) {
        b_values.push_back(static_cast<float>(eighths(random)) / 8);
        b.push_back(bits_of(b_values.back()));
      }
      for (std::size_t i = 0; i < places.size(); ++i) {
        places[i] = kPlaces[random() % kPlaces.size()];
        for (int e = 0; e < 2; ++e) {
          const float value = static_cast<float>(eighths(random)) / 8;
          a[i] |= static_cast<std::uint32_t>(bits_of(value)) << (16 * e);
          const std::size_t row = i % 8 * 4 + (places[i] >> (2 * e) & 3U);
          for (std::size_t column = 0; column < 8; ++column)
            expected[i / 8 * 8 + column] += static_cast<double>(value) * b_values[row * 8 + column];
        }
      }
      KernelBench bench;
      bench.add(a);
      bench.add(places);
      bench.add(b);
      const int out = bench.add(std::vector<float>(16 * 8));
      const Status status =
          bench.run(std::string("using Type = ") + (bfloat16 ? "bfloat16" : "half") +
                        ";\nconstexpr int kPairUsed = " + std::to_string(pair) + ";\n" + kSparseKernel,
                    1, 32);
      ASSERT_TRUE(status.ok()) << status.to_string();
      const std::vector<float> product = bench.read<float>(out, expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(product[i], static_cast<float>(expected[i])) << "seed " << seed << ", element " << i;
    }
  }
}

TEST(DeviceTwinTest, SparseTensorCoresWantPlacesInOrder) {
  for (const std::uint8_t places : {0b0001, 0b0000, 0b1111, 0b0110}) {
    KernelBench bench;
    bench.add(std::vector<std::uint32_t>(16 * 8));
    std::vector<std::uint8_t> all(16 * 8, kPlaces[0]);
    all[77] = places;
    bench.add(all);
    bench.add(std::vector<std::uint16_t>(32 * 8));
    bench.add(std::vector<float>(16 * 8));
    const Status status =
        bench.run(std::string("using Type = half;\nconstexpr int kPairUsed = 1;\n") + kSparseKernel, 1, 32);
    EXPECT_EQ(status.code(), StatusCode::kDeviceError);
    EXPECT_THAT(status.message(), testing::HasSubstr("metadata"));
  }
}

TEST(DeviceTwinTest, MatricesLoadTransposed) {
  std::vector<std::uint16_t> elements(4 * 64);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<std::uint16_t>(i * 7);
  KernelBench bench;
  bench.add(elements);
  const int out = bench.add_unwritten<std::uint32_t>(128);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(32) test(const u16* elements, u32* out) {
  u16* rows = reinterpret_cast<u16*>(shared_memory());
  for (int i = thread_index(); i < 256; i += 32) rows[i] = elements[i];
  warp_barrier();
  u32 parts[4];
  load_matrices_transposed(shared_address(rows + thread_index() * 8), parts);
  for (int i = 0; i < 4; ++i) out[thread_index() * 4 + i] = parts[i];
})",
                                  1, 32, 512);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<std::uint32_t> parts = bench.read<std::uint32_t>(out, 128);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t matrix = 0; matrix < 4; ++matrix) {
      const auto element = [&](std::size_t row) { return elements[matrix * 64 + row * 8 + lane / 4]; };
      const std::uint32_t expected = element(lane % 4 * 2) | static_cast<std::uint32_t>(element(lane % 4 * 2 + 1))
                                                                 << 16;
      EXPECT_EQ(parts[lane * 4 + matrix], expected) << "lane " << lane << ", matrix " << matrix;
    }
  }
}

TEST(DeviceTwinTest, MatricesAreStoredTransposed) {
  KernelBench bench;
  const int out = bench.add_unwritten<std::uint16_t>(256);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(32) test(u16* out) {
  u16* rows = reinterpret_cast<u16*>(shared_memory());
  u32 parts[4];
  for (u32 i = 0; i < 4; ++i) parts[i] = (thread_index() * 4 + i) * 2 | (thread_index() * 4 + i) * 2 + 1 << 16;
  store_matrices_transposed(shared_offset(rows + thread_index() * 8), parts);
  warp_barrier();
  for (int i = thread_index(); i < 256; i += 32) out[i] = rows[i];
})",
                                  1, 32, 512);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<std::uint16_t> stored = bench.read<std::uint16_t>(out, 256);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = 0; i < 8; ++i) {
      const std::size_t row = lane % 4 * 2 + i % 2;
      EXPECT_EQ(stored[i / 2 * 64 + row * 8 + lane / 4], lane * 8 + i) << "lane " << lane << ", matrix " << i / 2;
    }
  }
}

// Of drawn pairs of all exponents.
TEST(DeviceTwinTest, HalvesAreMultipliedAndAddedWithOneRounding) {
  test::DrawnRandom random;
  KernelBench bench;
  std::vector<std::uint32_t> operands(3 * 4096);
  for (std::uint32_t& operand : operands) operand = static_cast<std::uint32_t>(random());
  bench.add(operands);
  const int out = bench.add_unwritten<std::uint32_t>(2 * 4096);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(32) test(const u32* in, u32* out) {
  for (int i = thread_index(); i < 4096; i += 32) {
    out[2 * i] = multiply_halves(in[3 * i], in[3 * i + 1]);
    out[2 * i + 1] = multiply_add_halves(in[3 * i], in[3 * i + 1], in[3 * i + 2]);
  }
})",
                                  1, 32);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<std::uint32_t> result = bench.read<std::uint32_t>(out, 2 * 4096);
  const auto value = [](std::uint32_t word, int shift) {
    return static_cast<double>(float_from_fp16(static_cast<std::uint16_t>(word >> shift)));
  };
  // The distance to the exact value is no larger than that of either neighbour.
  const auto expect_nearest = [](double exact, std::uint16_t got) {
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(float_from_fp16(got)));
      return;
    }
    if (std::abs(exact) >= 65520) {
      EXPECT_EQ(got, exact < 0 ? 0xFC00 : 0x7C00) << exact;
      return;
    }
    const double error = std::abs(static_cast<double>(float_from_fp16(got)) - exact);
    for (const int step : {-1, 1}) {
      const auto other = static_cast<std::uint16_t>(got + step);
      if ((other & 0x7FFFU) >= 0x7C00U || static_cast<int>(got & 0x7FFFU) + step < 0) continue;
      const double others = std::abs(static_cast<double>(float_from_fp16(other)) - exact);
      EXPECT_LE(error, others) << exact;
      if (error == others) {
        EXPECT_EQ(got % 2, 0) << exact;
      }
    }
  };
  for (std::size_t i = 0; i < 4096; ++i) {
    for (const int shift : {0, 16}) {
      const double product = value(operands[3 * i], shift) * value(operands[3 * i + 1], shift);
      expect_nearest(product, static_cast<std::uint16_t>(result[2 * i] >> shift));
      expect_nearest(product + value(operands[3 * i + 2], shift),
                     static_cast<std::uint16_t>(result[2 * i + 1] >> shift));
    }
  }
}

TEST(DeviceTwinTest, ScansVotesAndPredicatedLoads) {
  KernelBench bench;
  const int out = bench.add_unwritten<std::uint32_t>(128);
  const Status status = bench.run(R"(
extern "C" __global__ void __launch_bounds__(32) test(u32* out) {
  u16* values = reinterpret_cast<u16*>(shared_memory());
  const u32 lane = static_cast<u32>(thread_index());
  values[lane] = static_cast<u16>(lane + 100);
  warp_barrier();
  out[lane] = shuffle_up(lane, 3);
  SharedCursor cursor = shared_cursor(values + lane % 16);
  const u32 first = take_if<0>(cursor, lane);
  out[32 + lane] = first + 1000 * take_if<1>(cursor, lane);
  out[64 + lane] = (warp_any(lane == 31) ? 1U : 0U) + (warp_any(lane == 32) ? 2U : 0U) +
                   (add_zero_times<half>(0xFBFF7BFFU, 0) == 0 ? 4U : 0U) +
                   (add_zero_times<half>(lane == 0 ? 0x00007C00U : 0xFC010000U, 0) == 0 ? 8U : 0U);
  SharedCursor third = advanced(shared_cursor(values), 6);
  out[96 + lane] = add_shuffled_up(lane, 2) + 100 * static_cast<u32>(count_bits(lane)) + 1000 * take_if<4>(third, lane) +
                   static_cast<u32>(warp_index());
  if (lane == 7) out[96 + lane] = permute_bytes(0x7F80A05FU, 0x01020304U, 0xA94B);
})",
                                  1, 32, 64);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<std::uint32_t> result = bench.read<std::uint32_t>(out, 128);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(result[lane], lane < 3 ? lane : lane - 3);
    const std::uint32_t value = lane % 16 + 100;
    const std::uint32_t first = (lane & 1U) != 0 ? value : 0;
    const std::uint32_t second = (lane & 2U) != 0 ? value + (lane & 1U) : 0;
    EXPECT_EQ(result[32 + lane], first + 1000 * second);
    EXPECT_EQ(result[64 + lane], 5U);
    const std::uint32_t scanned = lane < 2 ? lane : 2 * lane - 2;
    const std::uint32_t third = (lane & 16U) != 0 ? 103000 : 0;
    // Of bytes 11 (the sign of 3), 4, 9 (of 1) and 10 (of 2), lowest first.
    EXPECT_EQ(result[96 + lane],
              lane == 7 ? 0xFFFF0400U : scanned + 100 * static_cast<std::uint32_t>(std::popcount(lane)) + third);
  }
}

}  // namespace
}  // namespace sparsmith
