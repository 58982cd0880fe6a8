// Kernels and launch plans of the gather family.
#include <fmt/format.h>

#include <optional>

#include "formats/panel_words.h"
#include "generator/gather_family.h"
#include "generator/kernel_parts.h"
#include "generator/panel_family.h"

namespace sparsmith {
namespace {

KernelText gather_text(const GatherConfig& config, const OperatorSpec& spec) {
  const bool wide = panel::step_words(spec.type, config.token_lanes, spec.cols).form == panel::EntryForm::kWords;
  KernelText text;
  text.name =
      fmt::format("gather_{}_n{}_t{}_d{}_a{}{}{}{}_b{}", spec_tag(spec), config.token_lanes, config.segment_lanes,
                  config.depth, config.ahead, wide ? "_w" : "", config.sweep_columns > 0 ? "_s" : "",
                  spec.accumulation == Accumulation::kFp16Chains ? "_c" : "", config.threads_per_block);
  text.summary = fmt::format("Y = W X for {} weights in tasks, rows of {} tokens of X gathered through L1 and L2",
                             short_name(spec.type), config.tile_tokens(spec.type));
  text.threads = config.threads_per_block;
  // Left to itself, the compiler spills for the sake of more blocks.
  const int threads_per_sm = config.ahead == 1 && size_of(spec.type) == 2 ? 512 : 1024;
  if (text.threads <= threads_per_sm) text.min_blocks_per_sm = threads_per_sm / text.threads;
  text.headers = {"snippets/prolog/panel_stream.cuh", "snippets/prolog/gathered_rows.cuh",
                  "snippets/reduction/gathered_products.cuh", "snippets/kernels/gather.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      {fmt::format("using Stream = PanelStream<panel::Step, {}, kThreads / 32, {}>", config.depth, config.token_lanes),
       "steps loaded ahead, warps, lanes of a team"},
      {fmt::format("using Input = GatheredRows<InputType, {}, {}, {}>", config.token_lanes, boolean(wide),
                   boolean(spec.layout == Layout::kTokenMajor)),
       "lanes of a team, a word for each column, X turned by a launch before"},
      {fmt::format("using Products = GatheredProducts<Input, {}, {}, {}>", config.segment_lanes,
                   boolean(config.sweep_columns > 0), row_products_type(spec)),
       "teams a segment, sums added to those of earlier columns"},
  };
  add_output(spec, text);
  text.lines.push_back({fmt::format("using Kernel = GatherKernel<Stream, Input, Products, Output, {}, {}, kThreads>",
                                    boolean(spec.layout == Layout::kTokenMajor), config.ahead),
                        "Y token-major, steps whose rows are asked for ahead"});
  const bool relaid = spec.layout == Layout::kTokenMajor;
  const std::string row_bytes = fmt::format("({}) * {}", relaid ? kRelayoutStride : "ld.x", size_of(spec.type));
  add_panel_parameters(text);
  text.parameters.insert(text.parameters.end(), {{"int", "cols", integer(spec.cols)},
                                                 {"const InputType*", "x", relaid ? workspace() : operand("x")},
                                                 {"u32", "x_row_bytes", integer(row_bytes)},
                                                 {"int", "x_tokens", integer(relaid ? kRelayoutStride : "n")},
                                                 {"int", "n", integer("n")}});
  add_output_parameters(text);
  text.body =
      "const panel::Weight weight{entries, shares, task_slots, parts, row_slots, part_count, share_steps, "
      "cols};\n" +
      std::string(kMakeOutput) + "Kernel::run(weight, x, x_row_bytes, x_tokens, output, n, shared_memory());";
  return text;
}

LaunchPlan gather_plan(const GatherConfig& config, const OperatorSpec& spec, const KernelText& gather,
                       const KernelText& relayout) {
  LaunchPlan plan;
  if (spec.layout == Layout::kTokenMajor) {
    plan.workspace_bytes = IntegerExpression::of(relayout_bytes(spec));
    plan.steps.push_back(relayout_step(spec, relayout));
  }
  const std::int64_t tokens = config.tile_tokens(spec.type);
  PlanStep step = launch_of(gather);
  step.grid = {IntegerExpression::of("fact.parts"), token_blocks(tokens), 1};
  step.shared_bytes = IntegerExpression::of(fmt::format("fact.slots * {}", tokens * 4));
  plan.steps.push_back(std::move(step));
  return plan;
}

Status take_out(Ablation part, KernelText& text) {
  AblatedText ablated(part, text);
  switch (part) {
    case Ablation::kNoDecode: ablated.wrap("Input", "UngatheredRows", "snippets/ablation/ungathered_rows.cuh"); break;
    case Ablation::kNoMultiply:
      ablated.replace("Products", "GatheredProducts", "UnmultipliedRows", "snippets/ablation/unmultiplied_rows.cuh");
      break;
    case Ablation::kCopyOnly:
      ablated.replace("Kernel", "GatherKernel", "GatherCopyKernel", "snippets/ablation/gather_copy.cuh");
      break;
  }
  return ablated.status();
}

Result<Candidate> candidate_of(const Config& config, const Problem& problem, const PackedWeight& packed,
                               std::optional<Ablation> without) {
  const GatherConfig gather(config);
  const OperatorSpec& spec = problem.spec;
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, gather.packing(problem).name(), packed));
  KernelText texts[] = {gather_text(gather, spec), relayout_text(spec)};
  if (without) SPARSMITH_RETURN_IF_ERROR(take_out(*without, texts[0]));
  LaunchPlan plan = gather_plan(gather, spec, texts[0], texts[1]);
  if (without == Ablation::kCopyOnly) keep_kernel(plan, texts[0].name);
  return make_candidate(config, problem, packed, std::move(plan), texts);
}

}  // namespace

Result<Candidate> GatherFamily::generate(const Config& config, const Problem& problem,
                                         const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, std::nullopt);
}

std::vector<Ablation> GatherFamily::ablations(const Config& /*config*/) const {
  return {std::begin(kAblations), std::end(kAblations)};
}

Result<Candidate> GatherFamily::generate_without(Ablation part, const Config& config, const Problem& problem,
                                                 const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, part);
}

}  // namespace sparsmith
