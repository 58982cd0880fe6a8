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
  first_phases_.clear();
  switches_left_ = limits.max_switches + 1;
  checker_.begin_launch(limits.max_accesses, shared_with_previous());
  ThreadBlock* const outer = running_block;
  running_block = this;
  block_number_ = 0;
  for (block_[2] = 0; block_[2] < launch.grid[2] && fault_.ok(); ++block_[2]) {
    for (block_[1] = 0; block_[1] < launch.grid[1] && fault_.ok(); ++block_[1]) {
      for (block_[0] = 0; block_[0] < launch.grid[0] && fault_.ok(); ++block_[0]) {
        fault_ = run_block();
        ++block_number_;
      }
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

Status ThreadBlock::run_block() {
  memory_.open_shared(static_cast<std::uint64_t>(launch_->shared_bytes));
  checker_.begin_block();
  first_phases_.push_back(checker_.phase());
  live_ = launch_->threads;
  at_block_barrier_ = 0;
  at_warpgroup_barrier_.fill(0);
  bulk_barriers_.clear();
  ready_head_ = 0;
  ready_count_ = 0;
  for (std::size_t i = 0; i < warps_.size(); ++i) {
    const int lanes = std::clamp(live_ - static_cast<int>(i) * kWarp, 0, kWarp);
    warps_[i].gone = lanes == kWarp ? 0 : ~std::uint32_t{0} << lanes;
    warps_[i].meeting_count = 0;
    warps_[i].products.clear();
    warps_[i].products_committed = 0;
    warps_[i].products_started = 0;
    warps_[i].products_begun = 0;
  }
  for (int i = 0; i < live_; ++i) {
    Thread& thread = threads_[static_cast<std::size_t>(i)];
    thread.wait = Wait::kNothing;
    thread.copy_group = 0;
    thread.copies.clear();
    thread.fiber.prepare(stacks_->bottom(i), stacks_->top(i), &ThreadBlock::thread_body);
    make_ready(i);
  }
  current_ = take_ready();
  checker_.begin_thread(current_, stacks_->bottom(current_), stacks_->top(current_));
  main_.switch_to(threads_[static_cast<std::size_t>(current_)].fiber);
  if (fault_.ok() && !checker_.has_waited())
    set_fault("ends without having waited for the kernels before it, which the next one may then overtake", 0);
  return std::move(fault_);
}

void ThreadBlock::thread_body(boost::context::detail::transfer_t from) {
  Fiber::arrived(from, nullptr);
  ThreadBlock* const block = running_block;
  block->launch_->code->entry()(block->launch_->arguments.data());
  block->exit_thread();
}

void ThreadBlock::make_ready(int thread) {
  threads_[static_cast<std::size_t>(thread)].wait = Wait::kNothing;
  ready_[(ready_head_ + ready_count_) & (ready_.size() - 1)] = thread;
  ++ready_count_;
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
    threads_[static_cast<std::size_t>(self)].fiber.switch_to(threads_[static_cast<std::size_t>(current_)].fiber);
  }
}

void ThreadBlock::exit_thread() {
  const int self = current_;
  Thread& thread = threads_[static_cast<std::size_t>(self)];
  thread.wait = Wait::kExited;
  --live_;
  if (live_ == 0) {
    check_bulk_copies_have_landed();
    check_products_are_complete();
    thread.fiber.switch_to(main_, true);
    std::abort();  // a thread that ended is never switched to
  }
  on_lane_exit(self);
  if (at_block_barrier_ == live_) release_block_barrier();
  if (ready_count_ == 0) fail([&] { return "deadlock: no thread can go on; " + describe_waiting(); });
  current_ = take_ready();
  checker_.begin_thread(current_, stacks_->bottom(current_), stacks_->top(current_));
  thread.fiber.switch_to(threads_[static_cast<std::size_t>(current_)].fiber, true);
  std::abort();
}

void ThreadBlock::set_fault(const std::string& what, int line) {
  const std::string where = line > 0 ? fmt::format(" (line {} of its text)", line) : "";
  fault_ = device_error(fmt::format("kernel {}, block {}, thread {}{}: {}", launch_->kernel, block_name(block_number_),
                                    current_, where, what));
}

// Leaves the fibers as they are: their frames hold nothing that needs to be released.
void ThreadBlock::give_up() {
  threads_[static_cast<std::size_t>(current_)].fiber.switch_to(main_, true);
  std::abort();
}

// ---- block barrier ----

void ThreadBlock::block_barrier(int line) {
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  thread.wait = Wait::kBlockBarrier;
  thread.line = line;
  ++at_block_barrier_;
  if (at_block_barrier_ == live_) release_block_barrier();
  wait_for_turn();
}

void ThreadBlock::check_same_barrier() {
  int line = 0;
  for (int i = 0; i < launch_->threads; ++i) {
    const Thread& thread = threads_[static_cast<std::size_t>(i)];
    if (thread.wait != Wait::kBlockBarrier) continue;
    if (line == 0) line = thread.line;
    if (thread.line != line) fail([&] { return "divergence at a block barrier: " + describe_waiting(); });
  }
}

void ThreadBlock::release_block_barrier() {
  check_same_barrier();
  at_block_barrier_ = 0;
  checker_.begin_phase();
  for (int i = 0; i < launch_->threads; ++i) {
    if (threads_[static_cast<std::size_t>(i)].wait == Wait::kBlockBarrier) make_ready(i);
  }
}

// ---- memory ----

void ThreadBlock::fail_misaligned(const void* address, std::uint32_t bytes, int line) {
  fail(
      [&] {
        return fmt::format("misaligned access of {} bytes at {}", bytes,
                           describe_address(reinterpret_cast<std::uint64_t>(address), bytes));
      },
      line);
}

void ThreadBlock::atomic_add(float* to, float value, int line) {
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(float) != 0) {
    fail([&] { return "misaligned atomic addition at " + describe_address(reinterpret_cast<std::uint64_t>(to), 4); },
         line);
  }
  checker_.access<AccessKind::kAtomic, 4>(to);
  *to += value;
}

// Nobody may read or write the destination before the copy has landed.
void ThreadBlock::begin_copy(std::byte* shared, const std::byte* global, std::uint32_t bytes, int line) {
  const std::uint64_t offset = static_cast<std::uint64_t>(shared - memory_.base());
  if (offset >= DeviceMemory::kSharedBytes) {
    fail(
        [&] {
          return fmt::format("asynchronous copy to {}, not to shared memory",
                             describe_address(reinterpret_cast<std::uint64_t>(shared), bytes));
        },
        line);
  }
  checker_.access_range(AccessKind::kRead, global, bytes);
  checker_.access_range(AccessKind::kWrite, shared, bytes);
  DeviceMemory::set_bits(memory_.addressable(), offset, bytes, false);
  DeviceMemory::set_bits(memory_.written(), offset, bytes, false);
}

void ThreadBlock::async_copy(std::byte* shared, const std::byte* global, int bytes, int line) {
  const auto to = reinterpret_cast<std::uint64_t>(shared);
  const auto from = reinterpret_cast<std::uint64_t>(global);
  const auto size = static_cast<std::uint32_t>(bytes);
  if (to % size != 0 || from % size != 0) {
    fail(
        [&] {
          return fmt::format("misaligned asynchronous copy of {} bytes from {} to {}", bytes,
                             describe_address(from, size), describe_address(to, size));
        },
        line);
  }
  begin_copy(shared, global, size, line);
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  thread.copies.push_back({shared, global, bytes, thread.copy_group, line});
}

void ThreadBlock::async_commit() { ++threads_[static_cast<std::size_t>(current_)].copy_group; }

void ThreadBlock::async_wait(int pending_groups, int line) {
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  if (pending_groups < 0) fail([] { return "waits for a negative number of asynchronous copy groups"; }, line);
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
