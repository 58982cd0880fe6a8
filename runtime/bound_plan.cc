#include "runtime/bound_plan.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <limits>
#include <utility>

namespace sparsmith {
namespace {

constexpr std::size_t kMaxArguments = 64;
constexpr std::int64_t kMaxGridX = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxGridYz = 65'535;

using Sizes = std::array<std::int64_t, 3>;

Status evaluate(const std::array<IntegerExpression, 3>& expressions, const IntegerVariables& variables, Sizes& sizes) {
  for (std::size_t i = 0; i < 3; ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(sizes[i], expressions[i].evaluate(variables));
  }
  return {};
}

bool holds_zero(const Sizes& sizes) { return sizes[0] == 0 || sizes[1] == 0 || sizes[2] == 0; }

bool within(const Sizes& sizes, std::int64_t max_x, std::int64_t max_yz) {
  return sizes[0] >= 1 && sizes[0] <= max_x && sizes[1] >= 1 && sizes[1] <= max_yz && sizes[2] >= 1 &&
         sizes[2] <= max_yz;
}

// The value of a pointer or scalar parameter, in the bytes that the kernel reads.
Result<std::uint64_t> argument_value(PlanArgument::Kind kind, DeviceAddress packed, const IntegerExpression& value,
                                     const LaunchBindings& bindings) {
  const auto float_bits = [](float scalar) { return std::uint64_t{std::bit_cast<std::uint32_t>(scalar)}; };
  switch (kind) {
    case PlanArgument::Kind::kPacked: return packed;
    case PlanArgument::Kind::kX: return bindings.x;
    case PlanArgument::Kind::kY: return bindings.y;
    case PlanArgument::Kind::kBias: return bindings.bias;
    case PlanArgument::Kind::kResidual: return bindings.residual;
    case PlanArgument::Kind::kAlpha: return float_bits(bindings.alpha);
    case PlanArgument::Kind::kBeta: return float_bits(bindings.beta);
    case PlanArgument::Kind::kWorkspace:
    case PlanArgument::Kind::kInt32:
    case PlanArgument::Kind::kInt64: break;
  }
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t number, value.evaluate(bindings.variables));
  if (kind == PlanArgument::Kind::kWorkspace) {
    if (bindings.workspace == 0) return invalid_argument("it needs a workspace, and none was given");
    return bindings.workspace + static_cast<std::uint64_t>(number);
  }
  if (kind == PlanArgument::Kind::kInt32 && number != static_cast<std::int32_t>(number)) {
    return invalid_argument(fmt::format("argument {} = {} is beyond 32 bits", value.text(), number));
  }
  return static_cast<std::uint64_t>(number);  // little endian: the low bytes of an int stand first
}

}  // namespace

Result<BoundPlan> BoundPlan::bind(const LaunchPlan& plan, const PlanNames& names) {
  BoundPlan bound;
  bound.workspace_bytes_ = plan.workspace_bytes;
  for (const PlanStep& plan_step : plan.steps) {
    Step step;
    step.plan = plan_step;
    step.plan.arguments.clear();
    if (names.compute_capability < kProgrammaticFrom) step.plan.programmatic_launch = false;
    if (plan_step.kind == PlanStep::Kind::kLaunch) {
      step.kernel = names.kernel(plan_step.kernel);
      if (step.kernel == nullptr) return not_found(fmt::format("kernel {} is not loaded", plan_step.kernel));
      if (plan_step.arguments.size() > kMaxArguments) {
        return invalid_input(fmt::format("kernel {}: over {} arguments", plan_step.kernel, kMaxArguments));
      }
    }
    for (const PlanArgument& plan_argument : plan_step.arguments) {
      Argument argument{plan_argument.kind, 0, plan_argument.value};
      if (argument.kind == PlanArgument::Kind::kPacked) {
        Result<DeviceAddress> address = names.packed(plan_argument.name);
        if (!address.ok()) return address.status().annotate("kernel " + plan_step.kernel);
        argument.packed = *address;
      }
      step.arguments.push_back(std::move(argument));
    }
    bound.steps_.push_back(std::move(step));
  }
  return bound;
}

Result<std::int64_t> BoundPlan::workspace_bytes(const IntegerVariables& variables) const {
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t bytes, workspace_bytes_.evaluate(variables));
  if (bytes < 0) return internal_error(fmt::format("workspace {} is negative", workspace_bytes_.text()));
  return bytes;
}

Status BoundPlan::launch(const CudaDriver& driver, const LaunchBindings& bindings, CUstream stream) const {
  for (const Step& step : steps_) {
    if (step.plan.kind == PlanStep::Kind::kZero) {
      SPARSMITH_RETURN_IF_ERROR(launch_zero(driver, step, bindings, stream));
    } else if (const Status status = launch_kernel(driver, step, bindings, stream); !status.ok()) {
      return status.annotate("kernel " + step.plan.kernel);
    }
  }
  return {};
}

Status BoundPlan::launch_zero(const CudaDriver& driver, const Step& step, const LaunchBindings& bindings,
                              CUstream stream) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t offset, step.plan.zero_offset.evaluate(bindings.variables));
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t bytes, step.plan.zero_bytes.evaluate(bindings.variables));
  if (bytes == 0) return {};
  if (bytes < 0 || offset < 0 || bindings.workspace == 0) {
    return invalid_argument("a step that zeroes the workspace has no place to zero");
  }
  const CUresult result = driver.MemsetD8Async(bindings.workspace + static_cast<std::uint64_t>(offset), 0,
                                               static_cast<std::size_t>(bytes), stream);
  return result == CUDA_SUCCESS ? Status() : driver.check(result, "zeroing the workspace");
}

Status BoundPlan::launch_kernel(const CudaDriver& driver, const Step& step, const LaunchBindings& bindings,
                                CUstream stream) {
  Sizes grid{};
  Sizes block{};
  Sizes cluster{};
  SPARSMITH_RETURN_IF_ERROR(evaluate(step.plan.grid, bindings.variables, grid));
  if (holds_zero(grid)) return {};
  SPARSMITH_RETURN_IF_ERROR(evaluate(step.plan.block, bindings.variables, block));
  SPARSMITH_RETURN_IF_ERROR(evaluate(step.plan.cluster, bindings.variables, cluster));
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t shared_bytes, step.plan.shared_bytes.evaluate(bindings.variables));
  if (!within(grid, kMaxGridX, kMaxGridYz)) {
    return invalid_argument(fmt::format("a grid of {} x {} x {} blocks", grid[0], grid[1], grid[2]));
  }
  const std::int64_t max_threads = step.kernel->max_threads_per_block();
  if (!within(block, max_threads, max_threads) || block[0] * block[1] * block[2] > max_threads) {
    return invalid_argument(fmt::format("a block of {} x {} x {} threads; this kernel takes {}", block[0], block[1],
                                        block[2], max_threads));
  }
  if (shared_bytes < 0 || shared_bytes > step.kernel->max_shared_bytes()) {
    return invalid_argument(fmt::format("{} bytes of shared memory; this kernel was loaded for {}", shared_bytes,
                                        step.kernel->max_shared_bytes()));
  }

  std::array<std::uint64_t, kMaxArguments> values;
  std::array<void*, kMaxArguments> pointers;
  for (std::size_t i = 0; i < step.arguments.size(); ++i) {
    const Argument& argument = step.arguments[i];
    SPARSMITH_ASSIGN_OR_RETURN(values[i], argument_value(argument.kind, argument.packed, argument.value, bindings));
    pointers[i] = &values[i];
  }

  std::array<CUlaunchAttribute, 2> attributes{};
  unsigned attribute_count = 0;
  if (cluster != Sizes{1, 1, 1}) {
    if (!within(cluster, 16, 16)) return invalid_argument("a cluster of more than 16 blocks");
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
  const CUresult result = driver.LaunchKernelEx(&config, step.kernel->function(), pointers.data(), nullptr);
  return result == CUDA_SUCCESS ? Status() : driver.check(result, "launching");
}

}  // namespace sparsmith
