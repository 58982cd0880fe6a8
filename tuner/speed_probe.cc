#include "tuner/speed_probe.h"

#include "generator/kernel_text.h"

namespace sparsmith {
namespace {

constexpr int kThreads = 1024;
constexpr const char* kName = "sparsmith_speed_probe";

}  // namespace

Result<KernelSource> speed_probe_kernel() {
  KernelText text;
  text.name = kName;
  text.summary = "reads of words that all blocks share: what L2 gives";
  text.threads = kThreads;
  text.headers = {"snippets/kernels/shared_reads.cuh"};
  text.lines = {{"using Kernel = SharedReads<kThreads>", ""}};
  text.parameters = {{"const Kernel::Word*", "words"}, {"i64", "count"}, {"u32*", "found"}};
  text.body = "Kernel::run(words, count, found);";
  return assemble(text);
}

LaunchPlan speed_probe_plan(int sm_count, std::int64_t bytes) {
  PlanStep step;
  step.kernel = kName;
  step.grid[0] = sm_count;
  step.block[0] = kThreads;
  step.arguments = {{PlanArgument::Kind::kPacked, "words", 0},
                    {PlanArgument::Kind::kInt64, "", bytes / 16},
                    {PlanArgument::Kind::kPacked, "found", 0}};
  return {.steps = {step}, .workspace_bytes = 0};
}

}  // namespace sparsmith
