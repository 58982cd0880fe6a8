#include "runtime/kernel_module.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sparsmith {
namespace {

constexpr std::int64_t kSharedBytesWithoutAsking = 48 * 1024;

// cuModuleLoadData takes no length: it trusts the headers of the image. So the file must at least be an ELF whose
// header, program headers and section headers lie inside of it.
Status check_elf(std::span<const std::byte> cubin) {
  constexpr std::size_t kHeaderBytes = 64;
  constexpr unsigned char kMagic[] = {0x7F, 'E', 'L', 'F', 2};  // 64-bit
  if (cubin.size() < kHeaderBytes) return invalid_input("the cubin is cut short");
  for (std::size_t i = 0; i < sizeof(kMagic); ++i) {
    if (std::to_integer<unsigned char>(cubin[i]) != kMagic[i]) return invalid_input("the cubin is not an ELF file");
  }
  const auto field = [&cubin](std::size_t offset, int bytes) {
    std::uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; --i) value = value << 8 | std::to_integer<std::uint64_t>(cubin[offset + i]);
    return value;
  };
  const auto inside = [&cubin](std::uint64_t offset, std::uint64_t bytes) {
    return offset <= cubin.size() && bytes <= cubin.size() - offset;
  };
  const bool whole =
      inside(field(32, 8), field(54, 2) * field(56, 2)) && inside(field(40, 8), field(58, 2) * field(60, 2));
  return whole ? Status() : invalid_input("the cubin is cut short");
}

}  // namespace

Result<std::unique_ptr<KernelModule>> KernelModule::load(const std::shared_ptr<const CudaContext>& context,
                                                         const std::string& name, std::span<const std::byte> cubin,
                                                         std::int64_t max_shared_bytes) {
  if (const Status status = check_elf(cubin); !status.ok()) return status.annotate("kernel " + name);
  const CudaDriver& driver = context->driver();
  const CudaContext::Scope scope(*context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  std::unique_ptr<KernelModule> kernel(new KernelModule(context, name));
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
