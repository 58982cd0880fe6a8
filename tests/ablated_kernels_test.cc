// Kernels without a part, in the emulator: they touch nothing that is not theirs, what they are said to lack is gone,
// and where only the weight is left, all of it is loaded.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "tests/support/kernel_cases.h"
#include "tuner/verify/plan_verifier.h"

namespace sparsmith::test {
namespace {

class AblatedKernelsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fmt::print("SPARSMITH_TEST_SEED={}\n", seed_);
    auto compiler = make_jit_compiler();
    ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
    auto executor = make_emulated_executor({.compiler = std::move(*compiler), .schedule_seed = seed_ | 1});
    ASSERT_TRUE(executor.ok()) << executor.status().to_string();
    executor_ = std::move(*executor);
  }

  Status load(const Candidate& candidate) {
    for (const KernelSource& kernel : candidate.kernels)
      SPARSMITH_RETURN_IF_ERROR(executor_->load({kernel.name, kernel.source, {}, kernel.max_shared_bytes}));
    return {};
  }

  const std::uint64_t seed_ = seed_of_run();
  std::unique_ptr<Executor> executor_;
};

// Runs once. `right`: whether the outputs are; `untouched`: whether they are as they were.
struct Run {
  bool right = false;
  bool untouched = false;
};

Result<Run> run_once(Executor& executor, const KernelCase& each, const LaunchPlan& plan, PackedWeight packed) {
  ReferenceProblem problem(each.matrix, each.problem.spec, each.inputs);
  problem.set_sums(eigen_sums(problem));
  SPARSMITH_ASSIGN_OR_RETURN(const auto verifier, PlanVerifier::create(executor, problem));
  SPARSMITH_ASSIGN_OR_RETURN(DevicePacking packing, DevicePacking::upload(executor, std::move(packed)));
  SPARSMITH_ASSIGN_OR_RETURN(const LaunchBindings bindings, verifier->bindings(plan, packing));
  SPARSMITH_RETURN_IF_ERROR(executor.run(plan, bindings));
  SPARSMITH_ASSIGN_OR_RETURN(const std::string damage, packing.damage(executor));
  if (!damage.empty()) return internal_error(damage);
  const std::span<const std::byte> before = problem.initial_output().bytes();
  std::vector<std::byte> outputs(before.size());
  SPARSMITH_RETURN_IF_ERROR(executor.read(outputs, *bindings.operands.find("y")));
  return Run{verify_outputs(problem, outputs).ok, std::ranges::equal(outputs, before)};
}

TEST_P(AblatedKernelsTest, StayInsideOfTheirMemory) {
  const Family& tested = *family(GetParam());
  constexpr int kKernels = 12;
  std::map<Ablation, int> wrong;
  std::set<std::string> names;
  int count = 0;
  for (const KernelCase& each : draw_cases(tested, seed_, kKernels, 3)) {
    for (const Ablation part : ablations(tested)) {
      SCOPED_TRACE(fmt::format("{}: {}", ablation_name(part), each.text()));
      PackedWeight packed;
      const auto candidate = generate_case(each, packed, part);
      ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
      ASSERT_TRUE(load(*candidate).ok());
      for (const KernelSource& kernel : candidate->kernels) names.insert(kernel.name);
      const auto run = run_once(*executor_, each, candidate->plan, std::move(packed));
      ASSERT_TRUE(run.ok()) << run.status().to_string();
      if (part == Ablation::kCopyOnly) {
        EXPECT_TRUE(run->untouched);
      }
      if (!run->right) ++wrong[part];
      ++count;
    }
  }
  fmt::print("{} runs, {} kernels\n", count, names.size());
  EXPECT_GE(count, 2 * kKernels);
  for (const Ablation part : kAblations) {
    if (tested.name == "bsr" && part == Ablation::kNoDecode) continue;
    EXPECT_GE(wrong[part], kKernels / 2) << ablation_name(part) << ": nothing is missing";
  }
}

// A word of a packed weight that is not there is missed by the kernel that only copies, whichever the word.
TEST_P(AblatedKernelsTest, ThoseThatCopyLoadAllArrays) {
  const Family& tested = *family(GetParam());
  Random random(seed_);
  std::set<std::string> tried;
  int count = 0;
  for (const KernelCase& each : draw_cases(tested, seed_ + 1, 12, 1)) {
    if (each.matrix.nnz() == 0) continue;
    SCOPED_TRACE(each.text());
    PackedWeight packed;
    const auto copy = generate_case(each, packed, Ablation::kCopyOnly);
    ASSERT_TRUE(copy.ok()) << copy.status().to_string();
    ASSERT_TRUE(load(*copy).ok());
    ReferenceProblem problem(each.matrix, each.problem.spec, each.inputs);
    const auto verifier = PlanVerifier::create(*executor_, problem);
    ASSERT_TRUE(verifier.ok());
    const auto packing = DevicePacking::upload(*executor_, packed);
    ASSERT_TRUE(packing.ok());
    auto bindings = (*verifier)->bindings(copy->plan, *packing);
    ASSERT_TRUE(bindings.ok());
    for (int hole = 0; hole < 8; ++hole) {
      const PackedArray& array = packed.arrays[random() % packed.arrays.size()];
      const std::string& name = array.name;
      if (array.bytes.size() < 8) continue;
      const std::size_t at = random() % (array.bytes.size() / 4) * 4;
      const auto memory = executor_->allocate(array.bytes.size());
      ASSERT_TRUE(memory.ok());
      const std::span<const std::byte> bytes = array.bytes;
      ASSERT_TRUE(executor_->write(*memory, bytes.subspan(0, at)).ok());
      ASSERT_TRUE(executor_->write(*memory + at + 4, bytes.subspan(at + 4)).ok());
      LaunchBindings with_hole = *bindings;
      for (LaunchBindings::Packed& bound : with_hole.packed)
        if (bound.name == name) bound.address = *memory;
      EXPECT_FALSE(executor_->run(copy->plan, with_hole).ok()) << name << " at " << at << " of " << bytes.size();
      ASSERT_TRUE(executor_->free(*memory).ok());
      tried.insert(name);
      ++count;
    }
  }
  fmt::print("{} words of {} arrays\n", count, tried.size());
  EXPECT_GT(count, 20);
}

INSTANTIATE_TEST_SUITE_P(Families, AblatedKernelsTest,
                         testing::Values("bitmap", "scatter", "wgmma", "bsr", "rows", "gather", "slots", "panel"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace sparsmith::test
