// Runs the blocks of a launch, one after another or cluster by cluster, each thread a fiber on the calling OS thread.
//
// A thread runs until it waits at a barrier or shuffle, or ends; then the next ready one goes on, in the order in
// which they became ready, or with a seed in a drawn order. So a run is deterministic, and different seeds show what
// depends on the order. Threads that returned are not waited for at block barriers, or at the cluster's.
//
// Reported, and the run stopped, where:
// - threads meet at block barriers in different lines of the text (divergence);
// - nobody can go on (deadlock), with what each stuck thread waits for;
// - a lane shuffles or meets with a mask that lacks itself, or disagrees with a waiting lane's mask or operation;
// - a shuffle names a lane that returned or does not exist, or reads from one outside its mask;
// - the metadata of a sparse product does not name two columns of a group in ascending order;
// - a warpgroup's product is started that was not begun, or may not see what it is to read, or is not awaited;
// - a bulk copy goes by a barrier that is not ready, or whose last copy nobody awaited, or is on its way at the end;
// - a memory access is wrong (access_checker.h), or touches what an asynchronous copy has yet to deliver;
// - a thread touches the shared memory of another block of its cluster without having met the others at the cluster's
//   barrier, between its arrival there and its wait, or when that block has ended;
// - a block of a programmatic launch ends and has not waited for the kernels before;
// - the launch exceeds its limit of accesses or switches.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "emulator/access_checker.h"
#include "emulator/cpu_kernel_compiler.h"
#include "emulator/fiber.h"
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
  // Whether the kernels before may still run: then it has to wait before it touches these allocations.
  bool programmatic = false;
  std::vector<DeviceAddress> shared_with_previous;
};

struct LaunchLimits {
  std::uint64_t max_accesses = std::uint64_t{1} << 40;
  std::uint64_t max_switches = std::uint64_t{1} << 40;
};

class ThreadBlock {
 public:
  // Blocks, or clusters of blocks, of at most `max_threads`. seed 0: threads run in order.
  static Result<std::unique_ptr<ThreadBlock>> create(DeviceMemory& memory, int max_threads, std::uint64_t seed);

  // Error: kDeviceError with a report that names kernel, block, thread, access.
  Status run(const KernelLaunch& launch, const LaunchLimits& limits);

  // ---- called by the kernel's threads (entry_points.cc) ----

  // What lanes exchange when they meet; the later ones are no shuffles to the program: a vote, and matrix products.
  enum class ShuffleKind : std::uint8_t {
    kXor,
    kDown,
    kIndex,
    kUp,
    kAny,
    kMatrices,
    kSparseMatrices,
    kStartProduct,
    kAwaitProducts
  };

  // One lane's part of the operands of mma.m16n8k16, and where its part of the product is added.
  struct MatrixFragments {
    float* d;
    const std::uint32_t* a;
    const std::uint32_t* b;
    bool bfloat16;
  };

  // The same of mma.sp.m16n8k32, whose metadata comes from the lanes of pair `pair` in each quad.
  struct SparseFragments {
    float* d;
    const std::uint32_t* a;
    const std::uint32_t* b;
    std::uint32_t metadata;
    int pair;
    bool bfloat16;
  };

  // One lane's part of a warpgroup's product: sums, operand a or (where that is null) where it lies in shared memory,
  // and where the other one does.
  struct WarpgroupOperands {
    float* d;
    const std::uint32_t* a;
    std::uint32_t a_at;
    std::uint32_t b_at;
    int columns;
    bool bfloat16;
  };

  int thread_index() const { return index_of(current_); }
  int block_index(int axis) const { return static_cast<int>(coordinates(rank())[static_cast<std::size_t>(axis)]); }
  int grid_size(int axis) const { return static_cast<int>(launch_->grid[static_cast<std::size_t>(axis)]); }
  std::byte* shared_memory() const { return shared_memory_of(rank()); }
  int rank() const { return rank_of(current_); }  // in the cluster
  AccessChecker& checker() { return checker_; }

  void block_barrier(int line);
  void cluster_arrive(int line);
  void cluster_wait(int line);
  // Where `own`, in the running block's shared memory, is in another block's.
  std::byte* in_block(const std::byte* own, int rank, int line);
  // The running thread is about to touch shared memory there.
  void check_cluster_access(const std::byte* at, int bytes, int line);
  void warp_barrier(std::uint32_t mask, int line);
  std::uint64_t shuffle(ShuffleKind kind, std::uint64_t value, int argument, std::uint32_t mask, int line);
  void multiply_matrices(const MatrixFragments& fragments, int line);
  void multiply_sparse_matrices(const SparseFragments& fragments, int line);
  void warpgroup_barrier(int warpgroup, int line);
  void tensor_reads_follow() { checker_.fence_shared_writes(); }
  void warpgroup_begin();
  void warpgroup_multiply(const WarpgroupOperands& operands, int line);
  void warpgroup_commit();
  void warpgroup_wait(int in_flight, int line);
  void atomic_add(float* to, float value, int line);
  void async_copy(std::byte* shared, const std::byte* global, int bytes, int line);
  void async_commit();
  void async_wait(int pending_groups, int line);
  void bulk_barrier_init(const void* barrier, int copies, int line);
  void bulk_copy(std::byte* shared, const std::byte* global, int bytes, const void* barrier, int line);
  void bulk_wait(const void* barrier, unsigned phase, int line);
  void arrival_barrier_init(const void* barrier, int arrivals, int line);
  void arrival_barrier_end(const void* barrier, int line);
  void arrive(const void* barrier, int line);
  void await_arrivals(const void* barrier, unsigned parity, int line);
  [[noreturn]] void fail_misaligned(const void* address, std::uint32_t bytes, int line = 0);
  // Ends the run with an error that says where and who; `describe` returns what, as in "shuffles with a mask of 0".
  // (A function, so that no string is left behind on the stack that is given up.)
  template <class Describe>
  [[noreturn]] void fail(const Describe& describe, int line = 0) {
    set_fault(describe(), line);
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
  };
  struct Thread {
    Fiber fiber;
    Wait wait = Wait::kNothing;
    int line = 0;
    std::uint32_t mask = 0;  // of the warp barrier or shuffle that it waits at
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
  // A block of the one that runs.
  struct Block {
    int live = 0;
    int at_barrier = 0;
  };
  // A barrier whose phases bulk copies complete. Who waits is ordered behind those who started them.
  struct BulkBarrier {
    struct Start {
      int thread;
      std::int16_t clock;
    };
    std::uint32_t completed = 0;  // phases
    std::size_t expected = 1;     // copies a phase
    std::vector<PendingCopy> copies;
    std::vector<Start> starts;  // of the last phase's copies, or of those that are on their way
    std::vector<int> waiting;   // threads, for copies to be started
  };
  // A barrier whose phases arrivals complete. Who waits is ordered behind those who arrived in the last complete phase.
  struct ArrivalBarrier {
    std::uint32_t completed = 0;  // phases
    int expected = 1;             // arrivals a phase
    int arrived = 0;
    AccessChecker::Arrivals arriving;  // in this phase
    AccessChecker::Arrivals complete;  // in the one before
    std::vector<int> waiting;          // threads
  };
  static constexpr int kWarp = AccessChecker::kWarp;
  static constexpr int kWarpgroup = AccessChecker::kWarpgroup;
  // A warp's part of a product that is on its way.
  struct WarpgroupProduct {
    WarpgroupOperands operands;  // of lane 0
    std::array<float*, kWarp> d;
    std::array<std::array<std::uint32_t, 4>, kWarp> a;
    std::vector<float> sums;  // of all lanes, as they were; empty where an earlier product has the same ones
  };
  // Lanes that wait for each other.
  struct Meeting {
    Wait wait;
    std::uint32_t mask;
    std::uint32_t arrived;
  };
  struct Warp {
    std::uint32_t gone = 0;  // lanes that returned or, in a block's last warp, never were
    std::size_t meeting_count = 0;
    std::array<Meeting, kWarp> meetings;
    // What each lane brought to its shuffle, and in `values` what it takes away.
    std::array<std::uint64_t, kWarp> values;
    std::array<int, kWarp> arguments;
    std::array<ShuffleKind, kWarp> shuffles;
    std::vector<WarpgroupProduct> products;
    std::vector<std::size_t> products_committed;  // after each commit: how many of `products` were
    std::uint64_t products_started = 0;
    std::uint32_t products_begun = 0;  // lanes
  };

  ThreadBlock(DeviceMemory& memory, std::unique_ptr<FiberStacks> stacks, std::uint64_t seed);

  // Threads are numbered through the cluster, those of each block from a multiple of kWarpgroup on.
  int rank_of(int thread) const { return thread / block_threads_; }
  int index_of(int thread) const { return thread % block_threads_; }
  int thread_numbers() const { return block_threads_ * (static_cast<int>(blocks_.size()) - 1) + launch_->threads; }
  Block& block_of(int thread) { return blocks_[static_cast<std::size_t>(rank_of(thread))]; }
  std::byte* shared_memory_of(int rank) const {
    return memory_.base() + static_cast<std::uint64_t>(rank) * DeviceMemory::kBlockSharedBytes;
  }
  // In the grid, of a block of the cluster that begins at `first`.
  std::array<std::int64_t, 3> coordinates(int rank, const std::array<std::int64_t, 3>& first) const;
  std::array<std::int64_t, 3> coordinates(int rank) const { return coordinates(rank, first_block_); }

  std::vector<AccessChecker::Range> shared_with_previous() const;
  Status run_cluster();
  void prepare_threads();
  void set_fault(const std::string& what, int line);
  [[noreturn]] void give_up();
  static void thread_body(boost::context::detail::transfer_t from);
  // Runs the next ready thread; returns when the running one goes on. Reports a deadlock when there is none.
  void wait_for_turn();
  [[noreturn]] void exit_thread();
  void make_ready(int thread);
  int take_ready();
  void count_switch();

  BulkBarrier& bulk_barrier(const void* barrier, int line);
  void begin_copy(std::byte* shared, const std::byte* global, std::uint32_t bytes, int line);
  void check_bulk_copies_have_landed();
  ArrivalBarrier& arrival_barrier(const void* barrier, int line);

  void release_block_barrier(int rank);
  void check_same_barrier(int rank);
  void release_cluster_barrier();
  // Adds the running lane to those who meet with `mask`; the meeting, when that completes it.
  Meeting* arrive_at_warp(Wait wait, std::uint32_t mask, int line);
  void check_mask(const Warp& warp, Wait wait, std::uint32_t mask, int line);
  static bool is_complete(const Warp& warp, const Meeting& meeting);
  // Sets the lanes of a complete meeting free, and forgets it.
  void release_meeting(int warp, Meeting& meeting);
  void complete_shuffle(int warp, std::uint32_t mask);
  void add_matrix_product(const std::array<std::uint64_t, kWarp>& fragments);
  void add_sparse_product(const std::array<std::uint64_t, kWarp>& fragments);
  void on_lane_exit(int thread);
  void release_warpgroup_barrier(int warpgroup);
  void check_is_shown(int first, std::uint32_t at, int rows);
  void start_product(int warp, const std::array<std::uint64_t, kWarp>& operands);
  void complete_products(int warp, std::size_t in_flight);
  static void show_sums(const WarpgroupProduct& product);
  static void hide_sums(WarpgroupProduct& product);
  // 16 elements of 16 bits of row `row` of an operand in shared memory.
  std::array<float, 16> operand_row(std::uint32_t at, std::size_t row, bool bfloat16);
  void add_product(int warp, const WarpgroupProduct& product);
  void check_products_are_complete();

  static void on_violation(void* context, const Violation& violation);
  std::string describe(const Violation& violation) const;
  std::string describe_address(std::uint64_t address, std::uint32_t bytes) const;
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
  int at_cluster_barrier_ = 0;          // that have arrived
  std::uint32_t cluster_barriers_ = 0;  // that are complete
  std::array<int, AccessChecker::kMaxThreads / kWarpgroup> at_warpgroup_barrier_{};
  std::vector<int> ready_;  // a ring of a power of two of entries
  std::size_t ready_head_ = 0;
  std::size_t ready_count_ = 0;
  std::uint64_t switches_left_ = 0;
  Fiber main_;
  Status fault_;
};

// The block whose kernel runs on this OS thread.
extern thread_local ThreadBlock* running_block;

}  // namespace sparsmith
