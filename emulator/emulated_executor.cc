#include "emulator/emulated_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "emulator/device_memory.h"
#include "emulator/emulated_matmul.h"
#include "emulator/thread_block.h"
#include "runtime/plan_sizes.h"

namespace sparsmith {
namespace {

// The bytes of one argument's value.
struct ArgumentValue {
  alignas(64) std::array<std::byte, kTensorMapBytes> bits{};
  int bytes;

  template <class T>
  explicit ArgumentValue(T value) : bytes(sizeof(value)) {
    static_assert(sizeof(value) <= sizeof(bits));
    std::memcpy(bits.data(), &value, sizeof(value));
  }
};

class EmulatedExecutor : public Executor {
 public:
  static Result<std::unique_ptr<Executor>> create(const EmulatorOptions& options);

  const DeviceProperties& properties() const override { return properties_; }
  Result<DeviceAddress> allocate(std::size_t bytes) override { return memory_->allocate(bytes); }
  Status free(DeviceAddress address) override { return memory_->free(address); }
  Status write(DeviceAddress to, std::span<const std::byte> from) override { return memory_->write(to, from); }
  Status read(std::span<std::byte> to, DeviceAddress from) override { return memory_->read(to, from); }
  Status fill(DeviceAddress to, std::byte value, std::size_t bytes) override { return memory_->fill(to, value, bytes); }
  Status copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) override {
    return memory_->copy(to, from, bytes);
  }
  Status load(const KernelImage& kernel) override;
  Status run(const LaunchPlan& plan, const LaunchBindings& bindings) override;

 private:
  struct LoadedKernel {
    std::string source;
    std::unique_ptr<CpuKernel> code;
    std::int64_t max_shared_bytes = 0;
  };

  EmulatedExecutor() = default;
  Status run_launch(const PlanStep& step, const LaunchBindings& bindings);
  Status run_zero(const PlanStep& step, const LaunchBindings& bindings);
  Status set_sizes(const PlanStep& step, const LaunchBindings& bindings, const LoadedKernel& kernel,
                   KernelLaunch& launch);
  Result<ArgumentValue> bind(const PlanArgument& argument, const LaunchBindings& bindings) const;

  EmulatorOptions options_;
  DeviceProperties properties_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<ThreadBlock> block_;
  std::map<std::string, LoadedKernel> kernels_;
};

DeviceProperties emulator_properties(const EmulatorOptions& options) {
  DeviceProperties properties = typical_device(options.compute_capability);
  properties.name = "emulator";
  properties.compute_capability = options.compute_capability;
  properties.memory_bytes = static_cast<std::int64_t>(options.memory_bytes);
  properties.is_emulator = true;
  return properties;
}

Result<std::unique_ptr<Executor>> EmulatedExecutor::create(const EmulatorOptions& options) {
  std::unique_ptr<EmulatedExecutor> executor(new EmulatedExecutor());
  executor->options_ = options;
  executor->properties_ = emulator_properties(options);
  if (executor->options_.compiler == nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(executor->options_.compiler, make_system_compiler());
  }
  SPARSMITH_ASSIGN_OR_RETURN(executor->memory_, DeviceMemory::reserve(options.memory_bytes));
  SPARSMITH_ASSIGN_OR_RETURN(
      executor->block_, ThreadBlock::create(*executor->memory_, AccessChecker::kMaxThreads, options.schedule_seed));
  return std::unique_ptr<Executor>(std::move(executor));
}

Status EmulatedExecutor::load(const KernelImage& kernel) {
  const auto known = kernels_.find(kernel.name);
  if (known != kernels_.end() && known->second.source == kernel.source) {
    known->second.max_shared_bytes = kernel.max_shared_bytes;
    return {};
  }
  if (kernel.source.empty()) {
    return invalid_argument(fmt::format("kernel {} came without its source, which the emulator runs", kernel.name));
  }
  SPARSMITH_ASSIGN_OR_RETURN(std::unique_ptr<CpuKernel> code, options_.compiler->compile(kernel.name, kernel.source));
  kernels_[kernel.name] = {kernel.source, std::move(code), kernel.max_shared_bytes};
  return {};
}

Status EmulatedExecutor::run(const LaunchPlan& plan, const LaunchBindings& bindings) {
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    const Status status = step.kind == PlanStep::Kind::kZero     ? run_zero(step, bindings)
                          : step.kind == PlanStep::Kind::kMatmul ? emulated_matmul(step, bindings, *memory_)
                                                                 : run_launch(step, bindings);
    if (!status.ok()) return status.annotate(fmt::format("step {}", i));
  }
  return {};
}

Status EmulatedExecutor::run_zero(const PlanStep& step, const LaunchBindings& bindings) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t offset, step.zero_offset.evaluate(bindings.variables));
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t bytes, step.zero_bytes.evaluate(bindings.variables));
  if (offset < 0 || bytes < 0) return invalid_argument(fmt::format("zeroes {} bytes at offset {}", bytes, offset));
  return memory_->fill(bindings.workspace + static_cast<std::uint64_t>(offset), std::byte{0},
                       static_cast<std::uint64_t>(bytes));
}

// The limits are those of a GPU, but for what the emulator does not have.
Status EmulatedExecutor::set_sizes(const PlanStep& step, const LaunchBindings& bindings, const LoadedKernel& kernel,
                                   KernelLaunch& launch) {
  LaunchSizes sizes;
  const std::int64_t shared_bytes = std::max<std::int64_t>(kernel.max_shared_bytes, 48 * 1024);
  SPARSMITH_RETURN_IF_ERROR(evaluate_launch(step, bindings.variables, properties_.max_threads_per_block,
                                            std::min(shared_bytes, properties_.shared_bytes_per_block), sizes));
  launch.grid = sizes.grid;
  if (sizes.nothing_to_do()) return {};
  launch.cluster = sizes.cluster;
  launch.threads = static_cast<int>(sizes.block[0]);
  launch.shared_bytes = sizes.shared_bytes;
  if (sizes.block[1] != 1 || sizes.block[2] != 1) return unsupported("the emulator runs blocks of one dimension only");
  const std::int64_t blocks = sizes.cluster[0] * sizes.cluster[1] * sizes.cluster[2];
  if (blocks == 1) return {};
  if (properties_.compute_capability < 90)
    return unsupported(fmt::format("a cluster of {} blocks: sm_{} has none", blocks, properties_.compute_capability));
  const std::int64_t threads =
      (launch.threads + AccessChecker::kWarpgroup - 1) / AccessChecker::kWarpgroup * AccessChecker::kWarpgroup * blocks;
  if (threads > AccessChecker::kMaxThreads)
    return unsupported(
        fmt::format("a cluster of {} threads: the emulator takes {}", threads, AccessChecker::kMaxThreads));
  return {};
}

Result<ArgumentValue> EmulatedExecutor::bind(const PlanArgument& argument, const LaunchBindings& bindings) const {
  switch (argument.kind) {
    case PlanArgument::Kind::kPacked: {
      const auto found = std::ranges::find(bindings.packed, argument.name, &LaunchBindings::Packed::name);
      if (found == bindings.packed.end())
        return invalid_argument(fmt::format("no packed array '{}' is bound", argument.name));
      return ArgumentValue(found->address);
    }
    case PlanArgument::Kind::kOperand: {
      const DeviceAddress* address = bindings.operands.find(argument.name);
      if (address == nullptr) return invalid_argument(fmt::format("no operand '{}' is bound", argument.name));
      return ArgumentValue(*address);
    }
    case PlanArgument::Kind::kScalar: {
      const float* scalar = bindings.scalars.find(argument.name);
      if (scalar == nullptr) return invalid_argument(fmt::format("no scalar '{}' is bound", argument.name));
      return ArgumentValue(*scalar);
    }
    case PlanArgument::Kind::kTensorMap: {
      const DeviceAddress* address = bindings.operands.find(argument.name);
      const std::int64_t* line = bindings.variables.strides.find(argument.name);
      if (address == nullptr || line == nullptr)
        return invalid_argument(fmt::format("no operand '{}' is bound", argument.name));
      SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t elements, argument.value.evaluate(bindings.variables));
      if (*address % 16 != 0 || *line % 8 != 0) return ArgumentValue(ThreadBlock::TensorMap{});
      return ArgumentValue(ThreadBlock::TensorMap{*address, *line * 2, elements, bindings.variables.n, argument.box});
    }
    case PlanArgument::Kind::kWorkspace:
    case PlanArgument::Kind::kInt32:
    case PlanArgument::Kind::kInt64: break;
  }
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t value, argument.value.evaluate(bindings.variables));
  if (argument.kind == PlanArgument::Kind::kWorkspace) {
    return ArgumentValue(bindings.workspace + static_cast<DeviceAddress>(value));
  }
  if (argument.kind == PlanArgument::Kind::kInt64) return ArgumentValue(value);
  if (value != static_cast<std::int32_t>(value)) {
    return invalid_argument(fmt::format("argument {} = {} does not fit in 32 bits", argument.value.text(), value));
  }
  return ArgumentValue(static_cast<std::int32_t>(value));
}

std::vector<KernelLaunch::Name> names_of(const LaunchBindings& bindings) {
  std::vector<KernelLaunch::Name> names;
  for (const LaunchBindings::Packed& packed : bindings.packed) names.push_back({packed.name, packed.address});
  for (const auto& [name, address] : bindings.operands) names.push_back({std::string(name), address});
  names.push_back({"workspace", bindings.workspace});
  return names;
}

Status EmulatedExecutor::run_launch(const PlanStep& step, const LaunchBindings& bindings) {
  const auto found = kernels_.find(step.kernel);
  if (found == kernels_.end()) return invalid_argument(fmt::format("kernel {} was not loaded", step.kernel));
  KernelLaunch launch;
  launch.kernel = step.kernel;
  launch.code = found->second.code.get();
  const Status sizes = set_sizes(step, bindings, found->second, launch);
  if (!sizes.ok()) return sizes.annotate("kernel " + step.kernel);
  if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0) return {};

  const std::span<const int> parameters = launch.code->parameter_bytes();
  if (parameters.size() != step.arguments.size()) {
    return invalid_argument(fmt::format("kernel {} has {} parameters, its plan {} arguments", step.kernel,
                                        parameters.size(), step.arguments.size()));
  }
  std::vector<ArgumentValue> values;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Result<ArgumentValue> value = bind(step.arguments[i], bindings);
    if (!value.ok()) return value.status().annotate("kernel " + step.kernel);
    if (value->bytes != parameters[i]) {
      return invalid_argument(fmt::format("kernel {}: parameter {} has {} bytes, the plan's argument {}", step.kernel,
                                          i, parameters[i], value->bytes));
    }
    values.push_back(*value);
  }
  for (const ArgumentValue& value : values) launch.arguments.push_back(value.bits.data());
  launch.names = names_of(bindings);
  launch.programmatic = step.programmatic_launch;
  for (const auto& [name, address] : bindings.operands) launch.shared_with_previous.push_back(address);
  launch.shared_with_previous.push_back(bindings.workspace);
  const bool written = std::ranges::any_of(step.arguments, [&](const PlanArgument& argument) {
    const Result<std::int64_t> value = argument.value.evaluate(bindings.variables);
    return argument.value.uses_written() && value.ok() && *value != 0;
  });
  if (written)
    for (const LaunchBindings::Packed& array : bindings.packed) launch.shared_with_previous.push_back(array.address);
  return block_->run(launch, {.max_accesses = options_.max_accesses, .max_switches = options_.max_switches});
}

}  // namespace

Result<std::unique_ptr<Executor>> make_emulated_executor(const EmulatorOptions& options) {
  return EmulatedExecutor::create(options);
}

}  // namespace sparsmith
