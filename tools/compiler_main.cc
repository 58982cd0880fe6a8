// sparsmith-compiler: NVRTC in a process of its own, for a parent that talks to it over a socket. What a kernel's
// source breaks is this process. It needs no GPU.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "base/plant.h"
#include "generator/planted_faults.h"
#include "tuner/child_process.h"
#include "tuner/compiler_server.h"
#include "tuner/kernel_compiler.h"

namespace {

// The compiler of a build for tests, over some kernels.
class FaultyCompiler : public sparsmith::KernelCompiler {
 public:
  explicit FaultyCompiler(std::unique_ptr<KernelCompiler> compiler) : compiler_(std::move(compiler)) {}
  std::string version() const override { return compiler_->version(); }
  sparsmith::Result<sparsmith::CompiledKernel> compile(const sparsmith::KernelSource& kernel,
                                                       const std::string& architecture) const override {
    if constexpr (sparsmith::kPlants) sparsmith::obey_planted_fault(kernel.source);
    return compiler_->compile(kernel, architecture);
  }
  sparsmith::Result<std::string> ptx(const sparsmith::KernelSource& kernel,
                                     const std::string& architecture) const override {
    return compiler_->ptx(kernel, architecture);
  }

 private:
  std::unique_ptr<KernelCompiler> compiler_;
};

sparsmith::Result<std::unique_ptr<sparsmith::KernelCompiler>> open_compiler() {
  auto compiler = sparsmith::KernelCompiler::open();
  if (!sparsmith::kPlants || !compiler.ok()) return compiler;
  return std::unique_ptr<sparsmith::KernelCompiler>(std::make_unique<FaultyCompiler>(*std::move(compiler)));
}

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
  return sparsmith::serve_compiler(std::move(stream), open_compiler());
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
