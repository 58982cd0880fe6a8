// NVRTC: one program for each kernel name, with one fixed option string. Needs no GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ptxas_figures.h"
#include "generator/candidate.h"
#include "runtime/executor.h"
#include "runtime/launch_plan.h"
#include "sparsmith/status.h"

namespace sparsmith {

// A compiled kernel with the figures from ptxas.
struct CompiledKernel {
  std::string name;
  std::vector<std::byte> cubin;
  PtxasFigures figures;
  double seconds = 0;  // time of the compilation; 0: not compiled now
};

// A candidate's plan, with a binary for each kernel.
struct CompiledCandidate {
  LaunchPlan plan;
  std::string packing;
  std::vector<KernelImage> kernels;
};

// The architecture to compile a kernel for, when a binary for `architecture` is wanted: `architecture` itself, or
// "sm_90a" instead of "sm_90" when the kernel asks for it. Error: kUnsupported when the kernel is for other
// architectures.
Result<std::string> architecture_of(const KernelSource& kernel, const std::string& architecture);

// Thread-safe.
class KernelCompiler {
 public:
  // Opens libnvrtc and its builtins. Error: kNoDevice when a library is not found, with the folders that were searched.
  static Result<std::unique_ptr<KernelCompiler>> open();
  virtual ~KernelCompiler() = default;

  virtual std::string version() const = 0;  // "13.0"

  // `architecture`: "sm_80", "sm_90", "sm_90a", "sm_100"; see architecture_of(). Error: kInvalidInput with the first
  // lines of the compiler's log.
  virtual Result<CompiledKernel> compile(const KernelSource& kernel, const std::string& architecture) const = 0;

  // The same kernel as PTX, for readers. A virtual architecture ("compute_90") is enough.
  virtual Result<std::string> ptx(const KernelSource& kernel, const std::string& architecture) const;
};

// Reads the figures of the entry function `kernel` from a compiler's log in the format of `ptxas -v`. Error:
// kInvalidInput when the log has no such function, or does not state its registers.
Result<PtxasFigures> parse_ptxas_log(std::string_view log, std::string_view kernel);

}  // namespace sparsmith
