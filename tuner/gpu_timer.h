// Times work on a GPU: CUDA graphs of launches that rotate over cold copies of the weight, replayed in turns.
#pragma once

#include <span>
#include <vector>

#include "runtime/cuda_context.h"
#include "tuner/timed_work.h"
#include "tuner/worker.h"

namespace sparsmith {

// How one work is to be replayed.
struct ReplayPlan {
  int copies = 1;    // of the weight
  bool warm = true;  // the copies stay in cache
  int launches = 1;  // in one replay; a multiple of copies where there is one graph
  int graphs = 1;    // replayed in turns, each over its own copies / graphs
  bool operator==(const ReplayPlan&) const = default;
};

// What a replay is planned from.
struct ReplayFigures {
  std::int64_t weight_bytes = 0;
  std::int64_t read_bytes = 0;  // of these, by a launch
  std::int64_t l2_bytes = 0;
  std::int64_t free_bytes = 0;  // of device memory
  int nodes = 1;                // of a launch
};

// The fewest copies of which more is read than three times L2; one, and warm, where that takes over 2,000 nodes or more
// memory than there is, or where the policy is warm. More, up to the policy's layers, where those fit.
ReplayPlan plan_copies(const ReplayFigures& figures, const TimingPolicy& policy);

// Adds to `plan` launches that make a replay long against the resolution of events, and so many replays fit the
// policy's time; or, where the policy says how many layers, at least so many. A weight of many copies is cold also
// where a replay reads a part of them: it gets as many graphs as leave each of them long enough, and a few copies more
// where these do not share them evenly.
ReplayPlan plan_launches(double launch_us, ReplayPlan plan, int nodes, const TimingPolicy& policy);

// The graph that the `index`-th of `cases` begins with, of `graphs` that all of them replay in turns: as far from the
// others' as can be.
int first_graph(int index, int cases, int graphs);

// Whether a case takes so much longer than the fastest that further replays of it would tell nothing.
bool is_hopeless(float median_us, float fastest_us);

// Median and quartiles of `samples_us`. REQUIRES: at least one.
Timing summarize(std::vector<float> samples_us, const ReplayPlan& plan);

// One thread at a time.
class GpuTimer {
 public:
  GpuTimer(const CudaContext& context, CUstream stream) : context_(context), stream_(stream) {}

  // Times all, interleaved replay by replay, each behind a launch of the same work that is not timed, after a replay of
  // each for warming up. What is three times slower than the fastest after three replays is not replayed further, and
  // what is over the policy's limit not at all. Error: kDeviceError when a launch fails.
  Result<std::vector<Timing>> time(std::span<TimedWork* const> works, const TimingPolicy& policy);

  // Microseconds of a launch, the mean of a few that follow each other without a graph, over `copies` of the weight.
  // Launches shorter than what it takes to submit one seem longer than they are.
  Result<double> time_launches(TimedWork& work, int copies);

 private:
  struct Case;
  Status prepare(const TimingPolicy& policy, Case& timed);
  // Makes graph `index` unless there is one.
  Status capture(Case& timed, int index);
  // Gives all cases one number of graphs and places them as far apart in the rotation as can be: cases may share their
  // copies, and what one has just read is warm for the next.
  static void spread(std::span<Case* const> cases);
  // Replays what was prepared as often as the policy says. REQUIRES: at least one.
  Status replay_all(std::vector<Case*> running, const TimingPolicy& policy);
  // Replays each of `cases` in turns, `rounds` times.
  Status replay(std::span<Case* const> cases, int rounds);
  Status check(CUresult result, const char* what) const { return context_.driver().check(result, what); }

  const CudaContext& context_;
  CUstream stream_;
};

}  // namespace sparsmith
