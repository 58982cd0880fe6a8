#include "tuner/compile/known_good_kernel.h"

#include <string>

#include "generator/kernel_text.h"

namespace sparsmith {
namespace {

constexpr int kThreads = 64;
constexpr std::uint32_t kFactor = 2654435761U;

KernelText text_of_kernel() {
  return {.name = "sparsmith_known_good",
          .summary = "writes numbers: shows that kernels compile and run at all",
          .threads = kThreads,
          .architecture = {},
          .headers = {"snippets/device.cuh"},
          .lines = {},
          .parameters = {{"u32*", "words", packed_array("words")}},
          .body = "words[thread_index()] = static_cast<u32>(thread_index()) * " + std::to_string(kFactor) + "U;"};
}

}  // namespace

Result<KernelSource> known_good_kernel() { return assemble(text_of_kernel()); }

LaunchPlan known_good_plan() { return {.steps = {launch_of(text_of_kernel())}}; }

std::vector<std::uint32_t> known_good_words() {
  std::vector<std::uint32_t> words(kThreads);
  for (std::uint32_t i = 0; i < kThreads; ++i) words[i] = i * kFactor;
  return words;
}

}  // namespace sparsmith
