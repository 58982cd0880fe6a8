#include "emulator/access_checker.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

namespace sparsmith {
namespace {

constexpr std::uint32_t kLastPhase = std::numeric_limits<std::uint32_t>::max() / 2;
constexpr std::int16_t kLastClock = std::numeric_limits<std::int16_t>::max();

}  // namespace

AccessChecker::AccessChecker(DeviceMemory& memory, OnViolation on_violation, void* context)
    : base_(reinterpret_cast<std::uint64_t>(memory.base())),
      size_(memory.size()),
      open_(memory.size()),
      addressable_(memory.addressable()),
      written_(memory.written()),
      cells_(memory.cells()),
      memory_(memory),
      on_violation_(on_violation),
      context_(context) {
  clocks_.fill(1);
  phases_.fill(phase_);
  block_phases_.fill(phase_);
}

void AccessChecker::begin_launch(std::uint64_t max_accesses, std::vector<Range> shared_with_previous) {
  shared_with_previous_ = std::move(shared_with_previous);
  if (last_phase_ > kLastPhase) {  // numbers run out: start over, with nothing remembered
    memory_.clear_cells();
    last_phase_ = 1;
  }
  launch_first_ = last_phase_ + 1;
  accesses_left_ = max_accesses + 1;
}

void AccessChecker::begin_blocks(int block_threads) {
  block_first_ = last_phase_ + 1;
  block_threads_ = static_cast<std::uint32_t>(block_threads);
  waited_.fill(false);
  unfenced_.fill({});
  unfenced_at_barrier_.fill({});
  arrivals_ = false;
  for (auto& ranges : unfenced_arrivals_) ranges.clear();
  begin_phase();
}

bool AccessChecker::has_waited(int block) const {
  const auto of_block = std::span(waited_).subspan(static_cast<std::size_t>(block) * block_threads_, block_threads_);
  return shared_with_previous_.empty() || std::ranges::find(of_block, true) != of_block.end();
}

// Of these threads, which meet, tensor cores see what those wrote that have a fence behind it.
void AccessChecker::show_fenced(int first_thread, int count) {
  for (auto thread = static_cast<std::size_t>(first_thread);
       thread < static_cast<std::size_t>(first_thread) + static_cast<std::size_t>(count); ++thread) {
    if (unfenced_[thread].end == 0) unfenced_at_barrier_[thread] = {};
  }
}

void AccessChecker::begin_phase() {
  show_fenced(0, kMaxThreads);
  start_phase(0, kMaxThreads);
  barrier_phase_ = block_phase_ = phase_;
  block_phases_.fill(phase_);
  sets_.clear();
}

void AccessChecker::begin_block_phase(int block) {
  if (block_threads_ == kMaxThreads) return begin_phase();
  const auto threads = static_cast<int>(block_threads_);
  show_fenced(block * threads, threads);
  start_phase(block * threads, threads);
  block_phase_ = phase_;
  std::fill_n(block_phases_.begin() + block * threads / kWarpgroup, threads / kWarpgroup, phase_);
}

void AccessChecker::begin_warpgroup_phase(int warpgroup) {
  const auto first = static_cast<std::ptrdiff_t>(warpgroup) * kWarpgroup;
  std::copy_n(unfenced_.begin() + first, kWarpgroup, unfenced_at_barrier_.begin() + first);
  if (arrivals_) {
    meet(warpgroup * kWarpgroup / kWarp, (warpgroup + 1) * kWarpgroup / kWarp);
  } else {
    start_phase(warpgroup * kWarpgroup, kWarpgroup);
  }
}

// What each thread of these warps has done or knows of, all of them know. Their phase goes on, because what barriers in
// shared memory order counts in it.
void AccessChecker::meet(int first_warp, int last_warp) {
  std::vector<Clock> clocks(kMaxThreads, 0);
  for (int warp = first_warp; warp < last_warp; ++warp) {
    const std::vector<Clock>& foreign = foreign_[static_cast<std::size_t>(warp)];
    for (std::size_t i = 0; i < foreign.size(); ++i) clocks[i] = std::max(clocks[i], foreign[i]);
  }
  for (int thread = first_warp * kWarp; thread < last_warp * kWarp; ++thread) {
    Clock& clock = clocks_[static_cast<std::size_t>(thread)];
    clocks[static_cast<std::size_t>(thread)] = clock;
    if (clock != kLastClock) ++clock;
  }
  for (int warp = first_warp; warp < last_warp; ++warp) {
    foreign_[static_cast<std::size_t>(warp)] = clocks;
    warps_that_met_ |= std::uint64_t{1} << warp;
    for (int thread = warp * kWarp; thread < (warp + 1) * kWarp; ++thread)
      std::copy_n(clocks.begin() + warp * kWarp, kWarp, known_[static_cast<std::size_t>(thread)].begin());
  }
  share_wait(first_warp * kWarp, (last_warp - first_warp) * kWarp);
  update_open();
  update_mine();
}

// If one of these threads, which meet, has waited for the kernels before, all of them have.
void AccessChecker::share_wait(int first_thread, int count) {
  const auto waited =
      std::span(waited_).subspan(static_cast<std::size_t>(first_thread), static_cast<std::size_t>(count));
  if (!shared_with_previous_.empty() && std::ranges::find(waited, true) != waited.end())
    std::ranges::fill(waited, true);
}

// Of `count` threads that meet at a barrier, the running one among them.
void AccessChecker::start_phase(int first_thread, int count) {
  if (last_phase_ == std::numeric_limits<std::uint32_t>::max())
    report(Violation::Kind::kLimit, AccessKind::kRead, 0, 0);
  phase_ = ++last_phase_;
  std::fill_n(phases_.begin() + first_thread / kWarpgroup, count / kWarpgroup, phase_);
  share_wait(first_thread, count);
  update_open();
  start_clocks(first_thread / kWarp, (first_thread + count) / kWarp);
  for (int warp = first_thread / kWarp; arrivals_ && warp < (first_thread + count) / kWarp; ++warp)
    foreign_[static_cast<std::size_t>(warp)].clear();
  update_mine();
}

// Of warps [first_warp, last_warp), as far as they have ticked.
void AccessChecker::start_clocks(int first_warp, int last_warp) {
  for (int warp = first_warp; warp < last_warp && warps_that_met_ >> warp != 0; ++warp) {
    if ((warps_that_met_ >> warp & 1U) == 0) continue;
    warps_that_met_ &= ~(std::uint64_t{1} << warp);
    std::fill_n(clocks_.begin() + warp * kWarp, kWarp, Clock{1});
    std::fill_n(known_.begin() + warp * kWarp, kWarp, VectorClock{});
  }
}

void AccessChecker::release(Arrivals& arrivals) {
  if (arrivals.phase != phase_) {
    arrivals.phase = phase_;
    arrivals.clocks.assign(kMaxThreads, 0);
  }
  const std::uint32_t warp = thread_ / kWarp;
  const std::vector<Clock>& foreign = foreign_[warp];
  for (std::size_t i = 0; i < foreign.size(); ++i) arrivals.clocks[i] = std::max(arrivals.clocks[i], foreign[i]);
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    Clock& clock = arrivals.clocks[warp * kWarp + lane];
    clock = std::max(clock, known_[thread_][lane]);
    if (const Unfenced& unfenced = unfenced_[warp * kWarp + lane]; unfenced.end > 0)
      arrivals.unfenced.push_back({unfenced.begin, unfenced.end});
  }
  arrivals.clocks[thread_] = clocks_[thread_];
  if (clocks_[thread_] != kLastClock) ++clocks_[thread_];
  warps_that_met_ |= std::uint64_t{1} << warp;
  update_mine();
}

void AccessChecker::acquire(const Arrivals& arrivals) {
  const std::uint32_t warp = thread_ / kWarp;
  std::vector<Range>& unfenced = unfenced_arrivals_[warp];
  if (unfenced.size() < kWarp) unfenced.insert(unfenced.end(), arrivals.unfenced.begin(), arrivals.unfenced.end());
  if (arrivals.phase != phase_) return;
  warps_that_met_ |= std::uint64_t{1} << warp;
  std::vector<Clock>& foreign = foreign_[warp];
  foreign.resize(kMaxThreads);
  for (std::size_t i = 0; i < foreign.size(); ++i) foreign[i] = std::max(foreign[i], arrivals.clocks[i]);
  for (std::uint32_t lane = 0; lane < kWarp; ++lane)
    known_[thread_][lane] = std::max(known_[thread_][lane], arrivals.clocks[warp * kWarp + lane]);
}

bool AccessChecker::unfenced_at_arrival(const std::byte* at, std::uint64_t bytes) const {
  const std::uint64_t begin = reinterpret_cast<std::uint64_t>(at) - base_;
  return std::ranges::any_of(unfenced_arrivals_[thread_ / kWarp],
                             [&](const Range& range) { return begin < range.last && range.first < begin + bytes; });
}

// Whether `record`, which is of the blocks that run, is of threads of the running one's group alone.
bool AccessChecker::is_of_my(std::uint32_t group_threads, std::uint64_t record) const {
  const std::uint32_t mine = thread_ / group_threads;
  const auto first = static_cast<std::uint32_t>(record & kThreadMask);
  if (kind_of(record) == kSingle) return first / group_threads == mine;
  if (kind_of(record) == kPair)
    return first / group_threads == mine && (record >> kThreadBits & kThreadMask) / group_threads == mine;
  for (auto i = static_cast<std::int32_t>(record & kPayloadMask); i >= 0; i = sets_[static_cast<std::size_t>(i)].next) {
    if (sets_[static_cast<std::size_t>(i)].warp * kWarp / group_threads != mine) return false;
  }
  return true;
}

void AccessChecker::warp_met(int warp, std::uint32_t mask) {
  warps_that_met_ |= std::uint64_t{1} << warp;
  const int first = warp * kWarp;
  VectorClock joined{};
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    const VectorClock& known = known_[first + lane];
    for (int i = 0; i < kWarp; ++i) joined[i] = std::max(joined[i], known[i]);
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1U) != 0) joined[lane] = clocks_[first + lane];
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    known_[first + lane] = joined;
    // A clock that can tick no further stays: later accesses then look ordered, so a race may pass, none is invented.
    if (clocks_[first + lane] != kLastClock) ++clocks_[first + lane];
  }
  const auto lanes = std::span(waited_).subspan(static_cast<std::size_t>(first), kWarp);
  bool waited = false;
  for (int lane = 0; lane < kWarp; ++lane) waited |= (mask >> lane & 1U) != 0 && lanes[lane];
  for (int lane = 0; lane < kWarp; ++lane) lanes[lane] |= waited && (mask >> lane & 1U) != 0;
  update_open();
  update_mine();
}

void AccessChecker::acquire(int thread, std::int16_t clock) {
  const auto other = static_cast<std::uint32_t>(thread);
  if (other / kWarp != thread_ / kWarp) return;
  warps_that_met_ |= std::uint64_t{1} << thread_ / kWarp;
  Clock& known = known_[thread_][other % kWarp];
  known = std::max(known, clock);
}

// Whether the running thread is ordered behind what `thread` did at `clock` in this phase.
bool AccessChecker::seen(std::uint32_t thread, std::uint32_t clock, bool this_phase) const {
  if (thread == thread_) return true;
  const auto when = static_cast<Clock>(clock);
  if (thread / kWarp == thread_ / kWarp) return known_[thread_][thread % kWarp] >= when;
  const std::vector<Clock>& foreign = foreign_[thread_ / kWarp];
  return this_phase && !foreign.empty() && foreign[thread] >= when;
}

// The lanes of a set, of these blocks, that the running thread is not ordered behind.
std::uint32_t AccessChecker::unseen_of(const LaneSet& set, bool this_phase) const {
  std::uint32_t unseen = 0;
  for (std::uint32_t left = set.mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(left));
    if (!seen(set.warp * kWarp + lane, static_cast<std::uint32_t>(set.clock), this_phase)) unseen |= 1U << lane;
  }
  return unseen;
}

bool AccessChecker::conflicts(std::uint64_t record, std::uint64_t mine) const {
  if ((record & mine & kBothBytes) == 0) return false;
  return phase_of(record) < block_first_ || conflicting_thread(record) >= 0;
}

// A thread in `record`, of these blocks, that is unordered with the running one; -1 when there is none.
int AccessChecker::conflicting_thread(std::uint64_t record) const {
  const auto first = static_cast<std::uint32_t>(record & kThreadMask);
  const auto second = static_cast<std::uint32_t>(record >> kThreadBits);
  const bool this_phase = phase_of(record) == phase_;
  if (kind_of(record) == kSingle) return seen(first, second & kClockMask, this_phase) ? -1 : static_cast<int>(first);
  if (kind_of(record) == kPair)
    return static_cast<int>(first / kWarp == thread_ / kWarp ? second & kThreadMask : first);
  for (auto i = static_cast<std::int32_t>(record & kPayloadMask); i >= 0; i = sets_[static_cast<std::size_t>(i)].next) {
    const LaneSet& set = sets_[static_cast<std::size_t>(i)];
    const std::uint32_t unseen = unseen_of(set, this_phase);
    if (unseen != 0) return static_cast<int>(set.warp * kWarp + static_cast<std::uint32_t>(__builtin_ctz(unseen)));
  }
  return -1;
}

// Adds the running thread's access to a record of this phase, both of them reads or both atomic.
void AccessChecker::merge(std::uint64_t& record, std::uint64_t mine) {
  const std::uint64_t flags = (mine & ~kPayloadMask) | (record & kBothBytes);
  const auto pair_with = [&](std::uint64_t thread) {
    return flags | kPair << kKindShift | std::uint64_t{thread_} << kThreadBits | thread;
  };
  const auto thread = static_cast<std::uint32_t>(record & kThreadMask);
  const std::uint32_t clock = clock_of(record);  // and `thread`: of a single record
  if (arrivals_ && (mine & kAtomicBit) == 0 && merge_with_sets(record, mine)) return;
  if (kind_of(record) == kPair) {
    record |= mine & kBothBytes;
  } else if (kind_of(record) == kSet) {
    const LaneSet& set = sets_[record & kPayloadMask];
    if (set.warp == thread_ / kWarp) {
      add_to_set(record);
      record |= mine & kBothBytes;
    } else {
      record = pair_with(set.warp * kWarp + static_cast<std::uint32_t>(__builtin_ctz(set.mask)));
    }
  } else if (seen(thread, clock)) {
    record = mine;
  } else if (thread / kWarp != thread_ / kWarp) {
    record = pair_with(thread);
  } else if (sets_.size() < kPayloadMask) {
    record = flags | kSet << kKindShift | sets_.size();
    add_set(thread, clock);
    add_to_set(record);
  }
}

void AccessChecker::add_set(std::uint32_t thread, std::uint32_t clock) {
  sets_.push_back({.mask = 1U << thread % kWarp,
                   .warp = static_cast<std::uint16_t>(thread / kWarp),
                   .clock = static_cast<Clock>(clock)});
}

// Adds the running thread to the sets of a record, if there is room. A set of its warp that it is ordered behind gives
// way: what is unordered with that one is unordered with the running thread too.
void AccessChecker::add_to_set(std::uint64_t record) {
  const std::uint32_t warp = thread_ / kWarp;
  const Clock clock = clocks_[thread_];
  std::size_t at = record & kPayloadMask;
  LaneSet* past = nullptr;
  for (;; at = static_cast<std::size_t>(sets_[at].next)) {
    LaneSet& set = sets_[at];
    if (set.warp == warp && set.clock == clock) {
      set.mask |= 1U << thread_ % kWarp;
      return;
    }
    if (set.warp == warp && past == nullptr && unseen_of(set, true) == 0) past = &set;
    if (set.next < 0) break;
  }
  if (past != nullptr) {
    past->mask = 1U << thread_ % kWarp;
    past->clock = clock;
  } else if (sets_.size() <= kPayloadMask) {
    sets_[at].next = static_cast<std::int32_t>(sets_.size());
    add_set(thread_, static_cast<std::uint32_t>(clock));
  }
}

// The same of reads where warps are ordered by more than barriers of the block: all of them are remembered. False: that
// is not needed, or there is no room.
bool AccessChecker::merge_with_sets(std::uint64_t& record, std::uint64_t mine) {
  if (sets_.size() >= kPayloadMask) return false;
  if (kind_of(record) != kSet) {
    const auto thread = static_cast<std::uint32_t>(record & kThreadMask);
    const std::uint32_t clock = clock_of(record);
    if (kind_of(record) != kSingle || thread / kWarp == thread_ / kWarp || seen(thread, clock)) return false;
    record = (mine & ~kPayloadMask) | (record & kBothBytes) | kSet << kKindShift | sets_.size();
    add_set(thread, clock);
  }
  add_to_set(record);
  record |= mine & kBothBytes;
  return true;
}

void AccessChecker::access_range(AccessKind kind, const void* pointer, std::uint64_t bytes) {
  const auto* at = static_cast<const std::byte*>(pointer);
  const auto one = [&]<std::uint32_t kBytes>() {
    switch (kind) {
      case AccessKind::kRead: access<AccessKind::kRead, kBytes>(at); break;
      case AccessKind::kWrite: access<AccessKind::kWrite, kBytes>(at); break;
      case AccessKind::kAtomic: access<AccessKind::kAtomic, kBytes>(at); break;
    }
    at += kBytes;
    bytes -= kBytes;
  };
  while (bytes >= 16) one.template operator()<16>();
  while (bytes >= 4) one.template operator()<4>();
  while (bytes > 0) one.template operator()<1>();
}

// What lies outside of device memory and of the thread's own stack is wrong.
void AccessChecker::outside(std::uint64_t address, std::uint32_t bytes, AccessKind kind) {
  if (address - base_ < size_) {  // closed to a thread that has not waited
    for (const Range& range : shared_with_previous_) {
      if (address < range.last && range.first < address + bytes)
        report(Violation::Kind::kNotWaited, kind, address, bytes);
    }
    open_ = size_;
    access_range(kind, reinterpret_cast<const void*>(address), bytes);
    update_open();
    return;
  }
  const bool own = address - stack_bottom_ < stack_bytes_;
  report(own ? Violation::Kind::kLimit : Violation::Kind::kOutOfBounds, kind, address, bytes);
}

void AccessChecker::report(Violation::Kind what, AccessKind kind, std::uint64_t address, std::uint32_t bytes) {
  on_violation_(context_, {.kind = what, .access = kind, .address = address, .bytes = bytes});
}

void AccessChecker::report_unwritten(std::uint64_t offset, AccessKind kind, std::uint32_t bytes) {
  const std::uint32_t wanted = ((1U << bytes) - 1) << (offset % 8);
  const bool inside = (load_bits(addressable_, offset) & wanted) == wanted;
  report(inside ? Violation::Kind::kUnwritten : Violation::Kind::kOutOfBounds, kind, base_ + offset, bytes);
}

void AccessChecker::report_race(std::uint64_t record, AccessKind kind, std::uint64_t address, std::uint32_t bytes) {
  const bool other_block = phase_of(record) < block_first_;
  const std::uint64_t offset = address - base_;
  bool other_wrote = false;  // the record is the cell's read or write one
  for (std::uint64_t i = offset / 2; i <= (offset + bytes - 1) / 2; ++i) other_wrote |= cells_[i].write == record;
  int other = static_cast<int>(record & kThreadMask);
  if (other_block && kind_of(record) == kSet) other = -1;  // the set is gone, the block's phase is known
  if (!other_block) other = conflicting_thread(record);
  const AccessKind other_kind = (record & kAtomicBit) != 0 ? AccessKind::kAtomic
                                : other_wrote              ? AccessKind::kWrite
                                                           : AccessKind::kRead;
  on_violation_(context_, {.kind = other_block ? Violation::Kind::kBlockRace : Violation::Kind::kRace,
                           .access = kind,
                           .address = address,
                           .bytes = bytes,
                           .other_thread = other,
                           .other_access = other_kind,
                           .other_phase = phase_of(record)});
}

}  // namespace sparsmith
