// sparsmith-emulator: the worker process on the CPU. It checks candidates as the GPU's worker does; it times nothing.
#include "emulator/emulated_executor.h"
#include "tuner/child_process.h"
#include "tuner/worker_server.h"

int main() {
  sparsmith::MessageStream stream(sparsmith::ChildProcess::kChildSocket);
  auto executor = sparsmith::make_emulated_executor();
  if (!executor.ok()) return sparsmith::refuse_to_serve(std::move(stream), executor.status());
  sparsmith::WorkerServer server(**executor, nullptr);
  return sparsmith::serve_worker(std::move(stream), server);
}
