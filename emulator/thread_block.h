// Runs the blocks of a launch, one after another or cluster by cluster. Each thread is a fiber on the calling OS
// thread.
//
// A thread runs until it waits at a barrier or shuffle, or ends. Then the next ready thread goes on: in the order in
// which threads became ready or, with a seed, in a drawn order. So a run is deterministic, and different seeds show
// what depends on the order. Block barriers and the cluster's barriers do not wait for threads that returned.
//
// The run stops with a report if
// - threads meet at block barriers in different lines of the text (divergence);
// - no thread can go on (deadlock); the report says what each stuck thread waits for;
// - a lane shuffles or meets with a mask that lacks the lane, or disagrees with a waiting lane's mask or operation;
// - a shuffle names a lane that returned or does not exist, or reads from a lane outside its mask;
// - the metadata of a sparse product does not name two columns of a group in ascending order;
// - a warpgroup's product is started without a begin, may not see the data that it reads, or is not awaited;
// - a bulk copy uses a barrier that is not ready, or whose last copy no thread awaited, or is in flight at the end;
// - a memory access is wrong (access_checker.h), or touches bytes that an asynchronous copy has yet to deliver;
// - a thread touches the shared memory of another block of its cluster before it has met the others at the cluster's
//   barrier, between its arrival there and its wait, or after that block has ended;
// - a block of a programmatic launch ends without having waited for the earlier kernels;
// - the launch exceeds its limit of accesses or switches.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "emulator/access_checker.h"
#include "emulator/cpu_kernel_compiler.h"
#include "emulator/fiber.h"
#include "runtime/launch_plan.h"
#include "sparsmith/status.h"

namespace sparsmith {

struct KernelLaunch {
  // Names the allocation that holds `address`: "y", "values".
  struct Name {
    std::string name;
    DeviceAddress address;
  };
  std::string kernel;
  const CpuKernel* code = nullptr;
  std::array<std::int64_t, 3> grid{1, 1, 1};     // multiples of the cluster's
  std::array<std::int64_t, 3> cluster{1, 1, 1};  // blocks
  int threads = 1;                               // of a block
  std::int64_t shared_bytes = 0;
  std::vector<const void*> arguments;  // address of each argument's value
  std::vector<Name> names;
  // Whether earlier kernels may still run. Then the kernel has to wait before it touches these allocations.
  bool programmatic = false;
  std::vector<DeviceAddress> shared_with_previous;
};

struct LaunchLimits {
  std::uint64_t max_accesses = std::uint64_t{1} << 40;
  std::uint64_t max_switches = std::uint64_t{1} << 40;
};

class ThreadBlock {
 public:
  // For blocks, or clusters of blocks, of at most `max_threads`. seed 0: threads run in order.
  static Result<std::unique_ptr<ThreadBlock>> create(DeviceMemory& memory, int max_threads, std::uint64_t seed);

  // Error: kDeviceError with a report that names kernel, block, thread, access.
  Status run(const KernelLaunch& launch, const LaunchLimits& limits);

  // ---- called by the kernel's threads (entry_points.cc) ----

  // The kinds of exchange when lanes meet. The last ones are no shuffles to the program: a vote, and matrix products.
  enum class ShuffleKind : int { kXor, kIndex, kUp, kAny, kMatrices, kSparseMatrices, kStartProduct, kAwaitProducts };

  // One lane's part of the operands of mma.m16n8k16 or mma.sp.m16n8k32, and the sums to which its part of the product
  // is added. In each quad, the lanes of pair `pair` supply the metadata.
  struct MatrixFragments {
    float* d;
    const std::uint32_t* a;
    const std::uint32_t* b;
    bool bfloat16;
    std::uint32_t metadata = 0;
    int pair = 0;
  };

  // One lane's part of a warpgroup's product: its sums; operand a or, if `a` is null, its place in shared memory; the
  // place of operand b; its metadata and the lanes that bring them, as for mma.sp, or `pair` -1: a is not sparse.
  struct WarpgroupOperands {
    float* d;
    const std::uint32_t* a;
    std::uint32_t a_at;
    std::uint32_t b_at;
    int columns;
    int line_bytes;  // of operands in shared memory: 64 or 128
    bool bfloat16;
    std::uint32_t metadata;
    int pair;
    // Of turned operands, which have a line for each of the 16 elements that meet: from a box of operand b to the next.
    // 0: they are not turned.
    std::uint32_t box_bytes;
    // From the first box of operand a, of lines of 64 bytes, to its second. 0: it is one box, of lines of 128 bytes.
    std::uint32_t a_box_bytes = 0;
  };

  // The argument of PlanArgument::Kind::kTensorMap. `address` 0: there is none.
  struct alignas(64) TensorMap {
    DeviceAddress address = 0;
    std::int64_t line_bytes = 0;
    std::int64_t elements = 0;  // of a line
    std::int64_t lines = 0;
    MapBox box;
    std::array<std::uint64_t, 11> unused{};
  };

  int thread_index() const { return index_of(current_); }
  int block_index(int axis) const { return static_cast<int>(coordinates(rank())[static_cast<std::size_t>(axis)]); }
  int grid_size(int axis) const { return static_cast<int>(launch_->grid[static_cast<std::size_t>(axis)]); }
  std::byte* shared_memory() const { return shared_memory_of(rank()); }
  int rank() const { return rank_of(current_); }  // in the cluster
  AccessChecker& checker() { return checker_; }

  void block_barrier();
  void cluster_arrive();
  void cluster_wait();
  // The place in another block's shared memory that corresponds to `own` in the running block's.
  std::byte* in_block(const std::byte* own, int rank);
  // Called before the running thread touches shared memory at `at`.
  void check_cluster_access(const std::byte* at, int bytes);
  void warp_barrier(std::uint32_t mask);
  std::uint64_t shuffle(ShuffleKind kind, std::uint64_t value, int argument, std::uint32_t mask);
  void multiply_matrices(float* d, const std::uint32_t* a, const std::uint32_t* b, bool bfloat16);
  void multiply_sparse_matrices(float* d, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t metadata,
                                int pair, bool bfloat16);
  void warpgroup_barrier(int warpgroup);
  bool warpgroup_all(int warpgroup, bool value);
  void tensor_reads_follow() { checker_.fence_shared_writes(); }
  void warpgroup_begin();
  void warpgroup_multiply(float* d, const std::uint32_t* a, std::uint32_t a_at, std::uint32_t b_at, int columns,
                          int line_bytes, bool bfloat16, std::uint32_t metadata, int pair);
  void warpgroup_multiply_turned(float* d, std::uint32_t a_at, std::uint32_t a_box_bytes, std::uint32_t b_at,
                                 int columns, int line_bytes, std::uint32_t box_bytes, bool bfloat16);
  void warpgroup_commit();
  void warpgroup_wait(int in_flight);
  void atomic_add(float* to, float value);
  void async_copy(std::byte* shared, const std::byte* global, int bytes);
  void async_commit();
  void async_wait(int pending_groups);
  void bulk_barrier_init(const void* barrier, int copies);
  void bulk_copy(std::byte* shared, const std::byte* global, int bytes, const void* barrier);
  void bulk_wait(const void* barrier, unsigned phase);
  void arrival_barrier_init(const void* barrier, int arrivals);
  void arrival_barrier_end(const void* barrier);
  void arrive(const void* barrier);
  void arrive_in_block(const std::byte* barrier, int rank);
  void arrive_expecting(const void* barrier, int bytes);
  void box_copy(std::byte* shared, const TensorMap* map, int element, int line, const std::byte* barrier,
                unsigned blocks);
  void array_copy(std::byte* shared, const std::byte* global, int bytes, const std::byte* barrier);
  void await_arrivals(const void* barrier, unsigned parity);
  [[noreturn]] void fail_misaligned(const void* address, std::uint32_t bytes);
  // The running thread makes a call in this line of the text. 0: what follows belongs to no call.
  void called_in(int line) { running().line = line; }
  // Ends the run with an error that says where and which thread. `describe` returns the fault, as in "shuffles with a
  // mask of 0". (It is a function, so that no string stays behind on the abandoned stack.)
  template <class Describe>
  [[noreturn]] void fail(const Describe& describe) {
    set_fault(describe());
    give_up();
  }

 private:
  enum class Wait : std::uint8_t {
    kNothing,
    kBlockBarrier,
    kClusterBarrier,
    kWarpgroupBarrier,
    kWarpBarrier,
    kShuffle,
    kBulkCopy,
    kArrivals,
    kExited
  };
  struct PendingCopy {
    std::byte* to;
    const std::byte* from;
    int bytes;
    int group;
    int line;
    int zeros = 0;  // bytes that become 0 behind those copied
  };
  struct Thread {
    Fiber fiber;
    Wait wait = Wait::kNothing;
    int line = 0;            // line of its last call
    std::uint32_t mask = 0;  // mask of the warp barrier or shuffle at which it waits
    int copy_group = 0;
    std::vector<PendingCopy> copies;
    std::uint32_t cluster_arrivals = 0;
    std::uint32_t cluster_waits = 0;
  };
  // A cluster of the launch that has begun.
  struct Begun {
    std::uint32_t first_phase;
    std::array<std::int64_t, 3> first_block;
  };
  // A block of the running cluster.
  struct Block {
    int live = 0;
    int at_barrier = 0;
  };
  // A barrier whose phases bulk copies complete. A waiting thread is ordered behind the threads that started the
  // copies.
  struct BulkBarrier {
    struct Start {
      int thread;
      std::int16_t clock;
    };
    std::uint32_t completed = 0;  // phases
    std::size_t expected = 1;     // copies per phase
    std::vector<PendingCopy> copies;
    std::vector<Start> starts;  // of the last phase's copies, or of the copies in flight
    std::vector<int> waiting;   // threads that wait for copies to start
  };
  // A barrier whose phases arrivals complete, and copies that land. A waiting thread is ordered behind the threads that
  // arrived, or started a copy, in the last complete phase.
  struct ArrivalBarrier {
    std::uint32_t completed = 0;  // phases
    int expected = 1;             // arrivals per phase
    int arrived = 0;
    int expected_bytes = 0;  // in this phase
    int bytes = 0;
    std::vector<PendingCopy> copies;   // of these bytes
    AccessChecker::Arrivals arriving;  // in this phase
    AccessChecker::Arrivals complete;  // in the previous phase
    std::vector<int> waiting;          // threads
  };
  static constexpr int kWarp = AccessChecker::kWarp;
  static constexpr int kWarpgroup = AccessChecker::kWarpgroup;
  using FragmentsOfA = std::array<std::array<std::uint32_t, 4>, kWarp>;
  // A warp's part of a product in flight.
  struct WarpgroupProduct {
    WarpgroupOperands operands;  // of lane 0
    std::array<float*, kWarp> d;
    FragmentsOfA a;
    std::array<std::uint32_t, kWarp> metadata;
    std::vector<float> sums;  // sums of all lanes before the product; empty if an earlier product has the same ones
  };
  // Lanes that wait for each other.
  struct Meeting {
    Wait wait;
    std::uint32_t mask;
    std::uint32_t arrived;
  };
  struct Warp {
    std::uint32_t gone = 0;  // lanes that returned or, in a block's last warp, do not exist
    std::size_t meeting_count = 0;
    std::array<Meeting, kWarp> meetings;
    // The value, argument and kind that each lane brings to its shuffle. Later `values` has each lane's result.
    std::array<std::uint64_t, kWarp> values;
    std::array<int, kWarp> arguments;
    std::array<ShuffleKind, kWarp> shuffles;
    std::vector<WarpgroupProduct> products;
    std::vector<std::size_t> products_committed;  // after each commit: how many of `products` are committed
    std::uint64_t products_started = 0;
    std::uint32_t products_begun = 0;  // lanes
  };

  ThreadBlock(DeviceMemory& memory, std::unique_ptr<FiberStacks> stacks, std::uint64_t seed);

  // Threads are numbered through the cluster. The numbers of each block start at a multiple of kWarpgroup.
  int rank_of(int thread) const { return thread / block_threads_; }
  int index_of(int thread) const { return thread % block_threads_; }
  int thread_numbers() const { return block_threads_ * (static_cast<int>(blocks_.size()) - 1) + launch_->threads; }
  Thread& thread_of(int thread) { return threads_[static_cast<std::size_t>(thread)]; }
  const Thread& thread_of(int thread) const { return threads_[static_cast<std::size_t>(thread)]; }
  Thread& running() { return thread_of(current_); }
  Warp& warp_of(int warp) { return warps_[static_cast<std::size_t>(warp)]; }
  Warp& running_warp() { return warp_of(current_ / kWarp); }
  Block& block_of(int thread) { return blocks_[static_cast<std::size_t>(rank_of(thread))]; }
  std::byte* shared_memory_of(int rank) const {
    return memory_.base() + static_cast<std::uint64_t>(rank) * DeviceMemory::kBlockSharedBytes;
  }
  // The coordinates in the grid of block `rank` of the cluster that begins at `first`.
  std::array<std::int64_t, 3> coordinates(int rank, const std::array<std::int64_t, 3>& first) const;
  std::array<std::int64_t, 3> coordinates(int rank) const { return coordinates(rank, first_block_); }

  std::vector<AccessChecker::Range> shared_with_previous() const;
  Status run_cluster();
  void prepare_threads();
  void set_fault(const std::string& what);
  [[noreturn]] void give_up();
  static void thread_body(boost::context::detail::transfer_t from);
  // Runs the next ready thread. Returns when the running thread goes on. Reports a deadlock if no thread is ready.
  void wait_for_turn();
  // The same for a thread that is not ready until it is woken.
  void wait_for_turn(Wait wait);
  [[noreturn]] void exit_thread();
  void make_ready(int thread);
  void wake(std::vector<int>& threads);  // wakes all of them, and clears the list
  int take_ready();
  void count_switch();

  // Prepares a barrier at `barrier`, after a check that the place in shared memory can hold one.
  void make_barrier(const void* barrier);
  BulkBarrier& bulk_barrier(const void* barrier);
  void check_whole_chunks(const std::byte* shared, const std::byte* global, int bytes);
  void begin_copy(std::byte* shared, const std::byte* global, std::uint32_t bytes, std::uint32_t zeros = 0);
  void land(const PendingCopy& copy);
  // Begins the next phase of the barrier if this one is complete.
  void complete_phase(ArrivalBarrier& barrier);
  void check_bulk_copies_have_landed();
  ArrivalBarrier& arrival_barrier(const void* barrier);

  void release_block_barrier(int rank);
  void check_same_barrier(int rank);
  void release_cluster_barrier();
  // Adds the running lane to the lanes that meet with `mask`. Returns the meeting if that completes it, otherwise
  // nullptr.
  Meeting* arrive_at_warp(Wait wait, std::uint32_t mask);
  void check_mask(const Warp& warp, Wait wait, std::uint32_t mask);
  static bool is_complete(const Warp& warp, const Meeting& meeting);
  // Releases the lanes of a complete meeting, and removes it.
  void release_meeting(int warp, Meeting& meeting);
  void complete_shuffle(int warp, std::uint32_t mask);
  void add_matrix_product(const std::array<std::uint64_t, kWarp>& fragments);
  void add_sparse_product(const std::array<std::uint64_t, kWarp>& fragments);
  // What a row of a sparse operand a holds, two in each group of four columns.
  struct SparseElement {
    std::size_t column;
    float value;
  };
  std::array<SparseElement, 16> sparse_row(std::size_t row, const FragmentsOfA& a,
                                           const std::array<std::uint32_t, kWarp>& metadata, int pair, bool bfloat16);
  void on_lane_exit(int thread);
  void release_warpgroup_barrier(int warpgroup);
  void check_is_shown(int first, std::uint32_t at, int rows, int line_bytes);
  void check_operands_are_shown(int first, const WarpgroupOperands& operands);
  void start_product(int warp, const std::array<std::uint64_t, kWarp>& operands);
  void complete_products(int warp, std::size_t in_flight);
  static void show_sums(const WarpgroupProduct& product);
  static void hide_sums(WarpgroupProduct& product);
  // 16 elements, or 32 of a sparse product, of 16 bits each, of row `row` of an operand in shared memory.
  using OperandRow = std::array<float, 32>;
  OperandRow operand_row(std::uint32_t at, std::size_t row, const WarpgroupOperands& operands);
  // The same of `count` rows of a turned operand, from `first` on.
  std::vector<OperandRow> turned_rows(std::uint32_t at, std::size_t first, std::size_t count, int line_bytes,
                                      std::uint32_t box_bytes, bool bfloat16);
  const std::byte* swizzled(std::uint64_t place, std::uint64_t line_bytes) const;
  void add_product(int warp, const WarpgroupProduct& product);
  void check_products_are_complete();

  static void on_violation(void* context, const Violation& violation);
  std::string describe(const Violation& violation) const;
  std::string describe_address(std::uint64_t address, std::uint32_t bytes) const;
  std::string describe_address(const void* at, std::uint32_t bytes) const {
    return describe_address(reinterpret_cast<std::uint64_t>(at), bytes);
  }
  std::string describe_other(const Violation& violation) const;
  std::string describe_pending_copy(std::uint64_t address, std::uint32_t bytes) const;
  std::string describe_waiting() const;
  std::string thread_name(int thread) const;
  std::string block_name(const std::array<std::int64_t, 3>& coordinates) const;

  DeviceMemory& memory_;
  std::unique_ptr<FiberStacks> stacks_;
  AccessChecker checker_;
  std::uint64_t seed_;
  std::mt19937_64 random_;

  const KernelLaunch* launch_ = nullptr;
  std::array<std::int64_t, 3> first_block_{};  // of the cluster
  std::vector<Block> blocks_;                  // of the cluster
  int block_threads_ = AccessChecker::kMaxThreads;
  std::vector<Begun> begun_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::map<std::uint64_t, BulkBarrier> bulk_barriers_;  // by address
  std::map<std::uint64_t, ArrivalBarrier> arrival_barriers_;
  int current_ = 0;
  int live_ = 0;
  int at_cluster_barrier_ = 0;          // threads that have arrived
  std::uint32_t cluster_barriers_ = 0;  // completed barriers of the cluster
  struct WarpgroupMeeting {
    int arrived = 0;
    int votes = 0;     // of those, for warpgroup_all()
    bool all = false;  // have voted so at the last barrier
  };
  std::array<WarpgroupMeeting, AccessChecker::kMaxThreads / kWarpgroup> at_warpgroup_barrier_{};
  std::vector<int> ready_;  // a ring with a power of two of entries
  std::size_t ready_head_ = 0;
  std::size_t ready_count_ = 0;
  std::uint64_t switches_left_ = 0;
  Fiber main_;
  Status fault_;
};

// The low half of `bits` as a number, read as fp16 or bfloat16.
inline float half_value(std::uint32_t bits, bool bfloat16) {
  const auto half = static_cast<std::uint16_t>(bits);
  return bfloat16 ? float_from_bf16(half) : float_from_fp16(half);
}

// The block whose kernel runs on this OS thread.
extern thread_local ThreadBlock* running_block;

}  // namespace sparsmith
