// The CUDA driver, opened at run time: a table of its functions. Internal: the only header of the runtime that includes
// cuda.h.
//
// The table is filled once and is read-only after that. Any thread may call through it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string_view>

#include "sparsmith/status.h"

// cuda.h of CUDA 13 declares the next version alone, which drivers have since CUDA 12.3.
extern "C" CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                                      CUgraph* graph, const CUgraphNode** dependencies,
                                                      std::size_t* dependency_count);

namespace sparsmith {

// (member, symbol). The symbols are the versioned names that cuda.h maps to. They are spelled out, so that every driver
// since CUDA 12.0 exports each of them. (cuEventElapsedTime is the first version: CUDA 12.8 brought the second.)
#define SPARSMITH_CUDA_DRIVER_FUNCTIONS(X)                              \
  X(Init, cuInit)                                                       \
  X(DriverGetVersion, cuDriverGetVersion)                               \
  X(GetErrorName, cuGetErrorName)                                       \
  X(GetErrorString, cuGetErrorString)                                   \
  X(DeviceGetCount, cuDeviceGetCount)                                   \
  X(DeviceGet, cuDeviceGet)                                             \
  X(DeviceGetName, cuDeviceGetName)                                     \
  X(DeviceGetAttribute, cuDeviceGetAttribute)                           \
  X(DeviceTotalMem, cuDeviceTotalMem_v2)                                \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                   \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)              \
  X(CtxGetCurrent, cuCtxGetCurrent)                                     \
  X(CtxPushCurrent, cuCtxPushCurrent_v2)                                \
  X(CtxPopCurrent, cuCtxPopCurrent_v2)                                  \
  X(CtxSynchronize, cuCtxSynchronize)                                   \
  X(MemGetInfo, cuMemGetInfo_v2)                                        \
  X(MemAlloc, cuMemAlloc_v2)                                            \
  X(MemFree, cuMemFree_v2)                                              \
  X(MemcpyHtoD, cuMemcpyHtoD_v2)                                        \
  X(MemcpyDtoH, cuMemcpyDtoH_v2)                                        \
  X(MemcpyDtoDAsync, cuMemcpyDtoDAsync_v2)                              \
  X(MemsetD8, cuMemsetD8_v2)                                            \
  X(MemsetD8Async, cuMemsetD8Async)                                     \
  X(ModuleLoadData, cuModuleLoadData)                                   \
  X(ModuleUnload, cuModuleUnload)                                       \
  X(ModuleGetFunction, cuModuleGetFunction)                             \
  X(FuncGetAttribute, cuFuncGetAttribute)                               \
  X(FuncSetAttribute, cuFuncSetAttribute)                               \
  X(LaunchKernel, cuLaunchKernel)                                       \
  X(LaunchKernelEx, cuLaunchKernelEx)                                   \
  X(StreamCreate, cuStreamCreate)                                       \
  X(StreamDestroy, cuStreamDestroy_v2)                                  \
  X(StreamSynchronize, cuStreamSynchronize)                             \
  X(StreamQuery, cuStreamQuery)                                         \
  X(StreamBeginCapture, cuStreamBeginCapture_v2)                        \
  X(StreamEndCapture, cuStreamEndCapture)                               \
  X(StreamGetCaptureInfo, cuStreamGetCaptureInfo_v2)                    \
  X(ThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode) \
  X(GraphInstantiate, cuGraphInstantiateWithFlags)                      \
  X(GraphUpload, cuGraphUpload)                                         \
  X(GraphLaunch, cuGraphLaunch)                                         \
  X(GraphExecDestroy, cuGraphExecDestroy)                               \
  X(GraphDestroy, cuGraphDestroy)                                       \
  X(EventCreate, cuEventCreate)                                         \
  X(EventDestroy, cuEventDestroy_v2)                                    \
  X(EventRecord, cuEventRecord)                                         \
  X(EventSynchronize, cuEventSynchronize)                               \
  X(EventElapsedTime, cuEventElapsedTime)                               \
  X(TensorMapEncodeTiled, cuTensorMapEncodeTiled)

struct CudaDriver {
#define SPARSMITH_CUDA_DRIVER_MEMBER(member, symbol) \
  decltype(&::symbol) member = nullptr;  // NOLINT(bugprone-macro-parentheses)
  SPARSMITH_CUDA_DRIVER_FUNCTIONS(SPARSMITH_CUDA_DRIVER_MEMBER)
#undef SPARSMITH_CUDA_DRIVER_MEMBER

  // Ok, or an error that names the failed call with its kernel or buffer (`what`) and the driver's message.
  // kOutOfMemory for exhausted device memory, kDeviceError for all other errors.
  Status check(CUresult result, std::string_view what) const;
};

// The table, opened on the first call. Error: kNoDevice, with advice, when there is no driver, it is too old, or it
// finds no device. Every later call returns the same result.
Result<const CudaDriver*> cuda_driver();

}  // namespace sparsmith
