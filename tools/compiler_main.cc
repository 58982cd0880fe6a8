// sparsmith-compiler: NVRTC in a process of its own, for a parent that talks to it over a socket. What a kernel's
// source breaks is this process. It needs no GPU.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "tuner/compile/compiler_calls.h"
#include "tuner/compile/kernel_compiler.h"
#include "tuner/process/child_process.h"

namespace {

// There is a compiler a core, and beside them workers and packers, which a device waits for.
void yield_to_devices() {
  constexpr int kNiceness = 10;
  setpriority(PRIO_PROCESS, 0, kNiceness);
}

int run(int argc, char** argv) {
  CLI::App app("The compiler process of sparsmith; started by `sparsmith`, not by hand.");
  CLI11_PARSE(app, argc, argv);
  yield_to_devices();
  sparsmith::MessageStream stream(sparsmith::ChildProcess::kChildSocket);
  return sparsmith::serve_compiler(std::move(stream), sparsmith::KernelCompiler::open());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {  // the parent sees that it has ended; its stderr is this one
    std::fprintf(stderr, "sparsmith-compiler: %s\n", error.what());
    return 1;
  }
}
