// A compiler program without NVRTC, for tests of the pool: what is in a kernel's source is what becomes of it, and its
// binary is its name.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tuner/compile/compiler_calls.h"
#include "tuner/process/child_process.h"

namespace {

void leave_soon() {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  _exit(3);
}

class FakeCompiler : public sparsmith::KernelCompiler {
 public:
  std::string version() const override { return "0.1"; }
  sparsmith::Result<sparsmith::CompiledKernel> compile(const sparsmith::KernelSource& kernel,
                                                       const std::string& architecture) const override {
    const auto has = [&](const char* word) { return kernel.source.find(word) != std::string::npos; };
    if (has("slow")) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (has("crash")) {
      std::signal(SIGSEGV, SIG_DFL);  // which a sanitizer takes
      std::raise(SIGSEGV);
    }
    if (has("killed")) std::raise(SIGKILL);
    // The first time that a file is asked for.
    constexpr const char* kOnce = "once:";
    const std::size_t once = kernel.source.find(kOnce);
    if (once != std::string::npos) {
      const std::string file = kernel.source.substr(once + std::strlen(kOnce));
      if (mkdir(file.c_str(), 0700) == 0) std::raise(SIGKILL);
    }
    if (has("later")) std::thread(leave_soon).detach();
    if (has("leave")) _exit(3);
    while (has("hang")) std::this_thread::sleep_for(std::chrono::hours(1));
    if (has("nonsense")) (void)write(sparsmith::ChildProcess::kChildSocket, "this is no frame", 16);
    if (has("grow")) kept_.resize(kept_.size() + (std::size_t{64} << 20), 'x');
    if (has("broken")) return sparsmith::invalid_input(kernel.name + " does not compile for " + architecture);
    sparsmith::CompiledKernel compiled;
    compiled.name = kernel.name;
    compiled.figures.registers = 32;
    const auto* const name = reinterpret_cast<const std::byte*>(kernel.name.data());
    compiled.cubin.assign(name, name + kernel.name.size());
    return compiled;
  }

 private:
  mutable std::vector<char> kept_;
};

}  // namespace

int main() {
  const sparsmith::Result<std::unique_ptr<sparsmith::KernelCompiler>> compiler(std::make_unique<FakeCompiler>());
  return sparsmith::serve_compiler(sparsmith::MessageStream(sparsmith::ChildProcess::kChildSocket), compiler);
}
