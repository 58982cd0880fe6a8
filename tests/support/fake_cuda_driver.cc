#include "tests/support/fake_cuda_driver.h"

#include <cuda.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "runtime/cubin_parameters.h"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

FakeCudaState state;
thread_local CUcontext current_context = nullptr;

struct FakeFunction {
  std::string name;
  std::vector<sparsmith::CubinParameters::Parameter> parameters;
};
struct FakeModule {
  std::vector<std::byte> image;
  std::vector<FakeFunction*> functions;
};

// Whether [address, address + bytes) lies in one piece of memory that the device may touch.
bool touches(const char* what, std::uintptr_t address, std::size_t bytes) {
  if (!state.check_memory || bytes == 0) return true;
  auto found = state.memory.upper_bound(address);
  if (found != state.memory.begin()) {
    --found;
    const std::uintptr_t offset = address - found->first;
    if (offset <= found->second && bytes <= found->second - offset) return true;
  }
  state.violations.push_back(std::string(what) + " touches " + std::to_string(bytes) + " bytes that are not its own");
  return false;
}
template <class T>
bool touches(const char* what, const T* pointer, std::size_t bytes = sizeof(T)) {
  return touches(what, reinterpret_cast<std::uintptr_t>(pointer), bytes);
}

template <class T>
T argument(void** parameters, int index) {
  T value;
  std::memcpy(&value, parameters[index], sizeof(T));  // NOLINT(bugprone-sizeof-expression): T may be a pointer
  return value;
}

struct Segment {
  unsigned first;
  unsigned length;
};

// The sum of one row for one token.
float row_sum(const Segment& segment, const unsigned* columns, const float* values, const float* x) {
  float sum = 0;
  for (std::size_t i = segment.first; i < std::size_t{segment.first} + segment.length; ++i) {
    if (!touches("fake_csr", columns + i) || !touches("fake_csr", values + i)) return 0;
    if (!touches("fake_csr", x + columns[i])) return 0;
    sum += values[i] * x[columns[i]];
  }
  return sum;
}

void run_csr(void** p) {
  const auto* segments = argument<const Segment*>(p, 0);
  const auto* x = argument<const float*>(p, 3);
  auto* y = argument<float*>(p, 4);
  const auto* bias = argument<const float*>(p, 5);
  const int rows = argument<int>(p, 6);
  const int n = argument<int>(p, 7);
  const int ldx = argument<int>(p, 8);
  const int ldy = argument<int>(p, 9);
  const auto alpha = argument<float>(p, 10);
  for (int token = 0; token < n; ++token) {
    for (int row = 0; row < rows; ++row) {
      float* to = y + std::ptrdiff_t{token} * ldy + row;
      if (!touches("fake_csr", segments + row) || !touches("fake_csr", to)) return;
      if (bias != nullptr && !touches("fake_csr", bias + row)) return;
      const float sum = row_sum(segments[row], argument<const unsigned*>(p, 1), argument<const float*>(p, 2),
                                x + std::ptrdiff_t{token} * ldx);
      *to = alpha * sum + (bias != nullptr ? bias[row] : 0.0F);
    }
  }
}

void run_fill(void** p) {
  auto* to = argument<void*>(p, 0);
  const auto bytes = static_cast<std::size_t>(argument<int>(p, 1));
  if (touches("fake_fill", static_cast<char*>(to), bytes)) std::memset(to, argument<int>(p, 2), bytes);
}

void run_write(void** p) {
  const auto* values = argument<const float*>(p, 0);
  auto* array = argument<float*>(p, 4);
  const auto first = argument<std::int64_t>(p, 9);
  const auto count = argument<std::int64_t>(p, 10);
  const auto write = [&](unsigned number, unsigned place) {
    const std::int64_t at = place - first;
    if (at < 0 || at >= count || !touches("fake_write", values + number) || !touches("fake_write", array + at)) return;
    array[at] = values[number];
  };
  const auto* runs = argument<const unsigned*>(p, 1);
  const auto* offsets = argument<const unsigned*>(p, 2);
  const int bits = argument<int>(p, 6);
  const int kind = argument<int>(p, 7);
  for (unsigned i = 0; i < argument<std::int64_t>(p, 5); ++i) {
    if (kind == 2) {
      const unsigned* const masks = runs + std::ptrdiff_t{3} * (i >> 6);
      if (!touches("fake_write", masks, 12)) return;
      const std::uint64_t mask = masks[1] | std::uint64_t{masks[2]} << 32;
      const std::uint64_t before = mask & ((std::uint64_t{1} << (i & 63)) - 1);
      if ((mask >> (i & 63) & 1) != 0) write(masks[0] + std::popcount(before), i);
      continue;
    }
    const unsigned* const run = bits == 0 ? runs + i : runs + 2 * (i >> bits);
    if (!touches("fake_write", run, bits == 0 ? 4 : 8)) return;
    const unsigned* const offset = bits == 0 ? run : offsets + run[1] + (i & ((1U << bits) - 1));
    if (!touches("fake_write", offset)) return;
    const unsigned index = bits == 0 ? *run : run[0] + *offset;  // a sample has no padding
    kind != 0 ? write(index, i) : write(i, index);
  }
  const auto* copies = argument<const unsigned*>(p, 3);
  for (std::int64_t i = 0; i < argument<std::int64_t>(p, 8); ++i) {
    if (touches("fake_write", copies + 2 * i, 8)) write(copies[2 * i], copies[2 * i + 1]);
  }
}

CUresult set(CUdeviceptr to, unsigned char value, std::size_t bytes) {
  if (!touches("a memset", to, bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (!state.set_memory) return CUDA_SUCCESS;
  return std::memset(reinterpret_cast<void*>(to), value, bytes), CUDA_SUCCESS;
}

// The bytes of an image, of which the driver is told the address alone.
std::size_t image_bytes(const std::byte* image) {
  const auto number = [image](std::size_t offset, int bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, image + offset, static_cast<std::size_t>(bytes));
    return static_cast<std::size_t>(value);
  };
  const std::size_t sections = number(40, 8);
  std::size_t end = std::max(sections + 64 * number(60, 2), number(32, 8) + number(54, 2) * number(56, 2));
  for (std::size_t i = 0; i < number(60, 2); ++i) {
    const std::size_t header = sections + 64 * i;
    constexpr std::size_t kWithoutBytes = 8;
    if (number(header + 4, 4) != kWithoutBytes) end = std::max(end, number(header + 24, 8) + number(header + 32, 8));
  }
  return end;
}

// Copies as many bytes of each argument as its parameter has. Where a pointer or an argument is missing, ASan sees it.
void copy_parameters(const FakeFunction& function, void** arguments, FakeCudaState::Launch* launch) {
  std::array<std::byte, 4096> copied;
  for (std::size_t i = 0; i < function.parameters.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(function.parameters[i].bytes);
    std::memcpy(copied.data(), arguments[i], bytes);
    if (launch != nullptr) launch->parameters.emplace_back(copied.data(), copied.data() + bytes);
  }
}

int attribute_value(CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return state.compute_capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return state.compute_capability % 10;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 4;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return 227 * 1024;
    default: return 1;
  }
}

}  // namespace

FAKE FakeCudaState* fake_cuda_state() { return &state; }

FAKE CUresult cuInit(unsigned) { return state.fail_init ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS; }
FAKE CUresult cuDriverGetVersion(int* version) { return *version = 13000, CUDA_SUCCESS; }
FAKE CUresult cuGetErrorName(CUresult, const char** name) { return *name = "FAKE_ERROR", CUDA_SUCCESS; }
FAKE CUresult cuGetErrorString(CUresult, const char** text) { return *text = "a fake error", CUDA_SUCCESS; }
FAKE CUresult cuDeviceGetCount(int* count) { return *count = 1, CUDA_SUCCESS; }
FAKE CUresult cuDeviceGet(CUdevice* device, int ordinal) { return *device = ordinal, CUDA_SUCCESS; }
FAKE CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::strncpy(name, "fake GPU", static_cast<std::size_t>(size));
  return CUDA_SUCCESS;
}
FAKE CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  return *value = attribute_value(attribute), CUDA_SUCCESS;
}
FAKE CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) { return *bytes = std::size_t{1} << 30, CUDA_SUCCESS; }
FAKE CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  return *context = reinterpret_cast<CUcontext>(&state), CUDA_SUCCESS;
}
FAKE CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
FAKE CUresult cuCtxGetCurrent(CUcontext* context) { return *context = current_context, CUDA_SUCCESS; }
FAKE CUresult cuCtxPushCurrent_v2(CUcontext context) { return current_context = context, CUDA_SUCCESS; }
FAKE CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  *context = current_context;
  return current_context = nullptr, CUDA_SUCCESS;
}
FAKE CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }

FAKE CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return *free = *total = std::size_t{1} << 30, CUDA_SUCCESS;
}
FAKE CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  if (current_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (bytes > std::size_t{1} << 30 || state.failing_allocations > 0) {
    if (state.failing_allocations > 0) --state.failing_allocations;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  state.memory[*address] = bytes;
  ++state.live_buffers;
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemFree_v2(CUdeviceptr address) {
  std::free(reinterpret_cast<void*>(address));
  state.memory.erase(address);
  --state.live_buffers;
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  if (!touches("a copy", to, bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), CUDA_SUCCESS;
}
FAKE CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  return std::memcpy(to, reinterpret_cast<const void*>(from), bytes), CUDA_SUCCESS;
}
FAKE CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
  return std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes), CUDA_SUCCESS;
}
FAKE CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t bytes) { return set(to, value, bytes); }
FAKE CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream) {
  return set(to, value, bytes);
}

// The bytes say what was asked for.
FAKE CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* address,
                                     const cuuint64_t* sizes, const cuuint64_t* line_bytes, const cuuint32_t*,
                                     const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                     CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  const std::uint64_t asked[] = {reinterpret_cast<std::uint64_t>(address), sizes[0], sizes[1], line_bytes[0]};
  if (rank != 2 || asked[0] % 16 != 0 || asked[3] % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  *map = {};
  return std::memcpy(map, asked, sizeof(asked)), CUDA_SUCCESS;
}

FAKE CUresult cuModuleLoadData(CUmodule* module, const void* data) {
  const auto* image = static_cast<const std::byte*>(data);
  *module = reinterpret_cast<CUmodule>(new FakeModule{{image, image + image_bytes(image)}, {}});
  ++state.live_modules;
  ++state.modules_loaded;
  return CUDA_SUCCESS;
}
FAKE CUresult cuModuleUnload(CUmodule handle) {
  auto* module = reinterpret_cast<FakeModule*>(handle);
  for (FakeFunction* function : module->functions) delete function;
  delete module;
  --state.live_modules;
  return CUDA_SUCCESS;
}
FAKE CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  auto* module = reinterpret_cast<FakeModule*>(handle);
  const auto kernel = sparsmith::read_cubin_parameters(module->image, name);
  if (!kernel.ok()) return CUDA_ERROR_NOT_FOUND;
  module->functions.push_back(new FakeFunction{name, kernel->parameters});
  return *function = reinterpret_cast<CUfunction>(module->functions.back()), CUDA_SUCCESS;
}
FAKE CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) { return *value = 1024, CUDA_SUCCESS; }
FAKE CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int value) {
  return state.allowed_shared_bytes = value, CUDA_SUCCESS;
}
FAKE CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void**) {
  if (state.fail_launches_with != 0) return static_cast<CUresult>(state.fail_launches_with);
  if (current_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const FakeFunction& kernel = *reinterpret_cast<FakeFunction*>(function);
  const std::string& name = kernel.name;
  FakeCudaState::Launch launch{{},
                               {config->gridDimX, config->gridDimY, config->gridDimZ},
                               {config->blockDimX, config->blockDimY, config->blockDimZ},
                               {1, 1, 1},
                               config->sharedMemBytes,
                               false,
                               config->hStream,
                               {}};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      launch.cluster = {attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z};
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      launch.programmatic = attribute.value.programmaticStreamSerializationAllowed != 0;
    }
  }
  copy_parameters(kernel, parameters, state.record ? &launch : nullptr);
  if (state.record) {
    launch.kernel = name;
    state.launches.push_back(launch);
  }
  if (!state.run_kernels) return CUDA_SUCCESS;
  if (name == "fake_csr") run_csr(parameters);
  if (name == "fake_fill") run_fill(parameters);
  if (name == "fake_write") run_write(parameters);
  return state.violations.empty() ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

FAKE CUresult cuStreamCreate(CUstream* stream, unsigned) { return *stream = nullptr, CUDA_SUCCESS; }
FAKE CUresult cuStreamDestroy_v2(CUstream) { return CUDA_SUCCESS; }
FAKE CUresult cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
FAKE CUresult cuStreamQuery(CUstream) {
  if (state.unready_queries == 0) return CUDA_SUCCESS;
  --state.unready_queries;
  return CUDA_ERROR_NOT_READY;
}

// The stream's address is the number of its capture.
FAKE CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph*,
                                        const CUgraphNode**, std::size_t*) {
  *status = stream == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  *id = reinterpret_cast<cuuint64_t>(stream);
  return CUDA_SUCCESS;
}

// What no test uses.
constexpr CUresult kMissing = CUDA_ERROR_NOT_SUPPORTED;
FAKE CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                             void**, void**) {
  return kMissing;
}
FAKE CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) { return kMissing; }
FAKE CUresult cuStreamEndCapture(CUstream, CUgraph*) { return kMissing; }
FAKE CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) { return CUDA_SUCCESS; }
FAKE CUresult cuGraphInstantiateWithFlags(CUgraphExec*, CUgraph, unsigned long long) { return kMissing; }
FAKE CUresult cuGraphUpload(CUgraphExec, CUstream) { return kMissing; }
FAKE CUresult cuGraphLaunch(CUgraphExec, CUstream) { return kMissing; }
FAKE CUresult cuGraphExecDestroy(CUgraphExec) { return kMissing; }
FAKE CUresult cuGraphDestroy(CUgraph) { return kMissing; }
FAKE CUresult cuEventCreate(CUevent*, unsigned) { return kMissing; }
FAKE CUresult cuEventDestroy_v2(CUevent) { return kMissing; }
FAKE CUresult cuEventRecord(CUevent, CUstream) { return kMissing; }
FAKE CUresult cuEventSynchronize(CUevent) { return kMissing; }
#undef cuEventElapsedTime
FAKE CUresult cuEventElapsedTime(float*, CUevent, CUevent) { return kMissing; }
