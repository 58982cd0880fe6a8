// The purpose of the emulator: a kernel with one mistake is caught. Kernels are drawn until each mistake has changed
// one of them and some weight has shown it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

constexpr int kKernelsOfADraw = 4;
constexpr int kMostDraws = 100;
constexpr int kMostMisses = 12;  // kernels in which no weight shows a mistake that should matter

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
  Cases cases;  // those that take least time first
};

// By name. A candidate has one kernel of the family; others, such as a relayout, are whole.
void draw_kernels(const Family& tested, std::uint64_t seed, int draw, std::map<std::string, DrawnKernel>& kernels) {
  const std::string prefix = tested.name + "_";
  for (const KernelCase& each : draw_cases(tested, seed + static_cast<std::uint64_t>(draw), kKernelsOfADraw,
                                           kWeightKinds, draw * kKernelsOfADraw)) {
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
  const auto work = [](const PackedCase& each) {
    return (each.matrix.nnz() + each.matrix.rows + each.matrix.cols) * each.problem.tokens;
  };
  for (auto& [name, kernel] : kernels) std::ranges::stable_sort(kernel.cases, {}, work);
}

class KernelMutantsTest : public testing::TestWithParam<std::string> {};

TEST_P(KernelMutantsTest, AreCaught) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  auto compiler = make_jit_compiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  auto executor = make_emulated_executor({.compiler = std::move(*compiler)});
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();

  ASSERT_TRUE(known_families().contains(GetParam())) << "tests/families has no file of it";
  const std::vector<Mutation>& mutations = known_families().at(GetParam()).mutations();
  struct Pending {
    const Mutation* mutation;
    std::vector<std::string> missed_in;  // kernels
  };
  std::vector<Pending> pending;
  for (const Mutation& mutation : mutations) pending.push_back({&mutation, {}});
  int draws = 0;
  for (; draws < kMostDraws && !pending.empty(); ++draws) {
    std::map<std::string, DrawnKernel> kernels;
    ASSERT_NO_FATAL_FAILURE(draw_kernels(*family(GetParam()), seed, draws, kernels));
    for (const auto& [name, kernel] : kernels) {
      const std::size_t before = pending.size();
      std::erase_if(pending, [&](Pending& each) {
        const Mutation& mutation = *each.mutation;
        if (each.missed_in.size() == kMostMisses) return false;
        // NOLINTBEGIN(clang-analyzer-core.CallAndMessage): the analyser loses the cases of a drawn kernel
        if (!mutation.matters(kernel.cases.front().config, kernel.cases)) return false;
        EXPECT_TRUE(mutated(kernel.source, mutation) != kernel.source)
            << mutation.name << ": " << name << " has changed, the mutation must follow";
        if (caught(name, kernel.cases, mutation, **executor)) return true;
        // NOLINTEND(clang-analyzer-core.CallAndMessage)
        each.missed_in.push_back(name);
        return false;
      });
      if (pending.size() == before) continue;
      // After so many faulty kernels a whole one still runs.
      const Status whole = run_case(kernel.cases.front(), **executor, whole_image);
      EXPECT_TRUE(whole.ok()) << kernel.cases.front().text() << "\n" << whole.to_string();
    }
  }
  fmt::print("{} mistakes in {} draws\n", mutations.size(), draws);
  for (const Pending& each : pending) {
    if (each.missed_in.empty())
      ADD_FAILURE() << each.mutation->name << " changes no kernel that was drawn";
    else
      ADD_FAILURE() << each.mutation->name << " is not caught in "
                    << fmt::format("{}", fmt::join(each.missed_in, ", "));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, KernelMutantsTest, testing::ValuesIn(kernel_families()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace sparsmith::test
