// The compiler of a build with -DSPARSMITH_PLANTS=ON: it fails over kernels that are planted to break compilers.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tests/support/planted_faults.h"
#include "tuner/compile/kernel_compiler.h"

namespace sparsmith {

class FaultyCompiler : public KernelCompiler {
 public:
  explicit FaultyCompiler(std::unique_ptr<KernelCompiler> compiler) : compiler_(std::move(compiler)) {}
  std::string version() const override { return compiler_->version(); }
  Result<CompiledKernel> compile(const KernelSource& kernel, const std::string& architecture) const override {
    obey_planted_fault(kernel.source);
    return compiler_->compile(kernel, architecture);
  }
  Result<std::string> ptx(const KernelSource& kernel, const std::string& architecture) const override {
    return compiler_->ptx(kernel, architecture);
  }

 private:
  std::unique_ptr<KernelCompiler> compiler_;
};

inline Result<std::unique_ptr<KernelCompiler>> open_faulty_compiler() {
  SPARSMITH_ASSIGN_OR_RETURN(auto compiler, KernelCompiler::open());
  return std::unique_ptr<KernelCompiler>(std::make_unique<FaultyCompiler>(std::move(compiler)));
}

}  // namespace sparsmith
