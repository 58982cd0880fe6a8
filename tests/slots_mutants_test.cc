// Kernels of the slots family with one mistake in them are caught: each drawn kernel is broken in every way that its
// code allows, and some weight must show it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "emulator/jit_compiler.h"
#include "generator/slots_family.h"
#include "tests/mutated_kernels.h"

namespace sparsmith::testing {
namespace {

using Cases = std::vector<KernelCase>;  // of one kernel

struct Mutation {
  const char* name;
  const char* from;  // text that stands once in the kernel
  const char* to;
  // Whether the mistake changes what a kernel of this config does on some of these weights.
  std::function<bool(const SlotsConfig&, const Cases&)> matters;
};

bool always(const SlotsConfig&, const Cases&) { return true; }
bool staged(const SlotsConfig& config, const Cases&) { return config.input == SlotsConfig::Input::kShared; }
bool direct(const SlotsConfig& config, const Cases&) { return config.input == SlotsConfig::Input::kGlobal; }
bool deltas(const SlotsConfig& config, const Cases&) { return config.columns == SlotColumns::kDelta8; }
bool offsets(const SlotsConfig& config, const Cases&) { return config.columns == SlotColumns::kOffset8; }
bool several_words_of_deltas(const SlotsConfig& config, const Cases& cases) {
  return deltas(config, cases) && config.vector_width > 4;
}
bool several_words_of_offsets(const SlotsConfig& config, const Cases& cases) {
  return offsets(config, cases) && config.vector_width > 4;
}
bool counted(const SlotsConfig& config, const Cases& cases) { return deltas(config, cases) || offsets(config, cases); }
bool whole_columns(const SlotsConfig& config, const Cases&) { return config.columns == SlotColumns::kUint16; }
bool several_tokens(const SlotsConfig& config, const Cases& cases) {
  return staged(config, cases) && std::any_of(cases.begin(), cases.end(), [](const KernelCase& each) {
           return each.problem.tokens > 1 && each.matrix.nnz() > 0;
         });
}
// Some part surely has more than one group of slots.
bool several_warps(const SlotsConfig& config, const Cases& cases) {
  return std::any_of(cases.begin(), cases.end(), [&](const KernelCase& each) {
    const std::int64_t parts = config.packing(each.problem).parts;
    return each.matrix.nnz() > 64 * std::int64_t{config.vector_width} * config.tiles_per_slot * parts;
  });
}
// A slot has empty tiles, which stand for column 0, in rows of which some have no nonzero there: X is checked with Inf.
bool empty_tiles(const SlotsConfig& config, const Cases& cases) {
  const auto short_rows = [&](const KernelCase& each) {
    int count = 0;
    for (std::int64_t row = 0; row < each.matrix.rows; ++row) {
      const std::int64_t length = each.matrix.row_length(row);
      if (length > 0 && length <= 4) ++count;
    }
    return count >= 8 && each.matrix.cols >= 64;
  };
  return counted(config, cases) && config.tiles_per_slot > 1 && std::any_of(cases.begin(), cases.end(), short_rows);
}

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"the first product of a tile is dropped", "for (int e = 0; e < kVectorWidth; ++e) {\n        const float x",
       "for (int e = 1; e < kVectorWidth; ++e) {\n        const float x", always},
      {"two values are swapped", "multiply_add(values[e]", "multiply_add(values[e ^ 1]", always},
      {"a column is off by one", "e % 2 == 0 ? kScale : kScale << 8, 0)", "e % 2 == 0 ? kScale : kScale << 8, kScale)",
       whole_columns},
      {"the count is added as a distance", "before = e < 4 ? 1 : 0", "before = 0", deltas},
      {"distances add up within a word only", "if (kDeltas && e % 4 == 3) from", "if (kDeltas && e % 4 == 4) from",
       several_words_of_deltas},
      {"offsets add up", "if (kDeltas && e % 4 == 3) from", "if (e % 4 == 3) from", several_words_of_offsets},
      {"one nonzero more than there are", "e < columns.count() ? x", "e <= columns.count() ? x", empty_tiles},
      {"one nonzero less than there are", "e < columns.count() ? x", "e + 1 < columns.count() ? x", counted},
      {"two warps leave their sums in one place", "int slot = warp * slots::kLanes + lane();", "int slot = lane();",
       several_warps},
      {"no barrier before slots are added up", "block_barrier();\n        finish(", "finish(", several_warps},
      {"no barrier before the next token", "block_barrier();  // the slots' sums and x have been read", "",
       several_tokens},
      {"nobody waits for x", "  SPARSMITH_DEVICE void wait() {\n    block_barrier();",
       "  SPARSMITH_DEVICE void wait() {\n    return;", staged},
      {"padding has no zero to read", "vector[cols] = from_float<Value>(0.0F)", "vector[cols] = vector[0]",
       [](const auto& config, const Cases& cases) { return staged(config, cases) && whole_columns(config, cases); }},
      {"padding reads behind x", "column < static_cast<u32>(cols) ?", "true ?",
       [](const auto& config, const Cases& cases) { return direct(config, cases) && !counted(config, cases); }},
      {"a row's first slot is left out", "int i = thread_index() % kLanes; i < count",
       "int i = thread_index() % kLanes + 1; i < count", always},
      {"two rows are stored in one place", "output.store(row.row, token", "output.store(row.row & ~1U, token", always},
  };
  return all;
}

class SlotsMutantsTest : public ::testing::TestWithParam<int> {};

TEST_P(SlotsMutantsTest, AreCaught) {
  constexpr int kKernels = 24;
  const std::uint64_t seed = 300 + static_cast<std::uint64_t>(GetParam());
  auto made = make_jit_compiler();
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const std::shared_ptr<CpuKernelCompiler> compiler = std::move(*made);

  std::map<std::string, Cases> kernels;  // by the config and operator that make the text
  std::map<std::string, std::string> sources;
  for (const KernelCase& each : draw_cases(*family("slots"), seed, kKernels, kWeightKinds)) {
    PackedWeight packed;
    const auto candidate = generate_case(each, packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    kernels[candidate->kernels[0].name].push_back(each);
    sources[candidate->kernels[0].name] = candidate->kernels[0].source;
  }
  std::map<std::string, int> count;
  for (const auto& [name, cases] : kernels) {
    const SlotsConfig config(cases.front().config);
    for (const Mutation& mutation : mutations()) {
      if (!mutation.matters(config, cases)) continue;
      ASSERT_NE(mutated(sources[name], mutation.from, mutation.to), sources[name])
          << mutation.name << ": the kernel has changed, the mutation must follow";
      EXPECT_TRUE(caught(cases, mutation.from, mutation.to, compiler))
          << mutation.name << " in " << name << ", " << cases.size() << " weights";
      ++count[mutation.name];
    }
  }
  for (const auto& [name, times] : count) fmt::print("{:4} {}\n", times, name);
}

INSTANTIATE_TEST_SUITE_P(Parts, SlotsMutantsTest, ::testing::Range(0, 2));

}  // namespace
}  // namespace sparsmith::testing
