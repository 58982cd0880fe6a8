// Times work on a GPU. The launches are in CUDA graphs, rotate over cold copies of the weight, and are replayed in
// turns.
#pragma once

#include <span>
#include <vector>

#include "runtime/cuda_context.h"
#include "tuner/time/timing.h"

namespace sparsmith {

// Work on a GPU to be timed: a candidate's launch plan, or a call of a vendor library. One thread at a time, with the
// GPU's context current.
class TimedWork {
 public:
  virtual ~TimedWork() = default;

  // Bytes of one copy of the weight.
  virtual std::int64_t weight_bytes() const = 0;
  // Bytes of the weight that one launch reads.
  virtual std::int64_t read_bytes() const { return weight_bytes(); }
  // The maximum number of graph nodes of one launch.
  virtual int nodes() const = 0;
  // Makes copies of the weight until there are `count`, the first included. Other calls of this work may use these
  // copies.
  virtual Status make_copies(int count) = 0;
  // Puts one launch on `stream` and does not wait. The launch reads copy `copy`. The stream may be captured.
  virtual Status enqueue(CUstream stream, int copy) = 0;
};

// The plan of the replays of one work.
struct ReplayPlan {
  int copies = 1;    // of the weight
  bool warm = true;  // the copies stay in cache
  int launches = 1;  // in one replay; with one graph a multiple of `copies`
  int graphs = 1;    // replayed in turns; each has its own copies / graphs copies
  bool operator==(const ReplayPlan&) const = default;
};

// The figures that plan_copies() uses.
struct ReplayFigures {
  std::int64_t weight_bytes = 0;
  std::int64_t read_bytes = 0;  // part of weight_bytes that a launch reads
  std::int64_t l2_bytes = 0;
  std::int64_t free_bytes = 0;     // of device memory
  int nodes = 1;                   // of a launch
  std::int64_t operand_bytes = 0;  // that a launch reads and writes besides the weight
};

// The smallest number of copies such that more than three times L2 pass from the begin of a copy's use to its next one;
// or as many as the policy's layers, when these are more and fit. One warm copy when the policy is warm, or when the
// copies need more than 2,000 nodes or more than half of the free memory.
ReplayPlan plan_copies(const ReplayFigures& figures, const TimingPolicy& policy);

// Sets the launches of `plan`. A replay is long compared with the resolution of events, and the policy's replays fit
// its time. When the policy gives a number of layers, there are at least as many launches. A weight of many copies
// stays cold when each replay reads only a part of them. So it gets several graphs, each long enough, and a few more
// copies when the graphs cannot share them evenly.
ReplayPlan plan_launches(double launch_us, ReplayPlan plan, int nodes, const TimingPolicy& policy);

// The first graph of case `index`. Each of `cases` cases replays `graphs` graphs in turns. The first graphs are as far
// apart as possible.
int first_graph(int index, int cases, int graphs);

// Whether a case is so much slower than the fastest that further replays of it are useless.
bool is_hopeless(float median_us, float fastest_us);

// Median and quartiles of `samples_us`. REQUIRES: at least one.
Timing summarize(std::vector<float> samples_us, const ReplayPlan& plan);

// One thread at a time.
class GpuTimer {
 public:
  GpuTimer(const CudaContext& context, CUstream stream) : context_(context), stream_(stream) {}

  // Times all works, interleaved replay by replay. Each work is replayed once before to warm up. An untimed launch of
  // the same work precedes each timed replay. A work that is three times slower than the fastest after three replays is
  // not replayed further. A work over the policy's limit is not replayed. Error: kDeviceError when a launch fails.
  Result<std::vector<Timing>> time(std::span<TimedWork* const> works, const TimingPolicy& policy);

  // Bytes of X, Y and other operands besides the weight, of a launch of the next works.
  void set_operand_bytes(std::int64_t bytes) { operand_bytes_ = bytes; }

  // Microseconds of a launch: the mean of a few launches without a graph, over `copies` of the weight. A launch that is
  // shorter than its submission seems longer than it is.
  Result<double> time_launches(TimedWork& work, int copies);

 private:
  struct Case;
  Status prepare(const TimingPolicy& policy, Case& timed);
  // Makes graph `index` unless it exists.
  Status capture(Case& timed, int index);
  // Gives all cases the same number of graphs, with first graphs as far apart as possible. Reason: cases may share
  // copies, and a copy that one case has just read is warm for the next case.
  static void spread(std::span<Case* const> cases);
  // Replays the prepared cases as often as the policy demands. REQUIRES: at least one case.
  Status replay_all(std::vector<Case*> running, const TimingPolicy& policy);
  // Replays each of `cases` in turns, `rounds` times.
  Status replay(std::span<Case* const> cases, int rounds);
  Status check(CUresult result, const char* what) const { return context_.driver().check(result, what); }

  const CudaContext& context_;
  CUstream stream_;
  std::int64_t operand_bytes_ = 0;
};

}  // namespace sparsmith
