// The test's side of fake_cuda_driver.h.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "runtime/fake_cuda_driver.h"

FakeCudaState& fake_cuda() {
  static FakeCudaState* state = [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void* function = library != nullptr ? dlsym(library, "fake_cuda_state") : nullptr;
    if (function == nullptr) {
      std::fputs("the fake CUDA driver was not found before the real one\n", stderr);
      std::abort();
    }
    return reinterpret_cast<FakeCudaState* (*)()>(function)();
  }();
  return *state;
}

std::vector<std::byte> fake_cubin(unsigned char salt) {
  std::vector<std::byte> cubin(65);  // an ELF header without sections
  constexpr unsigned char kMagic[] = {0x7F, 'E', 'L', 'F', 2};
  for (std::size_t i = 0; i < sizeof(kMagic); ++i) cubin[i] = std::byte{kMagic[i]};
  cubin[64] = std::byte{salt};
  return cubin;
}
