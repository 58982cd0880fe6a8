#include "runtime/cuda_context.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/file.h"

namespace sparsmith {
namespace {

constexpr CUdeviceptr kAllocationAlignment = 256;

// "580.95.05, CUDA 13.0": the kernel module's version, if it can be read, and the newest CUDA that it supports.
std::string driver_version(const CudaDriver& driver) {
  int cuda = 0;
  driver.DriverGetVersion(&cuda);
  std::string api = fmt::format("CUDA {}.{}", cuda / 1000, cuda % 1000 / 10);
  const Result<std::string> module = read_file("/sys/module/nvidia/version");
  if (!module.ok()) return api;
  return fmt::format("{}, {}", module->substr(0, module->find('\n')), api);
}

Result<DeviceProperties> query_properties(const CudaDriver& driver, CUdevice device) {
  DeviceProperties properties;
  std::array<char, 256> name{};
  SPARSMITH_RETURN_IF_ERROR(driver.check(driver.DeviceGetName(name.data(), name.size(), device), "cuDeviceGetName"));
  properties.name = name.data();
  std::size_t memory = 0;
  SPARSMITH_RETURN_IF_ERROR(driver.check(driver.DeviceTotalMem(&memory, device), "cuDeviceTotalMem"));
  properties.memory_bytes = static_cast<std::int64_t>(memory);

  Status status;
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    Status asked = driver.check(driver.DeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
    if (!asked.ok()) status = std::move(asked);
    return value;
  };
  properties.compute_capability = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                                  attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  properties.sm_count = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  properties.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  properties.max_threads_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  properties.max_threads_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  properties.max_blocks_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  properties.shared_bytes_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  properties.shared_bytes_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  properties.registers_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  properties.clock_khz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  // Two transfers a memory clock (kHz), a bus of so many bits.
  properties.memory_bandwidth = 2.0 * 1e3 * attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
                                attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
  properties.l2_bandwidth = typical_l2_bandwidth(properties.sm_count, properties.clock_khz);
  properties.launch_us = kTypicalLaunchUs;
  properties.driver_version = driver_version(driver);
  properties.pci_address =
      fmt::format("{:04x}:{:02x}:{:02x}", attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                  attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
  if (!status.ok()) return status;
  return properties;
}

}  // namespace

Result<std::shared_ptr<const CudaContext>> CudaContext::open(int ordinal) {
  SPARSMITH_ASSIGN_OR_RETURN(const CudaDriver* driver, cuda_driver());
  int count = 0;
  SPARSMITH_RETURN_IF_ERROR(driver->check(driver->DeviceGetCount(&count), "cuDeviceGetCount"));
  if (ordinal < 0 || ordinal >= count) {
    return no_device(fmt::format("cuda:{}: this process sees {} GPU{}", ordinal, count, count == 1 ? "" : "s"));
  }
  CUdevice device = 0;
  SPARSMITH_RETURN_IF_ERROR(driver->check(driver->DeviceGet(&device, ordinal), "cuDeviceGet"));
  SPARSMITH_ASSIGN_OR_RETURN(DeviceProperties properties, query_properties(*driver, device));
  CUcontext primary = nullptr;
  SPARSMITH_RETURN_IF_ERROR(
      driver->check(driver->DevicePrimaryCtxRetain(&primary, device), fmt::format("cuda:{}: its context", ordinal)));
  std::shared_ptr<CudaContext> context(new CudaContext(*driver, ordinal, device, primary));
  context->properties_ = std::move(properties);
  return std::shared_ptr<const CudaContext>(std::move(context));
}

CudaContext::~CudaContext() { driver_.DevicePrimaryCtxRelease(device_); }

CudaContext::Scope::Scope(const CudaContext& context) : driver_(context.driver_) {
  CUcontext current = nullptr;
  if (driver_.CtxGetCurrent(&current) == CUDA_SUCCESS && current == context.context_) return;
  status_ = driver_.check(driver_.CtxPushCurrent(context.context_), "cuCtxPushCurrent");
  pushed_ = status_.ok();
}

CudaContext::Scope::~Scope() {
  CUcontext popped = nullptr;
  if (pushed_) driver_.CtxPopCurrent(&popped);
}

Result<DeviceBuffer> DeviceBuffer::allocate(std::shared_ptr<const CudaContext> context, std::size_t bytes,
                                            const DeviceAllocator& allocator) {
  if (bytes == 0) return DeviceBuffer();
  const CudaDriver& driver = context->driver();
  const CudaContext::Scope scope(*context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  if (allocator.allocate != nullptr) {
    std::unique_ptr<void, Free> lent(allocator.allocate(bytes, allocator.context), Free{context, allocator});
    if (lent == nullptr)
      return out_of_memory(fmt::format("cuda:{}: the allocator has no {} bytes", context->ordinal(), bytes));
    if (reinterpret_cast<CUdeviceptr>(lent.get()) % kAllocationAlignment != 0)
      return invalid_argument(fmt::format("the allocator's memory is not aligned to {} bytes", kAllocationAlignment));
    return DeviceBuffer(std::move(lent), bytes);
  }
  CUdeviceptr address = 0;
  if (const CUresult result = driver.MemAlloc(&address, bytes); result != CUDA_SUCCESS) {
    std::size_t free = 0;
    std::size_t total = 0;
    driver.MemGetInfo(&free, &total);
    return driver.check(result, fmt::format("cuda:{}: allocating {} bytes of device memory ({} of {} are free)",
                                            context->ordinal(), bytes, free, total));
  }
  return DeviceBuffer({reinterpret_cast<void*>(address), Free{std::move(context), {}}}, bytes);
}

void DeviceBuffer::Free::operator()(void* memory) const {
  const CudaContext::Scope scope(*context);
  if (allocator.free != nullptr) {
    allocator.free(memory, allocator.context);
  } else if (allocator.allocate == nullptr) {
    context->driver().MemFree(reinterpret_cast<CUdeviceptr>(memory));
  }
}

}  // namespace sparsmith
