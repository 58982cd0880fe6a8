#include "python/native/plan_registry.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "formats/packed_reader.h"
#include "formats/pattern_room.h"
#include "runtime/training_memory.h"

namespace sparsmith::torch {
namespace {

// What the writers of each packing of each weight read. A packing whose values no operator reads has none.
Result<std::vector<std::vector<WriterArrays>>> written_arrays(const TunedContents& contents) {
  std::vector<std::vector<WriterArrays>> all;
  std::vector<std::pair<std::size_t, std::size_t>> written;  // weight, packing
  for (const TunedWeight& weight : contents.weights) {
    for (std::size_t i = 0; i < weight.packings.size(); ++i)
      if (multiplies(weight, weight.packings[i])) written.emplace_back(all.size(), i);
    all.emplace_back(weight.packings.size());
  }
  SPARSMITH_RETURN_IF_ERROR(check_each(std::ssize(written), 1, 0, [&](std::int64_t place) -> Status {
    const auto [w, i] = written[place];
    const TunedWeight& weight = contents.weights[w];
    SPARSMITH_ASSIGN_OR_RETURN(all[w][i], writer_arrays(weight, weight.packings[i]));
    return {};
  }));
  return all;
}

// Of each packing of each weight.
Result<std::vector<std::vector<PatternRoom>>> pattern_rooms(const TunedContents& contents, std::int64_t block) {
  std::vector<std::vector<PatternRoom>> all;
  for (const TunedWeight& weight : contents.weights) {
    if (weight.rows % block != 0 || weight.cols % block != 0)
      return invalid_argument(fmt::format("weight {}: {} x {} do not divide into blocks of {} x {}", weight.name,
                                          weight.rows, weight.cols, block, block));
    std::vector<PatternRoom>& rooms = all.emplace_back();
    for (const TunedPacking& packing : weight.packings) {
      std::vector<PackedArrayView> arrays;
      for (const TunedArray& array : packing.arrays) arrays.push_back({array.name, array.type, array.bytes});
      const PackedView view{packing.packing, packing.packer_version, weight.rows, weight.cols, weight.type,
                            arrays,          &packing.facts};
      auto room = pattern_room(view, weight.nnz, block, multiplies(weight, packing));
      if (!room.ok())
        return room.status().annotate(
            fmt::format("weight {}: tune with --families bsr_wgmma,sampled_wgmma", weight.name));
      rooms.push_back(*std::move(room));
    }
  }
  return all;
}

}  // namespace

PlanRegistry& PlanRegistry::instance() {
  static PlanRegistry* const registry = new PlanRegistry;  // never destroyed: other libraries' threads may still run
  return *registry;
}

Result<std::vector<PlanRegistry::Added>> PlanRegistry::add(const TunedContents& contents, const std::string& file,
                                                           bool updatable, std::int64_t block) {
  std::map<std::string, std::shared_ptr<const PlanKernel>> kernels;
  std::vector<Added> all;
  for (const TunedWeight& weight : contents.weights) {
    const TunedOperator* const spmm = weight.op(OperatorKind::kSpmm);
    if (spmm == nullptr)
      return unsupported(
          fmt::format("{}: weight {} was not tuned for spmm, which a layer computes", file, weight.name));
    if (spmm->spec.layout != Layout::kTokenMajor)
      return unsupported(
          fmt::format("{}: weight {} was tuned for the layout feature_major; PyTorch's layers have "
                      "token_major: tune with --layout token_major",
                      file, weight.name));
  }
  std::vector<std::vector<WriterArrays>> written(contents.weights.size());
  std::vector<std::vector<PatternRoom>> rooms(contents.weights.size());
  if (block > 0) {
    auto found = pattern_rooms(contents, block);
    if (!found.ok()) return found.status().annotate(file);
    rooms = *std::move(found);
  } else if (updatable) {
    auto found = written_arrays(contents);
    if (!found.ok()) return found.status().annotate(file);
    written = *std::move(found);
  }
  for (std::size_t i = 0; i < contents.weights.size(); ++i) {
    const auto make = [&](Plan::Values values) {
      return std::make_shared<Plan>(contents, contents.weights[i], file, kernels, values, written[i], rooms[i]);
    };
    auto plan = make(block > 0 ? Plan::Values::kMoving : updatable ? Plan::Values::kWritten : Plan::Values::kConstant);
    auto pruned = Plan::can_prune(contents.weights[i]) ? make(Plan::Values::kPruned) : nullptr;
    all.push_back({std::move(plan), std::move(written[i]), std::move(pruned)});
  }
  const std::unique_lock lock(mutex_);
  for (Added& added : all)
    for (std::shared_ptr<Plan>* const plan : {&added.plan, &added.pruned})
      if (*plan != nullptr) *plan = plans_.try_emplace((*plan)->hash(), *plan).first->second;
  return all;
}

std::shared_ptr<Plan> PlanRegistry::find(std::int64_t hash) const {
  const std::shared_lock lock(mutex_);
  const auto found = plans_.find(hash);
  return found == plans_.end() ? nullptr : found->second;
}

Result<std::shared_ptr<const CudaContext>> PlanRegistry::context(int device) {
  const std::lock_guard lock(loading_);
  std::shared_ptr<const CudaContext>& context = contexts_[device];
  if (context == nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(context, CudaContext::open(device));
  }
  return context;
}

Result<std::shared_ptr<const KernelModule>> PlanRegistry::kernel(const std::shared_ptr<const CudaContext>& context,
                                                                 const PlanKernel& kernel) {
  const DeviceProperties& device = context->properties();
  const TunedKernel::Binary* const binary = kernel.kernel.binary_for(device.compute_capability);
  if (binary == nullptr) return no_binary(kernel.kernel, device);
  const std::lock_guard lock(loading_);
  std::shared_ptr<const KernelModule>& module = modules_[{context->ordinal(), kernel.hash}];
  if (module == nullptr) {
    const CudaContext::Scope scope(*context);
    SPARSMITH_RETURN_IF_ERROR(scope.status());
    SPARSMITH_ASSIGN_OR_RETURN(
        module, KernelModule::load(context, kernel.kernel.name, binary->cubin, kernel.kernel.max_shared_bytes));
  }
  return module;
}

}  // namespace sparsmith::torch
