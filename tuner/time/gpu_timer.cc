#include "tuner/time/gpu_timer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
#include <utility>

namespace sparsmith {
namespace {

constexpr int kMaxNodes = 2000;       // of a graph that goes cold
constexpr int kMinLaunches = 8;       // of a replay, where time permits
constexpr double kReplayUs = 300;     // hides the gap of 1 or 2 us between replays
constexpr int kRoundsBeforeDrop = 3;  // then the hopeless are left out
constexpr float kHopeless = 3.0F;     // times slower than the fastest

struct Destroy {
  const CudaDriver* driver = nullptr;
  void operator()(CUevent event) const { driver->EventDestroy(event); }
  void operator()(CUgraphExec graph) const { driver->GraphExecDestroy(graph); }
};
using Event = std::unique_ptr<std::remove_pointer_t<CUevent>, Destroy>;
using Graph = std::unique_ptr<std::remove_pointer_t<CUgraphExec>, Destroy>;  // instantiated

// Records an event behind the work on the stream.
Result<Event> record(const CudaDriver& driver, CUstream stream) {
  CUevent event = nullptr;
  SPARSMITH_RETURN_IF_ERROR(driver.check(driver.EventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate"));
  Event recorded(event, {&driver});
  SPARSMITH_RETURN_IF_ERROR(driver.check(driver.EventRecord(event, stream), "cuEventRecord"));
  return recorded;
}

Result<double> microseconds_between(const CudaDriver& driver, const Event& start, const Event& stop) {
  float milliseconds = 0;
  SPARSMITH_RETURN_IF_ERROR(
      driver.check(driver.EventElapsedTime(&milliseconds, start.get(), stop.get()), "cuEventElapsedTime"));
  return milliseconds * 1000.0;
}

float median_of(std::vector<float> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

ReplayPlan plan_copies(const ReplayFigures& figures, const TimingPolicy& policy) {
  const ReplayPlan warm;
  if (!policy.cold_weights || figures.read_bytes <= 0) return warm;
  // The first copy is there already; half of what is free stays free.
  const auto fit = [&](std::int64_t count) {
    return count * std::max(figures.nodes, 1) <= kMaxNodes &&
           (count - 1) * figures.weight_bytes <= figures.free_bytes / 2;
  };
  const std::int64_t bytes = figures.read_bytes + figures.operand_bytes;
  std::int64_t copies = (3 * figures.l2_bytes + figures.operand_bytes) / bytes + 1;
  if (!fit(copies)) return warm;
  if (policy.layers > copies && fit(policy.layers)) copies = policy.layers;
  return {.copies = static_cast<int>(copies), .warm = false, .launches = static_cast<int>(copies)};
}

ReplayPlan plan_launches(double launch_us, ReplayPlan plan, int nodes, const TimingPolicy& policy) {
  plan.graphs = 1;
  if (policy.layers > 0) {
    plan.launches = (policy.layers + plan.copies - 1) / plan.copies * plan.copies;
    return plan;
  }
  launch_us = std::max(launch_us, 0.1);
  const double wanted = std::max<double>(kMinLaunches, kReplayUs / launch_us);
  const double affordable = policy.max_milliseconds * 1000 / (std::max(policy.min_replays, 1) + 1) / launch_us;
  const int of_a_graph = kMaxNodes / std::max(nodes, 1);
  const double most = std::min({wanted, affordable, static_cast<double>(of_a_graph)});
  plan.launches = std::max(1, static_cast<int>(std::ceil(most / plan.copies - 1e-9))) * plan.copies;
  plan.graphs = std::max(1, static_cast<int>(plan.copies / wanted));
  if (plan.graphs > 1) {
    plan.launches = (plan.copies + plan.graphs - 1) / plan.graphs;
    plan.copies = plan.launches * plan.graphs;
  }
  return plan;
}

int first_graph(int index, int cases, int graphs) { return cases <= graphs ? index * graphs / cases : index % graphs; }

bool is_hopeless(float median_us, float fastest_us) { return median_us > kHopeless * fastest_us; }

Timing summarize(std::vector<float> samples_us, const ReplayPlan& plan) {
  Timing timing;
  timing.samples_us = samples_us;
  timing.copies = plan.copies;
  timing.warm = plan.warm;
  std::sort(samples_us.begin(), samples_us.end());
  // Between the two nearest samples.
  const auto quantile = [&samples_us](double share) -> double {
    const double at = share * static_cast<double>(samples_us.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, samples_us.size() - 1);
    return samples_us[below] + (at - static_cast<double>(below)) * (samples_us[above] - samples_us[below]);
  };
  timing.median_us = quantile(0.5);
  timing.q1_us = quantile(0.25);
  timing.q3_us = quantile(0.75);
  return timing;
}

struct GpuTimer::Case {
  explicit Case(TimedWork& timed_work) : work(timed_work) {}

  // The graph whose turn is `turns` replays from now; -1: the one before, whose copies are needed last.
  int index(int turns) const { return (next + turns + plan.graphs) % plan.graphs; }

  TimedWork& work;
  ReplayPlan plan;
  int rounds = 0;             // that fit the policy
  std::vector<Graph> graphs;  // null until their first turn
  int next = 0;               // the graph whose turn it is
  std::vector<float> samples_us;
  bool too_slow = false;  // its sample is all that there will be
};

Result<double> GpuTimer::time_launches(TimedWork& work, int copies) {
  const CudaContext::Scope scope(context_);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  const CudaDriver& driver = context_.driver();
  SPARSMITH_RETURN_IF_ERROR(work.enqueue(stream_, 0));  // loads what is loaded at first use
  constexpr int kLaunches = 4;
  SPARSMITH_ASSIGN_OR_RETURN(const Event start, record(driver, stream_));
  for (int i = 0; i < kLaunches; ++i) SPARSMITH_RETURN_IF_ERROR(work.enqueue(stream_, i % copies));
  SPARSMITH_ASSIGN_OR_RETURN(const Event stop, record(driver, stream_));
  SPARSMITH_RETURN_IF_ERROR(driver.check(driver.EventSynchronize(stop.get()), "timing"));
  SPARSMITH_ASSIGN_OR_RETURN(const double elapsed, microseconds_between(driver, start, stop));
  return elapsed / kLaunches;
}

Status GpuTimer::prepare(const TimingPolicy& policy, Case& timed) {
  TimedWork& work = timed.work;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  SPARSMITH_RETURN_IF_ERROR(check(context_.driver().MemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo"));
  timed.plan = plan_copies({.weight_bytes = work.weight_bytes(),
                            .read_bytes = work.read_bytes(),
                            .l2_bytes = context_.properties().l2_bytes,
                            .free_bytes = static_cast<std::int64_t>(free_bytes),
                            .nodes = work.nodes(),
                            .operand_bytes = operand_bytes_},
                           policy);
  SPARSMITH_RETURN_IF_ERROR(work.make_copies(timed.plan.copies));
  SPARSMITH_ASSIGN_OR_RETURN(double launch_us, time_launches(work, timed.plan.copies));
  timed.too_slow = policy.limit_us > 0 && launch_us > policy.limit_us;
  if (timed.too_slow) {
    timed.samples_us = {static_cast<float>(launch_us)};
    return {};
  }
  // Launched one by one, short kernels seem longer than in a graph: a first graph tells how long they are.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const ReplayPlan plan = plan_launches(launch_us, timed.plan, work.nodes(), policy);
    if (attempt > 0 && plan.launches <= timed.plan.launches + timed.plan.launches / 2) break;
    timed.plan = plan;
    timed.next %= plan.graphs;
    SPARSMITH_RETURN_IF_ERROR(work.make_copies(plan.copies));
    timed.graphs.clear();
    timed.graphs.resize(plan.graphs);
    Case* const alone[] = {&timed};
    SPARSMITH_RETURN_IF_ERROR(replay(alone, 1));
    launch_us = timed.samples_us.back();
    timed.samples_us.clear();
  }
  const double replay_us = std::max(launch_us * timed.plan.launches, 1.0);
  timed.rounds =
      std::clamp(static_cast<int>(policy.max_milliseconds * 1000 / replay_us), 1, std::max(policy.min_replays, 1));
  return {};
}

Status GpuTimer::capture(Case& timed, int index) {
  if (timed.graphs[index] != nullptr) return {};
  const CudaDriver& driver = context_.driver();
  SPARSMITH_RETURN_IF_ERROR(
      check(driver.StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), "beginning a graph"));
  const int first = index * timed.plan.launches;
  Status status;
  for (int i = 0; i < timed.plan.launches && status.ok(); ++i)
    status = timed.work.enqueue(stream_, (first + i) % timed.plan.copies);
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  const CUresult ended = driver.StreamEndCapture(stream_, &graph);  // also after an error: it ends the capture
  if (status.ok()) status = check(ended, "ending a graph");
  if (status.ok()) status = check(driver.GraphInstantiate(&executable, graph, 0), "making a graph");
  timed.graphs[index] = Graph(executable, {&driver});
  // Now, and not in its first launch, which is timed.
  if (status.ok()) status = check(driver.GraphUpload(executable, stream_), "uploading a graph");
  if (graph != nullptr) driver.GraphDestroy(graph);
  return status;
}

void GpuTimer::spread(std::span<Case* const> cases) {
  int graphs = cases.front()->plan.graphs;
  for (const Case* const timed : cases) graphs = std::min(graphs, timed->plan.graphs);
  const int count = static_cast<int>(cases.size());
  const int start = cases.front()->next;
  for (int i = 0; i < count; ++i) {
    Case& timed = *cases[i];
    if (timed.plan.graphs != graphs) {
      timed.plan.graphs = graphs;
      timed.plan.launches = timed.plan.copies / graphs;
      timed.graphs.clear();
      timed.graphs.resize(graphs);
    }
    timed.next = (start + first_graph(i, count, graphs)) % graphs;
  }
}

Status GpuTimer::replay(std::span<Case* const> cases, int rounds) {
  Case& last = *cases.back();
  SPARSMITH_RETURN_IF_ERROR(capture(last, last.index(-1)));
  for (Case* const timed : cases)
    for (int round = 0; round < std::min(rounds, timed->plan.graphs); ++round)
      SPARSMITH_RETURN_IF_ERROR(capture(*timed, timed->index(round)));
  // All is queued at once: the GPU never waits for this thread. In front of each replay stands one launch that is not
  // timed, of the copy that the replay reads last: what the case before left in caches, and in what state it left the
  // GPU, is not this one's doing. (Without it, plans of two kernels took 1 us longer a launch where cuSPARSE had been
  // timed; why was not found.)
  const CudaDriver& driver = context_.driver();
  std::vector<Event> events;
  const auto replay_next = [&](Case& timed) -> Status {
    SPARSMITH_ASSIGN_OR_RETURN(events.emplace_back(), record(driver, stream_));
    SPARSMITH_RETURN_IF_ERROR(check(driver.GraphLaunch(timed.graphs[timed.next].get(), stream_), "replaying a graph"));
    SPARSMITH_ASSIGN_OR_RETURN(events.emplace_back(), record(driver, stream_));
    timed.next = timed.index(1);
    return {};
  };
  // Keeps the GPU busy while the rest is queued.
  SPARSMITH_RETURN_IF_ERROR(check(driver.GraphLaunch(last.graphs[last.index(-1)].get(), stream_), "replaying a graph"));
  for (int round = 0; round < rounds; ++round) {
    for (Case* const timed : cases) {
      const int first = timed->next * timed->plan.launches;
      const int before = (first + timed->plan.copies - 1) % timed->plan.copies;
      SPARSMITH_RETURN_IF_ERROR(timed->work.enqueue(stream_, before));
      SPARSMITH_RETURN_IF_ERROR(replay_next(*timed));
    }
  }
  SPARSMITH_RETURN_IF_ERROR(check(driver.EventSynchronize(events.back().get()), "timing"));
  for (std::size_t i = 0; i + 1 < events.size(); i += 2) {
    Case& timed = *cases[i / 2 % cases.size()];
    SPARSMITH_ASSIGN_OR_RETURN(const double replay_us, microseconds_between(driver, events[i], events[i + 1]));
    timed.samples_us.push_back(static_cast<float>(replay_us / timed.plan.launches));
  }
  return {};
}

Result<std::vector<Timing>> GpuTimer::time(std::span<TimedWork* const> works, const TimingPolicy& policy) {
  std::vector<Timing> timings;
  if (works.empty()) return timings;
  const CudaContext::Scope scope(context_);
  SPARSMITH_RETURN_IF_ERROR(scope.status());

  std::vector<std::unique_ptr<Case>> cases;
  std::vector<Case*> running;
  for (TimedWork* const work : works) {
    cases.push_back(std::make_unique<Case>(*work));
    SPARSMITH_RETURN_IF_ERROR(prepare(policy, *cases.back()));
    if (!cases.back()->too_slow) running.push_back(cases.back().get());
  }
  if (!running.empty()) SPARSMITH_RETURN_IF_ERROR(replay_all(std::move(running), policy));
  for (const auto& timed : cases) {
    timings.push_back(summarize(std::move(timed->samples_us), timed->plan));
    timings.back().too_slow = timed->too_slow;
  }
  return timings;
}

Status GpuTimer::replay_all(std::vector<Case*> running, const TimingPolicy& policy) {
  spread(running);
  const int first_rounds = std::clamp(policy.min_replays, 1, kRoundsBeforeDrop);
  SPARSMITH_RETURN_IF_ERROR(replay(running, first_rounds));
  float fastest = median_of(running.front()->samples_us);
  for (const Case* const timed : running) fastest = std::min(fastest, median_of(timed->samples_us));
  std::erase_if(running, [&](const Case* timed) { return is_hopeless(median_of(timed->samples_us), fastest); });

  spread(running);
  int rounds = policy.min_replays;
  for (const Case* const timed : running) rounds = std::min(rounds, timed->rounds);
  return rounds > first_rounds ? replay(running, rounds - first_rounds) : Status();
}

}  // namespace sparsmith
