#include "runtime/loaded_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "base/parallel_for.h"
#include "formats/packed_format.h"
#include "formats/places.h"

namespace sparsmith {
namespace {

constexpr std::size_t kArrayAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment; }

std::size_t room_for(std::size_t bytes) {
  return aligned(std::max<std::size_t>(bytes, 1));  // an array without elements still has an address of its own
}

// What a packing has besides when new values can be written into it: places, and all its facts.
struct PlacesOfPacking {
  const TunedWeight* weight = nullptr;
  Facts facts;
  std::vector<PackedArray> arrays;
  Status status;
};
using AllPlaces = std::map<const TunedPacking*, PlacesOfPacking>;

Status find_places(const TunedPacking& packing, PlacesOfPacking& found) {
  PackedWeight packed = packed_weight_of(*found.weight, packing);
  SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, unpack(packed));
  SPARSMITH_ASSIGN_OR_RETURN(const Places places, places_of(packing.packing, matrix, packed.value_type));
  const auto own = std::ssize(packed.arrays);
  add_places(places, packed);
  found.facts = std::move(packed.facts);
  found.arrays.assign(std::make_move_iterator(packed.arrays.begin() + own),
                      std::make_move_iterator(packed.arrays.end()));
  return {};
}

Result<AllPlaces> find_all_places(const TunedContents& contents) {
  AllPlaces all;
  std::vector<AllPlaces::value_type*> each;
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedPacking& packing : weight.packings) {
      if (packing.writers.empty())
        return unsupported(
            fmt::format("weight {}: the file has no kernels that write values into packing {}: tune again", weight.name,
                        packing.packing));
      each.push_back(&*all.emplace(&packing, PlacesOfPacking{&weight, {}, {}, {}}).first);
    }
  }
  parallel_for(std::ssize(each), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) each[i]->second.status = find_places(*each[i]->first, each[i]->second);
  });
  for (const auto* found : each) {
    const Status& status = found->second.status;
    if (!status.ok()) return status.annotate("weight " + found->second.weight->name);
  }
  return all;
}

// Where each array of each packing lies.
using Addresses = std::map<std::pair<const TunedPacking*, std::string>, DeviceAddress>;

struct Upload {
  const TunedPacking* packing;
  const std::string* weight;
  const std::string* array;
  std::span<const std::byte> bytes;
};

std::vector<Upload> uploads_of(const TunedContents& contents, const AllPlaces& places) {
  std::vector<Upload> uploads;
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedPacking& packing : weight.packings) {
      for (const TunedArray& array : packing.arrays)
        uploads.push_back({&packing, &weight.name, &array.name, array.bytes});
      const auto found = places.find(&packing);
      if (found == places.end()) continue;
      for (const PackedArray& array : found->second.arrays)
        uploads.push_back({&packing, &weight.name, &array.name, array.bytes});
    }
  }
  return uploads;
}

Result<Addresses> upload(const std::vector<Upload>& uploads, const DeviceAllocator& allocator, LoadedModel& model) {
  std::size_t total = 0;
  for (const Upload& each : uploads) total += room_for(each.bytes.size());
  SPARSMITH_ASSIGN_OR_RETURN(model.memory, DeviceBuffer::allocate(model.context, total, allocator));
  const CudaDriver& driver = model.context->driver();
  Addresses addresses;
  DeviceAddress next = model.memory.address();
  for (const Upload& each : uploads) {
    addresses[{each.packing, *each.array}] = next;
    if (!each.bytes.empty()) {
      SPARSMITH_RETURN_IF_ERROR(driver.check(driver.MemcpyHtoD(next, each.bytes.data(), each.bytes.size()),
                                             fmt::format("copying weight {} to the device", *each.weight)));
    }
    next += room_for(each.bytes.size());
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
    if (step.kind == PlanStep::Kind::kMatmul) return !step.product.has_value();
    return std::ranges::any_of(step.arguments, [](const PlanArgument& argument) {
      return argument.kind == PlanArgument::Kind::kScalar && argument.name == "alpha";
    });
  });
}

// Where plans of a packing lead.
PlanNames names_of(const TunedPacking& packing, const Facts& facts, const LoadedModel& model,
                   const Addresses& addresses) {
  PlanNames names;
  names.kernel = [&model](const std::string& name) -> const KernelModule* {
    const auto found = model.kernels.find(name);
    return found == model.kernels.end() ? nullptr : found->second.get();
  };
  names.packed = [&packing, &addresses](const std::string& name) -> Result<DeviceAddress> {
    const auto found = addresses.find({&packing, name});
    if (found == addresses.end()) return not_found(fmt::format("there is no packed array {}", name));
    return found->second;
  };
  names.facts = &facts;
  names.compute_capability = model.context->properties().compute_capability;
  return names;
}

Result<LoadedOperator> load_operator(const TunedWeight& weight, const TunedOperator& op, const LoadedModel& model,
                                     const Addresses& addresses) {
  LoadedOperator loaded;
  loaded.weight = weight.name;
  loaded.spec = op.spec;
  loaded.operands = op.spec.operands();
  loaded.members = weight.members;
  for (const TunedChoice& tuned : op.choices) {
    const TunedPacking& packing = *weight.packing(tuned.packing);
    PlanNames names = names_of(packing, packing.facts, model, addresses);
    names.matmul = [&]() -> Result<std::shared_ptr<const DenseMatmul>> {
      SPARSMITH_ASSIGN_OR_RETURN(std::unique_ptr<DenseMatmul> matmul,
                                 DenseMatmul::create(model.context, op.spec, /*exact=*/false));
      return std::shared_ptr<const DenseMatmul>(std::move(matmul));
    };
    LoadedOperator::Choice choice;
    SPARSMITH_ASSIGN_OR_RETURN(choice.plan, BoundPlan::bind(tuned.plan, names));
    choice.uses_alpha = uses_alpha(tuned.plan);
    loaded.buckets.push_back(tuned.tokens);
    loaded.choices.push_back(std::move(choice));
    loaded.chosen.push_back({tuned.tokens, tuned.config, tuned.packing,
                             tuned.evidence == TunedChoice::Evidence::kMeasured, tuned.median_us, tuned.dense_us});
  }
  return loaded;
}

Result<LoadedWeight> load_weight(const TunedWeight& weight, const AllPlaces& places, const LoadedModel& model,
                                 const Addresses& addresses) {
  LoadedWeight loaded;
  loaded.info = {weight.name, weight.rows, weight.cols, weight.type, weight.nnz, 0, 0, weight.members};
  for (const TunedPacking& packing : weight.packings) {
    for (const TunedArray& array : packing.arrays)
      loaded.info.gpu_bytes += static_cast<std::int64_t>(room_for(array.bytes.size()));
    const auto found = places.find(&packing);
    if (found == places.end()) continue;
    for (const PackedArray& array : found->second.arrays)
      loaded.info.places_bytes += static_cast<std::int64_t>(room_for(array.bytes.size()));
    for (const TunedWriter& writer : packing.writers) {
      SPARSMITH_ASSIGN_OR_RETURN(
          BoundPlan plan, BoundPlan::bind(writer.plan, names_of(packing, found->second.facts, model, addresses)));
      loaded.writers.push_back({writer.source, std::move(plan)});
    }
  }
  for (const TunedOperator& op : weight.operators) {
    SPARSMITH_ASSIGN_OR_RETURN(LoadedOperator one, load_operator(weight, op, model, addresses));
    loaded.operators.push_back(std::move(one));
  }
  return loaded;
}

}  // namespace

Status LoadedWeight::set_values(const CudaContext& context, const void* values, DataType source,
                                CUstream stream) const {
  if (writers.empty()) return invalid_argument("its model was not loaded for new values: set LoadOptions::updatable");
  if (values == nullptr) return invalid_argument("values is null");
  LaunchBindings bindings;
  bindings.operands.set(kWriterOperand, reinterpret_cast<DeviceAddress>(values));
  if (bindings.operands.value_or(kWriterOperand, 0) % size_of(source) != 0)
    return invalid_argument(fmt::format("values is not aligned to {} bytes", size_of(source)));
  bool any = false;
  for (const Writer& writer : writers) {  // nothing is launched where a later one is wrong
    if (writer.source != source) continue;
    SPARSMITH_RETURN_IF_ERROR(writer.plan.check(bindings));
    any = true;
  }
  if (!any)
    return invalid_argument(fmt::format("values of {} are not written into a weight of {}: only fp32 and its own type",
                                        short_name(source), short_name(info.type)));
  const CudaContext::Scope scope(context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  for (const Writer& writer : writers)
    if (writer.source == source) SPARSMITH_RETURN_IF_ERROR(writer.plan.launch(context.driver(), bindings, stream));
  return {};
}

Result<std::shared_ptr<const LoadedModel>> LoadedModel::load(const TunedContents& contents,
                                                             std::shared_ptr<const CudaContext> context,
                                                             const LoadOptions& options) {
  const auto model = std::make_shared<LoadedModel>();
  model->context = std::move(context);
  AllPlaces places;
  if (options.updatable) {
    SPARSMITH_ASSIGN_OR_RETURN(places, find_all_places(contents));
  }
  const CudaContext::Scope scope(*model->context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  SPARSMITH_RETURN_IF_ERROR(load_kernels(contents, options.updatable, *model));
  SPARSMITH_ASSIGN_OR_RETURN(const Addresses addresses,
                             upload(uploads_of(contents, places), options.allocator, *model));
  for (const TunedWeight& weight : contents.weights) {
    Result<LoadedWeight> loaded = load_weight(weight, places, *model, addresses);
    if (!loaded.ok()) return loaded.status().annotate("weight " + weight.name);
    model->weights.push_back(*std::move(loaded));
  }
  return std::shared_ptr<const LoadedModel>(model);
}

}  // namespace sparsmith
