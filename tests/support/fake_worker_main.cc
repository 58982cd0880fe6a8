// A worker program over the fake executor, for tests of the client. It poses as an emulator, so that no reference
// kernel is sent, unless it is given an argument (as a GPU's worker is).
#include "tests/support/fake_executor.h"
#include "tuner/process/child_process.h"
#include "tuner/worker_server.h"

int main(int argc, char**) {
  sparsmith::FakeExecutor executor(/*is_emulator=*/argc <= 1);
  sparsmith::WorkerServer server(executor, nullptr);
  return sparsmith::serve_worker(sparsmith::MessageStream(sparsmith::ChildProcess::kChildSocket), server);
}
