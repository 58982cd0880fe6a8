// sparsmith-worker: loads, checks and times candidates on one GPU for a parent that talks to it over a socket. What a
// candidate breaks is this process.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "runtime/gpu_executor.h"
#include "tuner/child_process.h"
#include "tuner/gpu_timing_device.h"
#include "tuner/worker_server.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app("The worker process of sparsmith; started by `sparsmith`, not by hand.");
  int ordinal = 0;
  app.add_option("--device", ordinal, "Number of the GPU")->check(CLI::Range(0, 999));
  CLI11_PARSE(app, argc, argv);

  sparsmith::MessageStream stream(sparsmith::ChildProcess::kChildSocket);
  auto executor = sparsmith::GpuExecutor::create(ordinal);
  if (!executor.ok()) return sparsmith::refuse_to_serve(std::move(stream), executor.status());
  sparsmith::GpuTimingDevice timing(**executor);
  sparsmith::WorkerServer server(**executor, &timing);
  return sparsmith::serve_worker(std::move(stream), server);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {  // the parent sees that it has ended; its stderr is this one
    std::fprintf(stderr, "sparsmith-worker: %s\n", error.what());
    return 1;
  }
}
