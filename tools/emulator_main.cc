// sparsmith-emulator: the worker process on the CPU. It checks candidates as the GPU's worker does; it times nothing.
// sparsmith-emulator-jit is the same program with clang in it.
#include "emulator/emulated_executor.h"
#ifdef SPARSMITH_EMULATOR_JIT
#include "emulator/jit_compiler.h"
#endif
#include "base/log.h"
#include "tuner/process/child_process.h"
#include "tuner/worker_server.h"

namespace {

sparsmith::EmulatorOptions emulator_options() {
  sparsmith::EmulatorOptions options;
#ifdef SPARSMITH_EMULATOR_JIT
  auto compiler = sparsmith::make_jit_compiler();
  if (compiler.ok()) {
    options.compiler = *std::move(compiler);
  } else {
    sparsmith::log_debug("the system's compiler takes the place of clang: {}", compiler.status().to_string());
  }
#endif
  return options;
}

}  // namespace

int main() {
  sparsmith::MessageStream stream(sparsmith::ChildProcess::kChildSocket);
  auto executor = sparsmith::make_emulated_executor(emulator_options());
  if (!executor.ok()) return sparsmith::refuse_to_serve(std::move(stream), executor.status());
  sparsmith::WorkerServer server(**executor, nullptr);
  return sparsmith::serve_worker(std::move(stream), server);
}
