// Kernels and launch plans of the scatter family.
#include <fmt/format.h>

#include <optional>

#include "formats/operand_layout.h"
#include "generator/kernel_parts.h"
#include "generator/operand_relayout.h"
#include "generator/scatter_family.h"

namespace sparsmith {
namespace {

OperandRelayout relayout_of(const ScatterConfig& config) {
  return {OperandOrder::kFragment,
          fmt::format("fact.column_tiles * {}", config.tile_columns() / operands::kChunkColumns),
          config.token_tile / operands::kTileTokens};
}

KernelText scatter_text(const ScatterConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  const bool bytes = config.entry == ScatterEntry::kByte;
  KernelText text;
  const auto blocks = static_cast<int>(config.resident_blocks(problem.device));
  text.name = fmt::format("scatter_{}_e{}_m{}_i{}_a{}_t{}_c{}_w{}x{}_r{}_k{}_p{}{}", spec_tag(spec), bytes ? "b" : "w",
                          config.tile_rows, config.min_rounds, config.max_rounds, config.token_tile,
                          config.input_columns, config.warps, blocks, config.row_tiles, config.parts,
                          config.tiles_ahead, config.relayout ? "_operands" : "");
  text.summary = fmt::format("Y = W X for {} weights as lists of nonzeros, made dense in tiles of {} x {}",
                             short_name(spec.type), config.tile_rows, config.tile_columns());
  text.threads = config.warps * 32;
  text.min_blocks_per_sm = blocks;
  text.headers = {"snippets/prolog/scatter_entries.cuh",
                  config.relayout ? "snippets/prolog/fragment_operands.cuh" : "snippets/prolog/fragment_input.cuh",
                  "snippets/kernels/scatter.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      {fmt::format("using Entries = {}<{}, {}>", bytes ? "ByteEntries" : "WordEntries", config.min_rounds,
                   config.max_rounds),
       "rounds of every tile, rounds held in registers"},
      {fmt::format("using Input = {}<InputType, {}>", config.relayout ? "FragmentOperands" : "FragmentInput",
                   boolean(spec.layout == Layout::kTokenMajor)),
       "X token-major"},
  };
  add_output(spec, text);
  text.lines.push_back(
      {fmt::format("using Kernel = ScatterKernel<Entries, Input, Output, {}, {}, {}, {}, {}, {}, {}>", config.tile_rows,
                   config.token_tile, config.input_columns, config.warps, config.row_tiles, config.parts,
                   config.tiles_ahead),
       "rows of a tile, tokens, columns of X held, warps, row tiles, parts of the columns, tiles ahead"});
  add_shared_bytes(config.shared_bytes(), "Kernel::kSharedBytes", text);
  add_scatter_parameters(spec, text);
  if (config.relayout) add_operand_parameters(relayout_of(config), text);
  add_output_parameters(text);
  text.body = kMakeScatterWeight;
  text.body += config.relayout ? make_operand_input(spec) : "const Input input(x, ldx, cols, n);\n";
  text.body += kMakeOutput;
  text.body += "Kernel::run(weight, input, output, n, shared_memory());";
  return text;
}

LaunchPlan scatter_plan(const ScatterConfig& config, const KernelText& text, const KernelText& relayout) {
  LaunchPlan plan;
  if (config.relayout) {
    plan.steps.push_back(relayout_operands_step(relayout_of(config), relayout));
    plan.workspace_bytes = IntegerExpression::of(relayout_of(config).bytes());
  }
  PlanStep step = launch_of(text);
  step.grid = {IntegerExpression::of(fmt::format("ceil_div(fact.row_blocks, {}) * {}", config.row_tiles, config.parts)),
               token_blocks(config.token_tile), 1};
  step.cluster = {config.parts, 1, 1};
  plan.steps.push_back(std::move(step));
  return plan;
}

Status take_out(Ablation part, KernelText& text) {
  AblatedText ablated(part, text);
  switch (part) {
    case Ablation::kNoDecode:
      ablated.wrap("Entries", "UnstoredEntries", "snippets/ablation/unstored_entries.cuh");
      break;
    case Ablation::kNoMultiply: ablated.wrap("InputType", "Unmultiplied", "snippets/ablation/unmultiplied.cuh"); break;
    case Ablation::kCopyOnly:
      ablated.replace("Kernel", "ScatterKernel", "ScatterCopyKernel", "snippets/ablation/scatter_copy.cuh");
      break;
  }
  return ablated.status();
}

Result<Candidate> candidate_of(const Config& config, const Problem& problem, const PackedWeight& packed,
                               std::optional<Ablation> without) {
  const ScatterConfig scatter(config);
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, scatter.packing().name(), packed));
  KernelText texts[] = {scatter_text(scatter, problem), relayout_operands_text(problem.spec, relayout_of(scatter))};
  if (without) SPARSMITH_RETURN_IF_ERROR(take_out(*without, texts[0]));
  LaunchPlan plan = scatter_plan(scatter, texts[0], texts[1]);
  if (without == Ablation::kCopyOnly) keep_kernel(plan, texts[0].name);
  return make_candidate(config, problem, packed, std::move(plan), texts);
}

}  // namespace

void add_scatter_parameters(const OperatorSpec& spec, KernelText& text) {
  text.parameters = {{"const u32*", "entries", packed_array("entries")},
                     {"const u32*", "more_entries", packed_array("more_entries")},
                     {"const u32*", "more_offsets", packed_array("more_offsets")},
                     {"const u32*", "row_parts", packed_array("row_parts")},
                     {"const InputType*", "x", operand("x")},
                     {"int", "rows", integer(spec.rows)},
                     {"int", "cols", integer(spec.cols)},
                     {"int", "row_blocks", integer("fact.row_blocks")},
                     {"int", "column_tiles", integer("fact.column_tiles")},
                     {"int", "n", integer("n")},
                     {"i64", "ldx", integer("ld.x")}};
}

Result<Candidate> ScatterFamily::generate(const Config& config, const Problem& problem,
                                          const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, std::nullopt);
}

std::vector<Ablation> ScatterFamily::ablations(const Config& /*config*/) const {
  return {std::begin(kAblations), std::end(kAblations)};
}

Result<Candidate> ScatterFamily::generate_without(Ablation part, const Config& config, const Problem& problem,
                                                  const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, part);
}

}  // namespace sparsmith
