// A launch plan made ready for one device: its kernels and packed arrays are looked up once. A launch then evaluates
// expressions, fills arguments and calls the driver. It does not allocate and does not look anything up. Internal.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/dense_matmul.h"
#include "runtime/executor.h"
#include "runtime/kernel_module.h"
#include "runtime/launch_plan.h"

namespace sparsmith {

// Look-ups for the names in a plan. A null pointer or an error means that the name does not exist.
struct PlanNames {
  std::function<const KernelModule*(const std::string&)> kernel;
  std::function<Result<DeviceAddress>(const std::string&)> packed;
  const Facts* facts = nullptr;  // of the packed weight; null: no facts
  // The dense product of the operator, for matmul steps.
  std::function<Result<std::shared_ptr<const DenseMatmul>>()> matmul;
  int compute_capability = 0;  // of the device; below 90, no step is launched programmatically
  // Whether earlier kernels of the stream may write the packed weight. Then the first step is launched programmatically
  // if it can be told so, by an argument of `written`, and no other first step is; nor is a step behind such a first
  // one that reads the packed weight and cannot be told.
  bool written = false;
};

// Immutable after bind(). Any number of threads may launch at the same time, each on its own stream. The kernels and
// arrays that bind() found must outlive the plan.
class BoundPlan {
 public:
  // An empty plan, which launches nothing.
  BoundPlan() = default;

  // Error: kNotFound for a kernel, array or fact that does not exist; kInvalidInput for too many arguments, and for
  // arguments that do not match the kernel's parameters.
  static Result<BoundPlan> bind(const LaunchPlan& plan, const PlanNames& names);

  Result<std::int64_t> workspace_bytes(const IntegerVariables& variables) const;

  // Ok when every step of a run with these bindings is within its limits and inside of a workspace of
  // workspace_bytes(). Error: kInvalidArgument.
  Status check(const LaunchBindings& bindings) const;

  // Puts every step on `stream`, or no step when check() has an error. The stream may be captured. Ignores
  // `bindings.packed`. REQUIRES: the context is current.
  Status launch(const CudaDriver& driver, const LaunchBindings& bindings, CUstream stream) const;

  bool empty() const { return steps_.empty(); }
  bool has_matmul() const;  // a plan with a matmul step needs bindings.scratch

 private:
  struct Argument {
    PlanArgument::Kind kind;
    DeviceAddress packed = 0;
    std::string name;  // name of an operand or a scalar
    IntegerExpression value;
    MapBox box;
  };
  struct Step {
    PlanStep plan;  // sizes and attributes; the arguments are in `arguments`
    const KernelModule* kernel = nullptr;
    std::vector<Argument> arguments;
    std::shared_ptr<const DenseMatmul> matmul;
    DeviceAddress weight = 0;  // the dense weight of `matmul`, unless it lies in the workspace
  };

  struct Launch;

  static Result<std::uint64_t> value_of(const Argument& argument, const LaunchBindings& bindings,
                                        std::int64_t workspace_bytes);
  // Checks each step. Also puts it on the stream when `driver` is not null. zero() and multiply() do the same for one
  // step.
  Status walk(const LaunchBindings& bindings, const CudaDriver* driver, CUstream stream) const;
  static Status zero(const CudaDriver* driver, const Step& step, const LaunchBindings& bindings, std::int64_t workspace,
                     CUstream stream);
  static Status multiply(const CudaDriver* driver, const Step& step, const LaunchBindings& bindings,
                         std::int64_t workspace, CUstream stream);
  static Status prepare(const CudaDriver* driver, const Step& step, const LaunchBindings& bindings,
                        std::int64_t workspace, Launch& launch);
  static Status launch_kernel(const CudaDriver& driver, const Step& step, Launch& launch, CUstream stream);

  std::vector<Step> steps_;
  IntegerExpression workspace_bytes_;
};

}  // namespace sparsmith
