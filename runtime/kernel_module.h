// A kernel that is loaded on the GPU from its cubin. Internal.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/cubin_parameters.h"
#include "runtime/cuda_context.h"

namespace sparsmith {

// The destructor unloads the kernel. Any thread may launch it, except while permit_shared_bytes() runs.
class KernelModule {
 public:
  // Loads `cubin` and permits launches with up to `max_shared_bytes` of dynamic shared memory. Errors: kInvalidInput
  // when the cubin does not state its parameters; kDeviceError when it is damaged or for another architecture;
  // kUnsupported when `max_shared_bytes` exceeds the shared memory of a block.
  static Result<std::unique_ptr<KernelModule>> load(const std::shared_ptr<const CudaContext>& context,
                                                    const std::string& name, std::span<const std::byte> cubin,
                                                    std::int64_t max_shared_bytes);

  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;
  ~KernelModule();

  // Raises the limit of shared memory to `bytes`; a smaller value changes nothing. Errors: as load().
  Status permit_shared_bytes(std::int64_t bytes);

  CUfunction function() const { return function_; }
  const CubinParameters& parameters() const { return parameters_; }
  std::int64_t max_shared_bytes() const { return max_shared_bytes_; }
  int max_threads_per_block() const { return max_threads_per_block_; }

 private:
  KernelModule(std::shared_ptr<const CudaContext> context, std::string name)
      : context_(std::move(context)), name_(std::move(name)) {}

  std::shared_ptr<const CudaContext> context_;
  std::string name_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  CubinParameters parameters_;
  std::int64_t max_shared_bytes_ = 0;
  int max_threads_per_block_ = 0;
};

}  // namespace sparsmith
