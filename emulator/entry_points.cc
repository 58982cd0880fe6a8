#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "emulator/kernel_text.h"
#include "emulator/thread_block.h"

namespace sparsmith {
namespace {

AccessChecker& checker() { return running_block->checker(); }

// ---- instrumented accesses ----

void check_alignment(const void* address, std::uint32_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes == 0) [[likely]]
    return;
  running_block->called_in(0);
  running_block->fail_misaligned(address, bytes);
}

template <AccessKind kKind, std::uint32_t kBytes>
void access(const void* address) {
  checker().access<kKind, kBytes>(address);
}

// The compiler states the access to be aligned to its size, as the hardware requires.
template <AccessKind kKind, std::uint32_t kBytes>
void aligned_access(const void* address) {
  check_alignment(address, kBytes);
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
  running_block->called_in(static_cast<int>(fault->line));
  running_block->fail_misaligned(pointer, 1U << fault->log_alignment);
}

void do_nothing() {}

// ---- functions of the twin ----

void wait_for_previous() { checker().wait_for_previous(); }

template <class Function>
EntryPoint entry(std::string symbol, Function* function) {
  return {std::move(symbol), reinterpret_cast<void*>(function)};
}

// A function of the running block, with its own arguments. Those that change something also take the call's line.
template <auto kFunction, class... Arguments>
auto call(Arguments... arguments, int line) {
  running_block->called_in(line);
  return (running_block->*kFunction)(arguments...);
}
template <auto kFunction, class... Arguments>
auto ask(Arguments... arguments) {
  return (running_block->*kFunction)(arguments...);
}
template <auto kFunction, class Returned, class... Arguments>
EntryPoint block_entry(const char* symbol, Returned (ThreadBlock::* /*function*/)(Arguments...)) {
  return entry(symbol, &call<kFunction, Arguments...>);
}
template <auto kFunction, class Returned, class... Arguments>
EntryPoint block_entry(const char* symbol, Returned (ThreadBlock::* /*function*/)(Arguments...) const) {
  return entry(symbol, &ask<kFunction, Arguments...>);
}
template <auto kFunction>
EntryPoint block_entry(const char* symbol) {
  return block_entry<kFunction>(symbol, kFunction);
}

EntryPoint nothing(const char* symbol) { return {symbol, reinterpret_cast<void*>(&do_nothing), true}; }

// The callbacks of -fsanitize=thread for accesses of these numbers of bytes.
template <AccessKind kKind, std::uint32_t... kBytes>
void add_accesses(const char* kind, std::vector<EntryPoint>& all) {
  (all.push_back(entry(fmt::format("__tsan_{}{}", kind, kBytes), &aligned_access<kKind, kBytes>)), ...);
  (all.push_back(entry(fmt::format("__tsan_unaligned_{}{}", kind, kBytes), &access<kKind, kBytes>)), ...);
}

std::vector<EntryPoint> all_entry_points() {
  std::vector<EntryPoint> all = {
      block_entry<&ThreadBlock::thread_index>("sparsmith_emulator_thread_index"),
      block_entry<&ThreadBlock::block_index>("sparsmith_emulator_block_index"),
      block_entry<&ThreadBlock::grid_size>("sparsmith_emulator_grid_size"),
      block_entry<&ThreadBlock::shared_memory>("sparsmith_emulator_shared_memory"),
      entry("sparsmith_emulator_wait_for_previous", &wait_for_previous),
      block_entry<&ThreadBlock::block_barrier>("sparsmith_emulator_block_barrier"),
      block_entry<&ThreadBlock::rank>("sparsmith_emulator_cluster_rank"),
      block_entry<&ThreadBlock::cluster_arrive>("sparsmith_emulator_cluster_arrive"),
      block_entry<&ThreadBlock::cluster_wait>("sparsmith_emulator_cluster_wait"),
      block_entry<&ThreadBlock::in_block>("sparsmith_emulator_in_block"),
      block_entry<&ThreadBlock::check_cluster_access>("sparsmith_emulator_check_cluster_access"),
      block_entry<&ThreadBlock::warp_barrier>("sparsmith_emulator_warp_barrier"),
      block_entry<&ThreadBlock::shuffle>("sparsmith_emulator_shuffle"),
      block_entry<&ThreadBlock::multiply_matrices>("sparsmith_emulator_multiply_matrices"),
      block_entry<&ThreadBlock::multiply_sparse_matrices>("sparsmith_emulator_multiply_sparse_matrices"),
      block_entry<&ThreadBlock::warpgroup_barrier>("sparsmith_emulator_warpgroup_barrier"),
      block_entry<&ThreadBlock::warpgroup_all>("sparsmith_emulator_warpgroup_all"),
      block_entry<&ThreadBlock::tensor_reads_follow>("sparsmith_emulator_tensor_reads_follow"),
      block_entry<&ThreadBlock::warpgroup_begin>("sparsmith_emulator_warpgroup_begin"),
      block_entry<&ThreadBlock::warpgroup_multiply>("sparsmith_emulator_warpgroup_multiply"),
      block_entry<&ThreadBlock::warpgroup_multiply_turned>("sparsmith_emulator_warpgroup_multiply_turned"),
      block_entry<&ThreadBlock::warpgroup_commit>("sparsmith_emulator_warpgroup_commit"),
      block_entry<&ThreadBlock::warpgroup_wait>("sparsmith_emulator_warpgroup_wait"),
      block_entry<&ThreadBlock::fail_misaligned>("sparsmith_emulator_misaligned"),
      block_entry<&ThreadBlock::atomic_add>("sparsmith_emulator_atomic_add_float"),
      block_entry<&ThreadBlock::async_copy>("sparsmith_emulator_async_copy"),
      block_entry<&ThreadBlock::async_commit>("sparsmith_emulator_async_commit"),
      block_entry<&ThreadBlock::async_wait>("sparsmith_emulator_async_wait"),
      block_entry<&ThreadBlock::bulk_barrier_init>("sparsmith_emulator_bulk_barrier_init"),
      block_entry<&ThreadBlock::bulk_copy>("sparsmith_emulator_bulk_copy"),
      block_entry<&ThreadBlock::bulk_wait>("sparsmith_emulator_bulk_wait"),
      block_entry<&ThreadBlock::arrival_barrier_init>("sparsmith_emulator_arrival_barrier_init"),
      block_entry<&ThreadBlock::arrival_barrier_end>("sparsmith_emulator_arrival_barrier_end"),
      block_entry<&ThreadBlock::arrive>("sparsmith_emulator_arrive"),
      block_entry<&ThreadBlock::arrive_in_block>("sparsmith_emulator_arrive_in_block"),
      block_entry<&ThreadBlock::arrive_expecting>("sparsmith_emulator_arrive_expecting"),
      block_entry<&ThreadBlock::box_copy>("sparsmith_emulator_box_copy"),
      block_entry<&ThreadBlock::array_copy>("sparsmith_emulator_array_copy"),
      block_entry<&ThreadBlock::await_arrivals>("sparsmith_emulator_await_arrivals"),
      entry("__ubsan_handle_type_mismatch_v1_abort", &misaligned_pointer),
      entry("sparsmith_emulator_check_alignment", &check_alignment),
      nothing("__tsan_init"),
      nothing("__tsan_func_entry"),
      nothing("__tsan_func_exit"),
      nothing("__tsan_vptr_update"),
      nothing("__tsan_vptr_read"),
      nothing("__tsan_ignore_thread_begin"),
      nothing("__tsan_ignore_thread_end"),
      entry("__tsan_read_range", &read_range),
      entry("__tsan_write_range", &write_range),
      entry("__tsan_memcpy", &checked_memcpy),
      entry("__tsan_memmove", &checked_memcpy),
      entry("__tsan_memset", &checked_memset),
      entry("memcpy", &checked_memcpy),
      entry("memmove", &checked_memcpy),
      entry("memset", &checked_memset),
  };
  add_accesses<AccessKind::kRead, 1, 2, 4, 8, 16>("read", all);
  add_accesses<AccessKind::kWrite, 1, 2, 4, 8, 16>("write", all);
  return all;
}

}  // namespace

std::span<const EntryPoint> entry_points() {
  static const std::vector<EntryPoint> all = all_entry_points();
  return all;
}

}  // namespace sparsmith
