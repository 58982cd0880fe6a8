// Kernels and launch plans of the bitmap family.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "generator/bitmap_family.h"
#include "generator/kernel_parts.h"
#include "generator/operand_relayout.h"

namespace sparsmith {
namespace {

std::string input_line(const BitmapConfig& config, const OperatorSpec& spec) {
  const std::string_view token_major = boolean(spec.layout == Layout::kTokenMajor);
  return config.relayout ? fmt::format("using Input = OperandInput<Value, {}, {}>", token_major, config.token_tiles)
                         : fmt::format("using Input = StripInput<Value, {}>", token_major);
}

KernelText bitmap_text(const BitmapConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  const bool split = config.column_parts > 1 && !config.cluster;
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
  text.max_shared_bytes = problem.device.shared_bytes_per_block;
  text.headers = {config.bulk_copies ? "snippets/prolog/bulk_strip_ring.cuh" : "snippets/prolog/strip_ring.cuh",
                  "snippets/prolog/strip_bounds.cuh",
                  config.relayout ? "snippets/prolog/operand_input.cuh" : "snippets/prolog/strip_input.cuh",
                  "snippets/prolog/bitmap_values.cuh",
                  "snippets/reduction/fragment_sums.cuh",
                  "snippets/kernels/bitmap.cuh"};
  text.lines = {
      {fmt::format("using Value = {}", device_type(spec.type)), "of W, X, Y, bias and residual"},
      {fmt::format("constexpr int kWarps = {}", config.warps), "of a block: they share out K"},
      {fmt::format("using Ring = {}<StripBounds<kWarps>>", config.bulk_copies ? "BulkStripRing" : "StripRing"),
       "strips of W to shared memory, a ring a warp"},
      {input_line(config, spec), "X as operands; token-major"},
      {fmt::format("using Values = BitmapValues<{}, {}, {}>", config.tiles, config.run_bits,
                   boolean(config.stored_offsets)),
       "16-row tiles of a strip, bits of a run, stored offsets"},
      {fmt::format("using Sums = FragmentSums<Value, {}, {}, kWarps>", config.tiles, config.token_tiles),
       "16-row tiles, 8-token tiles"},
  };
  add_part_output(spec, split, text);
  text.lines.push_back(
      {fmt::format("using Kernel = BitmapKernel<Ring, Input, Values, Sums, Output, kWarps, {}>", blocks),
       "parts of K that a cluster adds up"});
  text.parameters = {{"const u8*", "strips"},
                     {"const u32*", "strip_offsets"},
                     {"const u32*", "row_parts"},
                     {"int", "slot_bytes"},
                     {"int", "stages"},
                     {"int", "extras_offset"},
                     {"int", "rows"},
                     {"int", "row_tiles"},
                     {"int", "row_strips"},
                     {"int", "first_strips"},
                     {"int", "first_units"},
                     {"const Value*", "x"},
                     {"i64", "ldx"},
                     {"int", "cols"},
                     {"int", "n"}};
  if (config.relayout) add_operand_parameters(text);
  text.body = make_part_range(config.column_parts, "strip", "row_strips", text);
  text.body += make_part_output(split, text);
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

Result<LaunchPlan> bitmap_plan(const BitmapConfig& config, const Problem& problem, const PackedWeight& packed,
                               const Texts& texts) {
  PlanArguments arguments("bitmap");
  const KernelText& text = texts.main;
  const std::int64_t strip_bytes = packed.facts.at("max_strip_bytes");
  const std::int64_t row_tiles = packed.facts.at("row_tiles");
  const int stages = config.stages_that_fit(strip_bytes, problem.device);
  const std::int64_t extras_offset = config.extras_offset(strip_bytes, stages);
  PlanStep step;
  step.kernel = text.name;
  step.grid = {std::max<std::int64_t>(row_tiles, 1),
               arguments.expression(fmt::format("min(ceil_div(n, {}), 65535)", config.tokens())), config.column_parts};
  step.block = {text.threads, 1, 1};
  step.shared_bytes = config.shared_bytes(strip_bytes, stages);
  step.arguments = {PlanArguments::packed("strips"), PlanArguments::packed("strip_offsets"),
                    PlanArguments::packed("row_parts")};
  for (const std::int64_t value :
       {config.slot_bytes(strip_bytes), std::int64_t{stages}, extras_offset, problem.spec.rows, row_tiles,
        packed.facts.at("strips"), packed.facts.at("first_strips"), packed.facts.at("first_units")})
    step.arguments.push_back(arguments.int32(std::to_string(value)));
  step.arguments.push_back(PlanArguments::x());
  step.arguments.push_back(arguments.int64("ldx"));
  step.arguments.push_back(arguments.int32(std::to_string(problem.spec.cols)));
  step.arguments.push_back(arguments.int32("n"));
  LaunchPlan plan;
  const std::int64_t strips = packed.facts.at("strips");
  const OperandRelayout relayout{OperandOrder::kStrip, 2 * strips, config.token_tiles};
  const std::string operand_bytes = config.relayout ? relayout.bytes() : "0";  // which begin the workspace
  if (config.relayout) {
    plan.steps.push_back(relayout_operands_step(problem.spec, relayout, texts.relayout, arguments));
    add_operand_arguments(relayout, arguments, step);
  }
  if (config.column_parts > 1) {
    step.arguments.push_back(arguments.int32(std::to_string((strips + config.column_parts - 1) / config.column_parts)));
  }
  if (config.cluster) step.cluster = {1, 1, config.column_parts};
  std::string workspace = operand_bytes;
  if (config.column_parts > 1 && !config.cluster) {
    step.arguments.push_back(arguments.workspace(operand_bytes));
    step.arguments.push_back(
        arguments.int64(problem.spec.layout == Layout::kTokenMajor ? std::to_string(problem.spec.rows) : "n"));
    plan.steps.push_back(std::move(step));
    plan.steps.push_back(finish_parts_step(problem.spec, texts.finish, config.column_parts, operand_bytes, arguments));
    workspace += fmt::format(" + {} * n", problem.spec.rows * config.column_parts * 4);
  } else {
    add_output_arguments(step);
    plan.steps.push_back(std::move(step));
  }
  plan.workspace_bytes = arguments.expression(workspace);
  if (!arguments.error().ok()) return arguments.error();
  return plan;
}

Status take_out(Ablation part, KernelText& text) {
  AblatedText ablated(part, text);
  switch (part) {
    case Ablation::kNoDecode:
      ablated.wrap("Values", "UndecodedStrips", "snippets/ablation/undecoded_strips.cuh");
      break;
    case Ablation::kNoMultiply: ablated.wrap("Value", "Unmultiplied", "snippets/ablation/unmultiplied.cuh"); break;
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
  Texts texts{relayout_operands_text(problem.spec, OperandOrder::kStrip), bitmap_text(bitmap, problem),
              finish_parts_text(problem.spec)};
  if (without) SPARSMITH_RETURN_IF_ERROR(take_out(*without, texts.main));
  SPARSMITH_ASSIGN_OR_RETURN(LaunchPlan plan, bitmap_plan(bitmap, problem, packed, texts));
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
