// A GPU: its primary context, which every library of the process shares (PyTorch's tensors live in it), and its
// properties. Internal.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/cuda_driver.h"
#include "runtime/device_properties.h"
#include "sparsmith/load_options.h"
#include "sparsmith/status.h"

namespace sparsmith {

// Holds the primary context for as long as it lives. Immutable: any thread may use it.
class CudaContext {
 public:
  // Error: kNoDevice when there is no driver or no such device.
  static Result<std::shared_ptr<const CudaContext>> open(int ordinal);

  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext();

  // Makes the context current in this thread until it goes out of scope, then what was current before.
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

// Device memory that is freed with the object. Movable.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // Aligned to 256 bytes; contents undefined. 0 bytes take none. Error: kOutOfMemory, with what there is.
  static Result<DeviceBuffer> allocate(std::shared_ptr<const CudaContext> context, std::size_t bytes,
                                       const DeviceAllocator& allocator = {});

  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  CUdeviceptr address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  DeviceBuffer(std::shared_ptr<const CudaContext> context, CUdeviceptr address, std::size_t bytes,
               const DeviceAllocator& allocator)
      : context_(std::move(context)), address_(address), bytes_(bytes), allocator_(allocator) {}

  std::shared_ptr<const CudaContext> context_;
  CUdeviceptr address_ = 0;
  std::size_t bytes_ = 0;
  DeviceAllocator allocator_;
};

}  // namespace sparsmith
