// The test's side of fake_cuda_driver.h.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/fake_cuda_driver.h"

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

namespace {

void put(std::vector<std::byte>& bytes, std::size_t at, std::uint64_t value, int size) {
  if (bytes.size() < at + size) bytes.resize(at + size);
  for (int i = 0; i < size; ++i) bytes[at + i] = static_cast<std::byte>(value >> 8 * i);
}

void append(std::vector<std::byte>& bytes, std::uint64_t value, int size) { put(bytes, bytes.size(), value, size); }

// Section .nv.info.<kernel> (cubin_parameters.cc reads it).
std::vector<std::byte> parameter_info(const std::vector<int>& parameter_bytes) {
  std::vector<std::byte> info;
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < parameter_bytes.size(); ++i) {
    const auto bytes = static_cast<std::uint64_t>(parameter_bytes[i]);
    const std::uint64_t offset = (end + bytes - 1) / bytes * bytes;
    append(info, 0x000c1704, 4);
    append(info, 0, 4);
    append(info, i, 2);
    append(info, offset, 2);
    append(info, bytes << 18, 4);
    end = offset + bytes;
  }
  append(info, end << 16 | 0x1903, 4);
  return info;
}

}  // namespace

std::vector<std::byte> fake_cubin(const std::string& kernel, const std::vector<int>& parameter_bytes,
                                  unsigned char salt) {
  const std::string info_name = ".nv.info." + kernel;
  const std::string names = std::string(1, '\0') + info_name + '\0' + ".text." + kernel + '\0';
  const std::vector<std::byte> sections[] = {{},
                                             {reinterpret_cast<const std::byte*>(names.data()),
                                              reinterpret_cast<const std::byte*>(names.data()) + names.size()},
                                             parameter_info(parameter_bytes),
                                             {std::byte{salt}}};
  const std::uint64_t name_offsets[] = {0, 0, 1, info_name.size() + 2};
  std::vector<std::byte> cubin(64);
  std::vector<std::byte> headers;
  for (int i = 0; i < 4; ++i) {
    const std::size_t header = headers.size();
    put(headers, header, name_offsets[i], 4);
    put(headers, header + 4, i == 0 ? 0 : 1, 4);
    put(headers, header + 24, cubin.size(), 8);
    put(headers, header + 32, sections[i].size(), 8);
    headers.resize(header + 64);
    cubin.insert(cubin.end(), sections[i].begin(), sections[i].end());
  }
  put(cubin, 0, 0x00010102464c457f, 8);  // 64-bit, little-endian
  put(cubin, 18, 190, 2);                // the machine is a GPU
  put(cubin, 40, cubin.size(), 8);       // the table of sections,
  put(cubin, 58, 64, 2);                 // its entries,
  put(cubin, 60, 4, 2);                  // their number,
  put(cubin, 62, 1, 2);                  // and which of them has the names
  cubin.insert(cubin.end(), headers.begin(), headers.end());
  return cubin;
}
