// Kernels without a part, in the emulator: they touch nothing that is not theirs, what they are said to lack is gone,
// and where only the weight is left, all of it is loaded.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "tests/kernel_cases.h"
#include "tuner/plan_verifier.h"

namespace sparsmith::test {
namespace {

struct Tested {
  const char* family;
  std::vector<std::string> arrays;  // that all of the weight's words are in
};

void PrintTo(const Tested& tested, std::ostream* out) { *out << tested.family; }

const Tested kTested[] = {
    {"bitmap", {"strips"}},
    {"scatter", {"entries", "more_entries"}},
    {"wgmma", {"entries", "more_entries"}},
    {"bsr", {"blocks"}},
    {"rows", {"columns", "values"}},
    {"gather", {"entries"}},
    {"slots", {"slots"}},
    {"panel", {"entries"}},
};

class AblatedKernelsTest : public testing::TestWithParam<Tested> {
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
  const Family& tested = *family(GetParam().family);
  std::map<Ablation, int> wrong;
  std::set<std::string> names;
  int count = 0;
  for (const KernelCase& each : draw_cases(tested, seed_, 24, 3)) {
    for (const Ablation part : tested.ablations(each.config)) {
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
  EXPECT_GE(count, 2 * 24);
  for (const Ablation part : kAblations) {
    if (tested.name() == "bsr" && part == Ablation::kNoDecode) continue;
    EXPECT_GE(wrong[part], 12) << ablation_name(part) << ": nothing is missing";
  }
}

// A word of a packed weight that is not there is missed by the whole kernel and by the one that only copies, or by
// neither.
TEST_P(AblatedKernelsTest, ThoseThatCopyLoadWhatTheWholeKernelLoads) {
  const Family& tested = *family(GetParam().family);
  Random random(seed_);
  int missed = 0;
  int count = 0;
  for (const KernelCase& each : draw_cases(tested, seed_ + 1, 12, 1)) {
    if (each.matrix.nnz() == 0) continue;
    SCOPED_TRACE(each.text());
    PackedWeight packed;
    const auto whole = generate_case(each, packed);
    const auto copy = generate_case(each, packed, Ablation::kCopyOnly);
    ASSERT_TRUE(whole.ok() && copy.ok());
    ASSERT_TRUE(load(*whole).ok() && load(*copy).ok());
    ReferenceProblem problem(each.matrix, each.problem.spec, each.inputs);
    const auto verifier = PlanVerifier::create(*executor_, problem);
    ASSERT_TRUE(verifier.ok());
    const auto packing = DevicePacking::upload(*executor_, packed);
    ASSERT_TRUE(packing.ok());
    auto bindings = (*verifier)->bindings(whole->plan, *packing);
    ASSERT_TRUE(bindings.ok());
    for (int hole = 0; hole < 8; ++hole) {
      const std::string& name = GetParam().arrays[random() % GetParam().arrays.size()];
      const PackedArray* array = packed.array(name);
      ASSERT_NE(array, nullptr) << name;
      if (array->bytes.size() < 8) continue;
      const std::size_t at = random() % (array->bytes.size() / 4) * 4;
      const auto memory = executor_->allocate(array->bytes.size());
      ASSERT_TRUE(memory.ok());
      const std::span<const std::byte> bytes = array->bytes;
      ASSERT_TRUE(executor_->write(*memory, bytes.subspan(0, at)).ok());
      ASSERT_TRUE(executor_->write(*memory + at + 4, bytes.subspan(at + 4)).ok());
      LaunchBindings with_hole = *bindings;
      for (LaunchBindings::Packed& bound : with_hole.packed)
        if (bound.name == name) bound.address = *memory;
      const bool whole_misses = !executor_->run(whole->plan, with_hole).ok();
      const Status copied = executor_->run(copy->plan, with_hole);
      EXPECT_EQ(!copied.ok(), whole_misses) << name << " at " << at << " of " << bytes.size() << "\n"
                                            << copied.to_string();
      ASSERT_TRUE(executor_->free(*memory).ok());
      missed += whole_misses ? 1 : 0;
      ++count;
    }
  }
  fmt::print("{} of {} words were missed\n", missed, count);
  EXPECT_GT(missed, count / 4);
}

INSTANTIATE_TEST_SUITE_P(Families, AblatedKernelsTest, testing::ValuesIn(kTested),
                         [](const auto& instance) { return std::string(instance.param.family); });

}  // namespace
}  // namespace sparsmith::test
