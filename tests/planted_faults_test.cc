// What Plant::kCandidateFaults makes of kernels of every family: NVRTC takes them or not, as the fault is meant, and in
// the emulator what can be seen of it is seen.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/temporary_directory.h"
#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "tests/support/kernel_cases.h"
#include "tuner/compile/kernel_compiler.h"

namespace sparsmith::test {
namespace {

constexpr std::uint64_t kSeed = 20;

class PlantedFaultsTest : public testing::TestWithParam<const char*> {
 protected:
  // How a process ends in which every kernel has `fault` ("": none) and `check` is run. What is planted is settled once
  // a process, so this one generates nothing.
  template <class Check>
  static int status_with(const std::string& fault, const Check& check) {
    const pid_t child = fork();
    if (child == 0) {
      setenv("SPARSMITH_PLANT", fault.empty() ? "" : "candidate_faults", 1);
      setenv("SPARSMITH_PLANT_SHARE", "100", 1);
      setenv("SPARSMITH_PLANT_FAULTS", fault.c_str(), 1);
      check();
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  // One that has something to compute, and a last token besides the first.
  KernelCase drawn_case() const {
    const std::vector<KernelCase> drawn = draw_cases(*family(GetParam()), kSeed, 12, 4);
    const auto found = std::ranges::find_if(drawn, [](const KernelCase& each) {
      return each.matrix.nnz() > 0 && each.inputs.tokens > 1 && !each.small_grid;
    });
    if (found == drawn.end()) ADD_FAILURE() << "no such case was drawn";
    return found == drawn.end() ? KernelCase() : *found;
  }

  const KernelSource* main_kernel(const Candidate& candidate) const {
    const auto found = std::ranges::find_if(candidate.kernels, [](const KernelSource& kernel) {
      return kernel.name.starts_with(std::string(GetParam()) + "_");
    });
    EXPECT_NE(found, candidate.kernels.end()) << "no kernel has the family's name";
    return found == candidate.kernels.end() ? nullptr : &*found;
  }

  TemporaryDirectory directory_;
};

TEST_P(PlantedFaultsTest, CompileOrNotAsTheyAreMeant) {
  const auto compiler = KernelCompiler::open();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  const KernelCase drawn = drawn_case();
  std::set<std::string> hashes;
  for (const std::string fault :
       {"", "address", "endless", "wrong", "source", "assembly", "trap", "memory", "crash", "hang"}) {
    const std::string file = directory_.file(fault + "hash");
    const int status = status_with(fault, [&] {
      PackedWeight packed;
      const auto candidate = generate_case(drawn, packed);
      ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
      const KernelSource* const kernel = main_kernel(*candidate);
      ASSERT_NE(kernel, nullptr);
      std::ofstream(file) << kernel->closure_hash;
      EXPECT_EQ(candidate->plan.workspace_bytes == IntegerExpression(std::int64_t{1} << 43), fault == "memory");
      const auto compiled = KernelCompiler::open().value()->compile(*kernel, "sm_90");
      EXPECT_EQ(compiled.ok(), fault != "source" && fault != "assembly") << compiled.status().to_string();
    });
    EXPECT_EQ(status, 0) << fault;
    std::string hash;
    std::ifstream(file) >> hash;
    EXPECT_TRUE(hashes.insert(hash).second) << "a cache would take one for another: " << fault;
  }
}

// But for a loop that never ends, which takes it minutes, and what an assembler does not know, over which the clang in
// this process ends it.
TEST_P(PlantedFaultsTest, AreSeenInTheEmulator) {
  const KernelCase drawn = drawn_case();
  const auto status_of_case = [&] {
    auto compiler = make_jit_compiler();
    EXPECT_TRUE(compiler.ok()) << compiler.status().to_string();
    const auto executor = make_emulated_executor({.compiler = std::move(*compiler)});
    EXPECT_TRUE(executor.ok()) << executor.status().to_string();
    return run_case(drawn, **executor, [](const KernelSource& kernel) -> Result<KernelImage> {
      return KernelImage{kernel.name, kernel.source, {}, kernel.max_shared_bytes};
    });
  };
  for (const auto& [fault, said] : {std::pair{"address", "which is no device memory"},
                                    {"wrong", "wrong output"},
                                    {"source", "planted"},
                                    {"memory", "more do not fit"}}) {
    const int status = status_with(fault, [&, text = said] {
      const Status found = status_of_case();
      EXPECT_FALSE(found.ok());
      EXPECT_NE(found.message().find(text), std::string::npos) << found.to_string();
    });
    EXPECT_EQ(status, 0) << fault;
  }
  const int trapped = status_with("trap", [&] { (void)status_of_case(); });
  EXPECT_TRUE(WIFSIGNALED(trapped)) << "it ended by itself: " << trapped;
  EXPECT_EQ(WTERMSIG(trapped), SIGILL);
}

INSTANTIATE_TEST_SUITE_P(Families, PlantedFaultsTest,
                         testing::Values("rows", "slots", "panel", "gather", "bitmap", "scatter", "wgmma", "bsr",
                                         "bsr_strips", "bsr_wgmma", "sampled_wgmma", "sampled_regions", "specialized",
                                         "cooperative", "two_four", "two_four_wgmma", "bsr_wgmma_rest",
                                         "bsr_strips_rest", "two_four_wgmma_rest"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace sparsmith::test
