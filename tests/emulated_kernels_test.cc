// Every parameter value of the families, on the CPU: drawn kernels run in the emulator, which reports races, barriers
// that part of a block misses and accesses out of bounds, and their outputs are compared with Eigen in fp64.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "formats/packed_format.h"
#include "formats/places.h"
#include "matrix/synthesis.h"
#include "tests/support/dense_cases.h"
#include "tests/support/kernel_cases.h"
#include "tests/support/value_writer_cases.h"

namespace sparsmith::test {
namespace {

Result<KernelImage> source_image(const KernelSource& kernel) {
  return KernelImage{kernel.name, kernel.source, {}, kernel.max_shared_bytes};
}

Result<std::unique_ptr<Executor>> emulator_of(std::uint64_t seed) {
  SPARSMITH_ASSIGN_OR_RETURN(auto compiler, make_jit_compiler());
  return make_emulated_executor({.compiler = std::move(compiler), .schedule_seed = seed | 1});
}

// Families of wide tiles, of which a run takes long: half as many weights a kernel.
const std::set<std::string> kWide = {
    "panel",       "wgmma",       "bsr_strips",     "bsr_strips_rest",     "bsr_wgmma",     "bsr_wgmma_rest",
    "cooperative", "specialized", "two_four_wgmma", "two_four_wgmma_rest", "sampled_wgmma", "sampled_regions"};

// How many kernels are drawn: no fewer than the parameters have values, each of which is drawn in turn.
std::size_t values_of(const Family& tested) {
  std::size_t values = 0;
  for (const Parameter& parameter : tested.parameters) values += parameter.values.size();
  return values;
}
int kernels_of(const Family& tested) { return static_cast<int>(std::max<std::size_t>(values_of(tested), 36)); }

// What verifying has asked of kernels beside ordinary outputs: Inf and NaN in X meet stored weights and no others,
// through every activation, and old Y is NaN where beta is 0.
class Expected {
 public:
  void add(const KernelCase& each) {
    const Epilogue& epilogue = each.problem.spec.epilogue;
    if (epilogue.beta) betas_.insert(each.inputs.beta);
    const PoisonedInput poisoned = ReferenceProblem(each.matrix, each.problem.spec, each.inputs).poisoned_input();
    effects_[epilogue.activation].insert(poisoned.effects.begin(), poisoned.effects.end());
  }

  void expect_all_kinds(bool with_activations) {
    using Effect = PoisonEffect;
    EXPECT_THAT(betas_, testing::IsSupersetOf({0.0F, 1.0F, -1.0F}));
    EXPECT_THAT(effects_[Activation::kNone],
                testing::IsSupersetOf({Effect::kNone, Effect::kInfinity, Effect::kNegativeInfinity, Effect::kNan}));
    if (!with_activations) return;
    EXPECT_THAT(effects_[Activation::kRelu],
                testing::IsSupersetOf({Effect::kNone, Effect::kInfinity, Effect::kFinite, Effect::kNan}));
    for (const Activation activation : {Activation::kGelu, Activation::kSilu})
      EXPECT_THAT(effects_[activation], testing::IsSupersetOf({Effect::kNone, Effect::kInfinity, Effect::kNan}));
  }

 private:
  std::set<float> betas_;
  std::map<Activation, std::set<PoisonEffect>> effects_;
};

class EmulatedKernelsTest : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedKernelsTest, AgreeWithEigen) {
  const std::string name = GetParam();
  const Family& tested = *family(name);
  const int drawn = kernels_of(tested);
  const int weights = kWide.contains(name) ? 4 : 8;
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  auto executor = emulator_of(seed);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  std::set<std::string> kernels;
  const ImageOf image_of = [&kernels](const KernelSource& kernel) {
    kernels.insert(kernel.name);
    return source_image(kernel);
  };
  std::map<std::string, std::set<std::int64_t>> seen;
  Expected expected;
  int count = 0;
  for (const KernelCase& each : draw_cases(tested, seed, drawn, weights)) {
    const Status status = run_case(each, **executor, image_of);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << each.text() << "\n" << status.to_string();
    ++count;
    expected.add(each);
    for (const auto& [parameter, value] : each.config.values) seen[parameter].insert(value);
  }
  expected.expect_all_kinds(tested.serves(OperatorSpec()));
  fmt::print("{} cases, {} kernels\n", count, kernels.size());
  EXPECT_GE(count, drawn * weights * 2 / 5);
  // Few operators of sddmm have kernels of their own.
  const std::size_t least = static_cast<std::size_t>(drawn) * 6 / 7;
  EXPECT_GE(kernels.size(), tested.serves(OperatorSpec()) ? least : std::min(least * 7 / 9, 2 * values_of(tested)));
  for (const Parameter& parameter : tested.parameters) {
    for (const std::int64_t value : parameter.values)
      EXPECT_TRUE(seen[parameter.name].contains(value)) << parameter.name << " = " << value << " was never run";
  }
}

// The kernel behind a dense product; the product, which is a library's on a GPU, is the host's here.
TEST(EmulatedDenseEpilogueTest, AgreesWithEigen) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  auto executor = emulator_of(seed);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  int count = 0;
  for (const KernelCase& each : draw_dense_epilogue_cases(seed, 12)) {
    const Status status = run_dense_epilogue_case(each, **executor, source_image);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << each.text() << "\n" << status.to_string();
    ++count;
  }
  EXPECT_EQ(count, 6 * kActivations * 12);
}

// A library's product alone counts by the norm of its error, but not what a kernel of ours makes of it.
TEST(EmulatedDenseEpilogueTest, AKernelBehindAProductIsHeldToTheBoundOfEachOutput) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  auto executor = emulator_of(seed);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  const ImageOf slightly_wrong = [](const KernelSource& kernel) {
    KernelSource wrong = kernel;
    if (kernel.name.starts_with("gated_")) return source_image(wrong);  // its bound is larger
    const std::string store = "output.store(static_cast<u32>(row), first_token, n, sums);";
    const std::size_t at = wrong.source.find(store);
    EXPECT_NE(at, std::string::npos);
    wrong.source.insert(at, "for (int t = 0; t < kTokens; ++t) sums[t] *= 1.0000015F;\n");
    return source_image(wrong);
  };
  int refused = 0;
  for (const KernelCase& each : draw_dense_epilogue_cases(seed, 12)) {
    if (each.problem.spec.type == DataType::kFloat32 && !run_dense_epilogue_case(each, **executor, slightly_wrong).ok())
      ++refused;
  }
  EXPECT_GT(refused, 0);
}

// The gradient of a weight by a dense product, and the kernel that takes the weight's elements from it.
TEST(EmulatedDenseGradientTest, AgreesWithEigen) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  auto executor = emulator_of(seed);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  std::set<std::string> kernels;
  const ImageOf image_of = [&kernels](const KernelSource& kernel) {
    kernels.insert(kernel.name);
    return source_image(kernel);
  };
  for (const KernelCase& each : draw_dense_gradient_cases(seed, 24)) {
    const Status status = run_case(each, **executor, image_of);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << each.text() << "\n" << status.to_string();
  }
  EXPECT_EQ(kernels.size(), 3U * 2 * 2) << "types, columns of 16 and 32 bits, beta";
}

using Mistake = std::pair<const char*, const char*>;  // in a kernel's source: what stands there, and what is put there

// `caught(image_of, draw)`: whether a drawn kernel of those images fails.
template <typename Caught>
void expect_caught(std::span<const Mistake> mistakes, const Caught& caught) {
  ASSERT_FALSE(caught(source_image, 0)) << "without a mistake";
  for (const auto& [from, to] : mistakes) {
    const ImageOf image_of = [&](const KernelSource& kernel) {
      KernelSource wrong = kernel;
      const std::size_t at = wrong.source.find(from);
      if (at != std::string::npos) wrong.source.replace(at, std::string_view(from).size(), to);
      return source_image(wrong);
    };
    bool found = false;
    for (std::uint64_t draw = 0; draw < 60 && !found; ++draw) found = caught(image_of, draw);
    EXPECT_TRUE(found) << from << " -> " << to;
  }
}

TEST(EmulatedDenseGradientTest, MistakesAreCaught) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  auto executor = emulator_of(seed);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  static constexpr Mistake kMistakes[] = {
      {"static_cast<i64>(row) * cols", "static_cast<i64>(row) * rows"},
      {"row += grid_size_x() * kRows", "row += rows"},
      {"first += 32 * kNonzeros", "first += segment.length"},
      {"at < segment.length ? at : segment.length - 1", "at"},
      {"if (at < segment.length) output.store", "output.store"},
      {"output.store(segment.first + at, 0, 1, stored)", "output.store(segment.first + first, 0, 1, stored)"},
      {"line + column[i]", "line + column[0]"},
      {"nullptr, 0, 1.0F, beta", "nullptr, 0, 1.0F, 1.0F"},
      {"if (beta != 0.0F) value", "value"},
      {"constexpr int kRows = kThreads / 32", "constexpr int kRows = kThreads / 16"}};
  expect_caught(kMistakes, [&](const ImageOf& image_of, std::uint64_t draw) {
    return std::ranges::any_of(draw_dense_gradient_cases(seed + draw, 4),
                               [&](const KernelCase& each) { return !run_case(each, **executor, image_of).ok(); });
  });
}

TEST(EmulatedGatedTest, MistakesAreCaught) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  auto executor = emulator_of(seed);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  static constexpr Mistake kMistakes[] = {{"static_cast<i64>(rows) * n;", "rows;"},
                                          {"2 * length : length", "length : length"},
                                          {"bias[rows + row]", "bias[row]"},
                                          {"i % vectors * kVector", "i % vectors"},
                                          {"Activation::apply(multiply_add(alpha, to_float(gates[e]), shift))",
                                           "multiply_add(alpha, to_float(gates[e]), shift)"},
                                          {"y + line * ldy + first", "y + line * ldy"},
                                          {"lines * vectors; i", "lines * vectors - 1; i"}};
  expect_caught(kMistakes, [&](const ImageOf& image_of, std::uint64_t draw) {
    return std::ranges::any_of(draw_dense_epilogue_cases(seed + draw, 4), [&](const KernelCase& each) {
      return each.problem.spec.epilogue.gated && !run_dense_epilogue_case(each, **executor, image_of).ok();
    });
  });
}

// Kernels that decode what they multiply.
TEST(EmulatedCodedTest, AgreesWithEigen) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  auto executor = emulator_of(seed);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  int count = 0;
  for (std::uint64_t more = 0; more < 40 && count < 40; ++more) {  // few of a draw's kernels read codes
    for (const KernelCase& each : draw_coded_cases(seed + more, 75, 4)) {
      const Status status = run_case(each, **executor, source_image);
      ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << each.text() << "\n" << status.to_string();
      ++count;
    }
  }
  EXPECT_GE(count, 40);
}

TEST(EmulatedValueWriterTest, ArraysAreAsPackedAnew) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  Random random(seed);
  auto executor = emulator_of(seed);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  for (const PackedFormat& format : packed_formats()) {
    for (int round = 0; round < 12; ++round) {
      const Status status =
          run_value_writer_case(draw_value_writer_case(random, format.name), random, **executor, source_image);
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
  }
}

// Leaves few elements of a diagonal of blocks.
void thin_out(CsrMatrix& matrix) {
  CsrMatrix kept;
  kept.rows = matrix.rows;
  kept.cols = matrix.cols;
  kept.data_type = matrix.data_type;
  kept.row_offsets = {0};
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
      const std::int64_t col = matrix.column_indices[i];
      if (row / 64 == col / 64 && (row + col) % 5 != 0) continue;
      kept.column_indices.push_back(matrix.column_indices[i]);
      kept.values.push_back(matrix.values[i]);
    }
    kept.row_offsets.push_back(std::ssize(kept.values));
  }
  matrix = std::move(kept);
}

// Of a weight of whole blocks, whose places are runs.
ValueWriterCase blocks_writer_case(Random& random) {
  static constexpr const char* kPackings[] = {"bsr_lines32",
                                              "bsr_lines32_transposed",
                                              "bsr_lines64",
                                              "bsr_strips_r2",
                                              "bsr_strips_r2_transposed",
                                              "csr_u16_a1_natural",
                                              "bsr_lines64_transposed",
                                              "dense",
                                              "bsr_lines64_rest_b64_csr_u16_a1_natural"};
  const std::string packing = kPackings[random() % std::size(kPackings)];
  // Blocks that are smaller than those of a packing leave zeros between values: in whole runs of 64, or inside of them.
  const bool smaller = packing.starts_with("bsr_lines32") && random() % 2 == 0;
  const char* const pattern = smaller ? "block:16" : packing.starts_with("bsr_lines32") ? "block:32" : "block:64";
  const SynthesisSpec spec{.rows = 128,
                           .cols = 192,
                           .sparsity = smaller ? 0.4 : 0.7,
                           .pattern = parse_synthesis_pattern(pattern).value(),
                           .data_type = DataType::kFloat16,
                           .seed = random()};
  ValueWriterCase drawn;
  drawn.matrix = synthesize(spec).value();
  if (packing.find("_rest_") != std::string::npos) thin_out(drawn.matrix);
  drawn.packed = pack(packing, drawn.matrix, DataType::kFloat16).value();
  drawn.source = random() % 2 == 0 ? DataType::kFloat16 : DataType::kFloat32;
  drawn.updates = 2;
  drawn.small_grid = random() % 2 == 0;
  return drawn;
}

TEST(EmulatedValueWriterTest, BlocksAreWrittenByRuns) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  Random random(seed);
  auto executor = emulator_of(seed);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  for (int round = 0; round < 12; ++round) {
    ValueWriterCase drawn = blocks_writer_case(random);
    const Places places = places_of(drawn.packed.packing, drawn.matrix, DataType::kFloat16).value();
    PackedWeight packed = drawn.packed;
    add_places(places, packed);
    EXPECT_NE(packed.facts[kPlaceKind], 0) << packed.packing;
    if (packed.packing.find("_rest_") == std::string::npos) {
      EXPECT_GT(packed.facts[kPlaceRunBits], 0) << packed.packing;
    }
    const Status status = run_value_writer_case(std::move(drawn), random, **executor, source_image);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
}

TEST(EmulatedValueWriterTest, MistakesAreCaught) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  auto executor = emulator_of(seed);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  static constexpr Mistake kMistakes[] = {
      {"runs + 2 * (i >> run_bits)", "runs + (i >> run_bits)"},
      {"runs + 2 * (i >> run_bits)", "runs + 2 * (i >> 6)"},
      {"run[0] + offsets[run[1] + ", "offsets[run[1] + "},
      {"run[0] + offsets[run[1] + ", "run[0] + offsets["},
      {"i & ((1 << run_bits) - 1)", "i & 31"},
      {"load_streaming(runs + i)", "load_streaming(runs)"},
      {"begin += stride * kEach)\n        scatter", "begin += 2 * stride * kEach)\n        scatter"},
      {"begin + e * kThreads", "begin + e"},
      {"block * kEach + thread_index()", "block + thread_index()"},
      {"(block + thread_index()) * kEach", "block + thread_index()"},
      {"if (i >= indices) continue;", ""},
      {"load_coherent(values + i)", "load_coherent(values + index)"},
      {"static_cast<i64>(index) - first", "static_cast<i64>(index)"},
      {"if (kind == kPlaces)", "if (true)"},
      {"if (kind == kPlaces)", "if (false)"},
      {"if (there[e]) value", "if (true) value"},
      {"there[e] ? stored", "true ? stored"},
      {"kNegativeZeros ? 0.0F : -0.0F", "kNegativeZeros ? -0.0F : 0.0F"},
      {"const i64 place = begin - first", "const i64 place = begin"},
      {"place >= 0 && place + kEach <= count &&", "place >= 0 &&"},
      {"begin += stride * kEach)\n        gather", "begin += 2 * stride * kEach)\n        gather"},
      {"if (place + e >= 0 && place + e < count) array", "if (place + e >= 0) array"},
      {"if (place + e >= 0 && place + e < count) array", "if (place + e < count) array"},
      {"else if (kind == kMasks)", "else if (false)"},
      {"begin += stride * kRow)", "begin += 2 * stride * kRow)"},
      {"of_warp = block + warp_index() * kRow", "of_warp = block"},
      {"begin + lane_index() * kRow", "begin + lane_index()"},
      {"tile + lane_index() * kRowBytes", "tile + lane_index() * 16"},
      {"reinterpret_cast<Line*>(row)[i] = nothings", ""},
      {"if (own < indices)", "if (true)"},
      {"upper ? run[2] : run[1]", "run[1]"},
      {"(upper ? count_bits(run[1]) : 0)", "0"},
      {"runs + 3 * (own >> 6)", "runs + 3 * (own >> 7)"},
      {"next += kAtOnce", "next += 1"},
      {"load_coherent(next + e)", "load_coherent(next)"},
      {"mask &= mask - 1", "mask &= mask - 2"},
      {"line / (kRow / kOfLine) * kRowBytes", "line / kOfLine * kRowBytes"},
      {"if (place + kOfLine <= indices)", "if (true)"},
      {"if (place + e < indices)", "if (true)"},
      {"warp_barrier();\n    SPARSMITH_UNROLL", "SPARSMITH_UNROLL"},
      {"} else if (begin + kEach <= indices) {", "} else if (true) {"},
      {"begin + e < indices ? load", "true ? load"},
      {"(begin >> run_bits)", "(begin >> 6)"},
      {"offsets + run[1] + static", "offsets + static"},
      {"begin & ((1 << run_bits) - 1)", "begin & 7"},
      {"there[e] = sources[e] != kNoNonzero", "there[e] = true"},
      {"base = run[0]", "base = 0"},
      {"copies[2 * i + 1]", "copies[2 * i]"},
      {"place >= 0 && place < count) array", "place >= 0) array"},
      {"to_float(result) == 0.0F ?", "false ?"}};
  expect_caught(kMistakes, [&](const ImageOf& image_of, std::uint64_t draw) {
    Random random(seed + draw);
    std::vector<ValueWriterCase> cases;
    for (int i = 0; i < 3; ++i) cases.push_back(blocks_writer_case(random));
    for (const PackedFormat& format : packed_formats()) cases.push_back(draw_value_writer_case(random, format.name));
    return std::ranges::any_of(cases, [&](ValueWriterCase& each) {
      each.updates = 1;
      each.small_grid |= draw % 2 == 1;  // loops go round more than once
      return !run_value_writer_case(std::move(each), random, **executor, image_of).ok();
    });
  });
}

// The packings that families read, of the weight and of its transpose, hybrids too.
TEST(EmulatedValueWriterTest, ServesThePackingsOfAllFamilies) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  Random random(seed);
  auto executor = emulator_of(seed);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  for (const std::string& name : kernel_families()) {
    const Family& of = *family(name);
    if (!of.serves(OperatorSpec())) continue;
    const std::size_t kinds = of.packs_transposed ? 2 : 1;
    std::set<std::string> packings;
    std::set<bool> of_transposed;
    for (int kernel = 0; kernel < 200 && (kernel < 4 || of_transposed.size() < kinds); ++kernel) {
      for (const KernelCase& each :
           draw_cases(*family(name), seed + static_cast<std::uint64_t>(kernel), 1, 4, kernel)) {
        ValueWriterCase writer;
        writer.updates = 2;
        ASSERT_TRUE(generate_case(each, writer.packed).ok()) << each.text();
        writer.matrix = multiplied(each.problem.spec.kind, each.matrix);
        writer.source = random() % 2 == 0 ? each.problem.spec.type : DataType::kFloat32;
        of_transposed.insert(is_transposed(writer.packed.packing));
        packings.insert(writer.packed.packing);
        const Status status = run_value_writer_case(std::move(writer), random, **executor, source_image);
        ASSERT_TRUE(status.ok()) << each.text() << "\n" << status.to_string();
      }
    }
    EXPECT_EQ(of_transposed.size(), kinds) << name;
    fmt::print("{}: {} packings\n", name, packings.size());
  }
}

TEST(EmulatedPrunerTest, PacksWhatTheHostKeeps) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  Random random(seed);
  auto executor = emulator_of(seed);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  for (int round = 0; round < 16; ++round) {
    const Status status = run_pruner_case(draw_pruner_case(random), random, **executor, source_image);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
}

TEST(EmulatedPrunerTest, MistakesAreCaught) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  auto executor = emulator_of(seed);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  static constexpr Mistake kMistakes[] = {
      {"block_barrier();  // the next", "// the next"},
      {"wait_for_previous();\n    block_barrier();", "wait_for_previous();"},
      {"turn = 1 - turn", "turn = 0"},
      {"row < rows && column < cols", "row < rows"},
      {"row < rows && column < cols", "column < cols"},
      {"if (!there[t]) SPARSMITH_UNROLL", "if (false) SPARSMITH_UNROLL"},
      {"without_negative_zeros(stored(line, i))", "stored(line, i)"},
      {": two_four::kNothing * 0x10001U", ": 0U"},
      {"4 * line + i : 4 * i + line - 4", "4 * i + line % 4 : 4 * line % 16 + i"},
      {"left ? of_rows[1] : of_rows[0]", "left ? of_rows[0] : of_rows[1]"},
      {"other | of_rows[1] << 4", "other << 4 | of_rows[1]"},
      {"of_columns[0] | of_columns[1] << 4", "of_columns[1] | of_columns[0] << 4"},
      {"(left ? 0 : 2)", "(left ? 2 : 0)"},
      {"down / 4 + 2 * t", "down / 4 + t"},
      {"4 * down + 32 * t);\n", "4 * down);\n"},
      {"kNextValues = 64", "kNextValues = 32"},
      {"kNextWord = 16", "kNextWord = 4"},
      {"0x5410U : 0x7632U", "0x7632U : 0x5410U"},
      {"0x6420U", "0x2064U"},
      {"(static_cast<u32>(most))", "(0x3F800000U)"},
      {"bits_of_float(element(line, i)) & 0x7FFFFFFFU", "bits_of_float(element(line, i))"},
      {"larger(upper + lower, best + 64)", "larger(upper, best + 64)"},
      {"pairs[0][pair] + pairs[1][pair] + pairs[2]", "pairs[0][pair] + pairs[2]"},
      {"pairs[1][5 - pair], upper", "pairs[1][pair], upper"},
      {"group < 4", "group < 3"},
      {"set < 3", "set < 2"},
      {"pairs[3][5 - of.q], pairs", "pairs[3][of.q], pairs"},
      {"k == 0 ? 2 : 3", "k == 1 ? 2 : 3"},
      {"block_column) * down + block_row", "block_row) * down + block_column"},
      {"at += grid_size_x()", "at += count"},
      {"i < two_four::kStripBytes / 16", "i < two_four::kStripBytes / 16 - 1"}};
  expect_caught(kMistakes, [&](const ImageOf& image_of, std::uint64_t draw) {
    Random random(seed + draw);
    return !run_pruner_case(draw_pruner_case(random), random, **executor, image_of).ok();
  });
}

INSTANTIATE_TEST_SUITE_P(Families, EmulatedKernelsTest, testing::ValuesIn(kernel_families()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace sparsmith::test
