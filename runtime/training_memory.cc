#include "runtime/training_memory.h"

#include <algorithm>

#include "formats/packed_format.h"
#include "formats/places.h"
#include "runtime/loaded_model.h"

namespace sparsmith {
namespace {

std::int64_t room_of(const auto& array) { return array_room(std::ssize(array.bytes)); }

// What reads an array of a packing.
struct Readers {
  bool kernels = false;
  bool library = false;
};

Readers readers_of(const TunedWeight& weight, const TunedPacking& packing, std::string_view array) {
  Readers readers;
  for (const TunedOperator& op : weight.operators) {
    for (const TunedChoice& choice : op.choices) {
      if (choice.packing != packing.packing) continue;
      for (const PlanStep& step : choice.plan.steps) {
        readers.library |= step.kind == PlanStep::Kind::kMatmul && step.array == array;
        readers.kernels |= std::ranges::any_of(step.arguments, [&](const PlanArgument& argument) {
          return argument.kind == PlanArgument::Kind::kPacked && argument.name == array;
        });
      }
    }
  }
  return readers;
}

}  // namespace

bool multiplies(const TunedWeight& weight, const TunedPacking& packing) {
  return std::ranges::any_of(weight.operators, [&](const TunedOperator& op) {
    return op.spec.multiplies_weight() && std::ranges::count(op.choices, packing.packing, &TunedChoice::packing) > 0;
  });
}

ArrayMemory array_memory(const TunedWeight& weight, const TunedPacking& packing, const TunedArray& array) {
  const std::vector<std::string> values = value_array_names(packing.packing);
  const auto holds_values = [&](const TunedArray& each) { return std::ranges::count(values, each.name) > 0; };
  if (!holds_values(array)) return ArrayMemory::kKept;
  const Readers readers = readers_of(weight, packing, array.name);
  if (!multiplies(weight, packing))
    return readers.kernels || readers.library ? ArrayMemory::kKept : ArrayMemory::kNothing;
  std::size_t bytes = 0;
  for (const TunedArray& each : packing.arrays) bytes += holds_values(each) ? each.bytes.size() : 0;
  const auto elements = static_cast<std::int64_t>(bytes / size_of(weight.type));
  const bool whole = elements > 0 && writes_all(packing.packing, elements, weight.nnz);
  return whole && !readers.library ? ArrayMemory::kWorkspace : ArrayMemory::kKept;
}

Result<TrainingMemory> training_memory(const TunedWeight& weight, const TunedPacking& packing) {
  TrainingMemory memory;
  for (const TunedArray& array : packing.arrays)
    if (array_memory(weight, packing, array) == ArrayMemory::kKept) memory.packing += room_of(array);
  if (!multiplies(weight, packing)) return memory;
  SPARSMITH_ASSIGN_OR_RETURN(const WriterArrays written, writer_arrays(weight, packing));
  for (const PackedArray& array : written.places) memory.places += room_of(array);
  return memory;
}

std::int64_t values_in_workspace(const TunedWeight& weight, const TunedPacking& packing) {
  std::int64_t bytes = 0;
  for (const TunedArray& array : packing.arrays)
    if (array_memory(weight, packing, array) == ArrayMemory::kWorkspace) bytes += room_of(array);
  return bytes;
}

}  // namespace sparsmith
