// A CUDA driver for tests, built as libcuda.so.1 and found before any other: device memory is host memory, streams
// run at once, and the few kernels it knows are C++ functions chosen by their name. It serves to test what the
// runtime does around kernels on machines without a GPU; it says nothing about kernels.
//
// As a driver does, it reads from the cubin how many bytes each parameter of a kernel has, and copies so many from each
// address that a launch hands over. With `check_memory` every byte that is copied, set or touched by a kernel must lie
// in memory that was allocated here or lent by the test; any other is refused, and noted in `violations`.
//
// Kernels: "fake_csr"       y = alpha * W x + bias, fp32, token_major, one "launch" for everything:
//                           (Segment* segments, unsigned* columns, float* values, float* x, float* y, float* bias,
//                           int rows, int n, int ldx, int ldy, float alpha); one segment a row; `bias` may be null.
//          "fake_fill"      (unsigned char* to, int bytes, int value)
//          "fake_write"     array[places[i] - first] = values[i] for the places below `count`, and the same for copies:
//                           (float* values, unsigned* places, unsigned (*copies)[2], float* array, i64 nonzeros,
//                           i64 copies, i64 first, i64 count)
//          any other name   does nothing
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

struct FakeCudaState {
  struct Launch {
    std::string kernel;
    std::array<unsigned, 3> grid;
    std::array<unsigned, 3> block;
    std::array<unsigned, 3> cluster;
    unsigned shared_bytes;
    bool programmatic;
    void* stream;
    std::vector<std::vector<std::byte>> parameters;  // as copied
  };
  std::vector<Launch> launches;
  std::int64_t live_buffers = 0;
  int failing_allocations = 0;  // of those that come next
  std::int64_t live_modules = 0;
  std::int64_t modules_loaded = 0;  // ever
  int compute_capability = 90;
  int allowed_shared_bytes = 49152;  // the last that was asked for
  bool fail_init = false;            // before the first call: there is no GPU
  int fail_launches_with = 0;        // a CUresult
  std::int64_t unready_queries = 0;  // of streams: so many say that there is work left
  bool record = true;                // whether `launches` grows
  bool run_kernels = true;           // false: no kernel does anything
  bool set_memory = true;            // false: what is to be set stays as it is, for memory that nobody has
  bool check_memory = false;
  std::map<std::uintptr_t, std::size_t> memory;  // begin and bytes of what is allocated here, or lent
  std::vector<std::string> violations;
};

// extern "C" FakeCudaState* fake_cuda_state(); reached by dlsym. From the library that the code under test opened:
FakeCudaState& fake_cuda();
// A cubin of one kernel without code, whose parameters have these sizes. `salt` tells cubins apart.
std::vector<std::byte> fake_cubin(const std::string& kernel, const std::vector<int>& parameter_bytes = {},
                                  unsigned char salt = 0);
inline const std::vector<int> kFakeCsrParameters = {8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4};
inline const std::vector<int> kFakeFillParameters = {8, 4, 4};
inline const std::vector<int> kFakeWriteParameters = {8, 8, 8, 8, 8, 8, 4, 4, 8, 8, 8};
