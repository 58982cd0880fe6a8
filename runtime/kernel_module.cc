#include "runtime/kernel_module.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sparsmith {
namespace {

constexpr std::int64_t kSharedBytesWithoutAsking = 48 * 1024;

}  // namespace

Result<std::unique_ptr<KernelModule>> KernelModule::load(const std::shared_ptr<const CudaContext>& context,
                                                         const std::string& name, std::span<const std::byte> cubin,
                                                         std::int64_t max_shared_bytes) {
  // cuModuleLoadData takes no length: it trusts the headers of the image, which are read here first.
  Result<CubinParameters> parameters = read_cubin_parameters(cubin, name);
  if (!parameters.ok()) return parameters.status().annotate("kernel " + name);
  const CudaDriver& driver = context->driver();
  const CudaContext::Scope scope(*context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  std::unique_ptr<KernelModule> kernel(new KernelModule(context, name));
  kernel->parameters_ = *std::move(parameters);
  // In a mapped file a cubin may start at any byte; the driver reads it as structures of 8.
  std::vector<std::byte> aligned;
  if (reinterpret_cast<std::uintptr_t>(cubin.data()) % alignof(std::max_align_t) != 0) {
    aligned.assign(cubin.begin(), cubin.end());
    cubin = aligned;
  }
  SPARSMITH_RETURN_IF_ERROR(
      driver.check(driver.ModuleLoadData(&kernel->module_, cubin.data()), "loading kernel " + name));
  SPARSMITH_RETURN_IF_ERROR(driver.check(driver.ModuleGetFunction(&kernel->function_, kernel->module_, name.c_str()),
                                         "finding the entry point of kernel " + name));
  SPARSMITH_RETURN_IF_ERROR(
      driver.check(driver.FuncGetAttribute(&kernel->max_threads_per_block_, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                           kernel->function_),
                   "kernel " + name));
  SPARSMITH_RETURN_IF_ERROR(kernel->permit_shared_bytes(max_shared_bytes));
  return kernel;
}

Status KernelModule::permit_shared_bytes(std::int64_t bytes) {
  const std::int64_t limit = context_->properties().shared_bytes_per_block;
  if (bytes < 0 || bytes > limit) {
    return unsupported(fmt::format("kernel {}: needs {} bytes of shared memory a block; {} has {}", name_, bytes,
                                   context_->properties().name, limit));
  }
  if (bytes <= max_shared_bytes_) return {};
  if (bytes > kSharedBytesWithoutAsking) {
    const CudaContext::Scope scope(*context_);
    SPARSMITH_RETURN_IF_ERROR(scope.status());
    const CudaDriver& driver = context_->driver();
    SPARSMITH_RETURN_IF_ERROR(driver.check(
        driver.FuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes)),
        fmt::format("kernel {}: asking for {} bytes of shared memory", name_, bytes)));
  }
  max_shared_bytes_ = bytes;
  return {};
}

KernelModule::~KernelModule() {
  if (module_ == nullptr) return;
  const CudaContext::Scope scope(*context_);
  context_->driver().ModuleUnload(module_);
}

}  // namespace sparsmith
