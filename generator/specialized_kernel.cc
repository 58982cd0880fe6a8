// Kernels and launch plans of the specialized family.
#include <fmt/format.h>

#include "generator/kernel_parts.h"
#include "generator/specialized_family.h"

namespace sparsmith {
namespace {

KernelText specialized_text(const SpecializedConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  const bool bytes = config.entry == ScatterEntry::kByte;
  const std::string parts = config.column_parts > 1 ? fmt::format("_c{}", config.column_parts) : "";
  KernelText text;
  text.name = fmt::format("specialized_{}_e{}_i{}_a{}_t{}_r{}_w{}_p{}_b{}_{}_s{}_x{}{}", spec_tag(spec),
                          bytes ? "b" : "w", config.min_rounds, config.max_rounds, config.token_tile, config.row_tiles,
                          config.warpgroups, config.producers, config.tile_buffers,
                          config.whole_tiles != 0 ? "whole" : "entries", config.stages, config.stage_columns, parts);
  text.summary = fmt::format(
      "Y = W X for {} weights as lists of nonzeros, which some warps make dense and others multiply: {} rows "
      "by {} tokens",
      short_name(spec.type), config.rows(), config.token_tile);
  text.architecture = "sm_90a";
  text.threads = config.threads();
  text.min_blocks_per_sm = 1;
  text.headers = {"snippets/prolog/scatter_entries.cuh", "snippets/prolog/fragment_input.cuh",
                  "snippets/prolog/input_ring.cuh", "snippets/kernels/specialized.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      {fmt::format("using Entries = {}<{}, {}>", bytes ? "ByteEntries" : "WordEntries", config.min_rounds,
                   config.max_rounds),
       "rounds of every tile, rounds held in registers"},
      {fmt::format("using Input = FragmentInput<InputType, {}>", boolean(spec.layout == Layout::kTokenMajor)),
       "X token-major"},
      {fmt::format("using Ring = InputRing<Input, {}, {}, {}>", config.token_tile, config.stage_columns / 64,
                   config.stages),
       "tokens, column tiles of a stage, stages"},
  };
  add_output(spec, text);
  text.lines.push_back(
      {fmt::format("using Kernel = SpecializedKernel<Entries, Input, Ring, Output, {}, {}, {}, {}, {}, {}, {}>",
                   config.token_tile, config.row_tiles, config.warpgroups, config.producers, config.tile_buffers,
                   boolean(config.whole_tiles != 0), config.column_parts),
       "tokens, row tiles, warpgroups that multiply, producing warps, tiles of each, whole tiles cleared, blocks of a "
       "cluster"});
  add_shared_bytes(config.shared_bytes(), "Kernel::kSharedBytes", text);
  add_scatter_parameters(spec, text);
  const std::string range = make_part_range(config.column_parts, "tile", "column_tiles", text);
  add_output_parameters(text);
  text.body = kMakeOutput + range;
  text.body += kMakeScatterWeight;
  text.body +=
      "const Input input(x, ldx, cols, n);\n"
      "Kernel::run(weight, input, output, first_tile, end_tile, n, shared_memory());";
  return text;
}

LaunchPlan specialized_plan(const SpecializedConfig& config, const KernelText& text) {
  PlanStep step = launch_of(text);
  step.grid = {IntegerExpression::of(fmt::format("ceil_div(fact.row_blocks, {})", config.row_tiles)),
               token_blocks(config.token_tile), config.column_parts};
  step.cluster = {1, 1, config.column_parts};
  return {.steps = {step}};
}

}  // namespace

Result<Candidate> SpecializedFamily::generate(const Config& config, const Problem& problem,
                                              const PackedWeight& packed) const {
  const SpecializedConfig specialized(config);
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, specialized.packing().name(), packed));
  const KernelText texts[] = {specialized_text(specialized, problem)};
  return make_candidate(config, problem, packed, specialized_plan(specialized, texts[0]), texts);
}

}  // namespace sparsmith
