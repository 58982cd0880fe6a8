// Checks every memory access of an emulated kernel: bounds, reads of bytes that were never written, and data races.
//
// Happens-before decides on races, exactly:
// - Two threads of a block are ordered by a block barrier between their accesses. Each barrier starts a new *phase*.
//   Phases are numbered through the executor's life, so one number names launch, block and phase at once.
// - Within a phase, warp barriers order the lanes of a warp. Each lane has a clock that ticks at a warp barrier. It
//   knows, for each other lane, the clock up to which it has seen that lane (a vector clock of 32). Shuffles order
//   nothing, as in CUDA.
// - A thread that arrives at a barrier in shared memory hands on its knowledge, and its own clock ticks. A thread that
//   has waited there has this knowledge for its whole warp, until the next barrier that starts a phase.
// - A barrier of a warpgroup starts a phase of that warpgroup alone. It orders the threads of the warpgroup with one
//   another; block barriers order them with other threads as before. If there are barriers in shared memory, no phase
//   starts: the threads of the warpgroup share their knowledge.
// - Nothing orders the blocks of a launch, except that the cluster's barriers order the blocks of a cluster. All blocks
//   of a cluster are checked together, like one block whose parts have block barriers of their own. Launches are
//   ordered.
// Two unordered accesses to the same bytes race unless both read or both are atomic.
//
// A kernel that is launched programmatically may run while earlier kernels still run. The memory that these may touch
// is *shared with previous*. A thread may touch it after it has waited for them, or has met at a barrier a thread that
// had waited.
//
// Every two bytes have a ShadowCell with a record of the last writes and one of the last reads. A record is
//
//   phase (32 bits) | kind (2) | atomic (1) | bytes touched (2) | payload (26)
//
//   kind single: clock (15) and thread (11) of one access
//   kind pair:   two threads of different warps; any next access is unordered with one of them
//   kind set:    index into sets_: lanes of one warp with their clock. Lanes of other clocks are linked to it and, if
//                barriers in shared memory order warps, lanes of other warps
//
// Records other than single ones hold reads, or atomic writes. An access that does not conflict with the record of an
// earlier block of the same launch never replaces that record: anything that conflicts with the access conflicts with
// the record too. Two-byte cells are exact for accesses of two bytes and more. A mask tells single bytes apart; of two
// threads that touch the two bytes of a cell in turn, the cell remembers only the last.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "emulator/device_memory.h"

namespace sparsmith {

enum class AccessKind : std::uint8_t { kRead, kWrite, kAtomic };

struct Violation {
  enum class Kind : std::uint8_t {
    kOutOfBounds,  // a byte that this launch may not touch
    kUnwritten,    // a read of a byte that was never written
    kRace,         // with `other_thread` of the same block
    kBlockRace,    // with `other_thread` of another block, which ran in `other_phase`
    kNotWaited,    // earlier kernels may still use the bytes, and the thread has not waited for them
    kLimit,        // the launch exceeds its limit of accesses
  };
  Kind kind;
  AccessKind access;
  std::uint64_t address;
  std::uint32_t bytes;
  int other_thread = -1;
  AccessKind other_access = AccessKind::kRead;
  std::uint32_t other_phase = 0;
};

// One checker at a time is active on an OS thread: the checker whose kernel runs.
class AccessChecker {
 public:
  static constexpr int kMaxThreads = 2048;  // of a cluster
  static constexpr int kWarp = 32;
  static constexpr int kWarpgroup = 128;

  // Called on the stack of the offending thread if an access is wrong. Must not return.
  using OnViolation = void (*)(void* context, const Violation& violation);

  AccessChecker(DeviceMemory& memory, OnViolation on_violation, void* context);

  // Bytes [first, last) of addresses.
  struct Range {
    std::uint64_t first;
    std::uint64_t last;
  };
  // shared_with_previous: for a programmatic launch; empty for a plain one.
  void begin_launch(std::uint64_t max_accesses, std::vector<Range> shared_with_previous = {});
  // Begins a cluster of blocks. Each block has `block_threads` numbers for its threads, a multiple of kWarpgroup.
  void begin_blocks(int block_threads);
  // Called after a barrier of the cluster, of one of its blocks, and of a warpgroup (numbered through all blocks).
  void begin_phase();
  void begin_block_phase(int block);
  void begin_warpgroup_phase(int warpgroup);
  void begin_thread(int thread, const std::byte* stack_bottom, const std::byte* stack_top) {
    stack_bottom_ = reinterpret_cast<std::uint64_t>(stack_bottom);
    stack_bytes_ = static_cast<std::uint64_t>(stack_top - stack_bottom);
    thread_ = static_cast<std::uint32_t>(thread);
    phase_ = phases_[thread_ / kWarpgroup];
    block_phase_ = block_phases_[thread_ / kWarpgroup];
    update_open();
    update_mine();
  }
  // The running thread has waited for the kernels before this one.
  void wait_for_previous() {
    waited_[thread_] = true;
    open_ = size_;
  }
  // Whether the block may end: it had nothing to wait for, or one of its threads has waited.
  bool has_waited(int block) const;
  // fence_shared_writes(): behind a barrier, tensor cores will see what the running thread has written to shared
  // memory. unfenced_at_barrier(): whether a thread had written near these bytes without a fence when it came to its
  // warpgroup's last barrier, and has no fence in front of a block barrier since.
  void fence_shared_writes() { unfenced_[thread_] = {}; }
  // What `copies` writes needs no fence.
  template <class Copies>
  void write_fenced(const Copies& copies) {
    const Unfenced before = unfenced_[thread_];
    copies();
    unfenced_[thread_] = before;
  }
  bool unfenced_at_barrier(int thread, const std::byte* at, std::uint64_t bytes) const {
    const Unfenced& unfenced = unfenced_at_barrier_[static_cast<std::size_t>(thread)];
    const std::uint64_t begin = reinterpret_cast<std::uint64_t>(at) - base_;
    return begin < unfenced.end && unfenced.begin < begin + bytes;
  }
  // The lanes of `mask` of the warp met at a warp barrier.
  void warp_met(int warp, std::uint32_t mask);

  // clock(): the running thread's clock. acquire(): orders the running thread behind the accesses of `thread`, of its
  // warp, up to `clock` in this phase.
  std::int16_t clock() const { return clocks_[thread_]; }
  void acquire(int thread, std::int16_t clock);

  // The knowledge that threads hand on when they arrive at a barrier in shared memory.
  struct Arrivals {
    std::uint32_t phase = 0;           // the phase in which the clocks count
    std::vector<std::int16_t> clocks;  // of every thread: its accesses up to this clock are done
    std::vector<Range> unfenced;       // shared memory that they wrote without a fence for tensor cores
  };
  // From now on there are such barriers: the checker remembers all reads by several warps.
  void arrivals_follow() { arrivals_ = true; }
  // release(): the running thread arrives. acquire(): it goes on behind the threads that arrived.
  void release(Arrivals& arrivals);
  void acquire(const Arrivals& arrivals);
  // Whether the running thread's warp waited for a thread that had written near these bytes without a fence for tensor
  // cores.
  bool unfenced_at_arrival(const std::byte* at, std::uint64_t bytes) const;

  std::uint32_t phase() const { return phase_; }

  // The running thread touches [address, address + kBytes).
  template <AccessKind kKind, std::uint32_t kBytes>
  void access(const void* pointer) {
    static_assert(kBytes <= 16);
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    const std::uint64_t offset = address - base_;
    if (offset >= open_) [[unlikely]] {
      if (address - stack_bottom_ < stack_bytes_ && --accesses_left_ != 0) return;  // the thread's own
      outside(address, kBytes, kKind);
      return;
    }
    if (--accesses_left_ == 0) [[unlikely]]
      report(Violation::Kind::kLimit, kKind, address, kBytes);
    const std::uint32_t wanted = ((1U << kBytes) - 1) << (offset % 8);
    if (kKind != AccessKind::kRead) {
      if ((load_bits(addressable_, offset) & wanted) != wanted) [[unlikely]] {
        report(Violation::Kind::kOutOfBounds, kKind, address, kBytes);
      }
    }
    const std::uint32_t written = load_bits(written_, offset);
    if (kKind == AccessKind::kWrite) {
      const std::uint32_t bits = written | wanted;
      std::memcpy(written_ + offset / 8, &bits, sizeof(bits));
      if (offset < DeviceMemory::kSharedBytes) unfenced_[thread_].add(offset, kBytes);
    } else if ((written & wanted) != wanted) [[unlikely]] {
      report_unwritten(offset, kKind, kBytes);
    }
    const std::uint32_t horizon = offset < DeviceMemory::kSharedBytes ? block_first_ : launch_first_;
    std::uint64_t mine = mine_ | (kBytes == 1 ? std::uint64_t{1} << (kBytesShift + offset % 2) : kBothBytes);
    if (kKind == AccessKind::kAtomic) mine |= kAtomicBit;
    const ShadowCell* const last = cells_ + (offset + kBytes - 1) / 2;
    for (ShadowCell* cell = cells_ + offset / 2; cell <= last; ++cell) {
      if (kKind == AccessKind::kRead) {
        touch_read(*cell, mine, horizon, address, kBytes);
      } else {
        touch_write<kKind>(*cell, mine, horizon, address, kBytes);
      }
    }
  }

  // The same for any number of bytes.
  void access_range(AccessKind kind, const void* pointer, std::uint64_t bytes);

 private:
  // Bytes of shared memory, from the first to the last, that a thread has written.
  struct Unfenced {
    std::uint64_t begin = ~std::uint64_t{0};
    std::uint64_t end = 0;

    void add(std::uint64_t offset, std::uint64_t bytes) {
      begin = std::min(begin, offset);
      end = std::max(end, offset + bytes);
    }
  };

  static constexpr int kPayloadBits = 26;
  static constexpr int kThreadBits = 11;
  static constexpr int kBytesShift = kPayloadBits;
  static constexpr std::uint64_t kBothBytes = std::uint64_t{3} << kBytesShift;
  static constexpr std::uint64_t kAtomicBit = std::uint64_t{1} << (kBytesShift + 2);
  static constexpr int kKindShift = kBytesShift + 3;
  static constexpr std::uint64_t kSingle = 0;
  static constexpr std::uint64_t kPair = 1;
  static constexpr std::uint64_t kSet = 2;
  static constexpr std::uint64_t kPayloadMask = (1U << kPayloadBits) - 1;
  static constexpr std::uint64_t kThreadMask = (1U << kThreadBits) - 1;
  static constexpr std::uint64_t kClockMask = (1U << (kPayloadBits - kThreadBits)) - 1;
  // Phase, kind and thread: equal in two single records of the same thread and phase.
  static constexpr std::uint64_t kIdentity = (~std::uint64_t{0} << 32) | (std::uint64_t{3} << kKindShift) | kThreadMask;

  // Signed, because x86-64 has the maximum of signed words without extensions.
  using Clock = std::int16_t;
  using VectorClock = std::array<Clock, kWarp>;
  // Lanes of one warp whose last access was at the same clock.
  struct LaneSet {
    std::uint32_t mask;
    std::uint16_t warp;
    Clock clock;
    std::int32_t next = -1;  // the next one of the same record
  };

  static std::uint32_t load_bits(const std::uint8_t* map, std::uint64_t offset) {
    std::uint32_t bits;
    std::memcpy(&bits, map + offset / 8, sizeof(bits));
    return bits;
  }
  static std::uint32_t phase_of(std::uint64_t record) { return static_cast<std::uint32_t>(record >> 32); }
  static std::uint64_t kind_of(std::uint64_t record) { return (record >> kKindShift) & 3; }
  // The clock of a single record.
  static std::uint32_t clock_of(std::uint64_t record) {
    return static_cast<std::uint32_t>(record >> kThreadBits & kClockMask);
  }

  void update_mine() {
    mine_ = (static_cast<std::uint64_t>(phase_) << 32) | (static_cast<std::uint64_t>(clocks_[thread_]) << kThreadBits) |
            thread_;
  }

  // Global memory is closed to a thread that has not waited yet: its accesses go through outside().
  void update_open() { open_ = shared_with_previous_.empty() || waited_[thread_] ? size_ : DeviceMemory::kSharedBytes; }

  // True if no access can conflict with `record` now: it is stale, or a barrier orders it.
  bool is_past(std::uint64_t record, std::uint32_t horizon) const {
    const std::uint32_t phase = phase_of(record);
    if (phase < horizon || (phase >= block_first_ && phase < barrier_phase_)) return true;
    if (phase < block_first_ || phase >= phase_) return false;
    return is_of_my(kWarpgroup, record) || (phase < block_phase_ && is_of_my(block_threads_, record));
  }

  // Whether the record is not past, and is of another thread or another phase.
  bool is_of_others(std::uint64_t record, std::uint64_t mine, std::uint32_t horizon) const {
    return !is_past(record, horizon) && ((record ^ mine) & kIdentity) != 0;
  }

  void touch_read(ShadowCell& cell, std::uint64_t mine, std::uint32_t horizon, std::uint64_t address,
                  std::uint32_t bytes) {
    if (is_of_others(cell.write, mine, horizon) && conflicts(cell.write, mine)) [[unlikely]]
      report_race(cell.write, AccessKind::kRead, address, bytes);
    if (!is_of_others(cell.read, mine, horizon)) {
      cell.read = mine;
    } else if (phase_of(cell.read) == phase_) {
      merge(cell.read, mine);
    }
  }

  template <AccessKind kKind>
  void touch_write(ShadowCell& cell, std::uint64_t mine, std::uint32_t horizon, std::uint64_t address,
                   std::uint32_t bytes) {
    if (is_of_others(cell.read, mine, horizon) && conflicts(cell.read, mine)) [[unlikely]]
      report_race(cell.read, kKind, address, bytes);
    if (is_of_others(cell.write, mine, horizon)) [[unlikely]] {
      if (kKind == AccessKind::kAtomic && (cell.write & kAtomicBit) != 0) {
        if (phase_of(cell.write) == phase_) merge(cell.write, mine);
        return;
      }
      if (conflicts(cell.write, mine)) report_race(cell.write, kKind, address, bytes);
    }
    cell.write = mine;
  }

  bool is_of_my(std::uint32_t group_threads, std::uint64_t record) const;
  void start_phase(int first_thread, int count);
  void start_clocks(int first_warp, int last_warp);
  void meet(int first_warp, int last_warp);
  void share_wait(int first_thread, int count);
  void show_fenced(int first_thread, int count);
  bool seen(std::uint32_t thread, std::uint32_t clock, bool this_phase = true) const;
  bool conflicts(std::uint64_t record, std::uint64_t mine) const;
  int conflicting_thread(std::uint64_t record) const;
  void merge(std::uint64_t& record, std::uint64_t mine);
  bool merge_with_sets(std::uint64_t& record, std::uint64_t mine);
  std::uint32_t unseen_of(const LaneSet& set, bool this_phase) const;
  void add_set(std::uint32_t thread, std::uint32_t clock);
  void add_to_set(std::uint64_t record);
  void outside(std::uint64_t address, std::uint32_t bytes, AccessKind kind);
  void report(Violation::Kind what, AccessKind kind, std::uint64_t address, std::uint32_t bytes);
  void report_unwritten(std::uint64_t offset, AccessKind kind, std::uint32_t bytes);
  void report_race(std::uint64_t record, AccessKind kind, std::uint64_t address, std::uint32_t bytes);

  // The fields that the access callback reads, together.
  std::uint64_t base_;
  std::uint64_t size_;
  std::uint64_t open_;  // bytes that the running thread may touch without a further check
  std::uint8_t* addressable_;
  std::uint8_t* written_;
  ShadowCell* cells_;
  std::uint64_t accesses_left_ = 0;
  std::uint64_t mine_ = 0;  // record of an access by the running thread, without its bytes
  std::uint32_t launch_first_ = 1;
  std::uint32_t block_first_ = 1;    // the first phase of the blocks that run
  std::uint32_t barrier_phase_ = 1;  // the phase that the last barrier of all of them started
  std::uint32_t block_phase_ = 1;    // the phase that the last barrier of the running thread's block started
  std::uint32_t phase_ = 1;          // the running thread's
  std::uint32_t block_threads_ = kMaxThreads;
  std::uint32_t thread_ = 0;
  std::uint64_t stack_bottom_ = 0;
  std::uint64_t stack_bytes_ = 0;

  DeviceMemory& memory_;
  OnViolation on_violation_;
  void* context_;
  std::vector<Range> shared_with_previous_;
  std::uint32_t last_phase_ = 1;  // of all threads
  std::array<std::uint32_t, kMaxThreads / kWarpgroup> phases_{};
  std::array<std::uint32_t, kMaxThreads / kWarpgroup> block_phases_{};
  std::array<bool, kMaxThreads> waited_{};
  std::array<Unfenced, kMaxThreads> unfenced_{};
  std::array<Unfenced, kMaxThreads> unfenced_at_barrier_{};
  std::vector<LaneSet> sets_;
  std::uint64_t warps_that_met_ = 0;
  bool arrivals_ = false;  // whether these blocks have barriers in shared memory
  // Of every warp: its knowledge of threads of other warps in this phase (empty: none), and the ranges that it waited
  // for and that were written without a fence for tensor cores.
  std::array<std::vector<Clock>, kMaxThreads / kWarp> foreign_{};
  std::array<std::vector<Range>, kMaxThreads / kWarp> unfenced_arrivals_{};
  std::array<Clock, kMaxThreads> clocks_{};
  std::array<VectorClock, kMaxThreads> known_{};  // [thread][lane]: the clock up to which the thread has seen that lane
};

}  // namespace sparsmith
