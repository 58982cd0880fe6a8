// Kernels and launch plans of the bitmap family.
#include <fmt/format.h>

#include <optional>

#include "generator/bitmap_family.h"
#include "generator/kernel_parts.h"
#include "generator/operand_relayout.h"

namespace sparsmith {
namespace {

std::string input_line(const BitmapConfig& config, const OperatorSpec& spec) {
  const std::string_view token_major = boolean(spec.layout == Layout::kTokenMajor);
  return config.relayout ? fmt::format("using Input = OperandInput<InputType, {}, {}>", token_major, config.token_tiles)
                         : fmt::format("using Input = StripInput<InputType, {}>", token_major);
}

// Parts of K whose sums a second kernel adds up.
bool splits(const BitmapConfig& config) { return config.column_parts > 1 && !config.cluster; }

OperandRelayout relayout_of(const BitmapConfig& config) {
  return {OperandOrder::kStrip, "fact.strips", config.token_tiles};
}

// Formula: where partial sums begin in the workspace.
std::string partials_offset(const BitmapConfig& config) { return config.relayout ? relayout_of(config).bytes() : "0"; }

KernelText bitmap_text(const BitmapConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  const bool split = splits(config);
  const int blocks = config.cluster ? config.column_parts : 1;  // of a cluster
  const std::string parts = split ? "_k" : config.cluster ? fmt::format("_k{}", blocks) : "";
  text.name = fmt::format("bitmap_{}_r{}_j{}_w{}_b{}_{}_{}_g{}{}{}", spec_tag(spec), config.tiles, config.token_tiles,
                          config.warps, config.run_bits, config.stored_offsets ? "stored" : "scanned",
                          config.bulk_copies ? "bulk" : "async", config.blocks_per_sm, parts,
                          config.relayout ? "_operands" : "");
  text.summary =
      fmt::format("Y = W X for {} weights as bitmap and values, decoded for tensor cores: {} rows by {} tokens a block",
                  short_name(spec.type), config.rows(), config.tokens());
  text.threads = config.threads();
  text.min_blocks_per_sm = config.blocks_per_sm;
  text.headers = {config.bulk_copies ? "snippets/prolog/bulk_strip_ring.cuh" : "snippets/prolog/strip_ring.cuh",
                  "snippets/prolog/strip_bounds.cuh",
                  config.relayout ? "snippets/prolog/operand_input.cuh" : "snippets/prolog/strip_input.cuh",
                  "snippets/prolog/bitmap_values.cuh",
                  "snippets/reduction/fragment_sums.cuh",
                  "snippets/kernels/bitmap.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      {fmt::format("constexpr int kWarps = {}", config.warps), "of a block: they share out K"},
      {fmt::format("using Ring = {}<StripBounds<kWarps>>", config.bulk_copies ? "BulkStripRing" : "StripRing"),
       "strips of W to shared memory, a ring a warp"},
      {input_line(config, spec), "X as operands; token-major"},
      {fmt::format("using Values = BitmapValues<{}, {}, {}>", config.tiles, config.run_bits,
                   boolean(config.stored_offsets)),
       "16-row tiles of a strip, bits of a run, stored offsets"},
      {fmt::format("using Sums = FragmentSums<InputType, {}, {}, kWarps>", config.tiles, config.token_tiles),
       "16-row tiles, 8-token tiles"},
  };
  add_part_output(spec, split, text);
  text.lines.push_back(
      {fmt::format("using Kernel = BitmapKernel<Ring, Input, Values, Sums, Output, kWarps, {}>", blocks),
       "parts of K that a cluster adds up"});
  const StripSizes sizes = config.strip_sizes(problem.device);
  text.parameters = {{"const u8*", "strips", packed_array("strips")},
                     {"const u32*", "strip_offsets", packed_array("strip_offsets")},
                     {"const u32*", "row_parts", packed_array("row_parts")},
                     {"int", "slot_bytes", integer(sizes.slot_bytes)},
                     {"int", "stages", integer(sizes.stages)},
                     {"int", "extras_offset", integer(sizes.extras_offset)},
                     {"int", "rows", integer(spec.rows)},
                     {"int", "row_tiles", integer("fact.row_tiles")},
                     {"int", "row_strips", integer("fact.strips")},
                     {"int", "first_strips", integer("fact.first_strips")},
                     {"int", "first_units", integer("fact.first_units")},
                     {"const InputType*", "x", operand("x")},
                     {"i64", "ldx", integer("ld.x")},
                     {"int", "cols", integer(spec.cols)},
                     {"int", "n", integer("n")}};
  if (config.relayout) add_operand_parameters(relayout_of(config), text);
  text.body = make_part_range(config.column_parts, "strip", "row_strips", text);
  text.body += make_part_output(spec, split, partials_offset(config), text);
  text.body +=
      "u8* shared = shared_memory();\n"
      "float* extras = reinterpret_cast<float*>(shared + extras_offset);\n"
      "Ring ring({strips, strip_offsets, row_strips, first_strips, first_units}, slot_bytes, stages, shared,\n"
      "          reinterpret_cast<BulkBarrier*>(shared + extras_offset + Kernel::kExtraBytes));\n";
  text.body += config.relayout ? make_operand_input(spec) : "Input input(x, ldx, cols, n);\n";
  text.body +=
      "Kernel::run(ring, input, output, row_parts, rows, row_tiles, first_strip, end_strip, n,\n"
      "            reinterpret_cast<float*>(shared), extras);";
  return text;
}

// The kernels of a plan; those that it does not launch count for nothing.
struct Texts {
  KernelText relayout;
  KernelText main;
  KernelText finish;
};

LaunchPlan bitmap_plan(const BitmapConfig& config, const Problem& problem, const Texts& texts) {
  LaunchPlan plan;
  std::string workspace_bytes = partials_offset(config);
  if (config.relayout) plan.steps.push_back(relayout_operands_step(relayout_of(config), texts.relayout));
  PlanStep step = launch_of(texts.main);
  step.grid = {IntegerExpression::of("max(fact.row_tiles, 1)"), token_blocks(config.tokens()), config.column_parts};
  if (config.cluster) step.cluster = {1, 1, config.column_parts};
  step.shared_bytes = IntegerExpression::of(config.strip_sizes(problem.device).shared_bytes);
  plan.steps.push_back(std::move(step));
  if (splits(config)) {
    plan.steps.push_back(finish_parts_step(problem.spec, texts.finish));
    workspace_bytes += " + " + part_bytes(problem.spec, config.column_parts);
  }
  plan.workspace_bytes = IntegerExpression::of(workspace_bytes);
  return plan;
}

Status take_out(Ablation part, KernelText& text) {
  AblatedText ablated(part, text);
  switch (part) {
    case Ablation::kNoDecode:
      ablated.wrap("Values", "UndecodedStrips", "snippets/ablation/undecoded_strips.cuh");
      break;
    case Ablation::kNoMultiply: ablated.wrap("InputType", "Unmultiplied", "snippets/ablation/unmultiplied.cuh"); break;
    case Ablation::kCopyOnly:
      ablated.replace("Kernel", "BitmapKernel", "BitmapCopyKernel", "snippets/ablation/bitmap_copy.cuh");
      break;
  }
  return ablated.status();
}

Result<Candidate> candidate_of(const Config& config, const Problem& problem, const PackedWeight& packed,
                               std::optional<Ablation> without) {
  const BitmapConfig bitmap(config);
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, bitmap.packing().name(), packed));
  Texts texts{relayout_operands_text(problem.spec, relayout_of(bitmap)), bitmap_text(bitmap, problem),
              finish_parts_text(problem.spec, bitmap.column_parts, partials_offset(bitmap))};
  if (without) SPARSMITH_RETURN_IF_ERROR(take_out(*without, texts.main));
  LaunchPlan plan = bitmap_plan(bitmap, problem, texts);
  if (without == Ablation::kCopyOnly) keep_kernel(plan, texts.main.name);
  const KernelText all[] = {texts.relayout, texts.main, texts.finish};
  return make_candidate(config, problem, packed, std::move(plan), all);
}

}  // namespace

Result<Candidate> BitmapFamily::generate(const Config& config, const Problem& problem,
                                         const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, std::nullopt);
}

std::vector<Ablation> BitmapFamily::ablations(const Config& /*config*/) const {
  return {std::begin(kAblations), std::end(kAblations)};
}

Result<Candidate> BitmapFamily::generate_without(Ablation part, const Config& config, const Problem& problem,
                                                 const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, part);
}

}  // namespace sparsmith
