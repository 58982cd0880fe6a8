#include "runtime/gpu_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/hash.h"

namespace sparsmith {
namespace {

constexpr std::size_t kPageBytes = std::size_t{2} << 20;  // of device memory: larger buffers take whole ones anyway
constexpr std::size_t kMostSpareBytes = std::size_t{2} << 30;

}  // namespace

Result<std::unique_ptr<GpuExecutor>> GpuExecutor::create(int ordinal) {
  SPARSMITH_ASSIGN_OR_RETURN(std::shared_ptr<const CudaContext> context, CudaContext::open(ordinal));
  std::unique_ptr<GpuExecutor> executor(new GpuExecutor(std::move(context)));
  const CudaContext::Scope scope(executor->context());
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  SPARSMITH_RETURN_IF_ERROR(executor->driver().check(
      executor->driver().StreamCreate(&executor->stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  return executor;
}

GpuExecutor::~GpuExecutor() {
  const CudaContext::Scope scope(*context_);
  if (stream_ != nullptr) driver().StreamDestroy(stream_);
}

Result<DeviceBuffer> GpuExecutor::take(std::size_t bytes) {
  if (bytes > kPageBytes) bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (auto found = spare_.extract(bytes)) {
    spare_bytes_ -= bytes;
    return std::move(found.mapped());
  }
  Result<DeviceBuffer> buffer = DeviceBuffer::allocate(context_, bytes);
  if (buffer.ok() || spare_.empty()) return buffer;
  spare_.clear();
  spare_bytes_ = 0;
  return DeviceBuffer::allocate(context_, bytes);
}

Result<DeviceAddress> GpuExecutor::allocate(std::size_t bytes) {
  // Nothing takes a byte, so that every address is one of its own.
  SPARSMITH_ASSIGN_OR_RETURN(DeviceBuffer buffer, take(std::max<std::size_t>(bytes, 1)));
  const DeviceAddress address = buffer.address();
  SPARSMITH_RETURN_IF_ERROR(fill(address, std::byte{0xFF}, bytes));
  buffers_.emplace(address, std::move(buffer));
  return address;
}

Status GpuExecutor::free(DeviceAddress address) {
  auto found = buffers_.extract(address);
  if (!found) return invalid_argument(fmt::format("{:#x} was not allocated here", address));
  const CudaContext::Scope scope(*context_);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  // The next one that has it must not meet what is still under way; the driver waits as well when it frees.
  SPARSMITH_RETURN_IF_ERROR(driver().check(driver().CtxSynchronize(), "freeing device memory"));
  const std::size_t bytes = found.mapped().bytes();
  if (spare_bytes_ + bytes > kMostSpareBytes) return {};
  spare_bytes_ += bytes;
  spare_.emplace(bytes, std::move(found.mapped()));
  return {};
}

Status GpuExecutor::write(DeviceAddress to, std::span<const std::byte> from) {
  if (from.empty()) return {};
  const CudaContext::Scope scope(*context_);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  SPARSMITH_RETURN_IF_ERROR(driver().check(driver().MemcpyHtoD(to, from.data(), from.size()), "copying to the device"));
  // The copy may still be on its way from a staging buffer, on the null stream, which does not order before ours.
  return driver().check(driver().CtxSynchronize(), "copying to the device");
}

Status GpuExecutor::read(std::span<std::byte> to, DeviceAddress from) {
  if (to.empty()) return {};
  const CudaContext::Scope scope(*context_);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  return driver().check(driver().MemcpyDtoH(to.data(), from, to.size()), "copying from the device");
}

Status GpuExecutor::fill(DeviceAddress to, std::byte value, std::size_t bytes) {
  if (bytes == 0) return {};
  const CudaContext::Scope scope(*context_);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  SPARSMITH_RETURN_IF_ERROR(
      driver().check(driver().MemsetD8(to, std::to_integer<unsigned char>(value), bytes), "filling device memory"));
  return driver().check(driver().CtxSynchronize(), "filling device memory");
}

Status GpuExecutor::copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) {
  if (bytes == 0) return {};
  const CudaContext::Scope scope(*context_);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  SPARSMITH_RETURN_IF_ERROR(
      driver().check(driver().MemcpyDtoDAsync(to, from, bytes, stream_), "copying device memory"));
  // Other calls use the null stream, which does not order behind ours.
  return driver().check(driver().StreamSynchronize(stream_), "copying device memory");
}

Status GpuExecutor::load(const KernelImage& kernel) {
  if (kernel.cubin.empty()) return invalid_argument(fmt::format("kernel {}: there is no cubin to load", kernel.name));
  const std::string hash = hash_bytes(kernel.cubin);
  // What is loaded stays where it is when another weight needs more shared memory: plans are bound to it.
  if (const auto found = kernels_.find(kernel.name); found != kernels_.end() && found->second.hash == hash)
    return found->second.module->permit_shared_bytes(kernel.max_shared_bytes);
  SPARSMITH_ASSIGN_OR_RETURN(std::unique_ptr<KernelModule> module,
                             KernelModule::load(context_, kernel.name, kernel.cubin, kernel.max_shared_bytes));
  kernels_[kernel.name] = {hash, std::move(module)};
  return {};
}

Result<BoundPlan> GpuExecutor::bind(const LaunchPlan& plan, const LaunchBindings& bindings) {
  PlanNames names;
  names.kernel = [this](const std::string& name) -> const KernelModule* {
    const auto found = kernels_.find(name);
    return found == kernels_.end() ? nullptr : found->second.module.get();
  };
  names.packed = [&bindings](const std::string& name) -> Result<DeviceAddress> {
    for (const LaunchBindings::Packed& packed : bindings.packed) {
      if (packed.name == name) return packed.address;
    }
    return not_found(fmt::format("there is no packed array {}", name));
  };
  names.facts = bindings.variables.facts;
  names.compute_capability = properties().compute_capability;
  names.matmul = [&]() -> Result<std::shared_ptr<const DenseMatmul>> {
    if (bindings.spec == nullptr) return internal_error("a matmul step without an operator");
    return matmul_of(*bindings.spec);
  };
  return BoundPlan::bind(plan, names);
}

Status GpuExecutor::enqueue(const BoundPlan& plan, const LaunchBindings& bindings, CUstream stream) {
  const CudaContext::Scope scope(*context_);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  if (!plan.has_matmul()) return plan.launch(driver(), bindings, stream);
  LaunchBindings with_scratch = bindings;
  with_scratch.scratch = matmul_scratch_.address();
  return plan.launch(driver(), with_scratch, stream);
}

Status GpuExecutor::enqueue(const LaunchPlan& plan, const LaunchBindings& bindings, CUstream stream) {
  SPARSMITH_ASSIGN_OR_RETURN(const BoundPlan bound, bind(plan, bindings));
  return enqueue(bound, bindings, stream);
}

Status GpuExecutor::wait(const std::string& what) {
  if (run_limit_.count() == 0) return driver().check(driver().StreamSynchronize(stream_), what);
  using Clock = std::chrono::steady_clock;
  // Most runs are over in less than the shortest sleep takes.
  constexpr std::chrono::microseconds kAwake{200};
  constexpr std::chrono::microseconds kPause{50};
  const auto begin = Clock::now();
  for (;;) {
    // The time is taken first: whoever is woken late has still asked behind it.
    const auto waited = Clock::now() - begin;
    const CUresult result = driver().StreamQuery(stream_);
    if (result != CUDA_ERROR_NOT_READY) return driver().check(result, what);
    if (waited >= run_limit_)
      return device_error(fmt::format("{}: the device gave no answer within {:.3g} s", what,
                                      std::chrono::duration<double>(run_limit_).count()));
    if (waited >= kAwake) std::this_thread::sleep_for(kPause);
  }
}

Status GpuExecutor::run(const LaunchPlan& plan, const LaunchBindings& bindings) {
  const CudaContext::Scope scope(*context_);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  SPARSMITH_RETURN_IF_ERROR(enqueue(plan, bindings, stream_));
  std::string kernels;
  for (const PlanStep& step : plan.steps) {
    if (step.kind == PlanStep::Kind::kLaunch) kernels += " " + step.kernel;
  }
  return wait("running" + kernels);
}

Result<std::shared_ptr<const DenseMatmul>> GpuExecutor::matmul_of(const OperatorSpec& spec) {
  if (matmul_ != nullptr && matmul_->spec() == spec) return matmul_;
  const CudaContext::Scope scope(*context_);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  if (matmul_scratch_.address() == 0) {
    SPARSMITH_ASSIGN_OR_RETURN(matmul_scratch_, DeviceBuffer::allocate(context_, DenseMatmul::kScratchBytes));
  }
  auto made = DenseMatmul::create(context_, spec, /*exact=*/true);
  // There is a device, which others can use.
  if (made.status().code() == StatusCode::kNoDevice) return unsupported(made.status().message());
  if (!made.ok()) return made.status();
  matmul_ = std::move(*made);
  return matmul_;
}

}  // namespace sparsmith
