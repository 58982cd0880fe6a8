// A CUDA driver for tests, built as libcuda.so.1 and found before any other: device memory is host memory, streams
// run at once, and the few kernels it knows are C++ functions chosen by their name. It serves to test what the
// runtime does around kernels on machines without a GPU; it says nothing about kernels.
//
// Kernels: "fake_csr"       y = alpha * W x + bias, fp32, token_major, one "launch" for everything:
//                           (int* row_offsets, int* columns, float* values, float* x, float* y, float* bias, int rows,
//                           int n, int ldx, int ldy, float alpha); `bias` may be null.
//          "fake_fill"      (unsigned char* to, int bytes, int value)
//          any other name   does nothing
#pragma once

#include <array>
#include <cstdint>
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
  };
  std::vector<Launch> launches;
  std::int64_t live_buffers = 0;
  int failing_allocations = 0;  // of those that come next
  std::int64_t live_modules = 0;
  std::int64_t modules_loaded = 0;  // ever
  int compute_capability = 90;
  int allowed_shared_bytes = 49152;  // the last that was asked for
  int fail_launches_with = 0;        // a CUresult
  std::int64_t unready_queries = 0;  // of streams: so many say that there is work left
  bool record = true;                // whether `launches` grows
};

// extern "C" FakeCudaState* fake_cuda_state(); reached by dlsym. From the library that the code under test opened:
FakeCudaState& fake_cuda();
// An image that the fake driver takes for a cubin.
std::vector<std::byte> fake_cubin(unsigned char salt = 0);
