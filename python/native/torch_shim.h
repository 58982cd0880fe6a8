// PyTorch's C interface, opened at run time: a table of functions, as for all other libraries of a GPU program. The
// build needs no PyTorch, and one build serves all versions since 2.7 (torch/csrc/inductor/aoti_torch/c/shim.h there).
#pragma once

#include <cstdint>
#include <exception>

#include "sparsmith/status.h"

namespace sparsmith::torch {

struct TensorObject;
using TensorHandle = TensorObject*;
struct LibraryObject;
using LibraryHandle = LibraryObject*;
// An argument or result of an operator: the bits of an integer, or a pointer.
using StackValue = std::uint64_t;
using BoxedFunction = void (*)(StackValue* stack, std::uint64_t inputs, std::uint64_t outputs);

// (member, symbol, arguments). Each returns 0, or another number after an error that it has logged.
#define SPARSMITH_TORCH_FUNCTIONS(X)                                                                                   \
  X(get_data_ptr, aoti_torch_get_data_ptr, (TensorHandle, void**))                                                     \
  X(get_dim, aoti_torch_get_dim, (TensorHandle, std::int64_t*))                                                        \
  X(get_numel, aoti_torch_get_numel, (TensorHandle, std::int64_t*))                                                    \
  X(get_sizes, aoti_torch_get_sizes, (TensorHandle, std::int64_t**))                                                   \
  X(get_strides, aoti_torch_get_strides, (TensorHandle, std::int64_t**))                                               \
  X(get_dtype, aoti_torch_get_dtype, (TensorHandle, std::int32_t*))                                                    \
  X(get_device_type, aoti_torch_get_device_type, (TensorHandle, std::int32_t*))                                        \
  X(get_device_index, aoti_torch_get_device_index, (TensorHandle, std::int32_t*))                                      \
  X(empty_strided, aoti_torch_empty_strided,                                                                           \
    (std::int64_t, const std::int64_t*, const std::int64_t*, std::int32_t, std::int32_t, std::int32_t, TensorHandle*)) \
  X(copy, aoti_torch_copy_, (TensorHandle, TensorHandle, std::int32_t))                                                \
  X(delete_tensor, aoti_torch_delete_tensor_object, (TensorHandle))                                                    \
  X(library_init_def, aoti_torch_library_init_def, (const char*, const char*, std::uint32_t, LibraryHandle*))          \
  X(library_init_impl, aoti_torch_library_init_impl,                                                                   \
    (const char*, const char*, const char*, std::uint32_t, LibraryHandle*))                                            \
  X(library_def, aoti_torch_library_def, (LibraryHandle, const char*))                                                 \
  X(library_impl, aoti_torch_library_impl, (LibraryHandle, const char*, BoxedFunction))

struct Shim {
#define SPARSMITH_TORCH_MEMBER(member, symbol, arguments) std::int32_t(*member) arguments = nullptr;
  SPARSMITH_TORCH_FUNCTIONS(SPARSMITH_TORCH_MEMBER)
#undef SPARSMITH_TORCH_MEMBER
  // Null where PyTorch was built without CUDA.
  std::int32_t (*get_current_cuda_stream)(std::int32_t device, void** stream) = nullptr;

  // PyTorch's numbers for types and devices.
  std::int32_t float32 = 0;
  std::int32_t float16 = 0;
  std::int32_t bfloat16 = 0;
  std::int32_t uint8 = 0;
  std::int32_t cpu = 0;
  std::int32_t cuda = 0;
};

// The table. REQUIRES: open_shim() has returned ok.
const Shim& shim();
// Fills the table from the PyTorch that the process has loaded. Later calls return the same result.
//   Errors: kNotFound if the process has no PyTorch; kUnsupported if it lacks a function.
Status open_shim();

}  // namespace sparsmith::torch
