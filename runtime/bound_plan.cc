#include "runtime/bound_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "runtime/plan_check.h"
#include "runtime/plan_sizes.h"

namespace sparsmith {
namespace {

constexpr std::size_t kMaxArguments = 64;
constexpr std::size_t kMaxTensorMaps = 2;

// The step without its arguments, and with the values of facts in its formulas.
Result<PlanStep> step_of(const PlanStep& plan_step, const Facts& facts) {
  PlanStep step = plan_step;
  step.arguments.clear();
  for (auto* sizes : {&step.grid, &step.block, &step.cluster}) {
    for (IntegerExpression& size : *sizes) {
      SPARSMITH_ASSIGN_OR_RETURN(size, size.with_facts(facts));
    }
  }
  for (std::optional<IntegerExpression>* offset : {&step.product, &step.weight}) {
    if (!*offset) continue;
    SPARSMITH_ASSIGN_OR_RETURN(*offset, (*offset)->with_facts(facts));
  }
  for (IntegerExpression* bytes : {&step.shared_bytes, &step.zero_offset, &step.zero_bytes}) {
    SPARSMITH_ASSIGN_OR_RETURN(*bytes, bytes->with_facts(facts));
  }
  return step;
}

// The map of a token-major operand (PlanArgument::Kind::kTensorMap).
Status encode_tensor_map(const CudaDriver& driver, const std::string& name, const IntegerExpression& value,
                         const MapBox& copied, const LaunchBindings& bindings, CUtensorMap& map) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t elements, value.evaluate(bindings.variables));
  const DeviceAddress* address = bindings.operands.find(name);
  const std::int64_t* line = bindings.variables.strides.find(name);
  if (address == nullptr || line == nullptr)
    return invalid_argument(fmt::format("the operator has no operand {}", name));
  map = {};
  if (bindings.variables.n == 0 || *address % 16 != 0 || *line % 8 != 0) return {};
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(elements), static_cast<cuuint64_t>(bindings.variables.n)};
  const cuuint64_t line_bytes[1] = {static_cast<cuuint64_t>(*line) * 2};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(copied.elements), static_cast<cuuint32_t>(copied.lines)};
  const bool narrow = copied.elements < 64;
  const cuuint32_t every[2] = {1, 1};
  return driver.check(
      driver.TensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, reinterpret_cast<void*>(*address), sizes,
                                  line_bytes, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                  narrow ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
                                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
      "describing operand " + name);
}

}  // namespace

// The value of a pointer or scalar parameter, in the bytes that the kernel reads.
Result<std::uint64_t> BoundPlan::value_of(const Argument& argument, const LaunchBindings& bindings,
                                          std::int64_t workspace_bytes) {
  const PlanArgument::Kind kind = argument.kind;
  if (kind == PlanArgument::Kind::kPacked) return argument.packed;
  if (kind == PlanArgument::Kind::kOperand) {
    const DeviceAddress* address = bindings.operands.find(argument.name);
    if (address == nullptr) return invalid_argument(fmt::format("the operator has no operand {}", argument.name));
    return *address;
  }
  if (kind == PlanArgument::Kind::kScalar) {
    const float* scalar = bindings.scalars.find(argument.name);
    if (scalar == nullptr) return invalid_argument(fmt::format("the operator has no scalar {}", argument.name));
    return std::uint64_t{std::bit_cast<std::uint32_t>(*scalar)};
  }
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t number,
                             evaluate_number(kind, argument.value, bindings.variables, workspace_bytes));
  if (kind == PlanArgument::Kind::kWorkspace) {
    if (bindings.workspace == 0 && workspace_bytes > 0) {
      return invalid_argument("it needs a workspace, and none was given");
    }
    return bindings.workspace + static_cast<std::uint64_t>(number);
  }
  return static_cast<std::uint64_t>(number);  // little endian: the low bytes of an int stand first
}

Result<BoundPlan> BoundPlan::bind(const LaunchPlan& plan, const PlanNames& names) {
  BoundPlan bound;
  static const Facts kNoFacts;
  const Facts& facts = names.facts == nullptr ? kNoFacts : *names.facts;
  SPARSMITH_ASSIGN_OR_RETURN(bound.workspace_bytes_, plan.workspace_bytes.with_facts(facts));
  for (const PlanStep& plan_step : plan.steps) {
    Step step;
    SPARSMITH_ASSIGN_OR_RETURN(step.plan, step_of(plan_step, facts));
    if (names.written) {
      const bool asks =
          std::ranges::any_of(plan_step.arguments, [](const auto& each) { return each.value.uses_written(); });
      const bool reads = std::ranges::count(plan_step.arguments, PlanArgument::Kind::kPacked, &PlanArgument::kind) > 0;
      if (bound.steps_.empty()) {
        step.plan.programmatic_launch = asks;
      } else if (reads && !asks && bound.steps_[0].plan.programmatic_launch) {
        step.plan.programmatic_launch = false;  // it would begin before the first step has waited
      }
    }
    if (names.compute_capability < kProgrammaticFrom) step.plan.programmatic_launch = false;
    if (plan_step.kind == PlanStep::Kind::kLaunch) {
      step.kernel = names.kernel(plan_step.kernel);
      if (step.kernel == nullptr) return not_found(fmt::format("kernel {} is not loaded", plan_step.kernel));
      if (plan_step.arguments.size() > kMaxArguments) {
        return invalid_input(fmt::format("kernel {}: over {} arguments", plan_step.kernel, kMaxArguments));
      }
      const auto maps = std::ranges::count(plan_step.arguments, PlanArgument::Kind::kTensorMap, &PlanArgument::kind);
      if (maps > static_cast<std::ptrdiff_t>(kMaxTensorMaps))
        return invalid_input(fmt::format("kernel {}: over {} tensor maps", plan_step.kernel, kMaxTensorMaps));
      SPARSMITH_RETURN_IF_ERROR(check_arguments(plan_step, step.kernel->parameters()));
    }
    for (const PlanArgument& plan_argument : plan_step.arguments) {
      Argument argument{plan_argument.kind, 0, plan_argument.name, {}, plan_argument.box};
      SPARSMITH_ASSIGN_OR_RETURN(argument.value, plan_argument.value.with_facts(facts, names.written ? 1 : 0));
      if (argument.kind == PlanArgument::Kind::kPacked) {
        Result<DeviceAddress> address = names.packed(plan_argument.name);
        if (!address.ok()) return address.status().annotate("kernel " + plan_step.kernel);
        argument.packed = *address;
      }
      step.arguments.push_back(std::move(argument));
    }
    if (plan_step.kind == PlanStep::Kind::kMatmul) {
      SPARSMITH_ASSIGN_OR_RETURN(step.matmul, names.matmul());
      if (plan_step.makes_gradient() == step.matmul->spec().multiplies_weight())
        return invalid_input(fmt::format("its product is none of {}", step.matmul->spec().name()));
      if (!plan_step.weight && !plan_step.makes_gradient()) {
        SPARSMITH_ASSIGN_OR_RETURN(step.weight, names.packed(plan_step.array));
      }
      if (!plan_step.product && !DenseMatmul::covers(step.matmul->spec())) {
        const OperatorSpec& spec = step.matmul->spec();
        return unsupported(fmt::format("cuBLASLt has no epilogue {} in layout {}, and the plan has no step for it",
                                       spec.epilogue.name(), layout_name(spec.layout)));
      }
    }
    bound.steps_.push_back(std::move(step));
  }
  return bound;
}

Result<std::int64_t> BoundPlan::workspace_bytes(const IntegerVariables& variables) const {
  return evaluate_workspace(workspace_bytes_, variables);
}

// The checked sizes and arguments of one launch, for the driver.
struct BoundPlan::Launch {
  LaunchSizes sizes;
  std::array<std::uint64_t, kMaxArguments> values;
  std::array<CUtensorMap, kMaxTensorMaps> maps;
};

Status BoundPlan::check(const LaunchBindings& bindings) const { return walk(bindings, nullptr, nullptr); }

Status BoundPlan::launch(const CudaDriver& driver, const LaunchBindings& bindings, CUstream stream) const {
  if (steps_.size() > 1) SPARSMITH_RETURN_IF_ERROR(check(bindings));  // nothing is launched where a later step is wrong
  return walk(bindings, &driver, stream);
}

Status BoundPlan::walk(const LaunchBindings& bindings, const CudaDriver* driver, CUstream stream) const {
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t workspace, workspace_bytes(bindings.variables));
  Launch launch;
  for (const Step& step : steps_) {
    Status status;
    if (step.plan.kind == PlanStep::Kind::kZero) {
      status = zero(driver, step, bindings, workspace, stream);
    } else if (step.plan.kind == PlanStep::Kind::kMatmul) {
      status = multiply(driver, step, bindings, workspace, stream);
    } else {
      status = prepare(driver, step, bindings, workspace, launch);
      if (status.ok() && driver != nullptr && !launch.sizes.nothing_to_do())
        status = launch_kernel(*driver, step, launch, stream);
      if (!status.ok()) return status.annotate("kernel " + step.plan.kernel);
    }
    if (!status.ok()) return status;
  }
  return {};
}

Status BoundPlan::zero(const CudaDriver* driver, const Step& step, const LaunchBindings& bindings,
                       std::int64_t workspace, CUstream stream) {
  SPARSMITH_ASSIGN_OR_RETURN(const ZeroedBytes zeroed, evaluate_zero(step.plan, bindings.variables, workspace));
  if (driver == nullptr || zeroed.bytes == 0) return {};
  if (bindings.workspace == 0) return invalid_argument("a step zeroes the workspace, and none was given");
  return driver->check(driver->MemsetD8Async(bindings.workspace + static_cast<std::uint64_t>(zeroed.offset), 0,
                                             static_cast<std::size_t>(zeroed.bytes), stream),
                       "zeroing the workspace");
}

bool BoundPlan::has_matmul() const {
  return std::ranges::any_of(steps_, [](const Step& step) { return step.matmul != nullptr; });
}

Status BoundPlan::multiply(const CudaDriver* driver, const Step& step, const LaunchBindings& bindings,
                           std::int64_t workspace, CUstream stream) {
  const OperatorSpec& spec = step.matmul->spec();
  if ((step.plan.product || step.plan.weight) && bindings.workspace == 0)
    return invalid_argument("it needs a workspace, and none was given");
  DeviceAddress product = 0;  // the step computes the whole operator
  if (step.plan.product) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t offset,
                               evaluate_product(step.plan, spec, bindings.variables, workspace));
    product = bindings.workspace + static_cast<std::uint64_t>(offset);
  }
  DeviceAddress weight = step.weight;
  if (step.plan.weight) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t offset,
                               evaluate_weight(step.plan, spec, bindings.variables, workspace));
    weight = bindings.workspace + static_cast<std::uint64_t>(offset);
  }
  return driver == nullptr ? Status() : step.matmul->enqueue(step.plan, weight, bindings, product, stream);
}

Status BoundPlan::prepare(const CudaDriver* driver, const Step& step, const LaunchBindings& bindings,
                          std::int64_t workspace, Launch& launch) {
  const KernelModule& kernel = *step.kernel;
  SPARSMITH_RETURN_IF_ERROR(evaluate_launch(step.plan, bindings.variables, kernel.max_threads_per_block(),
                                            kernel.max_shared_bytes(), launch.sizes));
  std::size_t maps = 0;
  for (std::size_t i = 0; !launch.sizes.nothing_to_do() && i < step.arguments.size(); ++i) {
    const Argument& argument = step.arguments[i];
    if (argument.kind == PlanArgument::Kind::kTensorMap) {
      if (driver == nullptr) continue;
      CUtensorMap& map = launch.maps[maps++];
      SPARSMITH_RETURN_IF_ERROR(encode_tensor_map(*driver, argument.name, argument.value, argument.box, bindings, map));
      continue;
    }
    SPARSMITH_ASSIGN_OR_RETURN(launch.values[i], value_of(argument, bindings, workspace));
  }
  return {};
}

Status BoundPlan::launch_kernel(const CudaDriver& driver, const Step& step, Launch& launch, CUstream stream) {
  const auto& [grid, block, cluster, shared_bytes] = launch.sizes;
  std::array<void*, kMaxArguments> pointers;
  std::size_t maps = 0;
  for (std::size_t i = 0; i < step.arguments.size(); ++i) {
    const bool map = step.arguments[i].kind == PlanArgument::Kind::kTensorMap;
    pointers[i] = map ? static_cast<void*>(&launch.maps[maps++]) : &launch.values[i];
  }

  std::array<CUlaunchAttribute, 2> attributes{};
  unsigned attribute_count = 0;
  if (cluster != LaunchSizes::Sizes{1, 1, 1}) {
    CUlaunchAttribute& attribute = attributes[attribute_count++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = static_cast<unsigned>(cluster[0]);
    attribute.value.clusterDim.y = static_cast<unsigned>(cluster[1]);
    attribute.value.clusterDim.z = static_cast<unsigned>(cluster[2]);
  }
  if (step.plan.programmatic_launch) {
    CUlaunchAttribute& attribute = attributes[attribute_count++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(grid[0]);
  config.gridDimY = static_cast<unsigned>(grid[1]);
  config.gridDimZ = static_cast<unsigned>(grid[2]);
  config.blockDimX = static_cast<unsigned>(block[0]);
  config.blockDimY = static_cast<unsigned>(block[1]);
  config.blockDimZ = static_cast<unsigned>(block[2]);
  config.sharedMemBytes = static_cast<unsigned>(shared_bytes);
  config.hStream = stream;
  config.attrs = attributes.data();
  config.numAttrs = attribute_count;
  return driver.check(driver.LaunchKernelEx(&config, step.kernel->function(), pointers.data(), nullptr), "launching");
}

}  // namespace sparsmith
