#include "emulator/entry_points.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "emulator/thread_block.h"

namespace sparsmith {
namespace {

AccessChecker& checker() { return running_block->checker(); }

// ---- instrumented accesses ----

template <AccessKind kKind, std::uint32_t kBytes>
void access(const void* address) {
  checker().access<kKind, kBytes>(address);
}

// The compiler states the access to be aligned to its size, as the hardware requires.
template <AccessKind kKind, std::uint32_t kBytes>
void aligned_access(const void* address) {
  if (reinterpret_cast<std::uintptr_t>(address) % kBytes != 0) [[unlikely]] {
    running_block->fail_misaligned(address, kBytes);
  }
  checker().access<kKind, kBytes>(address);
}

void read_range(const void* address, std::uint64_t bytes) { checker().access_range(AccessKind::kRead, address, bytes); }
void write_range(const void* address, std::uint64_t bytes) {
  checker().access_range(AccessKind::kWrite, address, bytes);
}

void* checked_memcpy(void* to, const void* from, std::uint64_t bytes) {
  read_range(from, bytes);
  write_range(to, bytes);
  return std::memmove(to, from, bytes);
}
void* checked_memset(void* to, int value, std::uint64_t bytes) {
  write_range(to, bytes);
  return std::memset(to, value, bytes);
}

// The first fields of what -fsanitize=alignment passes along with a misaligned pointer.
struct AlignmentFault {
  const char* file;
  std::uint32_t line;
  std::uint32_t column;
  const void* type;
  unsigned char log_alignment;
  unsigned char check_kind;
};

void misaligned_pointer(const AlignmentFault* fault, const void* pointer) {
  running_block->fail_misaligned(pointer, 1U << fault->log_alignment, static_cast<int>(fault->line));
}

void check_alignment(const void* address, std::uint32_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) running_block->fail_misaligned(address, bytes);
}

void do_nothing() {}

// ---- functions of the twin ----

int thread_index() { return running_block->thread_index(); }
int block_index(int axis) { return running_block->block_index(axis); }
int grid_size(int axis) { return running_block->grid_size(axis); }
std::byte* shared_memory() { return running_block->shared_memory(); }
void wait_for_previous() { checker().wait_for_previous(); }
int cluster_rank() { return running_block->rank(); }
void cluster_arrive(int line) { running_block->cluster_arrive(line); }
void cluster_wait(int line) { running_block->cluster_wait(line); }
std::byte* in_block(const std::byte* own, int rank, int line) { return running_block->in_block(own, rank, line); }
void check_cluster_access(const std::byte* at, int bytes, int line) {
  running_block->check_cluster_access(at, bytes, line);
}
void block_barrier(int line) { running_block->block_barrier(line); }
void warp_barrier(unsigned mask, int line) { running_block->warp_barrier(mask, line); }
unsigned long long shuffle(int kind, unsigned long long value, int argument, unsigned mask, int line) {
  return running_block->shuffle(static_cast<ThreadBlock::ShuffleKind>(kind), value, argument, mask, line);
}
void multiply_matrices(float* d, const unsigned* a, const unsigned* b, bool bfloat16, int line) {
  running_block->multiply_matrices({d, a, b, bfloat16}, line);
}
void multiply_sparse_matrices(float* d, const unsigned* a, const unsigned* b, unsigned metadata, int pair,
                              bool bfloat16, int line) {
  running_block->multiply_sparse_matrices({d, a, b, metadata, pair, bfloat16}, line);
}
void warpgroup_barrier(int warpgroup, int line) { running_block->warpgroup_barrier(warpgroup, line); }
void tensor_reads_follow() { running_block->tensor_reads_follow(); }
void warpgroup_begin() { running_block->warpgroup_begin(); }
void warpgroup_multiply(float* d, const unsigned* a, unsigned a_at, unsigned b_at, int columns, bool bfloat16,
                        int line) {
  running_block->warpgroup_multiply({d, a, a_at, b_at, columns, bfloat16}, line);
}
void warpgroup_commit() { running_block->warpgroup_commit(); }
void warpgroup_wait(int in_flight, int line) { running_block->warpgroup_wait(in_flight, line); }
void misaligned(const void* address, int bytes, int line) {
  running_block->fail_misaligned(address, static_cast<std::uint32_t>(bytes), line);
}
void atomic_add_float(float* to, float value, int line) { running_block->atomic_add(to, value, line); }
void async_copy(std::byte* shared, const std::byte* global, int bytes, int line) {
  running_block->async_copy(shared, global, bytes, line);
}
void async_commit() { running_block->async_commit(); }
void async_wait(int pending_groups, int line) { running_block->async_wait(pending_groups, line); }

void bulk_barrier_init(const void* barrier, int copies, int line) {
  running_block->bulk_barrier_init(barrier, copies, line);
}
void bulk_copy(std::byte* shared, const std::byte* global, int bytes, const void* barrier, int line) {
  running_block->bulk_copy(shared, global, bytes, barrier, line);
}
void bulk_wait(const void* barrier, unsigned phase, int line) { running_block->bulk_wait(barrier, phase, line); }

void arrival_barrier_init(const void* barrier, int arrivals, int line) {
  running_block->arrival_barrier_init(barrier, arrivals, line);
}
void arrival_barrier_end(const void* barrier, int line) { running_block->arrival_barrier_end(barrier, line); }
void arrive(const void* barrier, int line) { running_block->arrive(barrier, line); }
void await_arrivals(const void* barrier, unsigned parity, int line) {
  running_block->await_arrivals(barrier, parity, line);
}

template <class Function>
EntryPoint entry(const char* symbol, Function* function) {
  return {symbol, reinterpret_cast<void*>(function), false};
}

EntryPoint nothing(const char* symbol) { return {symbol, reinterpret_cast<void*>(&do_nothing), true}; }

std::vector<EntryPoint> all_entry_points() {
  using enum AccessKind;
  return {
      entry("sparsmith_emulator_thread_index", &thread_index),
      entry("sparsmith_emulator_block_index", &block_index),
      entry("sparsmith_emulator_grid_size", &grid_size),
      entry("sparsmith_emulator_shared_memory", &shared_memory),
      entry("sparsmith_emulator_wait_for_previous", &wait_for_previous),
      entry("sparsmith_emulator_block_barrier", &block_barrier),
      entry("sparsmith_emulator_cluster_rank", &cluster_rank),
      entry("sparsmith_emulator_cluster_arrive", &cluster_arrive),
      entry("sparsmith_emulator_cluster_wait", &cluster_wait),
      entry("sparsmith_emulator_in_block", &in_block),
      entry("sparsmith_emulator_check_cluster_access", &check_cluster_access),
      entry("sparsmith_emulator_warp_barrier", &warp_barrier),
      entry("sparsmith_emulator_shuffle", &shuffle),
      entry("sparsmith_emulator_multiply_matrices", &multiply_matrices),
      entry("sparsmith_emulator_multiply_sparse_matrices", &multiply_sparse_matrices),
      entry("sparsmith_emulator_warpgroup_barrier", &warpgroup_barrier),
      entry("sparsmith_emulator_tensor_reads_follow", &tensor_reads_follow),
      entry("sparsmith_emulator_warpgroup_begin", &warpgroup_begin),
      entry("sparsmith_emulator_warpgroup_multiply", &warpgroup_multiply),
      entry("sparsmith_emulator_warpgroup_commit", &warpgroup_commit),
      entry("sparsmith_emulator_warpgroup_wait", &warpgroup_wait),
      entry("sparsmith_emulator_misaligned", &misaligned),
      entry("sparsmith_emulator_atomic_add_float", &atomic_add_float),
      entry("sparsmith_emulator_async_copy", &async_copy),
      entry("sparsmith_emulator_async_commit", &async_commit),
      entry("sparsmith_emulator_async_wait", &async_wait),
      entry("sparsmith_emulator_bulk_barrier_init", &bulk_barrier_init),
      entry("sparsmith_emulator_bulk_copy", &bulk_copy),
      entry("sparsmith_emulator_bulk_wait", &bulk_wait),
      entry("sparsmith_emulator_arrival_barrier_init", &arrival_barrier_init),
      entry("sparsmith_emulator_arrival_barrier_end", &arrival_barrier_end),
      entry("sparsmith_emulator_arrive", &arrive),
      entry("sparsmith_emulator_await_arrivals", &await_arrivals),
      entry("__ubsan_handle_type_mismatch_v1_abort", &misaligned_pointer),
      entry("sparsmith_emulator_check_alignment", &check_alignment),
      nothing("__tsan_init"),
      nothing("__tsan_func_entry"),
      nothing("__tsan_func_exit"),
      nothing("__tsan_vptr_update"),
      nothing("__tsan_vptr_read"),
      nothing("__tsan_ignore_thread_begin"),
      nothing("__tsan_ignore_thread_end"),
      entry("__tsan_read1", &aligned_access<kRead, 1>),
      entry("__tsan_read2", &aligned_access<kRead, 2>),
      entry("__tsan_read4", &aligned_access<kRead, 4>),
      entry("__tsan_read8", &aligned_access<kRead, 8>),
      entry("__tsan_read16", &aligned_access<kRead, 16>),
      entry("__tsan_write1", &aligned_access<kWrite, 1>),
      entry("__tsan_write2", &aligned_access<kWrite, 2>),
      entry("__tsan_write4", &aligned_access<kWrite, 4>),
      entry("__tsan_write8", &aligned_access<kWrite, 8>),
      entry("__tsan_write16", &aligned_access<kWrite, 16>),
      entry("__tsan_unaligned_read1", &access<kRead, 1>),
      entry("__tsan_unaligned_read2", &access<kRead, 2>),
      entry("__tsan_unaligned_read4", &access<kRead, 4>),
      entry("__tsan_unaligned_read8", &access<kRead, 8>),
      entry("__tsan_unaligned_read16", &access<kRead, 16>),
      entry("__tsan_unaligned_write1", &access<kWrite, 1>),
      entry("__tsan_unaligned_write2", &access<kWrite, 2>),
      entry("__tsan_unaligned_write4", &access<kWrite, 4>),
      entry("__tsan_unaligned_write8", &access<kWrite, 8>),
      entry("__tsan_unaligned_write16", &access<kWrite, 16>),
      entry("__tsan_read_range", &read_range),
      entry("__tsan_write_range", &write_range),
      entry("__tsan_memcpy", &checked_memcpy),
      entry("__tsan_memmove", &checked_memcpy),
      entry("__tsan_memset", &checked_memset),
      entry("memcpy", &checked_memcpy),
      entry("memmove", &checked_memcpy),
      entry("memset", &checked_memset),
  };
}

}  // namespace

std::span<const EntryPoint> entry_points() {
  static const std::vector<EntryPoint> all = all_entry_points();
  return all;
}

}  // namespace sparsmith
