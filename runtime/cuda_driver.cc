#include "runtime/cuda_driver.h"

#include <fmt/format.h>

#include "runtime/cuda_library.h"

namespace sparsmith {
namespace {

constexpr std::string_view kAdvice = "install NVIDIA's driver; nvidia-smi should then list the GPU";

Result<CudaDriver> open_driver() {
  const Result<CudaLibrary> library = CudaLibrary::open({"libcuda.so.1"});
  if (!library.ok()) {
    return no_device(fmt::format("no CUDA driver on this machine ({}): {}", library.status().message(), kAdvice));
  }
  CudaDriver driver;
#define SPARSMITH_LOAD(member, symbol_name)                                                                           \
  driver.member = reinterpret_cast<decltype(driver.member)>(library->find(#symbol_name));                             \
  if (driver.member == nullptr) {                                                                                     \
    return no_device("the CUDA driver is too old: it has no " #symbol_name "; one for CUDA 12.0 or later is needed"); \
  }
  SPARSMITH_CUDA_DRIVER_FUNCTIONS(SPARSMITH_LOAD)
#undef SPARSMITH_LOAD
  if (const CUresult result = driver.Init(0); result != CUDA_SUCCESS) {
    return no_device(
        fmt::format("the CUDA driver finds no usable GPU ({}): {}", driver.check(result, "cuInit").message(), kAdvice));
  }
  int count = 0;
  if (driver.DeviceGetCount(&count) != CUDA_SUCCESS || count == 0) {
    return no_device(fmt::format("the CUDA driver finds no GPU (is CUDA_VISIBLE_DEVICES set?): {}", kAdvice));
  }
  return driver;
}

}  // namespace

Status CudaDriver::check(CUresult result, std::string_view what) const {
  if (result == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  const char* description = nullptr;
  if (GetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown CUDA error";
  if (GetErrorString(result, &description) != CUDA_SUCCESS || description == nullptr) description = "no description";
  std::string message = fmt::format("{}: {} ({}, code {})", what, description, name, static_cast<int>(result));
  return result == CUDA_ERROR_OUT_OF_MEMORY ? out_of_memory(std::move(message)) : device_error(std::move(message));
}

Result<const CudaDriver*> cuda_driver() {
  static const Result<CudaDriver> driver = open_driver();
  if (!driver.ok()) return driver.status();
  return &*driver;
}

}  // namespace sparsmith
