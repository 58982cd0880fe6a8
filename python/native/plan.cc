#include "python/native/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "formats/packed_check.h"
#include "formats/packed_format.h"
#include "formats/packed_reader.h"
#include "formats/places.h"
#include "formats/stored_value.h"
#include "formats/two_four_pruning.h"
#include "python/native/host_linear.h"
#include "python/native/plan_registry.h"

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

PlaceArrays::Kind places_of(const PatternRoom& room) {
  return static_cast<PlaceArrays::Kind>(room.writer_facts.at(kPlaceKind));
}

// A small whole number for each nonzero, which any type holds. Neighbours differ, and so do those of neighbouring rows
// unless their lengths are multiples of a prime.
float number_of(std::uint32_t nonzero) { return static_cast<float>(nonzero % 251 + 1); }

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

Status BoundWeight::write_values(OperatorKind kind, const std::string& packing, bool kept, const void* values,
                                 DataType type, CUstream stream, const void* workspace) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  const CudaDriver& driver = context->driver();
  if (kept)
    SPARSMITH_RETURN_IF_ERROR(driver.check(driver.StreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr),
                                           "cuStreamGetCaptureInfo"));
  const ValueWrite write{values, stream, status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? id : 0};
  const std::lock_guard lock(mutex_);
  ValueWrite& last = written_[packing];
  if (kept && kind == OperatorKind::kSpmmTransposed && last == write) return {};
  last = kept && kind == OperatorKind::kSpmm ? write : ValueWrite();
  return weight.set_values(*context, values, type, stream, packing, workspace);
}

bool Plan::keeps_values(std::string_view packing) const {
  const auto found = std::ranges::find(weight_.packings, packing, &TunedPacking::packing);
  return found != weight_.packings.end() && keeps_values_[found - weight_.packings.begin()];
}

Plan::Plan(const TunedContents& contents, const TunedWeight& weight, std::string file,
           std::map<std::string, std::shared_ptr<const PlanKernel>>& kernels_of_file, Values values,
           std::span<const WriterArrays> written, std::span<const PatternRoom> rooms)
    : weight_(weight), values_(values), file_(std::move(file)) {
  const bool updatable = takes_values();
  if (moves()) weight_.pattern_hash.clear();
  if (values == Values::kConstant)
    std::erase_if(weight_.operators, [](const TunedOperator& op) { return op.spec.kind != OperatorKind::kSpmm; });
  if (values != Values::kPruned) {
    weight_.pruners.clear();
  } else {
    weight_.pattern_hash.clear();
    std::erase_if(weight_.operators, [](const TunedOperator& op) { return !op.spec.multiplies_weight(); });
    std::erase_if(weight_.packings, [](const TunedPacking& packing) { return !is_pruned(packing.packing); });
  }
  const auto place = [](const std::string& name, DataType type, std::size_t bytes, ArrayMemory in, std::size_t& end) {
    PackedPlace made{name, type, end, bytes, in};
    if (in != ArrayMemory::kNothing) end += static_cast<std::size_t>(array_room(static_cast<std::int64_t>(bytes)));
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
    for (std::size_t a = 0; a < packing.arrays.size(); ++a) {
      const TunedArray& array = packing.arrays[a];
      ArrayMemory in = updatable ? array_memory(weight, packing, array) : ArrayMemory::kKept;
      if (moves() && in == ArrayMemory::kWorkspace && places_of(rooms[i]) == PlaceArrays::Kind::kPlaces)
        in = ArrayMemory::kKept;
      const std::size_t bytes = moves() ? rooms[i].bytes[a] : array.bytes.size();
      places.push_back(
          place(array.name, array.type, bytes, in, in == ArrayMemory::kWorkspace ? in_workspace : packed_bytes_));
    }
    keeps_values_.push_back(in_workspace == 0);
    if (moves()) packing.facts = rooms[i].facts;
    packing.arrays.clear();
    for (TunedOperator& op : weight_.operators)
      for (TunedChoice& choice : op.choices)
        if (choice.packing == packing.packing) move_to_workspace(places, in_workspace, choice.plan);
    for (TunedWriter& writer : packing.writers) move_to_workspace(places, in_workspace, writer.plan);
    std::vector<PackedPlace>& read_by_writers = written_.emplace_back();
    Facts& facts = writer_facts_.emplace_back();
    if (!updatable || (moves() ? !multiplies(weight, packing) : written[i].places.empty())) {
      packing.writers.clear();
      continue;
    }
    const auto add_written = [&](const std::string& name, std::size_t bytes) {
      read_by_writers.push_back(place(name, DataType::kUint32, bytes, ArrayMemory::kKept, packed_bytes_));
    };
    if (moves()) {
      add_written(kPlaceRuns, rooms[i].run_bytes);
      for (const char* const name : {kPlaceOffsets, kPlaceCopies}) add_written(name, 0);
    } else {
      for (const PackedArray& array : written[i].places) add_written(array.name, array.bytes.size());
    }
    facts = moves() ? rooms[i].writer_facts : written[i].facts;
    for (const TunedWriter& writer : packing.writers) use(writer.plan);
  }
  if (packed_bytes_ == 0) packed_bytes_ = kArrayAlignment;  // a weight without nonzeros has an address, too
  for (const TunedWriter& pruner : weight_.pruners) use(pruner.plan);
  for (const TunedOperator& op : weight_.operators)
    for (const TunedChoice& choice : op.choices) use(choice.plan);
  hash_ = argument_of(text());
  for (TunedOperator& op : weight_.operators) {
    for (TunedChoice& choice : op.choices) {
      const bool written = values != Values::kConstant && op.spec.multiplies_weight();
      if (!written && begins_with_weight(choice.plan)) {
        // The kernel in front may end while ours loads its weight. A relayout of x has nothing to load before.
        launch_programmatically(choice.plan, true);
      }
    }
  }
}

std::string Plan::text() const {
  std::string text;
  add(text, "pattern", moves() ? fmt::format("any {}", weight_.nnz) : weight_.pattern_hash);
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

std::vector<PackedPlace> Plan::arrays(std::size_t packing) const {
  std::vector<PackedPlace> all = places_[packing];
  all.insert(all.end(), written_[packing].begin(), written_[packing].end());
  return all;
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
                                         std::span<const PlaceCopy> numbered) const {
  const TunedPacking& of = weight_.packings[packing];
  const std::vector<std::string> values = value_array_names(of.packing);
  const std::size_t size = size_of(weight_.type);
  // Where a format has no element (PackedFormat::values_alone).
  const std::uint32_t none =
      packed_format(of.packing).value()->negative_zeros ? 0 : with_negative_zero(std::uint32_t{0}) >> (32 - 8 * size);
  // Writers of whole arrays do not read what these hold.
  const auto kind = writer_facts_[packing].find(kPlaceKind);
  const bool whole = kind != writer_facts_[packing].end() &&
                     static_cast<PlaceArrays::Kind>(kind->second) != PlaceArrays::Kind::kPlaces;
  auto viewed = std::make_unique<Viewed>();
  for (const PackedPlace& place : places_[packing]) {
    const bool is_here = place.in == ArrayMemory::kKept;
    const bool is_numbered = !numbered.empty() && std::ranges::find(values, place.name) != values.end();
    std::span<const std::byte> bytes;
    if (is_here) bytes = packed.subspan(place.offset, place.bytes);
    if (!is_here || is_numbered) {
      std::vector<std::byte>& copy = viewed->copies.emplace_back(bytes.begin(), bytes.end());
      copy.resize(place.bytes);
      const bool is_new = place.in == ArrayMemory::kWorkspace || (is_numbered && whole);
      for (std::size_t at = 0; is_new && at < place.bytes; at += size) std::memcpy(copy.data() + at, &none, size);
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
      for (const auto& [nonzero, place] : numbered) {
        const std::uint32_t bits = value_bits(number_of(nonzero), weight_.type);
        if (place >= first && place - first < count) std::memcpy(copy.data() + (place - first) * size, &bits, size);
      }
    }
    first += count;
  }
  viewed->packing = {of.packing,   of.packer_version, weight_.rows, weight_.cols,
                     weight_.type, viewed->arrays,    &of.facts,    moves()};
  return viewed;
}

Result<std::vector<PlaceCopy>> Plan::places_in(std::size_t packing, std::span<const std::byte> packed) const {
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
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> indices,
                             indices_of(arrays, facts.at(kPlaces), weight_.nnz));
  std::vector<PlaceCopy> places;
  for (std::uint32_t i = 0; i < indices.size(); ++i) {
    if (arrays.kind == PlaceArrays::Kind::kPlaces) {
      places.push_back({i, indices[i]});
    } else if (indices[i] != PlaceArrays::kNoNonzero) {
      places.push_back({indices[i], i});
    }
  }
  places.insert(places.end(), arrays.copies.begin(), arrays.copies.end());
  return places;
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
    return numbered(i, packed);
  }
  return unsupported("weight " + weight_.name + ": its packings hold no values");
}

Result<CsrMatrix> Plan::numbered(std::size_t packing, std::span<const std::byte> packed) const {
  std::vector<PlaceCopy> places;
  if (!written_[packing].empty()) {
    SPARSMITH_ASSIGN_OR_RETURN(places, places_in(packing, packed));
  }
  Result<CsrMatrix> matrix = sparsmith::unpack(view(packing, packed, places)->packing);
  return matrix.ok() ? std::move(matrix) : matrix.status().annotate("weight " + weight_.name);
}

Status Plan::check_pattern(std::span<const std::byte> packed) const {
  std::optional<CsrMatrix> first;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const std::string& packing = weight_.packings[i].packing;
    SPARSMITH_ASSIGN_OR_RETURN(CsrMatrix matrix, numbered(i, packed));
    const auto wrong = [&](std::string_view reason) {
      return invalid_input(fmt::format("weight {}: packing {} {}", weight_.name, packing, reason));
    };
    if (matrix.nnz() != weight_.nnz) return wrong(fmt::format("has {} elements, not {}", matrix.nnz(), weight_.nnz));
    if (!first) first = matrix;
    if (matrix.row_offsets != first->row_offsets || matrix.column_indices != first->column_indices)
      return wrong("has another pattern than packing " + weight_.packings[0].packing);
    if (written_[i].empty()) continue;
    for (std::uint32_t nonzero = 0; nonzero < matrix.values.size(); ++nonzero)
      if (matrix.values[nonzero] != number_of(nonzero))
        return wrong(fmt::format("takes another value in the place of value {}", nonzero));
  }
  return {};
}

Status Plan::check(std::span<const std::byte> packed) const {
  SPARSMITH_RETURN_IF_ERROR(check_size(packed));
  if (moves()) return check_pattern(packed);
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
          PlanNames found = names(static_cast<std::size_t>(&packing - weight_.packings.data()), packing.facts);
          found.written = values_ != Values::kConstant && op.spec.multiplies_weight();
          return found;
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

}  // namespace sparsmith::torch
