#include "tuner/fingerprint.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "generator/kernel_text.h"

namespace sparsmith {
namespace {

constexpr int kThreads = 512;
constexpr std::int64_t kSharedBytes = kThreads * sizeof(std::uint64_t);
constexpr std::int64_t kMostBlocks = 512;
constexpr std::int64_t kBytesOfABlock = 64 << 10;  // at least, where there are several
constexpr const char* kName = "sparsmith_fingerprint";

}  // namespace

Result<KernelSource> fingerprint_kernel() {
  KernelText text;
  text.name = kName;
  text.summary = "whether memory has changed";
  text.threads = kThreads;
  text.max_shared_bytes = kSharedBytes;
  text.headers = {"snippets/kernels/fingerprint.cuh"};
  text.lines = {{"using Kernel = Fingerprint<kThreads>", ""}};
  text.parameters = {{"const u8*", "bytes"}, {"i64", "count"}, {"u64*", "sums"}};
  text.body = "Kernel::run(bytes, count, sums, shared_memory());";
  return assemble(text);
}

Result<Fingerprinter> Fingerprinter::create(Executor& executor) {
  SPARSMITH_ASSIGN_OR_RETURN(DeviceAllocation sums,
                             DeviceAllocation::make(executor, kMostBlocks * sizeof(std::uint64_t)));
  return Fingerprinter(executor, std::move(sums));
}

Result<std::uint64_t> Fingerprinter::of(DeviceAddress address, std::size_t bytes) {
  const auto count = static_cast<std::int64_t>(bytes);
  const std::int64_t blocks = std::clamp<std::int64_t>(count / kBytesOfABlock, 1, kMostBlocks);
  PlanStep step;
  step.kernel = kName;
  step.grid[0] = blocks;
  step.block[0] = kThreads;
  step.shared_bytes = kSharedBytes;
  step.arguments = {{PlanArgument::Kind::kPacked, "bytes", 0},
                    {PlanArgument::Kind::kInt64, "", count},
                    {PlanArgument::Kind::kPacked, "sums", 0}};
  LaunchBindings bindings;
  bindings.packed = {{"bytes", address}, {"sums", sums_.address()}};
  SPARSMITH_RETURN_IF_ERROR(executor_->run({.steps = {step}, .workspace_bytes = 0}, bindings));
  std::vector<std::uint64_t> sums(blocks);
  SPARSMITH_RETURN_IF_ERROR(executor_->read(std::as_writable_bytes(std::span(sums)), sums_.address()));
  return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
}

}  // namespace sparsmith
