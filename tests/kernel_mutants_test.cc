// What the emulator is for: a kernel with one mistake in it is caught. Each drawn kernel is broken in every way that
// its code allows, and some weight must show it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "tests/mutations.h"

namespace sparsmith::test {
namespace {

struct Tested {
  const char* family;
  const std::vector<Mutation>& (*mutations)();
  int kernels;  // drawn for a part
  int parts;    // tests of their own, so that they run side by side
  std::uint64_t first_seed;
};

constexpr Tested kTested[] = {
    {"rows", rows_mutations, 32, 2, 100},      {"slots", slots_mutations, 24, 2, 300},
    {"panel", panel_mutations, 24, 1, 100},    {"bitmap", bitmap_mutations, 6, 1, 100},
    {"scatter", scatter_mutations, 6, 1, 100},
};

// The source itself where the mutation finds nothing to change.
std::string mutated(const std::string& source, const Mutation& mutation) {
  std::string text = source;
  const std::size_t at = text.find(mutation.from);
  if (at != std::string::npos) text.replace(at, std::string_view(mutation.from).size(), mutation.to);
  return text;
}

// Whether some case of kernel `name` fails with the mutation in it; whole again, every one passes.
bool caught(const std::string& name, const Cases& cases, const Mutation& mutation,
            const std::shared_ptr<CpuKernelCompiler>& compiler) {
  auto executor = make_emulated_executor({.compiler = compiler});
  const ImageOf image_of = [&](const KernelSource& kernel) -> Result<KernelImage> {
    const bool broken = kernel.name == name;
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

struct DrawnKernel {
  std::string source;
  Cases cases;
};

// By name.
void draw_kernels(const Tested& tested, std::uint64_t seed, std::map<std::string, DrawnKernel>& kernels) {
  const std::string prefix = std::string(tested.family) + "_";
  for (const KernelCase& each : draw_cases(*family(tested.family), seed, tested.kernels, kWeightKinds)) {
    PackedWeight packed;
    const auto candidate = generate_case(each, packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    for (const KernelSource& kernel : candidate->kernels) {
      if (!kernel.name.starts_with(prefix)) continue;  // one that several families use
      kernels[kernel.name].source = kernel.source;
      kernels[kernel.name].cases.push_back(each);
    }
  }
}

class KernelMutantsTest : public testing::TestWithParam<std::tuple<Tested, int>> {};

TEST_P(KernelMutantsTest, AreCaught) {
  const auto& [tested, part] = GetParam();
  auto made = make_jit_compiler();
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const std::shared_ptr<CpuKernelCompiler> compiler = std::move(*made);
  std::map<std::string, DrawnKernel> kernels;
  ASSERT_NO_FATAL_FAILURE(draw_kernels(tested, tested.first_seed + static_cast<std::uint64_t>(part), kernels));

  std::map<std::string, int> count;
  for (const auto& [name, kernel] : kernels) {
    for (const Mutation& mutation : tested.mutations()) {
      if (!mutation.matters(kernel.cases.front().config, kernel.cases)) continue;
      ASSERT_NE(mutated(kernel.source, mutation), kernel.source)
          << mutation.name << ": the kernel has changed, the mutation must follow";
      EXPECT_TRUE(caught(name, kernel.cases, mutation, compiler))
          << mutation.name << " in " << name << ", " << kernel.cases.size() << " weights";
      ++count[mutation.name];
    }
  }
  for (const auto& [name, times] : count) fmt::print("{:4} {}\n", times, name);
}

std::vector<std::tuple<Tested, int>> all_parts() {
  std::vector<std::tuple<Tested, int>> parts;
  for (const Tested& tested : kTested)
    for (int part = 0; part < tested.parts; ++part) parts.emplace_back(tested, part);
  return parts;
}

INSTANTIATE_TEST_SUITE_P(Families, KernelMutantsTest, testing::ValuesIn(all_parts()), [](const auto& instance) {
  return fmt::format("{}_{}", std::get<0>(instance.param).family, std::get<1>(instance.param));
});

}  // namespace
}  // namespace sparsmith::test
