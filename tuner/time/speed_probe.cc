#include "tuner/time/speed_probe.h"

#include "generator/kernel_text.h"

namespace sparsmith {
namespace {

constexpr int kThreads = 1024;

// The kernel with its arguments for `bytes` bytes.
KernelText text_of(std::int64_t bytes) {
  return {.name = "sparsmith_speed_probe",
          .summary = "reads of words that all blocks share: what L2 gives",
          .threads = kThreads,
          .architecture = {},
          .headers = {"snippets/kernels/shared_reads.cuh"},
          .lines = {{"using Kernel = SharedReads<kThreads>", ""}},
          .parameters = {{"const Kernel::Word*", "words", packed_array("words")},
                         {"i64", "count", integer(bytes / 16)},
                         {"u32*", "found", packed_array("found")}},
          .body = "Kernel::run(words, count, found);"};
}

}  // namespace

Result<KernelSource> speed_probe_kernel() { return assemble(text_of(0)); }

LaunchPlan speed_probe_plan(int sm_count, std::int64_t bytes) {
  PlanStep step = launch_of(text_of(bytes));
  step.grid[0] = sm_count;
  return {.steps = {step}};
}

}  // namespace sparsmith
