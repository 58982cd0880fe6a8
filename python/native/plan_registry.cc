#include "python/native/plan_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/hash.h"
#include "formats/packed_check.h"
#include "formats/packed_format.h"
#include "formats/packed_reader.h"
#include "formats/places.h"
#include "formats/stored_value.h"
#include "formats/two_four_pruning.h"
#include "python/native/host_linear.h"

namespace sparsmith::torch {
namespace {

// The plan's hash as an operator's argument: positive, so that it reads the same everywhere.
std::int64_t argument_of(const std::string& text) {
  return static_cast<std::int64_t>(hash64(text) & 0x7FFFFFFFFFFFFFFFU);
}

// A name and a length before each piece: no two lists give the same text.
void add(std::string& text, std::string_view name, std::string_view value) {
  fmt::format_to(std::back_inserter(text), "{}:{}:{}\n", name, value.size(), value);
}

// What the writers of each packing of each weight read. A packing whose values no operator reads has none.
Result<std::vector<std::vector<WriterArrays>>> written_arrays(const TunedContents& contents) {
  std::vector<std::vector<WriterArrays>> all;
  for (const TunedWeight& weight : contents.weights) all.emplace_back(weight.packings.size());
  SPARSMITH_RETURN_IF_ERROR(check_each(std::ssize(all), 1, 0, [&](std::int64_t w) -> Status {
    const TunedWeight& weight = contents.weights[w];
    for (std::size_t i = 0; i < weight.packings.size(); ++i) {
      if (!multiplies(weight, weight.packings[i])) continue;
      SPARSMITH_ASSIGN_OR_RETURN(all[w][i], writer_arrays(weight, weight.packings[i]));
    }
    return {};
  }));
  return all;
}

// Puts `room` bytes in front of the plan's workspace, and there the arrays of `places` that lie in a workspace.
void move_to_workspace(std::span<const PackedPlace> places, std::size_t room, LaunchPlan& plan) {
  if (room == 0) return;
  const auto behind = [room](IntegerExpression& bytes) {
    bytes = IntegerExpression::of(fmt::format("{} + {}", room, bytes.text()));
  };
  behind(plan.workspace_bytes);
  for (PlanStep& step : plan.steps) {
    if (step.kind == PlanStep::Kind::kZero) behind(step.zero_offset);
    for (std::optional<IntegerExpression>* const offset : {&step.weight, &step.product})
      if (*offset) behind(**offset);
    for (PlanArgument& argument : step.arguments) {
      if (argument.kind == PlanArgument::Kind::kWorkspace) behind(argument.value);
      if (argument.kind != PlanArgument::Kind::kPacked) continue;
      const auto place = std::ranges::find(places, argument.name, &PackedPlace::name);
      if (place == places.end() || place->in != ArrayMemory::kWorkspace) continue;
      argument = {PlanArgument::Kind::kWorkspace, "", static_cast<std::int64_t>(place->offset)};
    }
  }
}

bool is_pruned(std::string_view packing) {
  return std::ranges::find(kPrunedPackings, packing) != std::end(kPrunedPackings);
}

bool begins_with_weight(const LaunchPlan& plan) {
  return !plan.steps.empty() && plan.steps[0].kind == PlanStep::Kind::kLaunch &&
         std::ranges::count(plan.steps[0].arguments, PlanArgument::Kind::kPacked, &PlanArgument::kind) > 0;
}

// While a thread captures a stream, the driver refuses calls that might synchronise, such as the load of a kernel. The
// calls of an object's lifetime are permitted: no captured work depends on them.
class PermitLoads {
 public:
  explicit PermitLoads(const CudaDriver& driver) : driver_(driver) { exchange(); }
  ~PermitLoads() { exchange(); }
  PermitLoads(const PermitLoads&) = delete;
  PermitLoads& operator=(const PermitLoads&) = delete;

 private:
  void exchange() { driver_.ThreadExchangeStreamCaptureMode(&mode_); }
  const CudaDriver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace

PlanKernel::PlanKernel(const TunedKernel& from) {
  kernel.name = from.name;
  kernel.closure_hash = from.closure_hash;
  kernel.max_shared_bytes = from.max_shared_bytes;
  std::string text = fmt::format("{} {}\n", from.name, from.max_shared_bytes);
  for (const TunedKernel::Binary& binary : from.binaries) {
    const std::vector<std::byte>& own = cubins.emplace_back(binary.cubin.begin(), binary.cubin.end());
    kernel.binaries.push_back({binary.architecture, own});
    text += fmt::format("{} {}\n", binary.architecture, hash_bytes(own));
  }
  hash = hash_text(text);
}

const LoadedOperator& BoundWeight::op(OperatorKind kind) const {
  return *std::ranges::find(weight.operators, kind, [](const LoadedOperator& one) { return one.spec.kind; });
}

Plan::Plan(const TunedContents& contents, const TunedWeight& weight, std::string file,
           std::map<std::string, std::shared_ptr<const PlanKernel>>& kernels_of_file, Values values,
           std::span<const WriterArrays> written)
    : weight_(weight), values_(values), file_(std::move(file)) {
  const bool updatable = values == Values::kWritten;
  if (values == Values::kConstant)
    std::erase_if(weight_.operators, [](const TunedOperator& op) { return op.spec.kind != OperatorKind::kSpmm; });
  if (values != Values::kPruned) {
    weight_.pruners.clear();
  } else {
    weight_.pattern_hash.clear();
    std::erase_if(weight_.operators, [](const TunedOperator& op) { return !op.spec.multiplies_weight(); });
    std::erase_if(weight_.packings, [](const TunedPacking& packing) { return !is_pruned(packing.packing); });
  }
  const auto place = [](const auto& array, ArrayMemory in, std::size_t& end) {
    PackedPlace made{array.name, array.type, end, array.bytes.size(), in};
    if (in != ArrayMemory::kNothing) end += static_cast<std::size_t>(array_room(std::ssize(array.bytes)));
    return made;
  };
  const auto use = [&](const LaunchPlan& plan) {
    for (const PlanStep& step : plan.steps) {
      if (step.kind != PlanStep::Kind::kLaunch) continue;
      std::shared_ptr<const PlanKernel>& kernel = kernels_of_file[step.kernel];
      if (kernel == nullptr) kernel = std::make_shared<PlanKernel>(*contents.kernel(step.kernel));
      kernels_[step.kernel] = kernel;
    }
  };
  for (std::size_t i = 0; i < weight_.packings.size(); ++i) {
    TunedPacking& packing = weight_.packings[i];
    std::vector<PackedPlace>& places = places_.emplace_back();
    std::size_t in_workspace = 0;
    for (const TunedArray& array : packing.arrays) {
      const ArrayMemory in = updatable ? array_memory(weight, packing, array) : ArrayMemory::kKept;
      places.push_back(place(array, in, in == ArrayMemory::kWorkspace ? in_workspace : packed_bytes_));
    }
    packing.arrays.clear();
    for (TunedOperator& op : weight_.operators)
      for (TunedChoice& choice : op.choices)
        if (choice.packing == packing.packing) move_to_workspace(places, in_workspace, choice.plan);
    for (TunedWriter& writer : packing.writers) move_to_workspace(places, in_workspace, writer.plan);
    std::vector<PackedPlace>& read_by_writers = written_.emplace_back();
    Facts& facts = writer_facts_.emplace_back();
    if (!updatable || written[i].places.empty()) {
      packing.writers.clear();
      continue;
    }
    for (const PackedArray& array : written[i].places)
      read_by_writers.push_back(place(array, ArrayMemory::kKept, packed_bytes_));
    facts = written[i].facts;
    for (const TunedWriter& writer : packing.writers) use(writer.plan);
  }
  if (packed_bytes_ == 0) packed_bytes_ = kArrayAlignment;  // a weight without nonzeros has an address, too
  for (const TunedWriter& pruner : weight_.pruners) use(pruner.plan);
  for (const TunedOperator& op : weight_.operators)
    for (const TunedChoice& choice : op.choices) use(choice.plan);
  hash_ = argument_of(text());
  for (TunedOperator& op : weight_.operators) {
    for (TunedChoice& choice : op.choices) {
      if (values != Values::kConstant && op.spec.multiplies_weight()) {
        // The kernel in front writes the weight.
        if (!choice.plan.steps.empty()) choice.plan.steps[0].programmatic_launch = false;
      } else if (begins_with_weight(choice.plan)) {
        // The kernel in front may end while ours loads its weight. A relayout of x has nothing to load before.
        launch_programmatically(choice.plan, true);
      }
    }
  }
}

std::string Plan::text() const {
  std::string text;
  add(text, "pattern", weight_.pattern_hash);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    add(text, "packing", fmt::format("{} {}", weight_.packings[i].packing, weight_.packings[i].packer_version));
    for (const auto& [name, value] : weight_.packings[i].facts) add(text, name, std::to_string(value));
    for (const auto* const places : {&places_[i], &written_[i]})
      for (const PackedPlace& place : *places)
        add(text, place.name,
            fmt::format("{} {} {} {}", short_name(place.type), static_cast<int>(place.in), place.offset, place.bytes));
    for (const TunedWriter& writer : weight_.packings[i].writers)
      add(text, short_name(writer.source), to_json(writer.plan));
  }
  for (const TunedWriter& pruner : weight_.pruners)
    add(text, fmt::format("pruner {}", short_name(pruner.source)), to_json(pruner.plan));
  for (const TunedOperator& op : weight_.operators) {
    add(text, "operator", op.spec.name());
    for (const TunedChoice& choice : op.choices)
      add(text, fmt::format("{} {}", choice.tokens, choice.packing), to_json(choice.plan));
  }
  for (const auto& [name, kernel] : kernels_) add(text, name, kernel->hash);
  return text;
}

void Plan::copy_arrays(const TunedWeight& weight, std::span<const WriterArrays> written, std::byte* to) const {
  std::memset(to, 0, packed_bytes_);
  const auto copy = [to](const PackedPlace& place, std::span<const std::byte> bytes) {
    if (!bytes.empty() && place.in == ArrayMemory::kKept) std::memcpy(to + place.offset, bytes.data(), bytes.size());
  };
  for (std::size_t i = 0; i < places_.size(); ++i) {
    for (std::size_t a = 0; a < places_[i].size(); ++a) copy(places_[i][a], weight.packings[i].arrays[a].bytes);
    for (std::size_t a = 0; a < written_[i].size(); ++a) copy(written_[i][a], written[i].places[a].bytes);
  }
}

bool Plan::can_prune(const TunedWeight& weight) {
  return !weight.pruners.empty() && std::ranges::all_of(weight.operators, [](const TunedOperator& op) {
    return !op.spec.multiplies_weight() ||
           std::ranges::all_of(op.choices, [](const TunedChoice& choice) { return is_pruned(choice.packing); });
  });
}

Status Plan::prune(const void* dense, DataType source, std::byte* to) const {
  const std::vector<float> numbers = rounded_values(dense, weight_.rows * weight_.cols, source, source);
  SPARSMITH_ASSIGN_OR_RETURN(CsrMatrix pruned, prune_two_four(numbers, weight_.rows, weight_.cols));
  for (float& value : pruned.values) value = rounded(value, weight_.type);
  pruned.data_type = weight_.type;
  std::memset(to, 0, packed_bytes_);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(const PackedWeight packed, pack(weight_.packings[i].packing, pruned, weight_.type));
    for (const PackedPlace& place : places_[i])
      std::memcpy(to + place.offset, packed.array(place.name)->bytes.data(), place.bytes);
  }
  return {};
}

std::unique_ptr<Plan::Viewed> Plan::view(std::size_t packing, std::span<const std::byte> packed,
                                         std::span<const std::uint32_t> ones) const {
  const TunedPacking& of = weight_.packings[packing];
  const std::vector<std::string> values = value_array_names(of.packing);
  const std::size_t size = size_of(weight_.type);
  const std::uint32_t one = value_bits(1.0F, weight_.type);
  // Where a format has no element (PackedFormat::values_alone).
  const std::uint32_t none =
      packed_format(of.packing).value()->negative_zeros ? 0 : with_negative_zero(std::uint32_t{0}) >> (32 - 8 * size);
  auto viewed = std::make_unique<Viewed>();
  for (const PackedPlace& place : places_[packing]) {
    const bool is_here = place.in == ArrayMemory::kKept;
    std::span<const std::byte> bytes;
    if (is_here) bytes = packed.subspan(place.offset, place.bytes);
    if (!is_here || (!ones.empty() && std::ranges::find(values, place.name) != values.end())) {
      std::vector<std::byte>& copy = viewed->copies.emplace_back(bytes.begin(), bytes.end());
      copy.resize(place.bytes);
      for (std::size_t at = 0; place.in == ArrayMemory::kWorkspace && at < place.bytes; at += size)
        std::memcpy(copy.data() + at, &none, size);
      bytes = copy;
    }
    viewed->arrays.push_back({place.name, place.type, bytes});
  }
  // A place counts the elements of all value arrays, one behind the other.
  std::size_t first = 0;
  for (const std::string& name : values) {
    const auto array = std::ranges::find(viewed->arrays, name, &PackedArrayView::name);
    const std::size_t count = array->bytes.size() / size;
    for (std::vector<std::byte>& copy : viewed->copies) {
      if (copy.data() != array->bytes.data()) continue;
      for (const std::uint32_t place : ones)
        if (place >= first && place - first < count) std::memcpy(copy.data() + (place - first) * size, &one, size);
    }
    first += count;
  }
  viewed->packing = {of.packing,   of.packer_version, weight_.rows, weight_.cols,
                     weight_.type, viewed->arrays,    &of.facts};
  return viewed;
}

Result<std::vector<std::uint32_t>> Plan::places_in(std::size_t packing, std::span<const std::byte> packed) const {
  const auto elements = [&](const char* name, auto element) {
    std::vector<decltype(element)> all;
    const auto place = std::ranges::find(written_[packing], name, &PackedPlace::name);
    all.resize(place->bytes / sizeof(element));
    if (!all.empty()) std::memcpy(all.data(), packed.data() + place->offset, place->bytes);
    return all;
  };
  const Facts& facts = writer_facts_[packing];
  const PlaceArrays arrays{static_cast<PlaceArrays::Kind>(facts.at(kPlaceKind)),
                           static_cast<int>(facts.at(kPlaceRunBits)), elements(kPlaceRuns, std::uint32_t{}),
                           elements(kPlaceOffsets, std::uint32_t{}), elements(kPlaceCopies, PlaceCopy())};
  SPARSMITH_ASSIGN_OR_RETURN(std::vector<std::uint32_t> indices, indices_of(arrays, facts.at(kPlaces), weight_.nnz));
  if (arrays.kind != PlaceArrays::Kind::kPlaces) {
    std::vector<std::uint32_t> places;
    for (std::size_t i = 0; i < indices.size(); ++i)
      if (indices[i] != PlaceArrays::kNoNonzero) places.push_back(static_cast<std::uint32_t>(i));
    return places;
  }
  for (const PlaceCopy& copy : arrays.copies) indices.push_back(copy.place);
  return indices;
}

Status Plan::check_size(std::span<const std::byte> packed) const {
  if (packed.size() == packed_bytes_) return {};
  return invalid_argument(fmt::format("weight {}: the packed tensor has {} bytes, its plan wants {}", weight_.name,
                                      packed.size(), packed_bytes_));
}

Result<CsrMatrix> Plan::unpack(std::span<const std::byte> packed) const {
  SPARSMITH_RETURN_IF_ERROR(check_size(packed));
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (takes_values() ? written_[i].empty() : !holds_values(weight_.packings[i].packing)) continue;
    std::vector<std::uint32_t> places;
    if (takes_values()) {
      SPARSMITH_ASSIGN_OR_RETURN(places, places_in(i, packed));
    }
    Result<CsrMatrix> matrix = sparsmith::unpack(view(i, packed, places)->packing);
    return matrix.ok() ? std::move(matrix) : matrix.status().annotate("weight " + weight_.name);
  }
  return unsupported("weight " + weight_.name + ": its packings hold no values");
}

Status Plan::check(std::span<const std::byte> packed) const {
  SPARSMITH_RETURN_IF_ERROR(check_size(packed));
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Status status = check_packed(view(i, packed)->packing, {}, PackedCheck::kBounds, 0);
    if (status.ok() && !written_[i].empty()) status = places_in(i, packed).status();
    if (!status.ok()) return status.annotate("weight " + weight_.name);
  }
  return {};
}

Result<std::shared_ptr<const BoundWeight>> Plan::bind(int device, DeviceAddress packed) {
  const std::lock_guard lock(mutex_);
  for (auto found = bindings_.rbegin(); found != bindings_.rend(); ++found)
    if (found->packed == packed && found->device == device) return found->bound;
  SPARSMITH_ASSIGN_OR_RETURN(std::shared_ptr<const BoundWeight> bound, bind_anew(device, packed));
  if (bindings_.size() == kMostBindings) bindings_.erase(bindings_.begin());
  bindings_.push_back({device, packed, bound});
  return bound;
}

Result<std::shared_ptr<const BoundWeight>> Plan::bind_anew(int device, DeviceAddress packed) const {
  PlanRegistry& registry = PlanRegistry::instance();
  auto bound = std::make_shared<BoundWeight>();
  SPARSMITH_ASSIGN_OR_RETURN(bound->context, registry.context(device));
  const PermitLoads permitted(bound->context->driver());
  std::map<std::string, const KernelModule*> modules;
  for (const auto& [name, kernel] : kernels_) {
    SPARSMITH_ASSIGN_OR_RETURN(std::shared_ptr<const KernelModule> module, registry.kernel(bound->context, *kernel));
    modules[name] = module.get();
    bound->kernels.push_back(std::move(module));
  }
  const auto names = [&](std::size_t index, const Facts& facts) {
    PlanNames found;
    found.kernel = [&modules](const std::string& name) -> const KernelModule* {
      const auto module = modules.find(name);
      return module == modules.end() ? nullptr : module->second;
    };
    found.packed = [this, index, packed](const std::string& name) -> Result<DeviceAddress> {
      for (const auto* const places : {&places_[index], &written_[index]}) {
        const auto place = std::ranges::find(*places, name, &PackedPlace::name);
        if (place != places->end() && place->in == ArrayMemory::kKept) return packed + place->offset;
      }
      return not_found(fmt::format("there is no packed array {}", name));
    };
    found.facts = &facts;
    found.compute_capability = bound->context->properties().compute_capability;
    return found;
  };
  const CudaContext::Scope scope(*bound->context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  for (const TunedOperator& op : weight_.operators) {
    SPARSMITH_ASSIGN_OR_RETURN(
        LoadedOperator one, LoadedOperator::bind(weight_, op, bound->context, [&](const TunedPacking& packing) {
          return names(static_cast<std::size_t>(&packing - weight_.packings.data()), packing.facts);
        }));
    bound->weight.operators.push_back(std::move(one));
  }
  bound->weight.info.type = weight_.type;
  for (std::size_t i = 0; i < weight_.packings.size(); ++i) {
    for (const TunedWriter& writer : weight_.packings[i].writers) {
      SPARSMITH_ASSIGN_OR_RETURN(BoundPlan plan, BoundPlan::bind(writer.plan, names(i, writer_facts_[i])));
      bound->weight.writers.push_back({weight_.packings[i].packing, writer.source, std::move(plan)});
    }
  }
  PlanNames of_all = names(0, writer_facts_[0]);
  of_all.packed = [this, packed](const std::string& name) -> Result<DeviceAddress> {
    for (std::size_t i = 0; i < places_.size(); ++i)
      for (const PackedPlace& place : places_[i])
        if (fmt::format("{}.{}", weight_.packings[i].packing, place.name) == name) return packed + place.offset;
    return not_found(fmt::format("there is no packed array {}", name));
  };
  for (const TunedWriter& pruner : weight_.pruners) {
    SPARSMITH_ASSIGN_OR_RETURN(BoundPlan plan, BoundPlan::bind(pruner.plan, of_all));
    bound->weight.writers.push_back({"", pruner.source, std::move(plan), kPrunedOperand});
  }
  return std::shared_ptr<const BoundWeight>(std::move(bound));
}

PlanRegistry& PlanRegistry::instance() {
  static PlanRegistry* const registry = new PlanRegistry;  // never destroyed: other libraries' threads may still run
  return *registry;
}

Result<std::vector<PlanRegistry::Added>> PlanRegistry::add(const TunedContents& contents, const std::string& file,
                                                           bool updatable) {
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
  if (updatable) {
    auto found = written_arrays(contents);
    if (!found.ok()) return found.status().annotate(file);
    written = *std::move(found);
  }
  for (std::size_t i = 0; i < contents.weights.size(); ++i) {
    const auto make = [&](Plan::Values values) {
      return std::make_shared<Plan>(contents, contents.weights[i], file, kernels, values, written[i]);
    };
    auto plan = make(updatable ? Plan::Values::kWritten : Plan::Values::kConstant);
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
