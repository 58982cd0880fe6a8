// Kernels and launch plans of the two_four family.
#include <fmt/format.h>

#include <algorithm>

#include "generator/kernel_parts.h"
#include "generator/two_four_family.h"

namespace sparsmith {
namespace {

void add_snippets(const TwoFourConfig& config, const OperatorSpec& spec, KernelText& text) {
  text.headers = {config.bulk_copies ? "snippets/prolog/bulk_strip_ring.cuh" : "snippets/prolog/strip_ring.cuh",
                  "snippets/prolog/two_four_tiles.cuh", "snippets/prolog/paired_input.cuh",
                  "snippets/reduction/fragment_sums.cuh", "snippets/kernels/two_four.cuh"};
  text.lines = {
      {fmt::format("using Value = {}", device_type(spec.type)), "of W, X, Y, bias and residual"},
      {fmt::format("constexpr int kWarps = {}", config.warps), "of a block: they share out K"},
      {fmt::format("using Tiles = TwoFourTiles<Value, {}>", config.tiles), "of 16 rows, of a block"},
      {fmt::format("using Ring = {}<TwoFourBounds<Tiles, kWarps>, kWarps>",
                   config.bulk_copies ? "BulkStripRing" : "StripRing"),
       "strips of W to shared memory, a ring a warp"},
      {fmt::format("using Input = PairedInput<Value, {}>", boolean(spec.layout == Layout::kTokenMajor)),
       "X as operands; token-major"},
      {fmt::format("using Sums = FragmentSums<Value, {}, {}, kWarps>", config.tiles, config.token_tiles),
       "16-row tiles, 8-token tiles"},
  };
}

KernelText two_four_text(const TwoFourConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  const bool split = config.column_parts > 1 && !config.cluster;
  const int blocks = config.cluster ? config.column_parts : 1;  // of a cluster
  const std::string parts = split ? "_k" : config.cluster ? fmt::format("_k{}", blocks) : "";
  text.name = fmt::format("two_four_{}_r{}_j{}_w{}_{}_g{}{}", spec_tag(spec), config.tiles, config.token_tiles,
                          config.warps, config.bulk_copies ? "bulk" : "async", config.blocks_per_sm, parts);
  text.summary =
      fmt::format("Y = W X for {} weights with two nonzeros in four, by sparse tensor cores: {} rows by {} tokens",
                  short_name(spec.type), config.rows(), config.tokens());
  text.threads = config.threads();
  text.min_blocks_per_sm = config.blocks_per_sm;
  text.max_shared_bytes = problem.device.shared_bytes_per_block;
  add_snippets(config, spec, text);
  if (split) {
    add_partial_output(spec, text);
  } else {
    add_output(spec, text);
  }
  text.lines.push_back({fmt::format("using Kernel = TwoFourKernel<Ring, Input, Sums, Output, kWarps, {}>", blocks),
                        "parts of K that a cluster adds up"});
  text.parameters = {{"const u8*", "tiles"},
                     {"int", "strips"},
                     {"int", "stages"},
                     {"int", "sent_offset"},
                     {"int", "barriers_offset"},
                     {"int", "rows"},
                     {"int", "row_tiles"},
                     {"const Value*", "x"},
                     {"i64", "ldx"},
                     {"int", "cols"},
                     {"int", "n"}};
  if (config.column_parts > 1) {
    text.parameters.push_back({"int", "part_strips"});
    text.body =
        "const int first_strip = block_index_z() * part_strips;\n"
        "const int end_strip = first_strip + part_strips < strips ? first_strip + part_strips : strips;\n";
  } else {
    text.body = "const int first_strip = 0;\nconst int end_strip = strips;\n";
  }
  if (split) {
    text.parameters.insert(text.parameters.end(), {{"float*", "partials"}, {"i64", "ldp"}});
    text.body +=
        "float* part = partials + static_cast<i64>(block_index_z()) * rows * n;\n"
        "const Output output{part, ldp, nullptr, nullptr, 0, 1.0F, 0.0F};\n";
  } else {
    add_output_parameters(text);
    text.body += kMakeOutput;
  }
  text.body +=
      "u8* shared = shared_memory();\n"
      "Ring ring({tiles, strips}, Tiles::kBytes, stages, shared,\n"
      "          reinterpret_cast<BulkBarrier*>(shared + barriers_offset));\n"
      "Input input(x, ldx, cols, n);\n"
      "Kernel::run(ring, input, output, {rows, row_tiles, first_strip, end_strip, n},\n"
      "            reinterpret_cast<float*>(shared), shared + sent_offset);";
  return text;
}

Result<LaunchPlan> two_four_plan(const TwoFourConfig& config, const Problem& problem, const PackedWeight& packed,
                                 const KernelText& text, const KernelText& finish) {
  PlanArguments arguments("two_four");
  const std::int64_t strips = packed.facts.at("strips");
  const std::int64_t row_tiles = (problem.spec.rows + config.rows() - 1) / config.rows();
  const int stages = config.stages_that_fit(problem.device);
  PlanStep step;
  step.kernel = text.name;
  step.grid = {std::max<std::int64_t>(row_tiles, 1),
               arguments.expression(fmt::format("min(ceil_div(n, {}), 65535)", config.tokens())), config.column_parts};
  step.block = {text.threads, 1, 1};
  step.shared_bytes = config.shared_bytes(stages);
  step.arguments = {PlanArguments::packed("tiles")};
  for (const std::int64_t value : {strips, std::int64_t{stages}, config.sent_offset(stages),
                                   config.barriers_offset(stages), problem.spec.rows, row_tiles})
    step.arguments.push_back(arguments.int32(std::to_string(value)));
  step.arguments.push_back(PlanArguments::x());
  step.arguments.push_back(arguments.int64("ldx"));
  step.arguments.push_back(arguments.int32(std::to_string(problem.spec.cols)));
  step.arguments.push_back(arguments.int32("n"));
  if (config.column_parts > 1)
    step.arguments.push_back(arguments.int32(std::to_string((strips + config.column_parts - 1) / config.column_parts)));
  if (config.cluster) step.cluster = {1, 1, config.column_parts};
  LaunchPlan plan;
  if (config.column_parts > 1 && !config.cluster) {
    step.arguments.push_back(arguments.workspace("0"));
    step.arguments.push_back(
        arguments.int64(problem.spec.layout == Layout::kTokenMajor ? std::to_string(problem.spec.rows) : "n"));
    plan.steps.push_back(std::move(step));
    plan.steps.push_back(finish_parts_step(problem.spec, finish, config.column_parts, "0", arguments));
    plan.workspace_bytes = arguments.expression(fmt::format("{} * n", problem.spec.rows * config.column_parts * 4));
  } else {
    add_output_arguments(step);
    plan.steps.push_back(std::move(step));
  }
  if (!arguments.error().ok()) return arguments.error();
  return plan;
}

}  // namespace

Result<Candidate> TwoFourFamily::generate(const Config& config, const Problem& problem,
                                          const PackedWeight& packed) const {
  const TwoFourConfig two_four(config);
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, kTwoFourPacking, packed));
  const KernelText texts[] = {two_four_text(two_four, problem), finish_parts_text(problem.spec)};
  SPARSMITH_ASSIGN_OR_RETURN(LaunchPlan plan, two_four_plan(two_four, problem, packed, texts[0], texts[1]));
  return make_candidate(config, packed, std::move(plan), texts);
}

}  // namespace sparsmith
