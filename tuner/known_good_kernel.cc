#include "tuner/known_good_kernel.h"

#include <string>

#include "generator/kernel_text.h"

namespace sparsmith {
namespace {

constexpr int kThreads = 64;
constexpr std::uint32_t kFactor = 2654435761U;
constexpr const char* kName = "sparsmith_known_good";

}  // namespace

Result<KernelSource> known_good_kernel() {
  KernelText text;
  text.name = kName;
  text.summary = "writes numbers: shows that kernels compile and run at all";
  text.threads = kThreads;
  text.headers = {"snippets/device.cuh"};
  text.parameters = {{"u32*", "words"}};
  text.body = "words[thread_index()] = static_cast<u32>(thread_index()) * " + std::to_string(kFactor) + "U;";
  return assemble(text);
}

LaunchPlan known_good_plan() {
  PlanStep step;
  step.kernel = kName;
  step.block[0] = kThreads;
  step.arguments = {{PlanArgument::Kind::kPacked, "words", 0}};
  return {.steps = {step}, .workspace_bytes = 0};
}

std::vector<std::uint32_t> known_good_words() {
  std::vector<std::uint32_t> words(kThreads);
  for (std::uint32_t i = 0; i < kThreads; ++i) words[i] = i * kFactor;
  return words;
}

}  // namespace sparsmith
