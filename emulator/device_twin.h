// The CPU twin of snippets/device.cuh: the same names, types and semantics, on top of the emulator.
//
// Compiled as the first part of every kernel text, so it includes nothing and holds no more than it must. What
// concerns several threads (barriers, shuffles, asynchronous copies) is a call into the emulator; memory accesses
// are plain C++ and are seen through the compiler's instrumentation. `line` arguments are filled in by the
// compiler with the line of the call in the kernel text, for reports and to tell barriers apart.
#pragma once

#define __global__
#define __launch_bounds__(...)
#define SPARSMITH_DEVICE inline __attribute__((always_inline))
#define SPARSMITH_UNROLL
#define SPARSMITH_ROLLED

extern "C" {
int sparsmith_emulator_thread_index() __attribute__((const));
int sparsmith_emulator_block_index(int axis) __attribute__((const));
int sparsmith_emulator_grid_size(int axis) __attribute__((const));
void sparsmith_emulator_wait_for_previous();
void sparsmith_emulator_block_barrier(int line);
int sparsmith_emulator_cluster_rank() __attribute__((const));
void sparsmith_emulator_cluster_arrive(int line);
void sparsmith_emulator_cluster_wait(int line);
unsigned char* sparsmith_emulator_in_block(const unsigned char* own, int rank, int line);
void sparsmith_emulator_check_cluster_access(const unsigned char* at, int bytes, int line);
void sparsmith_emulator_warp_barrier(unsigned mask, int line);
// kind 0: from lane ^ argument; 1: from lane + argument, or the own value past the warp's end; 2: from lane `argument`;
// 3: from lane - argument, or the own value before the warp's start; 4: 1 where any lane brought other than 0, else 0.
unsigned long long sparsmith_emulator_shuffle(int kind, unsigned long long value, int argument, unsigned mask,
                                              int line);
// mma.m16n8k16: a: 4 words, b: 2 words, d: 4 floats of the calling lane. All 32 lanes of a warp.
void sparsmith_emulator_multiply_matrices(float* d, const unsigned* a, const unsigned* b, bool bfloat16, int line);
// mma.sp.m16n8k32: a and b: 4 words, d: 4 floats of the calling lane. All 32 lanes of a warp.
void sparsmith_emulator_multiply_sparse_matrices(float* d, const unsigned* a, const unsigned* b, unsigned metadata,
                                                 int pair, bool bfloat16, int line);
void sparsmith_emulator_warpgroup_barrier(int warpgroup, int line);
void sparsmith_emulator_tensor_reads_follow();
void sparsmith_emulator_warpgroup_begin();
// wgmma.m64n<columns>k16: a: 4 words of the calling lane, or null: it lies at a_at; d: columns / 2 floats of the
// calling lane. All 32 lanes of each of four warps.
void sparsmith_emulator_warpgroup_multiply(float* d, const unsigned* a, unsigned a_at, unsigned b_at, int columns,
                                           bool bfloat16, int line);
void sparsmith_emulator_warpgroup_commit();
void sparsmith_emulator_warpgroup_wait(int in_flight, int line);
unsigned char* sparsmith_emulator_shared_memory() __attribute__((const));
void sparsmith_emulator_misaligned(const void* address, int bytes, int line);
void sparsmith_emulator_atomic_add_float(float* to, float value, int line);
void sparsmith_emulator_async_copy(void* shared, const void* global, int bytes, int line);
void sparsmith_emulator_async_commit();
void sparsmith_emulator_async_wait(int pending_groups, int line);
void sparsmith_emulator_bulk_barrier_init(const void* barrier, int copies, int line);
void sparsmith_emulator_bulk_copy(void* shared, const void* global, int bytes, const void* barrier, int line);
void sparsmith_emulator_bulk_wait(const void* barrier, unsigned phase, int line);
void sparsmith_emulator_arrival_barrier_init(const void* barrier, int arrivals, int line);
void sparsmith_emulator_arrival_barrier_end(const void* barrier, int line);
void sparsmith_emulator_arrive(const void* barrier, int line);
void sparsmith_emulator_await_arrivals(const void* barrier, unsigned parity, int line);
}

namespace sparsmith {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

struct half {
  u16 bits;
};
struct bfloat16 {
  u16 bits;
};

SPARSMITH_DEVICE float to_float(float value) { return value; }
SPARSMITH_DEVICE float to_float(half value) {
  const u32 sign = static_cast<u32>(value.bits & 0x8000U) << 16;
  const u32 magnitude = value.bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) return __builtin_bit_cast(float, sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
  // The exponent is moved by a multiplication, which is exact and makes denormals normal as well.
  const float shifted = __builtin_bit_cast(float, magnitude << 13) * 0x1p112F;
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(u32, shifted));
}
SPARSMITH_DEVICE float to_float(bfloat16 value) {
  return __builtin_bit_cast(float, static_cast<u32>(value.bits) << 16);
}

template <class T>
struct FromFloat;
template <>
struct FromFloat<float> {
  static SPARSMITH_DEVICE float convert(float value) { return value; }
};
template <>
struct FromFloat<half> {
  static SPARSMITH_DEVICE half convert(float value) {
    const u32 bits = __builtin_bit_cast(u32, value);
    const u32 sign = (bits >> 16) & 0x8000U;
    const u32 magnitude = bits & 0x7FFFFFFFU;
    u32 result;
    if (magnitude > 0x7F800000U) {
      result = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
    } else if (magnitude >= 0x477FF000U) {
      result = 0x7C00U;
    } else if (magnitude < 0x38800000U) {  // a denormal: adding 0.5 lets the FPU round at bit 2^-24
      result = __builtin_bit_cast(u32, __builtin_bit_cast(float, magnitude) + 0.5F) - 0x3F000000U;
    } else {
      result = (magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
    }
    return {static_cast<u16>(sign | result)};
  }
};
template <>
struct FromFloat<bfloat16> {
  static SPARSMITH_DEVICE bfloat16 convert(float value) {
    const u32 bits = __builtin_bit_cast(u32, value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<u16>((bits >> 16) | 0x40U)};
    return {static_cast<u16>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
  }
};
template <class T>
SPARSMITH_DEVICE T from_float(float value) {
  return FromFloat<T>::convert(value);
}

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T elements[kCount];
  SPARSMITH_DEVICE T& operator[](int i) { return elements[i]; }
  SPARSMITH_DEVICE const T& operator[](int i) const { return elements[i]; }
};

SPARSMITH_DEVICE int thread_index() { return sparsmith_emulator_thread_index(); }
SPARSMITH_DEVICE int warp_index() { return thread_index() / 32; }
SPARSMITH_DEVICE int lane_index() { return thread_index() % 32; }
SPARSMITH_DEVICE int block_index_x() { return sparsmith_emulator_block_index(0); }
SPARSMITH_DEVICE int block_index_y() { return sparsmith_emulator_block_index(1); }
SPARSMITH_DEVICE int block_index_z() { return sparsmith_emulator_block_index(2); }
SPARSMITH_DEVICE int grid_size_x() { return sparsmith_emulator_grid_size(0); }
SPARSMITH_DEVICE int grid_size_y() { return sparsmith_emulator_grid_size(1); }

// Launches of the emulator never overlap; what a kernel touches before it waits is reported all the same.
SPARSMITH_DEVICE void launch_dependents() {}
SPARSMITH_DEVICE u32 known_here(u32 value) { return value; }
SPARSMITH_DEVICE void wait_for_previous() { sparsmith_emulator_wait_for_previous(); }

SPARSMITH_DEVICE void block_barrier(int line = __builtin_LINE()) { sparsmith_emulator_block_barrier(line); }
SPARSMITH_DEVICE void warp_barrier(u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  sparsmith_emulator_warp_barrier(mask, line);
}
SPARSMITH_DEVICE float shuffle_xor(float value, int lane_mask, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  const u32 bits = __builtin_bit_cast(u32, value);
  return __builtin_bit_cast(float, static_cast<u32>(sparsmith_emulator_shuffle(0, bits, lane_mask, mask, line)));
}
SPARSMITH_DEVICE u32 shuffle_xor_word(u32 value, int lane_mask, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  return static_cast<u32>(sparsmith_emulator_shuffle(0, value, lane_mask, mask, line));
}
SPARSMITH_DEVICE float shuffle_down(float value, int delta, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  const u32 bits = __builtin_bit_cast(u32, value);
  return __builtin_bit_cast(float, static_cast<u32>(sparsmith_emulator_shuffle(1, bits, delta, mask, line)));
}
SPARSMITH_DEVICE u32 shuffle_up(u32 value, int delta, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  return static_cast<u32>(sparsmith_emulator_shuffle(3, value, delta, mask, line));
}
SPARSMITH_DEVICE u32 add_shuffled_up(u32 value, int delta, int line = __builtin_LINE()) {
  const u32 before = shuffle_up(value, delta, 0xFFFFFFFFU, line);
  return thread_index() % 32 >= delta ? value + before : value;
}
SPARSMITH_DEVICE bool warp_any(bool value, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  return sparsmith_emulator_shuffle(4, value ? 1 : 0, 0, mask, line) != 0;
}
SPARSMITH_DEVICE u32 shuffle_index(u32 value, int lane, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  return static_cast<u32>(sparsmith_emulator_shuffle(2, value, lane, mask, line));
}

SPARSMITH_DEVICE u8* shared_memory() { return sparsmith_emulator_shared_memory(); }

// One load of sizeof(T) bytes, as the hardware does it: aligned to its size (at most 16).
template <class T>
SPARSMITH_DEVICE T load_aligned(const T* from, int line) {
  constexpr u64 kPart = sizeof(T) > 16 ? 16 : sizeof(T);
  static_assert(sizeof(T) == kPart || sizeof(T) == 32, "a load is 2, 4, 8, 16 or 32 bytes");
  static_assert((kPart & (kPart - 1)) == 0 && kPart > 1, "a load is 2, 4, 8, 16 or 32 bytes");
  // Volatile, so that the compiler does not conclude from T's alignment that the check is needless.
  const T* volatile opaque = from;
  if ((reinterpret_cast<u64>(opaque) & (kPart - 1)) != 0) sparsmith_emulator_misaligned(from, sizeof(T), line);
  T result;
  __builtin_memcpy(&result, from, kPart);
  if constexpr (sizeof(T) == 32) {
    __builtin_memcpy(reinterpret_cast<u8*>(&result) + 16, reinterpret_cast<const u8*>(from) + 16, 16);
  }
  return result;
}
template <class T>
SPARSMITH_DEVICE T load_streaming(const T* from, int line = __builtin_LINE()) {
  return load_aligned(from, line);
}
template <class T>
SPARSMITH_DEVICE T load_cached(const T* from, int line = __builtin_LINE()) {
  return load_aligned(from, line);
}

template <class T>
SPARSMITH_DEVICE T load_coherent(const T* from, int line = __builtin_LINE()) {
  return load_aligned(from, line);
}

template <class T>
SPARSMITH_DEVICE T load_coherent_if(bool wanted, const T* from, int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 16, "one load of 16 bytes");
  return wanted ? load_aligned(from, line) : T{};
}

template <class T>
SPARSMITH_DEVICE void store_whole(T* to, const T& value, int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 16, "one store of 16 bytes");
  T* volatile opaque = to;  // as in load_aligned()
  if (reinterpret_cast<u64>(opaque) % sizeof(T) != 0) sparsmith_emulator_misaligned(to, sizeof(T), line);
  *to = value;
}

SPARSMITH_DEVICE void prefetch(const void*) {}
SPARSMITH_DEVICE u32 load_cached_byte(const u8* from) { return *from; }
SPARSMITH_DEVICE u32 load_streaming_word(const u16* from, int line = __builtin_LINE()) {
  return load_aligned(from, line);
}

SPARSMITH_DEVICE void atomic_add(float* to, float value, int line = __builtin_LINE()) {
  sparsmith_emulator_atomic_add_float(to, value, line);
}

template <int kBytes>
SPARSMITH_DEVICE void async_copy(void* shared, const void* global, int line = __builtin_LINE()) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "an asynchronous copy is 4, 8 or 16 bytes");
  sparsmith_emulator_async_copy(shared, global, kBytes, line);
}
SPARSMITH_DEVICE void async_copy_streaming(void* shared, const void* global, int line = __builtin_LINE()) {
  sparsmith_emulator_async_copy(shared, global, 16, line);
}
SPARSMITH_DEVICE void async_commit() { sparsmith_emulator_async_commit(); }
template <int kPendingGroups>
SPARSMITH_DEVICE void async_wait(int line = __builtin_LINE()) {
  sparsmith_emulator_async_wait(kPendingGroups, line);
}

SPARSMITH_DEVICE u64 shuffle_word(u64 value, int lane, int line) {
  return sparsmith_emulator_shuffle(2, value, lane, 0xFFFFFFFFU, line);
}

// Here a number counts from the block's first byte.
SPARSMITH_DEVICE u32 shared_offset(const void* shared) {
  return static_cast<u32>(static_cast<const u8*>(shared) - shared_memory());
}
SPARSMITH_DEVICE void store_shared_low(u32 at, u32 word, int line = __builtin_LINE()) {
  u8* const to = shared_memory() + at;
  if ((reinterpret_cast<u64>(to) & 1U) != 0) sparsmith_emulator_misaligned(to, 2, line);
  *reinterpret_cast<u16*>(to) = static_cast<u16>(word);
}
SPARSMITH_DEVICE void store_shared_low_if(bool there, u32 at, u32 word, int line = __builtin_LINE()) {
  if (there) store_shared_low(at, word, line);
}
SPARSMITH_DEVICE void store_shared_high_if(bool there, u32 at, u32 word, int line = __builtin_LINE()) {
  if (there) store_shared_low(at, word >> 16, line);
}

struct SharedAddress {
  const u8* at;
};
SPARSMITH_DEVICE SharedAddress shared_address(const void* shared) { return {static_cast<const u8*>(shared)}; }
SPARSMITH_DEVICE SharedAddress advanced(SharedAddress from, u32 bytes) { return {from.at + bytes}; }
SPARSMITH_DEVICE void async_copy_streaming(SharedAddress to, const void* global, int line = __builtin_LINE()) {
  sparsmith_emulator_async_copy(const_cast<u8*>(to.at), global, 16, line);
}
template <int kScale>
SPARSMITH_DEVICE SharedAddress advance_by_low_half(SharedAddress from, u32 word) {
  return {from.at + kScale * (word & 0xFFFFU)};
}
template <class T>
SPARSMITH_DEVICE T load_shared(SharedAddress from) {
  return *reinterpret_cast<const T*>(from.at);
}
constexpr bool kClusters = true;
SPARSMITH_DEVICE int cluster_rank() { return sparsmith_emulator_cluster_rank(); }
SPARSMITH_DEVICE void cluster_arrive(int line = __builtin_LINE()) { sparsmith_emulator_cluster_arrive(line); }
SPARSMITH_DEVICE void cluster_arrive_relaxed(int line = __builtin_LINE()) { sparsmith_emulator_cluster_arrive(line); }
SPARSMITH_DEVICE void cluster_wait(int line = __builtin_LINE()) { sparsmith_emulator_cluster_wait(line); }
struct ClusterAddress {
  u8* at;
};
SPARSMITH_DEVICE ClusterAddress in_block(SharedAddress own, int rank, int line = __builtin_LINE()) {
  return {sparsmith_emulator_in_block(own.at, rank, line)};
}
SPARSMITH_DEVICE ClusterAddress advanced(ClusterAddress from, u32 bytes) { return {from.at + bytes}; }
template <class T>
SPARSMITH_DEVICE void store_cluster(ClusterAddress to, const T& value, int line = __builtin_LINE()) {
  sparsmith_emulator_check_cluster_access(to.at, sizeof(T), line);
  *reinterpret_cast<T*>(to.at) = value;
}
template <class T>
SPARSMITH_DEVICE T load_cluster(ClusterAddress from, int line = __builtin_LINE()) {
  sparsmith_emulator_check_cluster_access(from.at, sizeof(T), line);
  return *reinterpret_cast<const T*>(from.at);
}
SPARSMITH_DEVICE void load_matrices(u32 row_at, u32 (&out)[4], int line = __builtin_LINE()) {
  const u8* const row = shared_memory() + row_at;
  if ((reinterpret_cast<u64>(row) & 15U) != 0) sparsmith_emulator_misaligned(row, 16, line);
  const int lane = thread_index() % 32;
  for (int j = 0; j < 4; ++j) {
    const auto* from = reinterpret_cast<const u16*>(shuffle_word(reinterpret_cast<u64>(row), 8 * j + lane / 4, line));
    out[j] = from[lane % 4 * 2] | static_cast<u32>(from[lane % 4 * 2 + 1]) << 16;
  }
}

SPARSMITH_DEVICE void load_matrices_transposed(SharedAddress address, u32 (&out)[4], int line = __builtin_LINE()) {
  const u8* row = address.at;
  if ((reinterpret_cast<u64>(row) & 15U) != 0) sparsmith_emulator_misaligned(row, 16, line);
  const int lane = thread_index() % 32;
  for (int j = 0; j < 4; ++j) {
    const auto* even =
        reinterpret_cast<const u16*>(shuffle_word(reinterpret_cast<u64>(row), 8 * j + lane % 4 * 2, line));
    const auto* odd =
        reinterpret_cast<const u16*>(shuffle_word(reinterpret_cast<u64>(row), 8 * j + lane % 4 * 2 + 1, line));
    out[j] = even[lane / 4] | static_cast<u32>(odd[lane / 4]) << 16;
  }
}

template <class T>
constexpr bool is_bfloat16 = false;
template <>
inline constexpr bool is_bfloat16<bfloat16> = true;

template <class T>
struct TensorMultiply {
  static SPARSMITH_DEVICE void add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, int line = __builtin_LINE()) {
    const u32 b[2] = {b0, b1};
    sparsmith_emulator_multiply_matrices(d, a, b, is_bfloat16<T>, line);
  }
};

template <class T>
struct SparseTensorMultiply {
  template <int kPair>
  static SPARSMITH_DEVICE void add(float (&d)[4], const u32 (&a)[4], const u32 (&b)[4], u32 metadata,
                                   int line = __builtin_LINE()) {
    static_assert(kPair == 0 || kPair == 1, "a quad has two pairs of lanes");
    sparsmith_emulator_multiply_sparse_matrices(d, a, b, metadata, kPair, is_bfloat16<T>, line);
  }
};

constexpr int kWarpgroupThreads = 128;
SPARSMITH_DEVICE void warpgroup_barrier(int warpgroup, int line = __builtin_LINE()) {
  sparsmith_emulator_warpgroup_barrier(warpgroup, line);
}
SPARSMITH_DEVICE void tensor_reads_follow() { sparsmith_emulator_tensor_reads_follow(); }
SPARSMITH_DEVICE void warpgroup_multiply_begin() { sparsmith_emulator_warpgroup_begin(); }
SPARSMITH_DEVICE void warpgroup_multiply_commit() { sparsmith_emulator_warpgroup_commit(); }
template <int kInFlight = 0>
SPARSMITH_DEVICE void warpgroup_multiply_wait(int line = __builtin_LINE()) {
  sparsmith_emulator_warpgroup_wait(kInFlight, line);
}
// Here the operand is its place.
struct SwizzledRows {
  u32 at;
};
SPARSMITH_DEVICE SwizzledRows swizzled_rows(u32 shared_offset) { return {shared_offset}; }
SPARSMITH_DEVICE SwizzledRows advanced(SwizzledRows from, u32 bytes) { return {from.at + bytes}; }
template <class T, int kColumns>
struct WarpgroupMultiply {
  static SPARSMITH_DEVICE void add(float (&d)[kColumns / 2], const u32 (&a)[4], SwizzledRows b,
                                   int line = __builtin_LINE()) {
    sparsmith_emulator_warpgroup_multiply(d, a, 0, b.at, kColumns, is_bfloat16<T>, line);
  }
};
template <class T, int kColumns>
struct SharedMultiply {
  static SPARSMITH_DEVICE void add(float (&d)[kColumns / 2], SwizzledRows a, SwizzledRows b,
                                   int line = __builtin_LINE()) {
    sparsmith_emulator_warpgroup_multiply(d, nullptr, a.at, b.at, kColumns, is_bfloat16<T>, line);
  }
};

SPARSMITH_DEVICE u32 permute_bytes(u32 a, u32 b, u32 selector) {
  const u64 bytes = a | static_cast<u64>(b) << 32;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    u32 byte = static_cast<u32>(bytes >> (selector >> (4 * i) & 7U) * 8 & 0xFFU);
    if ((selector >> (4 * i) & 8U) != 0) byte = byte >> 7 != 0 ? 0xFFU : 0;
    result |= byte << (8 * i);
  }
  return result;
}
SPARSMITH_DEVICE int count_bits(u32 word) { return __builtin_popcount(word); }
struct SharedCursor {
  const u16* at;
};
SPARSMITH_DEVICE SharedCursor shared_cursor(const void* shared) { return {static_cast<const u16*>(shared)}; }
SPARSMITH_DEVICE SharedCursor advanced(SharedCursor cursor, u32 bytes) { return {cursor.at + bytes / 2}; }
template <int kBit>
SPARSMITH_DEVICE u32 take_if(SharedCursor& cursor, u32 word) {
  return (word >> kBit & 1U) != 0 ? *cursor.at++ : 0;
}
template <class T>
SPARSMITH_DEVICE u32 add_zero_times(u32 pair, u32 sum) {
  constexpr u32 kExponent = is_bfloat16<T> ? 0x7F80U : 0x7C00U;
  if ((pair & kExponent) == kExponent) sum |= 0x7FFFU;
  if ((pair >> 16 & kExponent) == kExponent) sum |= 0x7FFFU << 16;
  return sum;
}
SPARSMITH_DEVICE float float_from_bits(u32 bits) { return __builtin_bit_cast(float, bits); }
SPARSMITH_DEVICE u32 bits_of_float(float value) { return __builtin_bit_cast(u32, value); }
constexpr bool kBulkCopies = true;
struct alignas(8) BulkBarrier {
  u64 state;
};
SPARSMITH_DEVICE void bulk_barrier_init(BulkBarrier* barrier, int copies = 1, int line = __builtin_LINE()) {
  sparsmith_emulator_bulk_barrier_init(barrier, copies, line);
}
SPARSMITH_DEVICE void bulk_copy(void* shared, const void* global, int bytes, BulkBarrier* barrier,
                                int line = __builtin_LINE()) {
  sparsmith_emulator_bulk_copy(shared, global, bytes, barrier, line);
}
SPARSMITH_DEVICE void bulk_wait_in_warp(BulkBarrier* barrier, u32 phase, int line = __builtin_LINE()) {
  sparsmith_emulator_bulk_wait(barrier, phase, line);
}
// The threads of a block meet as well: nothing less orders warps in the emulator.
SPARSMITH_DEVICE void bulk_wait(BulkBarrier* barrier, u32 phase, int line = __builtin_LINE()) {
  sparsmith_emulator_bulk_wait(barrier, phase, line);
  sparsmith_emulator_block_barrier(line);
}
SPARSMITH_DEVICE void bulk_prefetch(const void*, int) {}
SPARSMITH_DEVICE void bulk_copies_follow() {}

struct alignas(8) ArrivalBarrier {
  u64 state;
};
SPARSMITH_DEVICE void arrival_barrier_init(ArrivalBarrier* barrier, int arrivals, int line = __builtin_LINE()) {
  sparsmith_emulator_arrival_barrier_init(barrier, arrivals, line);
}
SPARSMITH_DEVICE void arrival_barrier_end(ArrivalBarrier* barrier, int line = __builtin_LINE()) {
  sparsmith_emulator_arrival_barrier_end(barrier, line);
}
SPARSMITH_DEVICE void arrive(ArrivalBarrier* barrier, int line = __builtin_LINE()) {
  sparsmith_emulator_arrive(barrier, line);
}
SPARSMITH_DEVICE void await(ArrivalBarrier* barrier, u32 parity, int line = __builtin_LINE()) {
  sparsmith_emulator_await_arrivals(barrier, parity, line);
}

SPARSMITH_DEVICE u32 dot_bytes(u32 bytes, u32 weights, u32 sum) {
  for (int i = 0; i < 32; i += 8) sum += (bytes >> i & 0xFFU) * (weights >> i & 0xFFU);
  return sum;
}
SPARSMITH_DEVICE u32 dot_halves(u32 words, u32 weights, u32 sum) {
  return sum + (words & 0xFFFFU) * (weights & 0xFFU) + (words >> 16) * (weights >> 8 & 0xFFU);
}
SPARSMITH_DEVICE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SPARSMITH_DEVICE double multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }
SPARSMITH_DEVICE float exponential(float value) { return __builtin_expf(value); }
SPARSMITH_DEVICE float error_function(float value) { return __builtin_erff(value); }
SPARSMITH_DEVICE double absolute(double value) { return __builtin_fabs(value); }
SPARSMITH_DEVICE bool is_finite(float value) { return __builtin_fabsf(value) <= 3.402823466e+38F; }

}  // namespace sparsmith

// ---- how the emulator calls a kernel: the arguments come as an array of addresses ----

namespace sparsmith_emulator {

template <class... Types>
struct Parameters {
  static constexpr int count = sizeof...(Types);
  // Bytes of each parameter, then a 0.
  static constexpr int bytes[count + 1] = {static_cast<int>(sizeof(Types))..., 0};
};
template <class... Types>
constexpr Parameters<Types...> parameters_of(void (*)(Types...)) {
  return {};
}

#define SPARSMITH_UNCHECKED __attribute__((no_sanitize("thread")))
template <class... Types, class... Loaded>
SPARSMITH_UNCHECKED inline void call(void (*kernel)(Types...), const void* const*, Parameters<>, Loaded... loaded) {
  kernel(loaded...);
}
template <class Kernel, class First, class... Rest, class... Loaded>
SPARSMITH_UNCHECKED inline void call(Kernel kernel, const void* const* next, Parameters<First, Rest...>,
                                     Loaded... loaded) {
  call(kernel, next + 1, Parameters<Rest...>{}, loaded..., *static_cast<const First*>(*next));
}

}  // namespace sparsmith_emulator
