// What the emulator is for: a kernel with one mistake in it is caught. Each drawn kernel is broken in every way that
// its code allows, and some weight must show it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "generator/rows_family.h"
#include "tests/kernel_cases.h"

namespace sparsmith::testing {
namespace {

using Cases = std::vector<KernelCase>;  // of one kernel

struct Mutation {
  const char* name;
  const char* from;  // text that stands once in the kernel
  const char* to;
  // Whether the mistake changes what a kernel of this config does on some of these weights.
  std::function<bool(const RowsConfig&, const Cases&)> matters;
};

bool always(const RowsConfig&, const Cases&) { return true; }
bool several_nonzeros_a_load(const RowsConfig& config, const Cases&) { return config.vector_width > 1; }
bool one_nonzero_a_load(const RowsConfig& config, const Cases&) { return config.vector_width == 1; }
bool shared_parts(const RowsConfig& config, const Cases&) { return config.shared_parts > 1; }
bool panel(const RowsConfig& config, const Cases&) { return config.input == RowsConfig::Input::kShared; }
bool token_major_panel(const RowsConfig& config, const Cases& cases) {
  return panel(config, cases) && cases.front().problem.spec.layout == Layout::kTokenMajor;
}
bool feature_major_panel(const RowsConfig& config, const Cases& cases) {
  return panel(config, cases) && cases.front().problem.spec.layout == Layout::kFeatureMajor;
}
bool several_groups(const RowsConfig& config, const Cases&) {
  return config.group_threads() < config.threads_per_block && config.partial_sums == PartialSums::kNone;
}
// Some block goes round for a second token tile, or a second set of rows, when there is one block only. (Where parts
// are added through shared memory, their barriers stand between two tiles as well.)
bool panel_twice(const RowsConfig& config, const Cases& cases) {
  const auto goes_round = [&](const KernelCase& each) {
    return each.problem.tokens > config.token_tile() && each.matrix.nnz() > 0;
  };
  return panel(config, cases) && !shared_parts(config, cases) && std::any_of(cases.begin(), cases.end(), goes_round);
}
bool shared_parts_twice(const RowsConfig& config, const Cases& cases) {
  const int rows_a_round = config.threads_per_block / config.group_threads() * config.rows_per_group;
  return shared_parts(config, cases) && std::any_of(cases.begin(), cases.end(), [&](const KernelCase& each) {
           return each.matrix.rows > rows_a_round;
         });
}

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"the first product of a load is dropped", "for (int e = 0; e < kVectorWidth; ++e) product(",
       "for (int e = 1; e < kVectorWidth; ++e) product(", always},
      {"two columns are swapped", "static_cast<u32>(fragment.columns[e])", "static_cast<u32>(fragment.columns[e ^ 1])",
       several_nonzeros_a_load},
      {"a column is off by one", "static_cast<u32>(fragment.columns[e])", "static_cast<u32>(fragment.columns[e] ^ 1)",
       one_nonzero_a_load},
      {"the load is one vector too far", "stream.load(begin[r] + at", "stream.load(begin[r] + kVectorWidth + at",
       always},
      {"the tail is omitted", "if (at + e < length) product", "if (false) product", several_nonzeros_a_load},
      {"the tail runs over", "if (at + e < length) product", "product", several_nonzeros_a_load},
      {"every other group leaves its rows to its neighbour", "const int first = base + group * kRows;",
       "const int first = base + (group | 1) * kRows;", several_groups},
      {"two groups store to one row", "output.store(target, first_token", "output.store(target & ~1U, first_token",
       always},
      {"no barrier after staging", "    block_barrier();\n  }", "  }", panel},
      {"no barrier before staging again", "block_barrier();  // nobody reads the last tile's panel any more", "",
       panel_twice},
      {"every thread stages everything", "for (int v = thread_index(); v < vectors", "for (int v = 0; v < vectors",
       token_major_panel},
      {"every thread stages everything", "for (int i = thread_index(); i < cols", "for (int i = 0; i < cols",
       feature_major_panel},
      {"no barrier before parts are added", "block_barrier();\n      if (part", "if (part", shared_parts},
      {"no barrier before parts are written again", "block_barrier();  // the last round's sums have been read", "",
       shared_parts_twice},
      {"all parts write to one place", "shared[(part * kSums + i) * kOwners + lane] = sums",
       "shared[i * kOwners + lane] = sums", shared_parts},
  };
  return all;
}

std::string mutated(const std::string& source, const Mutation& mutation) {
  std::string text = source;
  const std::size_t at = text.find(mutation.from);
  if (at != std::string::npos) text.replace(at, std::string_view(mutation.from).size(), mutation.to);
  return text;
}

// Whether some case of a kernel fails with the mutation in it; whole again, every one passes.
bool caught(const Cases& cases, const Mutation& mutation, const std::shared_ptr<CpuKernelCompiler>& compiler) {
  auto executor = make_emulated_executor({.compiler = compiler});
  const ImageOf image_of = [&](const KernelSource& kernel) -> Result<KernelImage> {
    const bool broken = kernel.name.starts_with("rows_");
    return KernelImage{
        kernel.name, broken ? mutated(kernel.source, mutation) : kernel.source, {}, kernel.max_shared_bytes};
  };
  for (KernelCase each : cases) {
    for (const bool small_grid : {true, false}) {
      each.small_grid = small_grid;
      if (!run_case(each, **executor, image_of).ok()) return true;
    }
  }
  return false;
}

class KernelMutantsTest : public ::testing::TestWithParam<int> {};

TEST_P(KernelMutantsTest, AreCaught) {
  constexpr int kKernels = 32;
  const std::uint64_t seed = 100 + static_cast<std::uint64_t>(GetParam());
  auto made = make_jit_compiler();
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const std::shared_ptr<CpuKernelCompiler> compiler = std::move(*made);

  std::map<std::string, Cases> kernels;  // by the config and operator that make the text
  for (const KernelCase& each : draw_cases(*family("rows"), seed, kKernels, kWeightKinds)) {
    PackedWeight packed;
    const auto candidate = generate_case(each, packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    for (const KernelSource& kernel : candidate->kernels)
      if (kernel.name.starts_with("rows_")) kernels[kernel.name].push_back(each);
  }
  std::map<std::string, int> count;
  for (const auto& [name, cases] : kernels) {
    PackedWeight packed;
    const auto candidate = generate_case(cases.front(), packed);
    const RowsConfig config(cases.front().config);
    for (const Mutation& mutation : mutations()) {
      if (!mutation.matters(config, cases)) continue;
      std::string text;
      for (const KernelSource& kernel : candidate->kernels)
        if (kernel.name.starts_with("rows_")) text = kernel.source;
      ASSERT_NE(mutated(text, mutation), text) << mutation.name << ": the kernel has changed, the mutation must follow";
      EXPECT_TRUE(caught(cases, mutation, compiler))
          << mutation.name << " in " << name << ", " << cases.size() << " weights";
      ++count[mutation.name];
    }
  }
  for (const auto& [name, times] : count) fmt::print("{:4} {}\n", times, name);
}

INSTANTIATE_TEST_SUITE_P(Parts, KernelMutantsTest, ::testing::Range(0, 2));

}  // namespace
}  // namespace sparsmith::testing
