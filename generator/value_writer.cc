#include "generator/value_writer.h"

#include <fmt/format.h>

#include "formats/packed_format.h"
#include "formats/places.h"
#include "generator/kernel_parts.h"
#include "generator/kernel_text.h"

namespace sparsmith {

Result<ValueWriter> value_writer(std::string_view packing, DataType type, DataType source) {
  SPARSMITH_ASSIGN_OR_RETURN(const PackedFormat* format, packed_format(packing));
  if (source != type && source != DataType::kFloat32)
    return invalid_argument(fmt::format("values of {} do not become {}", short_name(source), short_name(type)));
  KernelText text;
  text.name = fmt::format("write_values_{}_{}{}", short_name(source), short_name(type),
                          format->negative_zeros ? "_negative_zeros" : "");
  text.summary = "writes new values of a weight to their places in a packing";
  text.threads = 256;
  text.headers = {"snippets/kernels/write_values.cuh"};
  text.lines = {
      {fmt::format("using Source = {}", device_type(source)), "of the new values"},
      {fmt::format("using Stored = {}", device_type(type)), "of the packing"},
      {fmt::format("using Kernel = WriteValuesKernel<Source, Stored, {}, kThreads>", boolean(format->negative_zeros)),
       "whether 0 is stored as -0"}};
  add_shared_bytes(text.threads * (32 * static_cast<std::int64_t>(size_of(type)) + 16), "Kernel::kSharedBytes", text);
  text.body =
      "Kernel::run(values, runs, offsets, copies, array, indices, run_bits, kind, copy_count, first, count, "
      "shared_memory());";
  ValueWriter writer{source, {}, {}};
  std::string first = "0";
  for (const std::string& array : value_array_names(packing)) {
    const std::string count = fmt::format("fact.{}", place_count_fact(array));
    text.parameters = {{"const Source*", "values", operand("values")},
                       {"const u32*", "runs", packed_array(kPlaceRuns)},
                       {"const u32*", "offsets", packed_array(kPlaceOffsets)},
                       {"const u32*", "copies", packed_array(kPlaceCopies)},
                       {"Stored*", "array", packed_array(array)},
                       {"i64", "indices", integer(fmt::format("fact.{}", kPlaces))},
                       {"int", "run_bits", integer(fmt::format("fact.{}", kPlaceRunBits))},
                       {"int", "kind", integer(fmt::format("fact.{}", kPlaceKind))},
                       {"i64", "copy_count", integer(fmt::format("fact.{}", kPlaceCopies))},
                       {"i64", "first", integer(first)},
                       {"i64", "count", integer(count)}};
    PlanStep step = launch_of(text);
    step.grid[0] = formula("min(ceil_div(max(fact.{}, fact.{}), {}), 65535)", kPlaces, kPlaceCopies,
                           PlaceArrays::kGroup * text.threads);
    writer.plan.steps.push_back(std::move(step));
    first += " + " + count;
  }
  if (writer.plan.steps.empty()) return writer;
  SPARSMITH_ASSIGN_OR_RETURN(KernelSource kernel, assemble(text));
  writer.kernels.push_back(std::move(kernel));
  return writer;
}

std::vector<ValueWriter> value_writers(std::string_view packing, DataType type) {
  std::vector<ValueWriter> all;
  for (const DataType source : {DataType::kFloat32, type}) {
    if (!all.empty() && source == DataType::kFloat32) continue;
    Result<ValueWriter> writer = value_writer(packing, type, source);
    if (writer.ok()) all.push_back(*std::move(writer));
  }
  return all;
}

}  // namespace sparsmith
