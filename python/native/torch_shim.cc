#include "python/native/torch_shim.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace sparsmith::torch {
namespace {

Shim table;

template <class Function>
bool bind(void* library, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, symbol));
  return function != nullptr;
}

Status fill() {
  // Python loads PyTorch without making its symbols visible to others.
  void* const library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return not_found("the process has not loaded PyTorch (libtorch_cpu.so): import torch first");
  const auto missing = [](const char* symbol) {
    return unsupported(fmt::format("this PyTorch has no {}: sparsmith needs 2.7 or later", symbol));
  };
#define SPARSMITH_TORCH_BIND(member, symbol, arguments) \
  if (!bind(library, #symbol, table.member)) return missing(#symbol);
  SPARSMITH_TORCH_FUNCTIONS(SPARSMITH_TORCH_BIND)
#undef SPARSMITH_TORCH_BIND
  for (const auto& [symbol, number] :
       {std::pair{"aoti_torch_dtype_float32", &table.float32}, std::pair{"aoti_torch_dtype_float16", &table.float16},
        std::pair{"aoti_torch_dtype_bfloat16", &table.bfloat16}, std::pair{"aoti_torch_dtype_uint8", &table.uint8},
        std::pair{"aoti_torch_device_type_cpu", &table.cpu}, std::pair{"aoti_torch_device_type_cuda", &table.cuda}}) {
    std::int32_t (*constant)() = nullptr;
    if (!bind(library, symbol, constant)) return missing(symbol);
    *number = constant();
  }
  void* const with_cuda = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (with_cuda != nullptr) bind(with_cuda, "aoti_torch_get_current_cuda_stream", table.get_current_cuda_stream);
  return {};
}

}  // namespace

const Shim& shim() { return table; }

Status open_shim() {
  static const Status status = fill();
  return status;
}

}  // namespace sparsmith::torch
