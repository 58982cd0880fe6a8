// Kernels and launch plans of the bitmap family.
#include <fmt/format.h>

#include <algorithm>

#include "generator/bitmap_family.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

KernelText bitmap_text(const BitmapConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  text.name = fmt::format("bitmap_{}_r{}_j{}_w{}_{}_g{}", spec_tag(spec), config.tiles, config.token_tiles,
                          config.warps, config.stored_offsets ? "stored" : "scanned", config.blocks_per_sm);
  text.summary =
      fmt::format("Y = W X for {} weights as bitmap and values, decoded for tensor cores: {} rows by {} tokens a block",
                  short_name(spec.type), config.rows(), config.tokens());
  text.threads = config.threads();
  text.min_blocks_per_sm = config.blocks_per_sm;
  text.max_shared_bytes = problem.device.shared_bytes_per_block;
  text.headers = {"snippets/prolog/strip_ring.cuh", "snippets/prolog/strip_input.cuh",
                  "snippets/prolog/bitmap_values.cuh", "snippets/reduction/fragment_sums.cuh",
                  "snippets/kernels/bitmap.cuh"};
  text.lines = {
      {fmt::format("using Value = {}", device_type(spec.type)), "of W, X, Y, bias and residual"},
      {fmt::format("constexpr int kWarps = {}", config.warps), "of a block: they share out K"},
      {"using Ring = StripRing<kWarps>", "strips of W to shared memory, a ring a warp"},
      {fmt::format("using Input = StripInput<Value, {}>", boolean(spec.layout == Layout::kTokenMajor)),
       "X as operands; token-major"},
      {fmt::format("using Values = BitmapValues<{}, {}>", config.tiles, boolean(config.stored_offsets)),
       "16-row tiles of a strip, stored offsets"},
      {fmt::format("using Sums = FragmentSums<Value, {}, {}, kWarps>", config.tiles, config.token_tiles),
       "16-row tiles, 8-token tiles"},
  };
  add_output(spec, text);
  text.lines.push_back({"using Kernel = BitmapKernel<Ring, Input, Values, Sums, Output, kWarps>", ""});
  text.parameters = {{"const u8*", "strips"},  {"const u32*", "strip_offsets"},
                     {"int", "slot_bytes"},    {"int", "stages"},
                     {"int", "extras_offset"}, {"int", "rows"},
                     {"int", "row_tiles"},     {"int", "row_strips"},
                     {"const Value*", "x"},    {"i64", "ldx"},
                     {"int", "cols"},          {"int", "n"}};
  add_output_parameters(text);
  text.body = std::string(kMakeOutput) +
              "u8* shared = shared_memory();\n"
              "Ring ring(strips, strip_offsets, slot_bytes, stages, shared);\n"
              "const Input input(x, ldx, cols, n);\n"
              "Kernel::run(ring, input, output, rows, row_tiles, row_strips, n, reinterpret_cast<float*>(shared),\n"
              "            reinterpret_cast<float*>(shared + extras_offset));";
  return text;
}

Result<LaunchPlan> bitmap_plan(const BitmapConfig& config, const Problem& problem, const PackedWeight& packed,
                               const KernelText& text) {
  PlanArguments arguments("bitmap");
  const std::int64_t strip_bytes = packed.facts.at("max_strip_bytes");
  const std::int64_t row_tiles = packed.facts.at("row_tiles");
  const int stages = config.stages_that_fit(strip_bytes, problem.device);
  const std::int64_t extras_offset = config.extras_offset(strip_bytes, stages);
  PlanStep step;
  step.kernel = text.name;
  step.grid = {std::max<std::int64_t>(row_tiles, 1),
               arguments.expression(fmt::format("min(ceil_div(n, {}), 65535)", config.tokens())), 1};
  step.block = {text.threads, 1, 1};
  step.shared_bytes = extras_offset + config.extras_bytes();
  step.arguments = {PlanArguments::packed("strips"), PlanArguments::packed("strip_offsets")};
  for (const std::int64_t value :
       {strip_bytes, std::int64_t{stages}, extras_offset, problem.spec.rows, row_tiles, packed.facts.at("strips")})
    step.arguments.push_back(arguments.int32(std::to_string(value)));
  step.arguments.push_back(PlanArguments::x());
  step.arguments.push_back(arguments.int64("ldx"));
  step.arguments.push_back(arguments.int32(std::to_string(problem.spec.cols)));
  step.arguments.push_back(arguments.int32("n"));
  add_output_arguments(step);
  if (!arguments.error().ok()) return arguments.error();
  LaunchPlan plan;
  plan.steps.push_back(std::move(step));
  return plan;
}

}  // namespace

Result<Candidate> BitmapFamily::generate(const Config& config, const Problem& problem,
                                         const PackedWeight& packed) const {
  const BitmapConfig bitmap(config);
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, bitmap.packing().name(), packed));
  const KernelText text = bitmap_text(bitmap, problem);
  SPARSMITH_ASSIGN_OR_RETURN(LaunchPlan plan, bitmap_plan(bitmap, problem, packed, text));
  return make_candidate(config, packed, std::move(plan), {&text, 1});
}

}  // namespace sparsmith
