#include "emulator/thread_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace sparsmith {

thread_local ThreadBlock* running_block = nullptr;

Result<std::unique_ptr<ThreadBlock>> ThreadBlock::create(DeviceMemory& memory, int max_threads, std::uint64_t seed) {
  SPARSMITH_ASSIGN_OR_RETURN(std::unique_ptr<FiberStacks> stacks, FiberStacks::create(max_threads));
  return std::unique_ptr<ThreadBlock>(new ThreadBlock(memory, std::move(stacks), seed));
}

ThreadBlock::ThreadBlock(DeviceMemory& memory, std::unique_ptr<FiberStacks> stacks, std::uint64_t seed)
    : memory_(memory),
      stacks_(std::move(stacks)),
      checker_(memory, &ThreadBlock::on_violation, this),
      seed_(seed),
      random_(seed),
      threads_(static_cast<std::size_t>(stacks_->count())),
      warps_((threads_.size() + kWarp - 1) / kWarp),
      ready_(std::bit_ceil(threads_.size())) {}

Status ThreadBlock::run(const KernelLaunch& launch, const LaunchLimits& limits) {
  launch_ = &launch;
  fault_ = Status();
  begun_.clear();
  switches_left_ = limits.max_switches + 1;
  checker_.begin_launch(limits.max_accesses, shared_with_previous());
  ThreadBlock* const outer = running_block;
  running_block = this;
  auto& [x, y, z] = first_block_;
  for (z = 0; z < launch.grid[2] && fault_.ok(); z += launch.cluster[2]) {
    for (y = 0; y < launch.grid[1] && fault_.ok(); y += launch.cluster[1]) {
      for (x = 0; x < launch.grid[0] && fault_.ok(); x += launch.cluster[0]) fault_ = run_cluster();
    }
  }
  running_block = outer;
  launch_ = nullptr;
  return std::move(fault_);
}

std::vector<AccessChecker::Range> ThreadBlock::shared_with_previous() const {
  std::vector<AccessChecker::Range> ranges;
  if (!launch_->programmatic) return ranges;
  for (const DeviceAddress address : launch_->shared_with_previous) {
    const auto allocation = memory_.allocation_before(address);
    if (allocation && address - allocation->address < std::max<std::uint64_t>(allocation->bytes, 1))
      ranges.push_back({allocation->address, allocation->address + allocation->bytes});
  }
  return ranges;
}

Status ThreadBlock::run_cluster() {
  const auto blocks = static_cast<int>(launch_->cluster[0] * launch_->cluster[1] * launch_->cluster[2]);
  // A block that is alone has all numbers.
  block_threads_ =
      blocks == 1 ? AccessChecker::kMaxThreads : (launch_->threads + kWarpgroup - 1) / kWarpgroup * kWarpgroup;
  blocks_.assign(static_cast<std::size_t>(blocks), {.live = launch_->threads});
  memory_.open_shared(static_cast<std::uint64_t>(launch_->shared_bytes), blocks);
  checker_.begin_blocks(block_threads_);
  begun_.push_back({checker_.phase(), first_block_});
  live_ = launch_->threads * blocks;
  at_cluster_barrier_ = 0;
  cluster_barriers_ = 0;
  at_warpgroup_barrier_.fill({});
  bulk_barriers_.clear();
  arrival_barriers_.clear();
  prepare_threads();
  current_ = take_ready();
  checker_.begin_thread(current_, stacks_->bottom(current_), stacks_->top(current_));
  main_.switch_to(running().fiber);
  return std::move(fault_);
}

void ThreadBlock::prepare_threads() {
  ready_head_ = 0;
  ready_count_ = 0;
  for (int i = 0; i < static_cast<int>(warps_.size()); ++i) {
    Warp& warp = warp_of(i);
    const int lanes = std::clamp(launch_->threads - index_of(i * kWarp), 0, kWarp);
    warp.gone = lanes == kWarp ? 0 : ~std::uint32_t{0} << lanes;
    warp.meeting_count = 0;
    warp.products.clear();
    warp.products_committed.clear();
    warp.products_started = 0;
    warp.products_begun = 0;
  }
  for (int i = 0; i < thread_numbers(); ++i) {
    Thread& thread = thread_of(i);
    thread.wait = Wait::kExited;
    if (index_of(i) >= launch_->threads) continue;
    thread.copy_group = 0;
    thread.copies.clear();
    thread.cluster_arrivals = 0;
    thread.cluster_waits = 0;
    thread.fiber.prepare(stacks_->bottom(i), stacks_->top(i), &ThreadBlock::thread_body);
    make_ready(i);
  }
}

void ThreadBlock::thread_body(boost::context::detail::transfer_t from) {
  Fiber::arrived(from, nullptr);
  ThreadBlock* const block = running_block;
  block->launch_->code->entry()(block->launch_->arguments.data());
  block->exit_thread();
}

void ThreadBlock::make_ready(int thread) {
  thread_of(thread).wait = Wait::kNothing;
  ready_[(ready_head_ + ready_count_) & (ready_.size() - 1)] = thread;
  ++ready_count_;
}

void ThreadBlock::wake(std::vector<int>& threads) {
  for (const int thread : threads) make_ready(thread);
  threads.clear();
}

int ThreadBlock::take_ready() {
  int& first = ready_[ready_head_];
  if (seed_ != 0) std::swap(first, ready_[(ready_head_ + random_() % ready_count_) & (ready_.size() - 1)]);
  ready_head_ = (ready_head_ + 1) & (ready_.size() - 1);
  --ready_count_;
  return first;
}

void ThreadBlock::count_switch() {
  if (--switches_left_ == 0) {
    fail([] {
      return "exceeds the limit of switches between threads in one launch: does a loop around a barrier end?";
    });
  }
}

void ThreadBlock::wait_for_turn() {
  count_switch();
  if (ready_count_ == 0) fail([&] { return "deadlock: no thread can go on; " + describe_waiting(); });
  const int self = current_;
  current_ = take_ready();
  if (current_ != self) {
    checker_.begin_thread(current_, stacks_->bottom(current_), stacks_->top(current_));
    thread_of(self).fiber.switch_to(running().fiber);
  }
}

void ThreadBlock::wait_for_turn(Wait wait) {
  running().wait = wait;
  wait_for_turn();
}

void ThreadBlock::exit_thread() {
  const int self = current_;
  Thread& thread = thread_of(self);
  thread.wait = Wait::kExited;
  thread.line = 0;
  --live_;
  if (--block_of(self).live == 0 && !checker_.has_waited(rank_of(self)))
    fail([] { return "ends without having waited for the kernels before it, which the next one may then overtake"; });
  if (live_ == 0) {
    check_bulk_copies_have_landed();
    check_products_are_complete();
    thread.fiber.switch_to(main_, true);
    std::abort();  // a thread that ended is never switched to
  }
  on_lane_exit(self);
  if (block_of(self).live > 0 && block_of(self).at_barrier == block_of(self).live) release_block_barrier(rank_of(self));
  if (thread.cluster_arrivals > cluster_barriers_) --at_cluster_barrier_;
  if (at_cluster_barrier_ > 0 && at_cluster_barrier_ == live_) release_cluster_barrier();
  if (ready_count_ == 0) fail([&] { return "deadlock: no thread can go on; " + describe_waiting(); });
  current_ = take_ready();
  checker_.begin_thread(current_, stacks_->bottom(current_), stacks_->top(current_));
  thread.fiber.switch_to(running().fiber, true);
  std::abort();
}

void ThreadBlock::set_fault(const std::string& what) {
  const int line = running().line;
  const std::string where = line > 0 ? fmt::format(" (line {} of its text)", line) : "";
  fault_ = device_error(fmt::format("kernel {}, block {}, thread {}{}: {}", launch_->kernel,
                                    block_name(coordinates(rank())), thread_index(), where, what));
}

// Leaves the fibers as they are: their frames hold nothing that needs to be released.
void ThreadBlock::give_up() {
  running().fiber.switch_to(main_, true);
  std::abort();
}

// ---- block barrier ----

void ThreadBlock::block_barrier() {
  Thread& thread = running();
  thread.wait = Wait::kBlockBarrier;
  Block& block = block_of(current_);
  ++block.at_barrier;
  if (block.at_barrier == block.live) release_block_barrier(rank());
  wait_for_turn();
}

void ThreadBlock::check_same_barrier(int rank) {
  int line = 0;
  for (int i = rank * block_threads_; i < rank * block_threads_ + launch_->threads; ++i) {
    const Thread& thread = thread_of(i);
    if (thread.wait != Wait::kBlockBarrier) continue;
    if (line == 0) line = thread.line;
    if (thread.line != line) fail([&] { return "divergence at a block barrier: " + describe_waiting(); });
  }
}

void ThreadBlock::release_block_barrier(int rank) {
  check_same_barrier(rank);
  blocks_[static_cast<std::size_t>(rank)].at_barrier = 0;
  checker_.begin_block_phase(rank);
  for (int i = rank * block_threads_; i < rank * block_threads_ + launch_->threads; ++i) {
    if (thread_of(i).wait == Wait::kBlockBarrier) make_ready(i);
  }
}

// ---- memory ----

void ThreadBlock::fail_misaligned(const void* address, std::uint32_t bytes) {
  fail([&] { return fmt::format("misaligned access of {} bytes at {}", bytes, describe_address(address, bytes)); });
}

void ThreadBlock::atomic_add(float* to, float value) {
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(float) != 0) {
    fail([&] { return "misaligned atomic addition at " + describe_address(to, 4); });
  }
  checker_.access<AccessKind::kAtomic, 4>(to);
  *to += value;
}

// Nobody may read or write the destination before the copy has landed.
void ThreadBlock::begin_copy(std::byte* shared, const std::byte* global, std::uint32_t bytes, std::uint32_t zeros) {
  const std::uint64_t offset = static_cast<std::uint64_t>(shared - memory_.base());
  if (offset >= DeviceMemory::kSharedBytes) {
    fail([&] { return fmt::format("asynchronous copy to {}, not to shared memory", describe_address(shared, bytes)); });
  }
  if (bytes > 0) checker_.access_range(AccessKind::kRead, global, bytes);
  checker_.access_range(AccessKind::kWrite, shared, bytes + zeros);
  DeviceMemory::set_bits(memory_.addressable(), offset, bytes + zeros, false);
  DeviceMemory::set_bits(memory_.written(), offset, bytes + zeros, false);
}

void ThreadBlock::async_copy(std::byte* shared, const std::byte* global, int bytes) {
  const auto to = reinterpret_cast<std::uint64_t>(shared);
  const auto from = reinterpret_cast<std::uint64_t>(global);
  const auto size = static_cast<std::uint32_t>(bytes);
  if (to % size != 0 || from % size != 0) {
    fail([&] {
      return fmt::format("misaligned asynchronous copy of {} bytes from {} to {}", bytes, describe_address(from, size),
                         describe_address(to, size));
    });
  }
  begin_copy(shared, global, size);
  Thread& thread = running();
  thread.copies.push_back({shared, global, bytes, thread.copy_group, thread.line});
}

void ThreadBlock::async_commit() { ++running().copy_group; }

void ThreadBlock::async_wait(int pending_groups) {
  Thread& thread = running();
  if (pending_groups < 0) fail([] { return "waits for a negative number of asynchronous copy groups"; });
  const int landed_groups = thread.copy_group - pending_groups;
  std::size_t kept = 0;
  for (const PendingCopy& copy : thread.copies) {
    if (copy.group >= landed_groups) {
      thread.copies[kept++] = copy;
      continue;
    }
    const auto offset = static_cast<std::uint64_t>(copy.to - memory_.base());
    DeviceMemory::set_bits(memory_.addressable(), offset, static_cast<std::uint64_t>(copy.bytes), true);
    checker_.access_range(AccessKind::kWrite, copy.to, static_cast<std::uint64_t>(copy.bytes));
    std::copy_n(copy.from, copy.bytes, copy.to);
  }
  thread.copies.resize(kept);
}

}  // namespace sparsmith
