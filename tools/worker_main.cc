// sparsmith-worker: loads, checks and times candidates on one GPU for a parent that talks to it over a socket. What a
// candidate breaks is this process.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <climits>
#include <cstdio>
#include <exception>

#include "runtime/gpu_executor.h"
#include "tuner/process/child_process.h"
#include "tuner/worker_server.h"

namespace {

// Weights of hundreds of megabytes come one after the other. With fresh pages for each, receiving them takes three
// times as long (0.26 s instead of 0.09 for 200 MB, on an x86-64 machine); so what was freed stays.
void keep_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

int run(int argc, char** argv) {
  CLI::App app("The worker process of sparsmith; started by `sparsmith`, not by hand.");
  int ordinal = 0;
  app.add_option("--device", ordinal, "Number of the GPU")->check(CLI::Range(0, 999));
  CLI11_PARSE(app, argc, argv);

  keep_memory();
  sparsmith::MessageStream stream(sparsmith::ChildProcess::kChildSocket);
  auto executor = sparsmith::GpuExecutor::create(ordinal);
  if (!executor.ok()) return sparsmith::refuse_to_serve(std::move(stream), executor.status());
  const auto timing = sparsmith::make_gpu_timing_device(**executor);
  sparsmith::WorkerServer server(**executor, timing.get());
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
