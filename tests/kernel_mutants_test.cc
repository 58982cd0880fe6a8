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

void PrintTo(const Tested& tested, std::ostream* out) { *out << tested.family; }

constexpr Tested kTested[] = {
    {"rows", rows_mutations, 32, 2, 100},
    {"slots", slots_mutations, 24, 2, 300},
    {"panel", panel_mutations, 24, 2, 104},
    {"gather", gather_mutations, 12, 1, 100},
    {"bitmap", bitmap_mutations, 6, 1, 118},
    {"scatter", scatter_mutations, 12, 1, 508},
    {"wgmma", wgmma_mutations, 10, 2, 121},
    {"bsr", bsr_mutations, 8, 1, 100},
    {"specialized", specialized_mutations, 8, 1, 103},
    {"two_four", two_four_mutations, 11, 1, 106},
};

// The source itself where the mutation finds nothing to change.
std::string mutated(const std::string& source, const Mutation& mutation) {
  std::string text = source;
  const std::size_t at = text.find(mutation.from);
  if (at != std::string::npos) text.replace(at, std::string_view(mutation.from).size(), mutation.to);
  return text;
}

Result<KernelImage> whole_image(const KernelSource& kernel) {
  return KernelImage{kernel.name, kernel.source, {}, kernel.max_shared_bytes};
}

// Whether some case of kernel `name` fails with the mutation in it.
bool caught(const std::string& name, const Cases& cases, const Mutation& mutation, Executor& executor) {
  const ImageOf image_of = [&](const KernelSource& kernel) -> Result<KernelImage> {
    if (kernel.name != name) return whole_image(kernel);
    return KernelImage{name, mutated(kernel.source, mutation), {}, kernel.max_shared_bytes};
  };
  for (KernelCase each : cases) {
    for (const bool small_grid : {true, false}) {
      each.small_grid = small_grid;
      if (!run_case(each, executor, image_of).ok()) return true;
    }
  }
  return false;
}

struct DrawnKernel {
  std::string source;
  Cases cases;
};

// By name. A candidate has one kernel of the family; others, such as a relayout, are whole.
void draw_kernels(const Tested& tested, std::uint64_t seed, std::map<std::string, DrawnKernel>& kernels) {
  const std::string prefix = std::string(tested.family) + "_";
  for (const KernelCase& each : draw_cases(*family(tested.family), seed, tested.kernels, kWeightKinds)) {
    PackedCase packed_case{each, {}};
    const auto candidate = generate_case(each, packed_case.packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    for (const KernelSource& kernel : candidate->kernels) {
      if (!kernel.name.starts_with(prefix)) continue;
      kernels[kernel.name].source = kernel.source;
      kernels[kernel.name].cases.push_back(std::move(packed_case));
      break;
    }
  }
}

class KernelMutantsTest : public testing::TestWithParam<std::tuple<Tested, int>> {};

TEST_P(KernelMutantsTest, AreCaught) {
  const auto& [tested, part] = GetParam();
  auto compiler = make_jit_compiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  auto executor = make_emulated_executor({.compiler = std::move(*compiler)});
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  std::map<std::string, DrawnKernel> kernels;
  ASSERT_NO_FATAL_FAILURE(draw_kernels(tested, tested.first_seed + static_cast<std::uint64_t>(part), kernels));

  std::map<std::string, int> count;
  for (const auto& [name, kernel] : kernels) {
    for (const Mutation& mutation : tested.mutations()) {
      if (!mutation.matters(kernel.cases.front().config, kernel.cases)) continue;
      ASSERT_TRUE(mutated(kernel.source, mutation) != kernel.source)
          << mutation.name << ": " << name << " has changed, the mutation must follow";
      EXPECT_TRUE(caught(name, kernel.cases, mutation, **executor))
          << mutation.name << " in " << name << ", " << kernel.cases.size() << " weights";
      ++count[mutation.name];
    }
    // What has run so many faulty kernels still runs a whole one.
    const Status whole = run_case(kernel.cases.front(), **executor, whole_image);
    EXPECT_TRUE(whole.ok()) << kernel.cases.front().text() << "\n" << whole.to_string();
  }
  for (const auto& [name, times] : count) fmt::print("{:4} {}\n", times, name);
  // What is drawn may be made cheaper, but not so far that a mistake is never tried.
  for (const Mutation& mutation : tested.mutations()) {
    EXPECT_TRUE(tested.parts > 1 || count[mutation.name] > 0) << mutation.name << " changed nothing that was drawn";
  }
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
