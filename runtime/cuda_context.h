// A GPU: its primary context and its properties. All libraries of the process share this context; PyTorch's tensors
// live in it. Internal.
#pragma once

#include <memory>

#include "runtime/cuda_driver.h"
#include "runtime/device_properties.h"
#include "sparsmith/load_options.h"
#include "sparsmith/status.h"

namespace sparsmith {

// Holds the primary context until it is destroyed. Immutable: any thread may use it.
class CudaContext {
 public:
  // Error: kNoDevice when there is no driver or no such device.
  static Result<std::shared_ptr<const CudaContext>> open(int ordinal);

  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext();

  // Makes the context current in this thread until the Scope is destroyed. Then the previous context is current again.
  class Scope {
   public:
    explicit Scope(const CudaContext& context);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    const Status& status() const { return status_; }

   private:
    const CudaDriver& driver_;
    bool pushed_ = false;
    Status status_;
  };

  const CudaDriver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  const DeviceProperties& properties() const { return properties_; }

 private:
  CudaContext(const CudaDriver& driver, int ordinal, CUdevice device, CUcontext context)
      : driver_(driver), ordinal_(ordinal), device_(device), context_(context) {}

  const CudaDriver& driver_;
  int ordinal_;
  CUdevice device_;
  CUcontext context_;
  DeviceProperties properties_;
};

// Device memory. The destructor frees it. Movable.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // Aligned to 256 bytes; contents undefined. For 0 bytes nothing is allocated. Error: kOutOfMemory, with the sizes of
  // free and total memory.
  static Result<DeviceBuffer> allocate(std::shared_ptr<const CudaContext> context, std::size_t bytes,
                                       const DeviceAllocator& allocator = {});

  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(memory_.get()); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    std::shared_ptr<const CudaContext> context;
    DeviceAllocator allocator;
    void operator()(void* memory) const;
  };

  DeviceBuffer(std::unique_ptr<void, Free> memory, std::size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}

  std::unique_ptr<void, Free> memory_;  // on the device
  std::size_t bytes_ = 0;
};

}  // namespace sparsmith
