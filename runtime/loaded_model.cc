#include "runtime/loaded_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "formats/packed_format.h"
#include "formats/packed_reader.h"
#include "formats/places.h"

namespace sparsmith {
namespace {

std::size_t room_for(std::size_t bytes) {
  return static_cast<std::size_t>(array_room(static_cast<std::int64_t>(bytes)));
}

// A packing on its way to the device.
struct DevicePacking {
  const TunedWeight* weight = nullptr;
  const TunedPacking* packing = nullptr;
  WriterArrays written{};            // where new values can be written into it
  std::vector<TunedArray> arrays{};  // the packing's, and behind them the places
  std::map<std::string, DeviceAddress> addresses{};
};
using DevicePackings = std::map<const TunedPacking*, DevicePacking>;

Result<DevicePackings> find_packings(const TunedContents& contents, bool updatable) {
  DevicePackings all;
  std::vector<DevicePacking*> each;
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedPacking& packing : weight.packings)
      each.push_back(&all.emplace(&packing, DevicePacking{.weight = &weight, .packing = &packing}).first->second);
  }
  SPARSMITH_RETURN_IF_ERROR(check_each(updatable ? std::ssize(each) : 0, 1, 0, [&](std::int64_t i) -> Status {
    SPARSMITH_ASSIGN_OR_RETURN(each[i]->written, writer_arrays(*each[i]->weight, *each[i]->packing));
    return {};
  }));
  for (DevicePacking* packing : each) {
    packing->arrays = packing->packing->arrays;
    for (const PackedArray& array : packing->written.places)
      packing->arrays.push_back({array.name, array.type, array.bytes});
  }
  return all;
}

Status upload(const TunedContents& contents, const DeviceAllocator& allocator, LoadedModel& model,
              DevicePackings& packings) {
  std::size_t total = 0;
  for (const auto& [key, packing] : packings)
    for (const TunedArray& array : packing.arrays) total += room_for(array.bytes.size());
  total = std::max(total, room_for(1));  // weights without nonzeros have an address, too
  SPARSMITH_ASSIGN_OR_RETURN(model.memory, DeviceBuffer::allocate(model.context, total, allocator));
  const CudaDriver& driver = model.context->driver();
  DeviceAddress next = model.memory.address();
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedPacking& of_weight : weight.packings) {
      DevicePacking& packing = packings.at(&of_weight);
      for (const TunedArray& array : packing.arrays) {
        packing.addresses[array.name] = next;
        if (!array.bytes.empty())
          SPARSMITH_RETURN_IF_ERROR(driver.check(driver.MemcpyHtoD(next, array.bytes.data(), array.bytes.size()),
                                                 fmt::format("copying weight {} to the device", weight.name)));
        next += room_for(array.bytes.size());
      }
    }
  }
  // The last copies may still be on their way from a staging buffer, on a stream that does not order before others.
  return driver.check(driver.CtxSynchronize(), "copying the weights to the device");
}

Status load_kernels(const TunedContents& contents, bool updatable, LoadedModel& model) {
  std::set<std::string_view> used;
  const auto use = [&used](const LaunchPlan& plan) {
    for (const PlanStep& step : plan.steps)
      if (step.kind == PlanStep::Kind::kLaunch) used.insert(step.kernel);
  };
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedOperator& op : weight.operators)
      for (const TunedChoice& choice : op.choices) use(choice.plan);
    for (const TunedPacking& packing : weight.packings)
      for (const TunedWriter& writer : packing.writers)
        if (updatable) use(writer.plan);
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
    if (step.kind == PlanStep::Kind::kMatmul) return !step.product || step.makes_gradient();
    return std::ranges::any_of(step.arguments, [](const PlanArgument& argument) {
      return argument.kind == PlanArgument::Kind::kScalar && argument.name == "alpha";
    });
  });
}

// The look-ups for the plans of a packing.
PlanNames names_of(const DevicePacking& packing, const Facts& facts, const LoadedModel& model) {
  PlanNames names;
  names.kernel = [&model](const std::string& name) -> const KernelModule* {
    const auto found = model.kernels.find(name);
    return found == model.kernels.end() ? nullptr : found->second.get();
  };
  names.packed = [&packing](const std::string& name) -> Result<DeviceAddress> {
    const auto found = packing.addresses.find(name);
    if (found == packing.addresses.end()) return not_found(fmt::format("there is no packed array {}", name));
    return found->second;
  };
  names.facts = &facts;
  names.compute_capability = model.context->properties().compute_capability;
  return names;
}

Result<LoadedWeight> load_weight(const TunedWeight& weight, const LoadedModel& model, const DevicePackings& packings) {
  LoadedWeight loaded;
  loaded.info = {weight.name, weight.rows, weight.cols, weight.type, weight.nnz, 0, 0, weight.members};
  for (const TunedPacking& of_weight : weight.packings) {
    const DevicePacking& packing = packings.at(&of_weight);
    for (std::size_t i = 0; i < packing.arrays.size(); ++i)
      (i < of_weight.arrays.size() ? loaded.info.gpu_bytes : loaded.info.places_bytes) +=
          static_cast<std::int64_t>(room_for(packing.arrays[i].bytes.size()));
    if (packing.written.places.empty()) continue;
    for (const TunedWriter& writer : of_weight.writers) {
      SPARSMITH_ASSIGN_OR_RETURN(BoundPlan plan,
                                 BoundPlan::bind(writer.plan, names_of(packing, packing.written.facts, model)));
      loaded.writers.push_back({of_weight.packing, writer.source, std::move(plan)});
    }
  }
  for (const TunedOperator& op : weight.operators) {
    SPARSMITH_ASSIGN_OR_RETURN(LoadedOperator one,
                               LoadedOperator::bind(weight, op, model.context, [&](const TunedPacking& packing) {
                                 PlanNames names = names_of(packings.at(&packing), packing.facts, model);
                                 names.written = !loaded.writers.empty() && op.spec.multiplies_weight();
                                 return names;
                               }));
    loaded.operators.push_back(std::move(one));
  }
  return loaded;
}

}  // namespace

Status no_binary(const TunedKernel& kernel, const DeviceProperties& device) {
  std::vector<std::string> architectures;
  for (const TunedKernel::Binary& binary : kernel.binaries) architectures.push_back(binary.architecture);
  return unsupported(fmt::format(
      "it holds kernels for {}, none of which runs on this GPU ({}, sm_{}): tune on this machine, or with --arch sm_{}",
      architectures.empty() ? "no GPU" : fmt::format("{}", fmt::join(architectures, ", ")), device.name,
      device.compute_capability, device.compute_capability));
}

Result<WriterArrays> writer_arrays(const TunedWeight& weight, const TunedPacking& packing) {
  if (packing.writers.empty())
    return unsupported(fmt::format("weight {}: the file has no kernels that write values into packing {}: tune again",
                                   weight.name, packing.packing));
  PackedWeight packed = packed_weight_of(weight, packing);
  const Result<CsrMatrix> matrix = unpack(packed);
  if (!matrix.ok()) return matrix.status().annotate("weight " + weight.name);
  const Result<Places> places = places_of(packed.packing, *matrix, packed.value_type);
  if (!places.ok()) return places.status().annotate("weight " + weight.name);
  const auto own = std::ssize(packed.arrays);
  add_places(*places, packed);
  return WriterArrays{
      {std::make_move_iterator(packed.arrays.begin() + own), std::make_move_iterator(packed.arrays.end())},
      std::move(packed.facts)};
}

Result<LoadedOperator> LoadedOperator::bind(const TunedWeight& weight, const TunedOperator& op,
                                            const std::shared_ptr<const CudaContext>& context,
                                            const std::function<PlanNames(const TunedPacking&)>& names) {
  LoadedOperator loaded;
  loaded.weight = weight.name;
  loaded.spec = op.spec;
  loaded.operands = op.spec.operands();
  loaded.members = weight.members;
  for (const TunedChoice& tuned : op.choices) {
    PlanNames of_packing = names(*weight.packing(tuned.packing));
    of_packing.matmul = [&]() -> Result<std::shared_ptr<const DenseMatmul>> {
      SPARSMITH_ASSIGN_OR_RETURN(std::unique_ptr<DenseMatmul> matmul,
                                 DenseMatmul::create(context, op.spec, /*exact=*/false));
      return std::shared_ptr<const DenseMatmul>(std::move(matmul));
    };
    LoadedOperator::Choice choice;
    SPARSMITH_ASSIGN_OR_RETURN(choice.plan, BoundPlan::bind(tuned.plan, of_packing));
    choice.uses_alpha = uses_alpha(tuned.plan);
    loaded.choices.push_back(std::move(choice));
    loaded.chosen.push_back({tuned.tokens, tuned.config, tuned.packing,
                             tuned.evidence == TunedChoice::Evidence::kMeasured, tuned.median_us, tuned.dense_us});
  }
  return loaded;
}

Status LoadedWeight::set_values(const CudaContext& context, const void* values, DataType source, CUstream stream,
                                std::string_view packing, const void* workspace) const {
  const auto writes = [&](const Writer& writer) {
    return writer.source == source && (packing.empty() || writer.packing == packing);
  };
  if (writers.empty()) return invalid_argument("its model was not loaded for new values: set LoadOptions::updatable");
  if (values == nullptr) return invalid_argument("values is null");
  LaunchBindings bindings;
  bindings.workspace = reinterpret_cast<DeviceAddress>(workspace);
  const auto address = reinterpret_cast<DeviceAddress>(values);
  bindings.operands.set(writers[0].operand, address);
  const std::size_t alignment = writers[0].operand == kPrunedOperand ? 16 : size_of(source);
  if (address % alignment != 0)
    return invalid_argument(fmt::format("{} is not aligned to {} bytes", writers[0].operand, alignment));
  bool any = false;
  for (const Writer& writer : writers) {  // nothing is launched where a later one is wrong
    if (!writes(writer)) continue;
    SPARSMITH_RETURN_IF_ERROR(writer.plan.check(bindings));
    any = true;
  }
  if (!any)
    return invalid_argument(fmt::format("values of {} are not written into a weight of {}: only fp32 and its own type",
                                        short_name(source), short_name(info.type)));
  const CudaContext::Scope scope(context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  for (const Writer& writer : writers)
    if (writes(writer)) SPARSMITH_RETURN_IF_ERROR(writer.plan.launch(context.driver(), bindings, stream));
  return {};
}

Result<std::shared_ptr<const LoadedModel>> LoadedModel::load(const TunedContents& contents,
                                                             std::shared_ptr<const CudaContext> context,
                                                             const LoadOptions& options) {
  const auto model = std::make_shared<LoadedModel>();
  model->context = std::move(context);
  SPARSMITH_ASSIGN_OR_RETURN(DevicePackings packings, find_packings(contents, options.updatable));
  const CudaContext::Scope scope(*model->context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  SPARSMITH_RETURN_IF_ERROR(load_kernels(contents, options.updatable, *model));
  SPARSMITH_RETURN_IF_ERROR(upload(contents, options.allocator, *model, packings));
  for (const TunedWeight& weight : contents.weights) {
    Result<LoadedWeight> loaded = load_weight(weight, *model, packings);
    if (!loaded.ok()) return loaded.status().annotate("weight " + weight.name);
    model->weights.push_back(*std::move(loaded));
  }
  return std::shared_ptr<const LoadedModel>(model);
}

}  // namespace sparsmith
