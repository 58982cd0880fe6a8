// Kernels and launch plans of the wgmma family.
#include <fmt/format.h>

#include <optional>

#include "generator/kernel_parts.h"
#include "generator/wgmma_family.h"

namespace sparsmith {
namespace {

KernelText wgmma_text(const WgmmaConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  const bool bytes = config.entry == ScatterEntry::kByte;
  const bool split = config.second_kernel();
  const std::string parts = split ? "_k" : config.cluster() > 1 ? fmt::format("_c{}", config.cluster()) : "";
  KernelText text;
  text.name =
      fmt::format("wgmma_{}_e{}_i{}_a{}_r{}_w{}_{}_x{}_b{}{}", spec_tag(spec), bytes ? "b" : "w", config.min_rounds,
                  config.max_rounds, config.row_tiles, config.warpgroups, config.whole_tiles != 0 ? "whole" : "entries",
                  config.taken_tiles, config.tile_buffers, parts);
  text.summary = fmt::format("Y = W X for {} weights as lists of nonzeros, made dense for wgmma: {} rows by {} tokens",
                             short_name(spec.type), config.rows(), WgmmaConfig::kTokens);
  text.architecture = "sm_90a";
  text.threads = config.warpgroups * 128;
  text.min_blocks_per_sm = 1;
  text.headers = {"snippets/prolog/scatter_entries.cuh", "snippets/prolog/fragment_input.cuh",
                  "snippets/kernels/wgmma.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      {fmt::format("using Entries = {}<{}, {}>", bytes ? "ByteEntries" : "WordEntries", config.min_rounds,
                   config.max_rounds),
       "rounds of every tile, rounds held in registers"},
      {fmt::format("using Input = FragmentInput<InputType, {}>", boolean(spec.layout == Layout::kTokenMajor)),
       "X token-major"},
  };
  add_part_output(spec, split, text);
  text.lines.push_back(
      {fmt::format("using Kernel = WgmmaKernel<Entries, Input, Output, {}, {}, {}, {}, {}, {}>", config.row_tiles,
                   config.warpgroups, boolean(config.whole_tiles != 0), config.taken_tiles, config.tile_buffers,
                   config.cluster()),
       "row tiles, warpgroups, whole tiles cleared, column tiles of X held, tiles of a warp, blocks of a cluster"});
  add_shared_bytes(config.shared_bytes(), "Kernel::kSharedBytes", text);
  add_scatter_parameters(spec, text);
  const std::string range = make_part_range(config.column_parts, "tile", "column_tiles", text);
  text.body = make_part_output(spec, split, "0", text) + range;
  text.body += kMakeScatterWeight;
  text.body +=
      "const Input input(x, ldx, cols, n);\n"
      "Kernel::run(weight, input, output, first_tile, end_tile, n, shared_memory());";
  return text;
}

LaunchPlan wgmma_plan(const WgmmaConfig& config, const OperatorSpec& spec, const KernelText& text,
                      const KernelText& finish) {
  PlanStep step = launch_of(text);
  step.grid = {IntegerExpression::of(fmt::format("ceil_div(fact.row_blocks, {})", config.row_tiles)),
               token_blocks(WgmmaConfig::kTokens), config.column_parts};
  step.cluster = {1, 1, config.cluster()};
  LaunchPlan plan;
  plan.steps.push_back(std::move(step));
  if (config.second_kernel()) {
    plan.steps.push_back(finish_parts_step(spec, finish));
    plan.workspace_bytes = IntegerExpression::of(part_bytes(spec, config.column_parts));
  }
  return plan;
}

Status take_out(Ablation part, const WgmmaConfig& config, KernelText& text) {
  AblatedText ablated(part, text);
  switch (part) {
    case Ablation::kNoDecode:
      ablated.wrap("Entries", "UnstoredEntries", "snippets/ablation/unstored_entries.cuh");
      // Tiles that nothing is stored into need not be cleared as a whole: entries clear them, which do nothing.
      if (config.whole_tiles != 0) ablated.replace("Kernel", "true", "false", "snippets/ablation/unstored_entries.cuh");
      break;
    case Ablation::kNoMultiply: ablated.wrap("InputType", "Unmultiplied", "snippets/ablation/unmultiplied.cuh"); break;
    case Ablation::kCopyOnly:
      ablated.replace("Kernel", "WgmmaKernel", "WgmmaCopyKernel", "snippets/ablation/wgmma_copy.cuh");
      break;
  }
  return ablated.status();
}

Result<Candidate> candidate_of(const Config& config, const Problem& problem, const PackedWeight& packed,
                               std::optional<Ablation> without) {
  const WgmmaConfig wgmma(config);
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, wgmma.packing().name(), packed));
  KernelText texts[] = {wgmma_text(wgmma, problem), finish_parts_text(problem.spec, wgmma.column_parts, "0")};
  if (without) SPARSMITH_RETURN_IF_ERROR(take_out(*without, wgmma, texts[0]));
  LaunchPlan plan = wgmma_plan(wgmma, problem.spec, texts[0], texts[1]);
  if (without == Ablation::kCopyOnly) keep_kernel(plan, texts[0].name);
  return make_candidate(config, problem, packed, std::move(plan), texts);
}

}  // namespace

Result<Candidate> WgmmaFamily::generate(const Config& config, const Problem& problem,
                                        const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, std::nullopt);
}

std::vector<Ablation> WgmmaFamily::ablations(const Config& /*config*/) const {
  return {std::begin(kAblations), std::end(kAblations)};
}

Result<Candidate> WgmmaFamily::generate_without(Ablation part, const Config& config, const Problem& problem,
                                                const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, part);
}

}  // namespace sparsmith
