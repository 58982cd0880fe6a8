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
  text.max_shared_bytes = config.shared_bytes();
  text.headers = {"snippets/prolog/scatter_entries.cuh", "snippets/prolog/fragment_input.cuh",
                  "snippets/prolog/input_ring.cuh", "snippets/kernels/specialized.cuh"};
  text.lines = {
      {fmt::format("using Value = {}", device_type(spec.type)), "of W, X, Y, bias and residual"},
      {fmt::format("using Entries = {}<{}, {}>", bytes ? "ByteEntries" : "WordEntries", config.min_rounds,
                   config.max_rounds),
       "rounds of every tile, rounds held in registers"},
      {fmt::format("using Input = FragmentInput<Value, {}>", boolean(spec.layout == Layout::kTokenMajor)),
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
  text.parameters = {{"const u32*", "entries"},
                     {"const u32*", "more_entries"},
                     {"const u32*", "more_offsets"},
                     {"const u32*", "row_parts"},
                     {"const Value*", "x"},
                     {"int", "rows"},
                     {"int", "cols"},
                     {"int", "row_blocks"},
                     {"int", "column_tiles"},
                     {"int", "n"},
                     {"i64", "ldx"}};
  if (config.column_parts > 1) text.parameters.push_back({"int", "part_tiles"});
  add_output_parameters(text);
  text.body = kMakeOutput;
  text.body += config.column_parts > 1
                   ? "const int first_tile = block_index_z() * part_tiles;\n"
                     "const int end_tile = first_tile + part_tiles < column_tiles ? first_tile + part_tiles : "
                     "column_tiles;\n"
                   : "const int first_tile = 0;\nconst int end_tile = column_tiles;\n";
  text.body +=
      "const scatter::Weight weight{entries, more_entries, more_offsets, row_parts, rows, row_blocks, column_tiles};\n"
      "const Input input(x, ldx, cols, n);\n"
      "Kernel::run(weight, input, output, first_tile, end_tile, n, shared_memory());";
  return text;
}

Result<LaunchPlan> specialized_plan(const SpecializedConfig& config, const OperatorSpec& spec,
                                    const PackedWeight& packed, const KernelText& text) {
  PlanArguments arguments("specialized");
  const std::int64_t row_blocks = packed.facts.at("row_blocks");
  const std::int64_t column_tiles = packed.facts.at("column_tiles");
  PlanStep step;
  step.kernel = text.name;
  step.grid = {(row_blocks + config.row_tiles - 1) / config.row_tiles,
               arguments.expression(fmt::format("min(ceil_div(n, {}), 65535)", config.token_tile)),
               config.column_parts};
  step.block = {text.threads, 1, 1};
  step.cluster = {1, 1, config.column_parts};
  step.shared_bytes = text.max_shared_bytes;
  step.arguments = {PlanArguments::packed("entries"), PlanArguments::packed("more_entries"),
                    PlanArguments::packed("more_offsets"), PlanArguments::packed("row_parts"), PlanArguments::x()};
  for (const std::int64_t value : {spec.rows, spec.cols, row_blocks, column_tiles})
    step.arguments.push_back(arguments.int32(std::to_string(value)));
  step.arguments.push_back(arguments.int32("n"));
  step.arguments.push_back(arguments.int64("ldx"));
  if (config.column_parts > 1)
    step.arguments.push_back(
        arguments.int32(std::to_string((column_tiles + config.column_parts - 1) / config.column_parts)));
  add_output_arguments(step);
  LaunchPlan plan;
  plan.steps.push_back(std::move(step));
  if (!arguments.error().ok()) return arguments.error();
  return plan;
}

}  // namespace

Result<Candidate> SpecializedFamily::generate(const Config& config, const Problem& problem,
                                              const PackedWeight& packed) const {
  const SpecializedConfig specialized(config);
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, specialized.packing().name(), packed));
  const KernelText texts[] = {specialized_text(specialized, problem)};
  SPARSMITH_ASSIGN_OR_RETURN(LaunchPlan plan, specialized_plan(specialized, problem.spec, packed, texts[0]));
  return make_candidate(config, problem, packed, std::move(plan), texts);
}

}  // namespace sparsmith
