#include "generator/two_four_pruner.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "formats/two_four_layout.h"
#include "formats/two_four_pruning.h"
#include "formats/two_four_tiles_layout.h"
#include "generator/kernel_parts.h"
#include "generator/kernel_text.h"
#include "runtime/tuned_file.h"

namespace sparsmith {
namespace {

// Each has several strips to prune, and a table to make for all of them.
constexpr std::int64_t kMostBlocks = 1056;

}  // namespace

Result<ValueWriter> two_four_pruner(std::int64_t rows, std::int64_t cols, DataType type, DataType source) {
  if (size_of(type) != 2 || (source != type && source != DataType::kFloat32))
    return invalid_argument(fmt::format("weights of {} are not pruned to {}", short_name(source), short_name(type)));
  SPARSMITH_RETURN_IF_ERROR(check_prunable(rows, cols));
  KernelText text;
  text.name = fmt::format("prune_two_four_{}_{}", short_name(source), short_name(type));
  text.summary = "prunes a dense weight 2:4 along rows and columns, and packs it and its transpose";
  text.threads = 128;
  text.headers = {"snippets/kernels/prune_two_four.cuh"};
  text.lines = {{fmt::format("using Source = {}", device_type(source)), "of the dense weight"},
                {fmt::format("using Stored = {}", device_type(type)), "of the packings"},
                {"using Kernel = PruneTwoFourKernel<Source, Stored, kThreads>", ""}};
  add_shared_bytes(4 * two_four::kStripBytes + 16 * two_four::kPatternCodes, "Kernel::kSharedBytes", text);
  text.parameters = {{"const Source*", "weight", operand(std::string(kPrunedOperand))},
                     {"u8*", "tiles", packed_array(std::string(kPrunedTiles))},
                     {"u8*", "transposed", packed_array(std::string(kPrunedTransposedTiles))},
                     {"int", "rows", integer(rows)},
                     {"int", "cols", integer(cols)}};
  text.body = "Kernel::run(weight, tiles, transposed, rows, cols);";
  ValueWriter pruner{source, {}, {}};
  PlanStep step = launch_of(text);
  const std::int64_t strips = ceil_div(rows, two_four::kPanelRows) * ceil_div(cols, two_four::kStripColumns);
  step.grid[0] = formula("{}", std::clamp<std::int64_t>(strips, 1, kMostBlocks));
  pruner.plan.steps.push_back(std::move(step));
  SPARSMITH_ASSIGN_OR_RETURN(KernelSource kernel, assemble(text));
  pruner.kernels.push_back(std::move(kernel));
  return pruner;
}

std::vector<ValueWriter> two_four_pruners(std::int64_t rows, std::int64_t cols, DataType type,
                                          std::span<const PackedWeight> packings) {
  std::vector<ValueWriter> all;
  for (const std::string_view packing : kPrunedPackings)
    if (std::ranges::find(packings, packing, &PackedWeight::packing) == packings.end()) return all;
  for (const DataType source : {DataType::kFloat32, type}) {
    Result<ValueWriter> pruner = two_four_pruner(rows, cols, type, source);
    if (pruner.ok()) all.push_back(*std::move(pruner));
  }
  return all;
}

}  // namespace sparsmith
