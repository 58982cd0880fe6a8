// The machine, as snippets see it: the one place that names a CUDA intrinsic or PTX.
//
// Includes nothing, so that NVRTC compiles it without a search path and in a few milliseconds. Compiled for
// the CPU emulator (SPARSMITH_EMULATOR) the same functions come from a twin of this file; what is added here is
// added there.
#pragma once

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin.h"
#else

#define SPARSMITH_DEVICE __device__ __forceinline__
#define SPARSMITH_UNROLL _Pragma("unroll")
#define SPARSMITH_ROLLED _Pragma("unroll 1")

namespace sparsmith {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

// ---- 16-bit floating types: storage only; arithmetic is done in fp32 ----

struct half {
  u16 bits;
};
struct bfloat16 {
  u16 bits;
};

SPARSMITH_DEVICE float to_float(float value) { return value; }
SPARSMITH_DEVICE float to_float(half value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
}
SPARSMITH_DEVICE float to_float(bfloat16 value) { return __uint_as_float(static_cast<u32>(value.bits) << 16); }

// from_float<T>(v): v rounded to nearest even.
template <class T>
struct FromFloat;
template <>
struct FromFloat<float> {
  static SPARSMITH_DEVICE float convert(float value) { return value; }
};
template <>
struct FromFloat<half> {
  static SPARSMITH_DEVICE half convert(float value) {
    half result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
  }
};
template <>
struct FromFloat<bfloat16> {
  static SPARSMITH_DEVICE bfloat16 convert(float value) {
    bfloat16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
  }
};
template <class T>
SPARSMITH_DEVICE T from_float(float value) {
  return FromFloat<T>::convert(value);
}

// ---- vectors ----

// kCount elements that are loaded and stored as one access of their total size (2, 4, 8 or 16 bytes).
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T elements[kCount];
  SPARSMITH_DEVICE T& operator[](int i) { return elements[i]; }
  SPARSMITH_DEVICE const T& operator[](int i) const { return elements[i]; }
};

// ---- where a thread is ----

SPARSMITH_DEVICE int thread_index() {
  const u32 index = threadIdx.x;
  __builtin_assume(index < 1024);  // spares divisions the case of a negative one
  return static_cast<int>(index);
}
// Of this thread's warp in the block, in a way that the compiler knows to be the same for all lanes. All of them call.
SPARSMITH_DEVICE int warp_index() { return static_cast<int>(__shfl_sync(0xFFFFFFFFU, threadIdx.x / 32, 0)); }
SPARSMITH_DEVICE int lane_index() { return static_cast<int>(threadIdx.x) % 32; }
SPARSMITH_DEVICE int block_index_x() { return static_cast<int>(blockIdx.x); }
SPARSMITH_DEVICE int block_index_y() { return static_cast<int>(blockIdx.y); }
SPARSMITH_DEVICE int block_index_z() { return static_cast<int>(blockIdx.z); }
SPARSMITH_DEVICE int grid_size_x() { return static_cast<int>(gridDim.x); }
SPARSMITH_DEVICE int grid_size_y() { return static_cast<int>(gridDim.y); }

// ---- programmatic launches (from sm_90 on): a kernel may begin before the one in front of it in the stream has ended.
// Every kernel allows it and waits, since it cannot know how it was launched; launched plainly, both do nothing ----

// The next kernel may begin as soon as every block has called this or has ended.
SPARSMITH_DEVICE void launch_dependents() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Until every kernel before this one has ended, and what it wrote is seen. In front of it only constant memory may be
// read (the packed weight) and nothing be written but shared memory. Every thread calls it, also one that then has
// nothing to do: a kernel that ended without would let the next one overtake the one before.
SPARSMITH_DEVICE void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The same value, as if it became known here: what follows from it is not computed in front of a loop, where it would
// take registers for as long as the loop runs.
SPARSMITH_DEVICE u32 known_here(u32 value) {
  asm volatile("" : "+r"(value));
  return value;
}

// ---- barriers and shuffles: every live thread of the block, or every lane of the mask, must arrive ----

SPARSMITH_DEVICE void block_barrier() { __syncthreads(); }
SPARSMITH_DEVICE void warp_barrier(u32 mask = 0xFFFFFFFFU) { __syncwarp(mask); }
SPARSMITH_DEVICE float shuffle_xor(float value, int lane_mask, u32 mask = 0xFFFFFFFFU) {
  return __shfl_xor_sync(mask, value, lane_mask);
}
SPARSMITH_DEVICE u32 shuffle_xor_word(u32 value, int lane_mask, u32 mask = 0xFFFFFFFFU) {
  return __shfl_xor_sync(mask, value, lane_mask);
}
SPARSMITH_DEVICE float shuffle_down(float value, int delta, u32 mask = 0xFFFFFFFFU) {
  return __shfl_down_sync(mask, value, static_cast<u32>(delta));
}
// From lane - delta, or the own value before the warp's start.
SPARSMITH_DEVICE u32 shuffle_up(u32 value, int delta, u32 mask = 0xFFFFFFFFU) {
  return __shfl_up_sync(mask, value, static_cast<u32>(delta));
}
// value + that of lane - delta, or the own value before the warp's start.
SPARSMITH_DEVICE u32 add_shuffled_up(u32 value, int delta) {
  asm volatile(
      "{\n\t.reg .pred p;\n\t.reg .b32 t;\n\tshfl.sync.up.b32 t|p, %0, %1, 0, 0xffffffff;\n\t@p add.u32 %0, %0, t;\n\t}"
      : "+r"(value)
      : "r"(delta));
  return value;
}
SPARSMITH_DEVICE bool warp_any(bool value, u32 mask = 0xFFFFFFFFU) { return __any_sync(mask, value) != 0; }
SPARSMITH_DEVICE u32 shuffle_index(u32 value, int lane, u32 mask = 0xFFFFFFFFU) {
  return __shfl_sync(mask, value, lane);
}

// ---- integer dot products ----

// sum + the four products of bytes, and sum + low half of `words` * weights' byte 0 + high half * byte 1; unsigned.
SPARSMITH_DEVICE u32 dot_bytes(u32 bytes, u32 weights, u32 sum) {
  u32 result;
  asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(bytes), "r"(weights), "r"(sum));
  return result;
}
SPARSMITH_DEVICE u32 dot_halves(u32 words, u32 weights, u32 sum) {
  u32 result;
  asm("dp2a.lo.u32.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(words), "r"(weights), "r"(sum));
  return result;
}

// ---- memory ----

// The block's dynamic shared memory, aligned to 1,024 bytes: so that tiles in it may be swizzled by their addresses.
SPARSMITH_DEVICE u8* shared_memory() {
  extern __shared__ __align__(1024) u8 sparsmith_shared_bytes[];
  return sparsmith_shared_bytes;
}

// One access of kBytes. `to`: where it goes; then what that is. Every load is volatile: of other asm the compiler
// believes that it may run in vain, and moves it out of loops in front of the condition that keeps it inside of its
// array.
enum class LoadKind : u8 { kStreaming, kCached, kCoherent };
#define SPARSMITH_GLOBAL_LOAD(to, ...)                                               \
  template <LoadKind kKind>                                                          \
  static SPARSMITH_DEVICE GlobalLoad from(const void* address) {                     \
    GlobalLoad r;                                                                    \
    if constexpr (kKind == LoadKind::kStreaming) {                                   \
      asm volatile("ld.global.nc.L1::no_allocate." to : __VA_ARGS__ : "l"(address)); \
    } else if constexpr (kKind == LoadKind::kCached) {                               \
      asm volatile("ld.global.nc." to : __VA_ARGS__ : "l"(address));                 \
    } else {                                                                         \
      asm volatile("ld.global." to : __VA_ARGS__ : "l"(address) : "memory");         \
    }                                                                                \
    return r;                                                                        \
  }
template <int kBytes>
struct GlobalLoad;
template <>
struct GlobalLoad<2> {
  u16 word;
  SPARSMITH_GLOBAL_LOAD("u16 %0, [%1];", "=h"(r.word))
};
template <>
struct GlobalLoad<4> {
  u32 word;
  SPARSMITH_GLOBAL_LOAD("u32 %0, [%1];", "=r"(r.word))
};
template <>
struct GlobalLoad<8> {
  u32 words[2];
  SPARSMITH_GLOBAL_LOAD("v2.u32 {%0, %1}, [%2];", "=r"(r.words[0]), "=r"(r.words[1]))
};
template <>
struct GlobalLoad<16> {
  u32 words[4];
  SPARSMITH_GLOBAL_LOAD("v4.u32 {%0, %1, %2, %3}, [%4];", "=r"(r.words[0]), "=r"(r.words[1]), "=r"(r.words[2]),
                        "=r"(r.words[3]))
};
#undef SPARSMITH_GLOBAL_LOAD

// `address` is aligned to sizeof(T), which is 2, 4, 8 or 16 bytes, or 32 bytes, read as two halves.
template <LoadKind kKind, class T>
SPARSMITH_DEVICE T load_global(const T* address) {
  T result;
  if constexpr (sizeof(T) == 32) {
    const auto low = GlobalLoad<16>::from<kKind>(address);
    const auto high = GlobalLoad<16>::from<kKind>(reinterpret_cast<const u8*>(address) + 16);
    memcpy(&result, &low, 16);
    memcpy(reinterpret_cast<u8*>(&result) + 16, &high, 16);
  } else {
    const auto raw = GlobalLoad<sizeof(T)>::template from<kKind>(address);
    memcpy(&result, &raw, sizeof(T));
  }
  return result;
}

// Read-only global memory that is read once: does not displace what L1 holds.
template <class T>
SPARSMITH_DEVICE T load_streaming(const T* from) {
  return load_global<LoadKind::kStreaming>(from);
}

// The same of 16 bits, as a whole register: nothing is done with what is loaded until it is used.
SPARSMITH_DEVICE u32 load_streaming_word(const u16* from) {
  u32 result;
  asm volatile("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=r"(result) : "l"(from));
  return result;
}

SPARSMITH_DEVICE u32 load_cached_byte(const u8* from) {
  u32 result;
  asm volatile("ld.global.nc.u8 %0, [%1];" : "=r"(result) : "l"(from));
  return result;
}

// Read-only global memory that others will read again: through L1. Alignment and sizes as load_streaming.
template <class T>
SPARSMITH_DEVICE T load_cached(const T* from) {
  return load_global<LoadKind::kCached>(from);
}

// Global memory that kernels before this one write: X, what lies in the workspace. Through L1. Not in front of
// wait_for_previous(), and not moved there by the compiler, as loads of read-only memory may be.
template <class T>
SPARSMITH_DEVICE T load_coherent(const T* from) {
  return load_global<LoadKind::kCoherent>(from);
}

// The same of 16 bytes where `wanted`; otherwise zeros, and nothing is read: a predicate, no branch.
template <class T>
SPARSMITH_DEVICE T load_coherent_if(bool wanted, const T* from) {
  static_assert(sizeof(T) == 16, "one load of 16 bytes");
  GlobalLoad<16> raw;
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %5, 0;\n\tmov.u32 %0, 0;\n\tmov.u32 %1, 0;\n\tmov.u32 %2, 0;\n\t"
      "mov.u32 %3, 0;\n\t@p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
      : "=&r"(raw.words[0]), "=&r"(raw.words[1]), "=&r"(raw.words[2]), "=&r"(raw.words[3])
      : "l"(from), "r"(static_cast<u32>(wanted))
      : "memory");
  T result;
  memcpy(&result, &raw, sizeof(T));
  return result;
}

// Asks for the line of global memory that holds the address, as far as L2.
SPARSMITH_DEVICE void prefetch(const void* global) { asm volatile("prefetch.global.L2 [%0];" ::"l"(global)); }

// Adds to global or shared memory, in no particular order.
SPARSMITH_DEVICE void atomic_add(float* to, float value) { atomicAdd(to, value); }

// Asynchronous copies from global to shared memory of kBytes = 4, 8 or 16, both sides aligned to kBytes. What was
// copied may be read after async_wait<0>() (by the copying thread), and after a barrier by the others.
template <int kBytes>
SPARSMITH_DEVICE void async_copy(void* shared, const void* global) {
  const u32 to = static_cast<u32>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(kBytes) : "memory");
}
// 16 bytes that are read once: past L1.
SPARSMITH_DEVICE void async_copy_streaming(void* shared, const void* global) {
  const u32 to = static_cast<u32>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}
SPARSMITH_DEVICE void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPendingGroups>
SPARSMITH_DEVICE void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPendingGroups) : "memory");
}

// A place in shared memory as the machine addresses it: in 32 bits, which are cheaper to compute with than a pointer.
struct SharedAddress {
  u32 at;
};
SPARSMITH_DEVICE SharedAddress shared_address(const void* shared) {
  return {static_cast<u32>(__cvta_generic_to_shared(shared))};
}
SPARSMITH_DEVICE SharedAddress advanced(SharedAddress from, u32 bytes) { return {from.at + bytes}; }
// As async_copy_streaming(): places a known distance apart then need one register together.
SPARSMITH_DEVICE void async_copy_streaming(SharedAddress to, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to.at), "l"(global) : "memory");
}
// kScale bytes for each one that the low half of `word` counts: one instruction.
template <int kScale>
SPARSMITH_DEVICE SharedAddress advance_by_low_half(SharedAddress from, u32 word) {
  return {dot_halves(word, kScale, from.at)};
}
// The 16 bytes there, aligned to 16.
template <class T>
SPARSMITH_DEVICE T load_shared(SharedAddress from) {
  static_assert(sizeof(T) == 16);
  u32 words[4];
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(from.at)
               : "memory");
  T result;
  memcpy(&result, words, 16);
  return result;
}

// ---- clusters (from sm_90 on): blocks, neighbours in the grid, that run at the same time and reach each other's
// shared memory. How many they are says the launch (PlanStep::cluster) ----

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr bool kClusters = false;  // the functions below are not to be called, and end the kernel
#else
constexpr bool kClusters = true;
#endif

// Of this block in its cluster: x first, then y, then z. 0 in a launch without clusters.
SPARSMITH_DEVICE int cluster_rank() {
  u32 rank = 0;
  if constexpr (kClusters) asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
// A barrier in two halves: every thread of all blocks of the cluster arrives, and later waits for all the others'
// arrivals; what they did before those is then seen. Before a block touches another's shared memory it has to know that
// the other one runs, and no block may end while others still touch its own: a barrier in front, and one behind.
SPARSMITH_DEVICE void cluster_arrive() {
  if constexpr (kClusters) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  } else {
    __trap();
  }
}
// Arrives without showing anything: that a block runs, or needs no more what others will store to. It waits for no
// access to memory, which the other one does, and for those of the whole device.
SPARSMITH_DEVICE void cluster_arrive_relaxed() {
  if constexpr (kClusters) {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  } else {
    __trap();
  }
}
SPARSMITH_DEVICE void cluster_wait() {
  if constexpr (kClusters) {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  } else {
    __trap();
  }
}

// A place in the shared memory of a block of the cluster.
struct ClusterAddress {
  u32 at;
};
// The place in the block of that rank that `own` is in this one.
SPARSMITH_DEVICE ClusterAddress in_block(SharedAddress own, int rank) {
  ClusterAddress there = {own.at};
  if constexpr (kClusters) asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there.at) : "r"(own.at), "r"(rank));
  return there;
}
SPARSMITH_DEVICE ClusterAddress advanced(ClusterAddress from, u32 bytes) { return {from.at + bytes}; }

// 4, 8 or 16 bytes, aligned to them.
template <class T>
SPARSMITH_DEVICE void store_cluster(ClusterAddress to, const T& value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "one store of 4, 8 or 16 bytes");
  if constexpr (kClusters) {
    u32 words[sizeof(T) / 4];
    memcpy(words, &value, sizeof(T));
    if constexpr (sizeof(T) == 4) {
      asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to.at), "r"(words[0]) : "memory");
    } else if constexpr (sizeof(T) == 8) {
      asm volatile("st.shared::cluster.v2.u32 [%0], {%1, %2};" ::"r"(to.at), "r"(words[0]), "r"(words[1]) : "memory");
    } else {
      asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to.at), "r"(words[0]), "r"(words[1]),
                   "r"(words[2]), "r"(words[3])
                   : "memory");
    }
  } else {
    __trap();
  }
}
template <class T>
SPARSMITH_DEVICE T load_cluster(ClusterAddress from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "one load of 4, 8 or 16 bytes");
  u32 words[sizeof(T) / 4] = {};
  if constexpr (!kClusters) {
    __trap();
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(words[0]) : "r"(from.at) : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("ld.shared::cluster.v2.u32 {%0, %1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1])
                 : "r"(from.at)
                 : "memory");
  } else {
    asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from.at)
                 : "memory");
  }
  T result;
  memcpy(&result, words, sizeof(T));
  return result;
}

// A thread's place in a row of 16-bit values in shared memory, of which it takes one after another.
struct SharedCursor {
  u32 at;
};
SPARSMITH_DEVICE SharedCursor shared_cursor(const void* shared) {
  return {static_cast<u32>(__cvta_generic_to_shared(shared))};
}
SPARSMITH_DEVICE SharedCursor advanced(SharedCursor cursor, u32 bytes) { return {cursor.at + bytes}; }
// The next value where bit kBit of `word` is set, otherwise 0 and the cursor stays. Compilers turn the branch into a
// predicate, and seven tests of neighbouring bits into one instruction; of predicated PTX they make a test each. (The
// test itself is PTX because for bit 0 they would find a longer way.)
template <int kBit>
SPARSMITH_DEVICE u32 take_if(SharedCursor& cursor, u32 word) {
  u32 value = 0;
  u32 bit;
  asm("and.b32 %0, %1, %2;" : "=r"(bit) : "r"(word), "n"(1U << kBit));
  if (bit != 0) {
    asm volatile("ld.shared.u16 %0, [%1];" : "=r"(value) : "r"(cursor.at));
    cursor.at += 2;
  }
  return value;
}

// 16 bytes to global memory in one store, which the compiler does not always make of a plain one. `to` is aligned to
// them.
template <class T>
SPARSMITH_DEVICE void store_whole(T* to, const T& value) {
  static_assert(sizeof(T) == 16, "one store of 16 bytes");
  Vector<u32, 4> words;
  memcpy(&words, &value, sizeof(words));
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]),
               "r"(words[3])
               : "memory");
}

// An address in shared memory as a number, which arithmetic needs one register for.
SPARSMITH_DEVICE u32 shared_offset(const void* shared) { return static_cast<u32>(__cvta_generic_to_shared(shared)); }
// Stores the low or the high half of a word to such an address; _if: a predicate, no branch.
SPARSMITH_DEVICE void store_shared_low(u32 at, u32 word) {
  asm volatile("{\n\t.reg .b16 low, high;\n\tmov.b32 {low, high}, %1;\n\tst.shared.b16 [%0], low;\n\t}" ::"r"(at),
               "r"(word)
               : "memory");
}
SPARSMITH_DEVICE void store_shared_low_if(bool there, u32 at, u32 word) {
  asm volatile(
      "{\n\t.reg .pred p;\n\t.reg .b16 low, high;\n\tsetp.ne.u32 p, %0, 0;\n\tmov.b32 {low, high}, %2;\n\t"
      "@p st.shared.b16 [%1], low;\n\t}" ::"r"(static_cast<u32>(there)),
      "r"(at), "r"(word)
      : "memory");
}
SPARSMITH_DEVICE void store_shared_high_if(bool there, u32 at, u32 word) {
  asm volatile(
      "{\n\t.reg .pred p;\n\t.reg .b16 low, high;\n\tsetp.ne.u32 p, %0, 0;\n\tmov.b32 {low, high}, %2;\n\t"
      "@p st.shared.b16 [%1], high;\n\t}" ::"r"(static_cast<u32>(there)),
      "r"(at), "r"(word)
      : "memory");
}

// ---- tensor cores: every lane of the warp calls ----

// Four 8 x 8 matrices of 16-bit elements from shared memory: lane 8 j + r gives the shared_offset() of row r of matrix
// j (16 bytes, aligned to them); lane l gets elements [l / 4][2 (l % 4)] and [l / 4][2 (l % 4) + 1] of matrix j in the
// low and the high half of out[j].
SPARSMITH_DEVICE void load_matrices(u32 row_at, u32 (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(row_at)
               : "memory");
}

// Four 8 x 8 matrices of 16-bit elements from shared memory, transposed: lane 8 j + r gives the address of row r of
// matrix j (16 bytes, aligned to them); lane l gets elements [2 (l % 4)][l / 4] and [2 (l % 4) + 1][l / 4] of matrix j
// in the low and the high half of out[j].
SPARSMITH_DEVICE void load_matrices_transposed(SharedAddress row, u32 (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(row.at)
               : "memory");
}

// d += a b with a 16 x 16, b 16 x 8 and d 16 x 8, in the fragments of mma.m16n8k16: lane l = 4 g + t holds
//   a[i], i = 0..3: row g + 8 (i % 2), columns 2 t + 8 (i / 2) and the next      b[i], i = 0, 1: rows 2 t + 8 i and the
//   next, column g      d[i], i = 0..3: row g + 8 (i / 2), column 2 t + i % 2
// Products are exact; sums are fp32, rounded towards zero.
template <class T>
struct TensorMultiply;
template <>
struct TensorMultiply<half> {
  static SPARSMITH_DEVICE void add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};
template <>
struct TensorMultiply<bfloat16> {
  static SPARSMITH_DEVICE void add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

// The same with a 16 x 32 of which each aligned group of four columns has at most two elements, b 32 x 8: mma.sp. Of a
// the lane holds
//   a[i], i = 0..3: the two elements that row g + 8 (i % 2) has in group t + 4 (i / 2), of columns 4 u to 4 u + 3
//   b[i], i = 0..3: rows 2 t + 8 i and the next, column g
// Where in their groups the elements stand is in `metadata`, which lanes 2 kPair + h of each quad bring, h = 0, 1: bits
// 4 u and on of row g and bits 16 + 4 u and on of row g + 8 are group u + 4 h, u = 0..3, two bits an element; the
// first is less than the second. Elements of b that are not named so are not multiplied.
template <class T>
struct SparseTensorMultiply;
#define SPARSMITH_SPARSE_MULTIPLY(Type, type)                                                                      \
  template <>                                                                                                      \
  struct SparseTensorMultiply<Type> {                                                                              \
    template <int kPair>                                                                                           \
    static SPARSMITH_DEVICE void add(float (&d)[4], const u32 (&a)[4], const u32 (&b)[4], u32 metadata) {          \
      asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32." type "." type                              \
          ".f32 {%0, %1, %2, %3}, "                                                                                \
          "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"                                      \
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                         \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(metadata), \
            "n"(kPair));                                                                                           \
    }                                                                                                              \
  };
SPARSMITH_SPARSE_MULTIPLY(half, "f16")
SPARSMITH_SPARSE_MULTIPLY(bfloat16, "bf16")
#undef SPARSMITH_SPARSE_MULTIPLY

// ---- warpgroups: four neighbouring warps, the first of which is a multiple of four, and their tensor cores. For
// kernels that are compiled for sm_90a alone (KernelText::architecture); all lanes of all four warps call ----

constexpr int kWarpgroupThreads = 128;

// Orders what the threads of a warpgroup did before it in front of what they do behind it. `warpgroup`: its number in
// the block, up to 7.
SPARSMITH_DEVICE void warpgroup_barrier(int warpgroup) {
  asm volatile("bar.sync %0, 128;" ::"r"(warpgroup + 1) : "memory");
}
// What this thread wrote to shared memory is seen by multiplications behind the next barrier.
SPARSMITH_DEVICE void tensor_reads_follow() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Multiplications run asynchronously, between begin and commit they are started; until the wait is over nobody may
// touch their sums, their operands in registers, or write what they read in shared memory.
SPARSMITH_DEVICE void warpgroup_multiply_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
SPARSMITH_DEVICE void warpgroup_multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// For this warp's part of what was committed, but for the last kInFlight times: others may still be read for.
template <int kInFlight = 0>
SPARSMITH_DEVICE void warpgroup_multiply_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kInFlight) : "memory");
}

// An operand in shared memory whose rows of 128 bytes lie one behind the other, 16-byte chunk h of row r at
// h ^ (r % 8), from a multiple of 1,024 on: the lower half of its descriptor, which is kept apart so that moving it is
// one addition.
struct SwizzledRows {
  u32 descriptor;
};
SPARSMITH_DEVICE SwizzledRows swizzled_rows(u32 shared_offset) { return {(shared_offset >> 4 & 0x3FFFU) | 1U << 16}; }
// By 32, 64, 96 bytes for columns further on; by a multiple of 1,024 to other rows.
SPARSMITH_DEVICE SwizzledRows advanced(SwizzledRows from, u32 bytes) { return {from.descriptor + bytes / 16}; }

// d += a b with a 64 x 16, b 16 x kColumns and d 64 x kColumns. a: as the fragments of mma.m16n8k16, warp w of the
// warpgroup those of rows 16 w and on. b: transposed in shared memory, 16 neighbouring elements in each of kColumns
// rows. d[4 j + i]: what mma.m16n8k16 has at d[i], of columns
// 8 j and on.
template <class T, int kColumns>
struct WarpgroupMultiply;
#define SPARSMITH_TEXT_0_31                                                \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SPARSMITH_TEXT_32_63                                                         \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SPARSMITH_TEXT_64_127                                                                    \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define SPARSMITH_SUMS_8(i)                                                                             \
  "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), "+f"(d[(i) + 4]), "+f"(d[(i) + 5]), \
      "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define SPARSMITH_SUMS_32(i) \
  SPARSMITH_SUMS_8(i), SPARSMITH_SUMS_8((i) + 8), SPARSMITH_SUMS_8((i) + 16), SPARSMITH_SUMS_8((i) + 24)
// `rest`: the operands behind the sums. The last three numbers: neither scaled nor turned.
#define SPARSMITH_WARPGROUP_MULTIPLY(Type, type, columns, texts, rest, ...)                                    \
  template <>                                                                                                  \
  struct WarpgroupMultiply<Type, columns> {                                                                    \
    static SPARSMITH_DEVICE void add(float (&d)[columns / 2], const u32 (&a)[4], SwizzledRows b) {             \
      const u64 rows = b.descriptor | u64{64} << 32 | u64{1} << 62;                                            \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" texts "}, " rest \
                   ", 1, 1, 1, 0;"                                                                             \
                   : __VA_ARGS__                                                                               \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows));                                   \
    }                                                                                                          \
  };
#define SPARSMITH_WARPGROUP_MULTIPLIES(Type, type)                                                                     \
  SPARSMITH_WARPGROUP_MULTIPLY(Type, type, 64, SPARSMITH_TEXT_0_31, "{%32, %33, %34, %35}, %36", SPARSMITH_SUMS_32(0)) \
  SPARSMITH_WARPGROUP_MULTIPLY(Type, type, 128, SPARSMITH_TEXT_0_31 ", " SPARSMITH_TEXT_32_63,                         \
                               "{%64, %65, %66, %67}, %68", SPARSMITH_SUMS_32(0), SPARSMITH_SUMS_32(32))               \
  SPARSMITH_WARPGROUP_MULTIPLY(Type, type, 256,                                                                        \
                               SPARSMITH_TEXT_0_31 ", " SPARSMITH_TEXT_32_63 ", " SPARSMITH_TEXT_64_127,               \
                               "{%128, %129, %130, %131}, %132", SPARSMITH_SUMS_32(0), SPARSMITH_SUMS_32(32),          \
                               SPARSMITH_SUMS_32(64), SPARSMITH_SUMS_32(96))
SPARSMITH_WARPGROUP_MULTIPLIES(half, "f16")
SPARSMITH_WARPGROUP_MULTIPLIES(bfloat16, "bf16")
#undef SPARSMITH_WARPGROUP_MULTIPLIES
#undef SPARSMITH_WARPGROUP_MULTIPLY

// The same with a in shared memory too: 64 rows of 16 neighbouring elements. d: warp w of the warpgroup has rows 16 w
// and on.
template <class T, int kColumns>
struct SharedMultiply;
#define SPARSMITH_TEXT_0_3 "%0, %1, %2, %3"
#define SPARSMITH_TEXT_0_7 SPARSMITH_TEXT_0_3 ", %4, %5, %6, %7"
#define SPARSMITH_TEXT_0_15 SPARSMITH_TEXT_0_7 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define SPARSMITH_SUMS_4(i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define SPARSMITH_SHARED_MULTIPLY(Type, type, columns, texts, rest, ...)                                       \
  template <>                                                                                                  \
  struct SharedMultiply<Type, columns> {                                                                       \
    static SPARSMITH_DEVICE void add(float (&d)[columns / 2], SwizzledRows a, SwizzledRows b) {                \
      const u64 rows = a.descriptor | u64{64} << 32 | u64{1} << 62;                                            \
      const u64 others = b.descriptor | u64{64} << 32 | u64{1} << 62;                                          \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" texts "}, " rest \
                   ", 1, 1, 1, 0, 0;"                                                                          \
                   : __VA_ARGS__                                                                               \
                   : "l"(rows), "l"(others));                                                                  \
    }                                                                                                          \
  };
#define SPARSMITH_SHARED_MULTIPLIES(Type, type)                                                                        \
  SPARSMITH_SHARED_MULTIPLY(Type, type, 8, SPARSMITH_TEXT_0_3, "%4, %5", SPARSMITH_SUMS_4(0))                          \
  SPARSMITH_SHARED_MULTIPLY(Type, type, 16, SPARSMITH_TEXT_0_7, "%8, %9", SPARSMITH_SUMS_8(0))                         \
  SPARSMITH_SHARED_MULTIPLY(Type, type, 32, SPARSMITH_TEXT_0_15, "%16, %17", SPARSMITH_SUMS_8(0), SPARSMITH_SUMS_8(8)) \
  SPARSMITH_SHARED_MULTIPLY(Type, type, 64, SPARSMITH_TEXT_0_31, "%32, %33", SPARSMITH_SUMS_32(0))                     \
  SPARSMITH_SHARED_MULTIPLY(Type, type, 128, SPARSMITH_TEXT_0_31 ", " SPARSMITH_TEXT_32_63, "%64, %65",                \
                            SPARSMITH_SUMS_32(0), SPARSMITH_SUMS_32(32))
SPARSMITH_SHARED_MULTIPLIES(half, "f16")
SPARSMITH_SHARED_MULTIPLIES(bfloat16, "bf16")
#undef SPARSMITH_SHARED_MULTIPLIES
#undef SPARSMITH_SHARED_MULTIPLY
#undef SPARSMITH_SUMS_4
#undef SPARSMITH_TEXT_0_15
#undef SPARSMITH_TEXT_0_7
#undef SPARSMITH_TEXT_0_3
#undef SPARSMITH_SUMS_32
#undef SPARSMITH_SUMS_8
#undef SPARSMITH_TEXT_64_127
#undef SPARSMITH_TEXT_32_63
#undef SPARSMITH_TEXT_0_31

// ---- bulk copies from global to shared memory: one thread starts them, a warp or the block waits for them ----

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr bool kBulkCopies = false;  // the functions below are not to be called, and end the kernel
#else
constexpr bool kBulkCopies = true;
#endif

// In shared memory. One thread makes it ready, and a barrier of those who use it comes before anyone does.
struct alignas(8) BulkBarrier {
  u64 state;
};
// copies: that each wait is for.
SPARSMITH_DEVICE void bulk_barrier_init(BulkBarrier* barrier, int copies = 1) {
  if constexpr (kBulkCopies) {
    const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.init.shared.b64 [%0], %1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(at), "r"(copies)
                 : "memory");
  } else {
    __trap();
  }
}
// Both sides are aligned to 16 bytes (a shared one that is not to 128 is slow); `bytes` is a multiple of 16, neither 0
// nor 2^20 or more.
SPARSMITH_DEVICE void bulk_copy(void* shared, const void* global, int bytes, BulkBarrier* barrier) {
  if constexpr (kBulkCopies) {
    const u32 to = static_cast<u32>(__cvta_generic_to_shared(shared));
    const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(global), "r"(bytes), "r"(at)
                 : "memory");
  } else {
    __trap();
  }
}
// Asks for `bytes` of global memory as far as L2: both are multiples of 16. Where there are no bulk copies, for
// nothing.
SPARSMITH_DEVICE void bulk_prefetch(const void* global, int bytes) {
  if constexpr (kBulkCopies) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes));
  }
}
// Every lane of the warp whose copy it is calls it. `phase`: 0 for the first copies of a barrier, then 1, 0, 1, ...
SPARSMITH_DEVICE void bulk_wait_in_warp(BulkBarrier* barrier, u32 phase) {
  if constexpr (kBulkCopies) {
    const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
    asm volatile(
        "{\n\t.reg .pred p;\n\tWAIT:\n\tmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n\t@!p bra WAIT;\n\t}" ::"r"(
            at),
        "r"(phase)
        : "memory");
  } else {
    __trap();
  }
}
// The same for a copy of the block: every thread calls it.
SPARSMITH_DEVICE void bulk_wait(BulkBarrier* barrier, u32 phase) { bulk_wait_in_warp(barrier, phase); }
// What this thread wrote to shared memory comes before the bulk copies to the same place that are started behind the
// next barrier.
SPARSMITH_DEVICE void bulk_copies_follow() {
  if constexpr (kBulkCopies) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- barriers in shared memory at which some threads arrive and others wait: warps of different roles hand places to
// each other ----

struct alignas(8) ArrivalBarrier {
  u64 state;
};
// arrivals: that complete a phase. One thread makes it ready, and a barrier of the block comes before anyone uses it.
SPARSMITH_DEVICE void arrival_barrier_init(ArrivalBarrier* barrier, int arrivals) {
  if constexpr (kBulkCopies) {
    const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.init.shared.b64 [%0], %1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(at), "r"(arrivals)
                 : "memory");
  } else {
    __trap();
  }
}
// It may be made ready again, or the place be used for something else, when nobody uses it any more.
SPARSMITH_DEVICE void arrival_barrier_end(ArrivalBarrier* barrier) {
  if constexpr (kBulkCopies) {
    const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(at) : "memory");
  } else {
    __trap();
  }
}
// What this thread did before it, and what others had before they met it at a warp barrier, is seen by those who
// waited.
SPARSMITH_DEVICE void arrive(ArrivalBarrier* barrier) {
  if constexpr (kBulkCopies) {
    const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
  } else {
    __trap();
  }
}
// Until the phase of that parity is over: the first one has 0, the one that was over before it 1. Every lane of a warp
// calls it.
SPARSMITH_DEVICE void await(ArrivalBarrier* barrier, u32 parity) {
  if constexpr (kBulkCopies) {
    const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
    asm volatile(
        "{\n\t.reg .pred p;\n\tWAIT:\n\tmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n\t@!p bra WAIT;\n\t}" ::"r"(
            at),
        "r"(parity)
        : "memory");
  } else {
    __trap();
  }
}

// ---- arithmetic ----

// sum + 0 * pair, of two 16-bit values each: begun at 0 it stays (-)0 until a value is Inf or NaN, and is NaN from then
// on.
template <class T>
SPARSMITH_DEVICE u32 add_zero_times(u32 pair, u32 sum);
template <>
SPARSMITH_DEVICE u32 add_zero_times<half>(u32 pair, u32 sum) {
  u32 result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(0U), "r"(sum));
  return result;
}
template <>
SPARSMITH_DEVICE u32 add_zero_times<bfloat16>(u32 pair, u32 sum) {
  u32 result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(0U), "r"(sum));
  return result;
}

// Bytes chosen from those of a (0 to 3) and b (4 to 7) by the four nibbles of the selector, lowest first; with 8 added
// to a nibble, the byte's highest bit eight times.
SPARSMITH_DEVICE u32 permute_bytes(u32 a, u32 b, u32 selector) {
  u32 result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
  return result;
}
SPARSMITH_DEVICE int count_bits(u32 word) { return __popc(word); }

SPARSMITH_DEVICE float float_from_bits(u32 bits) { return __uint_as_float(bits); }
SPARSMITH_DEVICE u32 bits_of_float(float value) { return __float_as_uint(value); }

SPARSMITH_DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
SPARSMITH_DEVICE double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }
SPARSMITH_DEVICE float exponential(float value) { return expf(value); }
SPARSMITH_DEVICE float error_function(float value) { return erff(value); }
SPARSMITH_DEVICE double absolute(double value) { return fabs(value); }
SPARSMITH_DEVICE bool is_finite(float value) { return fabsf(value) <= 3.402823466e+38F; }

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
