// What nvcc and NVRTC know without any #include, for clang, so that reading snippets needs no CUDA toolkit. Clang's own
// headers bring the intrinsics and the mathematics; the rest, which it would take from the toolkit, is declared here. A
// new name in snippets/device/ that clang does not know is declared at the end.
#pragma once

#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

#define CUDA_VERSION 12050  // the newest that clang 19 knows

using size_t = decltype(sizeof(0));
struct uint3 {
  unsigned int x, y, z;
};
struct dim3 {
  unsigned int x, y, z;
};

#define SNIPPETC_VECTORS(type, name) \
  struct name##1 { type x; };        \
  struct name##2 { type x, y; };     \
  struct name##3 { type x, y, z; };  \
  struct name##4 { type x, y, z, w; };
SNIPPETC_VECTORS(signed char, char)
SNIPPETC_VECTORS(unsigned char, uchar)
SNIPPETC_VECTORS(short, short)
SNIPPETC_VECTORS(unsigned short, ushort)
SNIPPETC_VECTORS(int, int)
struct uint1 {
  unsigned int x;
};
struct uint2 {
  unsigned int x, y;
};
struct uint4 {
  unsigned int x, y, z, w;
};
SNIPPETC_VECTORS(long, long)
SNIPPETC_VECTORS(unsigned long, ulong)
SNIPPETC_VECTORS(long long, longlong)
SNIPPETC_VECTORS(unsigned long long, ulonglong)
SNIPPETC_VECTORS(float, float)
SNIPPETC_VECTORS(double, double)
#undef SNIPPETC_VECTORS

// What clang's headers take from the toolkit and the C library.
using cuuint32_t = unsigned int;
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define HUGE_VALF __builtin_huge_valf()
#define HUGE_VAL __builtin_huge_val()
static __device__ void* memcpy(void* to, const void* from, size_t bytes);
static __device__ void* memset(void* to, int value, size_t bytes);
__device__ uint2 make_uint2(unsigned int x, unsigned int y);
__device__ unsigned int __isShared(const void* address);
__device__ size_t __cvta_generic_to_shared(const void* address);

#include <__clang_cuda_builtin_vars.h>
// These use one another: in this order.
// clang-format off
#include <__clang_cuda_libdevice_declares.h>
#include <__clang_cuda_intrinsics.h>
#include <__clang_cuda_device_functions.h>
#include <__clang_cuda_math.h>
// clang-format on

// What neither has.
__device__ float atomicAdd(float* address, float value);
