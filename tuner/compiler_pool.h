// The kernel compiler in child processes: a kernel over which the compiler crashes, hangs or takes all memory costs
// itself, and the next one has a fresh child.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tuner/child_channel.h"
#include "tuner/kernel_compiler.h"
#include "tuner/message.h"

namespace sparsmith {

// Thread-safe. Each call takes a child that is idle, or starts one; where there are as many as there may be, it waits.
// Children stay for later calls and end with the object, or with this process, however that ends.
class CompilerPool : public KernelCompiler {
 public:
  struct Options {
    std::string program;                          // the compiler program; empty: the one installed beside this program
    int children = 0;                             // at most; 0: one a core
    std::chrono::milliseconds timeout{300'000};   // for one kernel
    std::int64_t max_resident_bytes = 2LL << 30;  // NVRTC does not give back all it takes: a child over it is ended
    ChildChannel::InterruptedAt interrupted_at{};
  };
  // Starts the first child. Errors: kUnsupported when the program is missing; kNoDevice when it finds no libnvrtc;
  // kIoError or kDeviceError when it does not come up.
  static Result<std::unique_ptr<CompilerPool>> open(const Options& options);
  ~CompilerPool() override;

  std::string version() const override { return version_; }

  // Errors also: kDeviceError when the kernel cost a child: "compiling k: the compiler died of signal 11 (Segmentation
  // fault)", "compiling k: the compiler gave no answer within 300 s and was killed"; kIoError or kNoDevice when the
  // machine cost several children in a row (environment_fault.h): none can be started, or others kill them.
  Result<CompiledKernel> compile(const KernelSource& kernel, const std::string& architecture) const override;
  Result<std::string> ptx(const KernelSource& kernel, const std::string& architecture) const override;

  // Children that were ended, or ended by themselves, before this object was.
  int ended_children() const;

 private:
  class Child;
  explicit CompilerPool(Options options);

  template <class T>
  Result<T> ask_for(const OutgoingMessage& request, const std::string& kernel) const;
  Result<std::unique_ptr<Child>> start_child() const;
  Result<std::unique_ptr<Child>> take() const;
  void give_back(std::unique_ptr<Child> child) const;

  Options options_;
  std::string version_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable given_back_;
  mutable std::vector<std::unique_ptr<Child>> idle_;
  mutable int children_ = 0;  // idle and at work
  mutable int ended_ = 0;
  mutable bool warned_ = false;
};

// What a compiler's error means for the kernel. Anything that CompilerPool did not lose a child over is kNone.
enum class CompilerLoss : std::uint8_t { kNone, kDied, kLate };
CompilerLoss compiler_loss(const std::string& error_message);

}  // namespace sparsmith
