#include "tuner/speed_probe.h"

#include "generator/kernel_text.h"

namespace sparsmith {
namespace {

constexpr int kThreads = 1024;

// The kernel with its arguments for so many bytes.
KernelText text_of(std::int64_t bytes) {
  KernelText text;
  text.name = "sparsmith_speed_probe";
  text.summary = "reads of words that all blocks share: what L2 gives";
  text.threads = kThreads;
  text.headers = {"snippets/kernels/shared_reads.cuh"};
  text.lines = {{"using Kernel = SharedReads<kThreads>", ""}};
  text.parameters = {{"const Kernel::Word*", "words", packed_array("words")},
                     {"i64", "count", integer(bytes / 16)},
                     {"u32*", "found", packed_array("found")}};
  text.body = "Kernel::run(words, count, found);";
  return text;
}

}  // namespace

Result<KernelSource> speed_probe_kernel() { return assemble(text_of(0)); }

LaunchPlan speed_probe_plan(int sm_count, std::int64_t bytes) {
  PlanStep step = launch_of(text_of(bytes));
  step.grid[0] = sm_count;
  return {.steps = {step}};
}

}  // namespace sparsmith
