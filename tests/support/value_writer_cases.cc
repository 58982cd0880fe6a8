#include "tests/support/value_writer_cases.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/packed_format.h"
#include "formats/places.h"
#include "formats/two_four.h"
#include "formats/two_four_pruning.h"
#include "generator/two_four_pruner.h"
#include "generator/value_writer.h"
#include "runtime/tuned_file.h"
#include "tests/support/drawn_packings.h"
#include "tuner/verify/device_packing.h"
#include "tuner/verify/element_buffer.h"

namespace sparsmith::test {
namespace {

void draw_values(Random& random, DataType type, CsrMatrix& matrix) {
  for (float& value : matrix.values)
    value = random() % 8 == 0 ? 0.0F : rounded(static_cast<float>(random() % 4096) / 512 - 4, type);
}

// Empty where the device holds `packed`.
Result<std::string> difference(Executor& executor, const DevicePacking& device, const PackedWeight& packed) {
  const std::vector<LaunchBindings::Packed> bindings = device.bindings();
  for (const PackedArray& array : packed.arrays) {
    const auto bound = std::ranges::find(bindings, array.name, &LaunchBindings::Packed::name);
    std::vector<std::byte> held(array.bytes.size());
    if (!held.empty()) SPARSMITH_RETURN_IF_ERROR(executor.read(held, bound->address));
    const auto at = std::ranges::mismatch(held, array.bytes).in1 - held.begin();
    if (at < std::ssize(held)) return fmt::format("array {} differs at byte {}", array.name, at);
  }
  return std::string();
}

}  // namespace

ValueWriterCase draw_value_writer_case(Random& random, std::string_view format) {
  DrawnPacking drawn = draw_packing(random, format, false).value();
  const DataType source = random() % 2 == 0 ? drawn.packed.value_type : DataType::kFloat32;
  const bool small_grid = random() % 2 == 0;
  return {std::move(drawn.matrix), std::move(drawn.packed), source, 10, small_grid};
}

Status run_value_writer_case(ValueWriterCase test_case, Random& random, Executor& executor, const ImageOf& image_of,
                             const RunPlan& run) {
  auto& [matrix, packed, source, updates, small_grid] = test_case;
  const std::string packing = packed.packing;
  const DataType type = packed.value_type;
  SPARSMITH_ASSIGN_OR_RETURN(const Places places, places_of(packing, matrix, type));
  add_places(places, packed);
  SPARSMITH_ASSIGN_OR_RETURN(ValueWriter writer, value_writer(packing, type, source));
  for (PlanStep& step : writer.plan.steps)
    if (small_grid) step.grid[0] = 1;
  for (const KernelSource& kernel : writer.kernels) {
    SPARSMITH_ASSIGN_OR_RETURN(const KernelImage image, image_of(kernel));
    SPARSMITH_RETURN_IF_ERROR(executor.load(image));
  }
  SPARSMITH_ASSIGN_OR_RETURN(const DevicePacking device, DevicePacking::upload(executor, packed));
  ElementBuffer values(source, std::max<std::int64_t>(1, matrix.nnz()));
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAddress address, executor.allocate(values.bytes().size()));
  LaunchBindings bindings;
  bindings.packed = device.bindings();
  bindings.variables.facts = &packed.facts;
  bindings.operands.set("values", address);
  std::string found;
  for (int update = 0; update < updates && found.empty(); ++update) {
    draw_values(random, type, matrix);
    for (std::size_t i = 0; i < matrix.values.size(); ++i) {
      const float value = matrix.values[i];
      values.set(static_cast<std::int64_t>(i), value == 0.0F && random() % 2 == 0 ? -0.0F : value);
    }
    SPARSMITH_RETURN_IF_ERROR(executor.write(address, values.bytes()));
    SPARSMITH_RETURN_IF_ERROR(run ? run(writer.plan, bindings) : executor.run(writer.plan, bindings));
    SPARSMITH_ASSIGN_OR_RETURN(const PackedWeight anew, pack(packing, matrix, type));
    SPARSMITH_ASSIGN_OR_RETURN(found, difference(executor, device, anew));
    if (!found.empty()) found += fmt::format(" after update {}", update);
  }
  SPARSMITH_RETURN_IF_ERROR(executor.free(address));
  return found.empty() ? Status() : internal_error(packing + ": " + found);
}

PrunerCase draw_pruner_case(Random& random) {
  PrunerCase drawn;
  drawn.rows = 4 * draw_between(random, 1, 50);
  drawn.cols = 4 * draw_between(random, 1, 50);
  drawn.type = random() % 2 == 0 ? DataType::kFloat16 : DataType::kBFloat16;
  drawn.source = random() % 2 == 0 ? drawn.type : DataType::kFloat32;
  drawn.small_grid = random() % 2 == 0;
  return drawn;
}

Status run_pruner_case(const PrunerCase& test_case, Random& random, Executor& executor, const ImageOf& image_of,
                       const RunPlan& run) {
  const auto& [rows, cols, type, source, updates, small_grid] = test_case;
  SPARSMITH_ASSIGN_OR_RETURN(ValueWriter pruner, two_four_pruner(rows, cols, type, source));
  if (small_grid) pruner.plan.steps[0].grid[0] = 1;
  for (const KernelSource& kernel : pruner.kernels) {
    SPARSMITH_ASSIGN_OR_RETURN(const KernelImage image, image_of(kernel));
    SPARSMITH_RETURN_IF_ERROR(executor.load(image));
  }
  std::vector<float> weight(static_cast<std::size_t>(rows * cols));
  ElementBuffer elements(source, std::ssize(weight));
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAddress address, executor.allocate(elements.bytes().size()));
  std::vector<DevicePacking> devices;
  std::string found;
  for (int update = 0; update < updates && found.empty(); ++update) {
    const std::int64_t most = random() % 3 == 0 ? 1 : 2047;  // few: most tiles have several best patterns
    for (std::size_t i = 0; i < weight.size(); ++i) {
      weight[i] = rounded(static_cast<float>(draw_between(random, -most, most)) / 512, source);
      if (random() % 64 == 0) weight[i] *= 1e-4F;
      if (weight[i] == 0 && random() % 2 == 0) weight[i] = -0.0F;
      elements.set(static_cast<std::int64_t>(i), weight[i]);
      weight[i] = elements.get(static_cast<std::int64_t>(i));
    }
    SPARSMITH_ASSIGN_OR_RETURN(CsrMatrix pruned, prune_two_four(weight, rows, cols));
    for (float& value : pruned.values) value = rounded(value, type);
    const CsrMatrix both[] = {pruned, transposed(pruned)};
    std::vector<PackedWeight> wanted;
    for (const CsrMatrix& one : both) {
      SPARSMITH_ASSIGN_OR_RETURN(PackedWeight packed, pack(kTwoFourPacking, one, type));
      wanted.push_back(std::move(packed));
    }
    for (std::size_t i = devices.size(); i < 2; ++i) {
      SPARSMITH_ASSIGN_OR_RETURN(DevicePacking device, DevicePacking::upload(executor, wanted[i]));
      devices.push_back(std::move(device));
    }
    LaunchBindings bindings;
    bindings.packed = {{std::string(kPrunedTiles), devices[0].bindings()[0].address},
                       {std::string(kPrunedTransposedTiles), devices[1].bindings()[0].address}};
    bindings.operands.set(kPrunedOperand, address);
    for (const LaunchBindings::Packed& array : bindings.packed)
      SPARSMITH_RETURN_IF_ERROR(executor.fill(array.address, std::byte{0x5A}, wanted[0].arrays[0].bytes.size()));
    SPARSMITH_RETURN_IF_ERROR(executor.write(address, elements.bytes()));
    SPARSMITH_RETURN_IF_ERROR(run ? run(pruner.plan, bindings) : executor.run(pruner.plan, bindings));
    for (std::size_t i = 0; i < 2 && found.empty(); ++i) {
      SPARSMITH_ASSIGN_OR_RETURN(found, difference(executor, devices[i], wanted[i]));
      if (!found.empty())
        found = fmt::format("{} x {}, {} to {}, {}: {} after update {}", rows, cols, short_name(source),
                            short_name(type), i == 0 ? "the weight" : "its transpose", found, update);
    }
  }
  SPARSMITH_RETURN_IF_ERROR(executor.free(address));
  return found.empty() ? Status() : internal_error(found);
}

}  // namespace sparsmith::test
