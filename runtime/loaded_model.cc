#include "runtime/loaded_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

namespace sparsmith {
namespace {

constexpr std::size_t kArrayAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment; }

// Where each array of each packing lies.
using Addresses = std::map<std::pair<const TunedPacking*, std::string>, DeviceAddress>;

Result<Addresses> upload(const TunedContents& contents, LoadedModel& model) {
  std::size_t total = 0;
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedPacking& packing : weight.packings) {
      // An array without elements still has an address of its own.
      for (const TunedArray& array : packing.arrays) total += aligned(std::max<std::size_t>(array.bytes.size(), 1));
    }
  }
  SPARSMITH_ASSIGN_OR_RETURN(model.weights, DeviceBuffer::allocate(model.context, total));
  const CudaDriver& driver = model.context->driver();
  Addresses addresses;
  DeviceAddress next = model.weights.address();
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedPacking& packing : weight.packings) {
      for (const TunedArray& array : packing.arrays) {
        addresses[{&packing, array.name}] = next;
        if (!array.bytes.empty()) {
          SPARSMITH_RETURN_IF_ERROR(driver.check(driver.MemcpyHtoD(next, array.bytes.data(), array.bytes.size()),
                                                 fmt::format("copying weight {} to the device", weight.name)));
        }
        next += aligned(std::max<std::size_t>(array.bytes.size(), 1));
      }
    }
  }
  // The last copies may still be on their way from a staging buffer, on a stream that does not order before others.
  SPARSMITH_RETURN_IF_ERROR(driver.check(driver.CtxSynchronize(), "copying the weights to the device"));
  return addresses;
}

Status no_binary(const TunedKernel& kernel, const DeviceProperties& device) {
  std::vector<std::string> architectures;
  for (const TunedKernel::Binary& binary : kernel.binaries) architectures.push_back(binary.architecture);
  return unsupported(fmt::format(
      "it holds kernels for {}, none of which runs on this GPU ({}, sm_{}): tune on this machine, or with --arch sm_{}",
      architectures.empty() ? "no GPU" : fmt::format("{}", fmt::join(architectures, ", ")), device.name,
      device.compute_capability, device.compute_capability));
}

Status load_kernels(const TunedContents& contents, LoadedModel& model) {
  std::set<std::string_view> used;
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedChoice& choice : weight.choices) {
      for (const PlanStep& step : choice.plan.steps) {
        if (step.kind == PlanStep::Kind::kLaunch) used.insert(step.kernel);
      }
    }
  }
  for (const TunedKernel& kernel : contents.kernels) {
    if (!used.contains(kernel.name)) continue;
    const TunedKernel::Binary* binary = kernel.binary_for(model.context->properties().compute_capability);
    if (binary == nullptr) return no_binary(kernel, model.context->properties());
    SPARSMITH_ASSIGN_OR_RETURN(model.kernels[kernel.name],
                               KernelModule::load(model.context, kernel.name, binary->cubin, kernel.max_shared_bytes));
  }
  return {};
}

bool uses_alpha(const LaunchPlan& plan) {
  return std::ranges::any_of(plan.steps, [](const PlanStep& step) {
    if (step.kind == PlanStep::Kind::kMatmul) return !step.product.has_value();
    return std::ranges::any_of(step.arguments, [](const PlanArgument& argument) {
      return argument.kind == PlanArgument::Kind::kScalar && argument.name == "alpha";
    });
  });
}

Result<LoadedOperator::Choice> load_choice(const TunedWeight& weight, const TunedChoice& tuned,
                                           const LoadedModel& model, const Addresses& addresses) {
  const TunedPacking* packing = weight.packing(tuned.packing);
  PlanNames names;
  names.kernel = [&model](const std::string& name) -> const KernelModule* {
    const auto found = model.kernels.find(name);
    return found == model.kernels.end() ? nullptr : found->second.get();
  };
  names.packed = [&](const std::string& name) -> Result<DeviceAddress> {
    const auto found = addresses.find({packing, name});
    if (found == addresses.end()) return not_found(fmt::format("there is no packed array {}", name));
    return found->second;
  };
  names.facts = &packing->facts;
  names.compute_capability = model.context->properties().compute_capability;
  names.matmul = [&]() -> Result<std::shared_ptr<const DenseMatmul>> {
    SPARSMITH_ASSIGN_OR_RETURN(std::unique_ptr<DenseMatmul> matmul, DenseMatmul::create(model.context, weight.spec));
    return std::shared_ptr<const DenseMatmul>(std::move(matmul));
  };
  LoadedOperator::Choice choice;
  SPARSMITH_ASSIGN_OR_RETURN(choice.plan, BoundPlan::bind(tuned.plan, names));
  choice.uses_alpha = uses_alpha(tuned.plan);
  return choice;
}

}  // namespace

Result<std::shared_ptr<const LoadedModel>> LoadedModel::load(const TunedContents& contents,
                                                             std::shared_ptr<const CudaContext> context) {
  const auto model = std::make_shared<LoadedModel>();
  model->context = std::move(context);
  const CudaContext::Scope scope(*model->context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  SPARSMITH_RETURN_IF_ERROR(load_kernels(contents, *model));
  SPARSMITH_ASSIGN_OR_RETURN(const Addresses addresses, upload(contents, *model));
  for (const TunedWeight& weight : contents.weights) {
    LoadedOperator loaded;
    loaded.name = weight.name;
    loaded.spec = weight.spec;
    loaded.operands = weight.spec.operands();
    loaded.nnz = weight.nnz;
    loaded.gpu_bytes = weight.packed_bytes();
    loaded.members = weight.members;
    for (const TunedChoice& tuned : weight.choices) {
      Result<LoadedOperator::Choice> choice = load_choice(weight, tuned, *model, addresses);
      if (!choice.ok()) return choice.status().annotate("weight " + weight.name);
      loaded.buckets.push_back(tuned.tokens);
      loaded.choices.push_back(std::move(choice).value());
    }
    model->operators.push_back(std::move(loaded));
  }
  return std::shared_ptr<const LoadedModel>(model);
}

}  // namespace sparsmith
