// NVRTC, on a pool of threads: one program per kernel name, one fixed option string. Needs no GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ptxas_figures.h"
#include "generator/candidate.h"
#include "sparsmith/status.h"

namespace sparsmith {

// A compiled kernel with what ptxas said of it.
struct CompiledKernel {
  std::string name;
  std::vector<std::byte> cubin;
  PtxasFigures figures;
  double seconds = 0;  // that compiling took; 0 where it did not run
};

// What a kernel is compiled for when binaries for `architecture` are asked for: that, or "sm_90a" instead of "sm_90"
// where the kernel says so. Error: kUnsupported for other architectures than it says.
Result<std::string> architecture_of(const KernelSource& kernel, const std::string& architecture);

// Thread-safe.
class KernelCompiler {
 public:
  // Opens libnvrtc and its builtins. Error: kNoDevice when one cannot be found, with where it was looked for.
  static Result<std::unique_ptr<KernelCompiler>> open();
  virtual ~KernelCompiler() = default;

  virtual std::string version() const = 0;  // "13.0"

  // `architecture`: "sm_80", "sm_90", "sm_90a", "sm_100"; see architecture_of(). Error: kInvalidInput with the first
  // lines of the compiler's log.
  virtual Result<CompiledKernel> compile(const KernelSource& kernel, const std::string& architecture) const = 0;

  // The same kernel as PTX, for those who want to read it; a virtual architecture ("compute_90") is enough.
  virtual Result<std::string> ptx(const KernelSource& kernel, const std::string& architecture) const;

  // Called after each kernel with how many of how many are done, by one thread at a time.
  using Progress = std::function<void(std::size_t done, std::size_t total)>;

  // Compiles each on a pool of `threads` (0: one a core); a failure is that kernel's alone. Kernels of one name are
  // compiled once.
  std::map<std::string, Result<CompiledKernel>> compile_all(std::span<const KernelSource> kernels,
                                                            const std::string& architecture, int threads,
                                                            const Progress& progress = {}) const;
};

}  // namespace sparsmith
