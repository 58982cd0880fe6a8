#include "tuner/verify/fingerprint.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "generator/kernel_text.h"

namespace sparsmith {
namespace {

constexpr int kThreads = 512;
constexpr std::int64_t kSharedBytes = kThreads * sizeof(std::uint64_t);
constexpr std::int64_t kMostBlocks = 512;
constexpr std::int64_t kBytesOfABlock = 64 << 10;  // at least, where there are several

std::int64_t blocks_for(std::size_t bytes) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(bytes) / kBytesOfABlock, 1, kMostBlocks);
}

// The kernel with its arguments for range `number`.
KernelText text_of(const std::string& number, std::size_t bytes) {
  return {.name = kFingerprintKernel,
          .summary = "whether memory has changed",
          .threads = kThreads,
          .max_shared_bytes = kSharedBytes,
          .architecture = {},
          .headers = {"snippets/kernels/fingerprint.cuh"},
          .lines = {{"using Kernel = Fingerprint<kThreads>", ""}},
          .parameters = {{"const u8*", "bytes", packed_array("bytes" + number)},
                         {"i64", "count", integer(static_cast<std::int64_t>(bytes))},
                         {"u64*", "sums", packed_array("sums" + number)}},
          .body = "Kernel::run(bytes, count, sums, shared_memory());"};
}

}  // namespace

Result<KernelSource> fingerprint_kernel() { return assemble(text_of("", 0)); }

Result<std::uint64_t> Fingerprinter::of(std::span<const Range> ranges) {
  std::int64_t blocks = 0;
  for (const Range& range : ranges) blocks += blocks_for(range.bytes);
  const std::size_t bytes = blocks * sizeof(std::uint64_t);
  if (sums_.bytes() < bytes) {
    SPARSMITH_ASSIGN_OR_RETURN(sums_, DeviceAllocation::make(executor_, bytes));
  }
  // One run for all of them: to wait for one takes longer than most kernels do.
  LaunchPlan plan;
  LaunchBindings bindings;
  DeviceAddress sums_of_range = sums_.address();
  for (const Range& range : ranges) {
    const std::string number = std::to_string(plan.steps.size());
    plan.steps.push_back(launch_of(text_of(number, range.bytes)));
    plan.steps.back().grid[0] = blocks_for(range.bytes);
    bindings.packed.push_back({"bytes" + number, range.address});
    bindings.packed.push_back({"sums" + number, sums_of_range});
    sums_of_range += blocks_for(range.bytes) * sizeof(std::uint64_t);
  }
  SPARSMITH_RETURN_IF_ERROR(executor_.run(plan, bindings));
  std::vector<std::uint64_t> sums(blocks);
  SPARSMITH_RETURN_IF_ERROR(executor_.read(std::as_writable_bytes(std::span(sums)), sums_.address()));

  std::uint64_t all = 0;
  std::uint64_t factor = 1;  // odd, and another for each range, so that two that change places are not the same
  for (auto next = sums.begin(); const Range& range : ranges) {
    const auto end = next + blocks_for(range.bytes);
    all += factor * std::accumulate(next, end, std::uint64_t{0});
    next = end;
    factor += 2;
  }
  return all;
}

}  // namespace sparsmith
