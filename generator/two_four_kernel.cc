// Kernels and launch plans of the two_four family.
#include <fmt/format.h>

#include <algorithm>

#include "generator/kernel_parts.h"
#include "generator/operand_relayout.h"
#include "generator/two_four_family.h"

namespace sparsmith {
namespace {

std::string input_line(const TwoFourConfig& config, const OperatorSpec& spec) {
  const std::string_view token_major = boolean(spec.layout == Layout::kTokenMajor);
  return config.relayout ? fmt::format("using Input = OperandInput<InputType, {}, {}>", token_major, config.token_tiles)
                         : fmt::format("using Input = PairedInput<InputType, {}>", token_major);
}

void add_snippets(const TwoFourConfig& config, const OperatorSpec& spec, KernelText& text) {
  text.headers = {config.bulk_copies ? "snippets/prolog/bulk_strip_ring.cuh" : "snippets/prolog/strip_ring.cuh",
                  "snippets/prolog/two_four_tiles.cuh",
                  config.relayout ? "snippets/prolog/operand_input.cuh" : "snippets/prolog/paired_input.cuh",
                  "snippets/reduction/fragment_sums.cuh", "snippets/kernels/two_four.cuh"};
  text.lines = {
      stored_type(spec.type),
      input_type(spec),
      output_type(spec),
      {fmt::format("constexpr int kWarps = {}", config.warps), "that share out K"},
      {fmt::format("using Tiles = TwoFourTiles<Stored, {}>", config.tiles), "of 16 rows, of a warp"},
      {fmt::format("using Ring = {}<TwoFourBounds<Tiles, kWarps>>", config.bulk_copies ? "BulkStripRing" : "StripRing"),
       "strips of W to shared memory, a ring a warp"},
      {input_line(config, spec), "X as operands; token-major"},
      {fmt::format("using Sums = FragmentSums<InputType, {}, {}, kWarps>", config.tiles, config.token_tiles),
       "16-row tiles, 8-token tiles"},
  };
}

// Parts of K whose sums a second kernel adds up.
bool splits(const TwoFourConfig& config) { return config.column_parts > 1 && !config.cluster; }

OperandRelayout relayout_of(const TwoFourConfig& config) {
  return {OperandOrder::kPaired, "fact.strips", config.token_tiles};
}

// Formula: where partial sums begin in the workspace.
std::string partials_offset(const TwoFourConfig& config) { return config.relayout ? relayout_of(config).bytes() : "0"; }

KernelText two_four_text(const TwoFourConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  const bool split = splits(config);
  const int stages = config.stages_that_fit(problem.device);
  const int blocks = config.cluster ? config.column_parts : 1;  // of a cluster
  const std::string parts = split ? "_k" : config.cluster ? fmt::format("_k{}", blocks) : "";
  text.name = fmt::format("two_four_{}_r{}_j{}_h{}_w{}_{}_g{}{}{}", spec_tag(spec), config.tiles, config.token_tiles,
                          config.row_warps, config.warps, config.bulk_copies ? "bulk" : "async", config.blocks_per_sm,
                          parts, config.relayout ? "_operands" : "");
  text.summary =
      fmt::format("Y = W X for {} weights with two nonzeros in four, by sparse tensor cores: {} rows by {} tokens",
                  short_name(spec.type), config.rows(), config.tokens());
  text.threads = config.threads();
  text.min_blocks_per_sm = config.blocks_per_sm;
  text.max_shared_bytes = config.shared_bytes(stages);
  add_snippets(config, spec, text);
  add_part_output(spec, split, text);
  text.lines.push_back(
      {fmt::format("using Kernel = TwoFourKernel<Ring, Input, Sums, Output, {}, kWarps, {}>", config.row_warps, blocks),
       "warps side by side; parts of K that a cluster adds up"});
  text.parameters = {{"const u8*", "tiles", packed_array("tiles")},
                     {"int", "strips", integer("fact.strips")},
                     {"int", "stages", integer(stages)},
                     {"int", "sent_offset", integer(config.sent_offset(stages))},
                     {"int", "barriers_offset", integer(config.barriers_offset(stages))},
                     {"int", "rows", integer(spec.rows)},
                     {"const InputType*", "x", operand("x")},
                     {"i64", "ldx", integer("ld.x")},
                     {"int", "cols", integer(spec.cols)},
                     {"int", "n", integer("n")}};
  if (config.relayout) add_operand_parameters(relayout_of(config), text);
  text.body = make_part_range(config.column_parts, "strip", "strips", text);
  text.body += make_part_output(spec, split, partials_offset(config), text);
  text.body +=
      "u8* shared = shared_memory();\n"
      "Ring ring({tiles, strips}, Tiles::kBytes, stages, shared,\n"
      "          reinterpret_cast<BulkBarrier*>(shared + barriers_offset));\n";
  text.body += config.relayout ? make_operand_input(spec) : "Input input(x, ldx, cols, n);\n";
  text.body +=
      "Kernel::run(ring, input, output, {rows, first_strip, end_strip, n},\n"
      "            reinterpret_cast<float*>(shared), shared + sent_offset);";
  return text;
}

// The kernels of a plan; those that it does not launch count for nothing.
struct Texts {
  KernelText relayout;
  KernelText main;
  KernelText finish;
};

LaunchPlan two_four_plan(const TwoFourConfig& config, const OperatorSpec& spec, const Texts& texts) {
  LaunchPlan plan;
  std::string workspace_bytes = partials_offset(config);
  if (config.relayout) plan.steps.push_back(relayout_operands_step(relayout_of(config), texts.relayout));
  PlanStep step = launch_of(texts.main);
  const std::int64_t block_rows = (spec.rows + config.rows() - 1) / config.rows();
  step.grid = {std::max<std::int64_t>(block_rows, 1), token_blocks(config.tokens()), config.column_parts};
  if (config.cluster) step.cluster = {1, 1, config.column_parts};
  plan.steps.push_back(std::move(step));
  if (splits(config)) {
    plan.steps.push_back(finish_parts_step(spec, texts.finish));
    workspace_bytes += " + " + part_bytes(spec, config.column_parts);
  }
  plan.workspace_bytes = IntegerExpression::of(workspace_bytes);
  return plan;
}

}  // namespace

Result<Candidate> TwoFourFamily::generate(const Config& config, const Problem& problem,
                                          const PackedWeight& packed) const {
  const TwoFourConfig two_four(config);
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, kTwoFourPacking, packed));
  const Texts texts{relayout_operands_text(problem.spec, relayout_of(two_four)), two_four_text(two_four, problem),
                    finish_parts_text(problem.spec, two_four.column_parts, partials_offset(two_four))};
  const KernelText all[] = {texts.relayout, texts.main, texts.finish};
  return make_candidate(config, problem, packed, two_four_plan(two_four, problem.spec, texts), all);
}

}  // namespace sparsmith
