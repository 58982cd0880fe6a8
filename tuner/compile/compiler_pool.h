// The kernel compiler in child processes. When the compiler crashes, hangs or takes all memory, only the kernel at work
// is lost. The next kernel gets a fresh child.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tuner/compile/kernel_compiler.h"
#include "tuner/process/child_channel.h"

namespace sparsmith {

// Thread-safe. Each call takes an idle child or starts a child. When the maximum number of children is at work, the
// call waits. Children stay for later calls. They end with the object or with this process, even when it crashes.
class CompilerPool : public KernelCompiler {
 public:
  struct Options {
    std::string program;                          // the compiler program; empty: the one installed beside this program
    int children = 0;                             // at most; 0: one per core
    std::chrono::milliseconds timeout{300'000};   // for one kernel
    std::int64_t max_resident_bytes = 2LL << 30;  // NVRTC leaks memory: a child above this limit is ended
    ChildChannel::InterruptedAt interrupted_at{};
  };
  // Starts the first child. Errors: kUnsupported when the program is missing; kNoDevice when it finds no libnvrtc;
  // kIoError or kDeviceError when it does not start properly.
  static Result<std::unique_ptr<CompilerPool>> open(const Options& options);
  ~CompilerPool() override;

  std::string version() const override { return version_; }

  // Further errors: kDeviceError when the child dies or hangs over the kernel: "compiling k: the compiler died of
  // signal 11 (Segmentation fault)", "compiling k: the compiler gave no answer within 300 s and was killed"; kIoError
  // or kNoDevice when several children in a row fail because of the machine (environment_fault.h): no child can be
  // started, or other processes kill them.
  Result<CompiledKernel> compile(const KernelSource& kernel, const std::string& architecture) const override;
  Result<std::string> ptx(const KernelSource& kernel, const std::string& architecture) const override;

  // The number of children that have ended or were ended so far.
  int ended_children() const;

 private:
  explicit CompilerPool(Options options);

  template <class Call>
  Result<typename Call::Reply> ask(const Call& call, const std::string& what, std::chrono::milliseconds timeout) const;
  Result<std::unique_ptr<ChildChannel>> start_child() const;
  Result<std::unique_ptr<ChildChannel>> take() const;
  void give_back(std::unique_ptr<ChildChannel> child) const;

  Options options_;
  std::string version_;
  mutable std::mutex mutex_;  // guards the members below
  mutable std::condition_variable given_back_;
  mutable std::vector<std::unique_ptr<ChildChannel>> idle_;
  mutable int children_ = 0;  // idle or at work
  mutable int ended_ = 0;
  mutable bool warned_ = false;
};

// The meaning of a compiler's error for the kernel. kNone: CompilerPool lost no child with this error.
enum class CompilerLoss : std::uint8_t { kNone, kDied, kLate };
CompilerLoss compiler_loss(const std::string& error_message);

}  // namespace sparsmith
