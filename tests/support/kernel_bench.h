// A place for tests to run small hand-written kernels in.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "emulator/emulated_executor.h"

namespace sparsmith {

// The compiler that this test program is about.
std::shared_ptr<CpuKernelCompiler> compiler_under_test();

// `body` behind snippets/device.cuh and what it includes, as the generator emits them.
std::string kernel_text(const std::string& body);

// The emulator with one kernel after the other; every array is a packed array of the plan, in order of addition.
class KernelBench {
 public:
  explicit KernelBench(EmulatorOptions options = {}) {
    options.compiler = compiler_under_test();
    Result<std::unique_ptr<Executor>> executor = make_emulated_executor(options);
    EXPECT_TRUE(executor.ok()) << executor.status().to_string();
    executor_ = std::move(executor).value();
  }

  Executor& executor() { return *executor_; }

  // An array of `count` elements; unwritten.
  template <class T>
  int add_unwritten(std::size_t count) {
    Result<DeviceAddress> address = executor_->allocate(count * sizeof(T));
    EXPECT_TRUE(address.ok()) << address.status().to_string();
    bindings_.packed.push_back({"array" + std::to_string(bindings_.packed.size()), *address});
    arguments_.push_back({PlanArgument::Kind::kPacked, bindings_.packed.back().name, 0});
    return static_cast<int>(bindings_.packed.size()) - 1;
  }
  template <class T>
  int add(const std::vector<T>& values) {
    const int array = add_unwritten<T>(values.size());
    EXPECT_TRUE(executor_->write(address(array), std::as_bytes(std::span(values))).ok());
    return array;
  }
  void add_int(std::int64_t value) { arguments_.push_back({PlanArgument::Kind::kInt32, "", value}); }

  DeviceAddress address(int array) const { return bindings_.packed[static_cast<std::size_t>(array)].address; }

  template <class T>
  std::vector<T> read(int array, std::size_t count) {
    std::vector<T> values(count);
    const Status status = executor_->read(std::as_writable_bytes(std::span(values)), address(array));
    EXPECT_TRUE(status.ok()) << status.to_string();
    return values;
  }

  // Runs `body`, which defines the kernel `test`, on the arrays and integers in the order they were added.
  Status run(const std::string& body, std::int64_t blocks, std::int64_t threads, std::int64_t shared_bytes = 0) {
    return run(body, std::array<std::int64_t, 3>{blocks, 1, 1}, threads, shared_bytes);
  }
  Status run(const std::string& body, const std::array<std::int64_t, 3>& grid, std::int64_t threads,
             std::int64_t shared_bytes = 0) {
    KernelImage image;
    image.name = "test";
    image.source = kernel_text(body);
    image.max_shared_bytes = shared_bytes;
    SPARSMITH_RETURN_IF_ERROR(executor_->load(image));
    PlanStep step;
    step.kernel = "test";
    step.grid = {grid[0], grid[1], grid[2]};
    step.block = {threads, 1, 1};
    step.shared_bytes = shared_bytes;
    step.arguments = arguments_;
    step.programmatic_launch = programmatic_launch;
    step.cluster = {cluster[0], cluster[1], cluster[2]};
    LaunchPlan plan;
    plan.steps = {step};
    return executor_->run(plan, bindings_);
  }

  bool programmatic_launch = false;
  std::array<std::int64_t, 3> cluster{1, 1, 1};
  LaunchBindings& bindings() { return bindings_; }
  std::vector<PlanArgument>& arguments() { return arguments_; }

 private:
  std::unique_ptr<Executor> executor_;
  LaunchBindings bindings_;
  std::vector<PlanArgument> arguments_;
};

}  // namespace sparsmith
