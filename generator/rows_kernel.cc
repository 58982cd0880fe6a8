// Kernels and launch plans of the rows family.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "formats/packed_format.h"
#include "generator/kernel_parts.h"
#include "generator/rows_family.h"

namespace sparsmith {
namespace {

std::string_view partials_type(PartialSums partials) {
  switch (partials) {
    case PartialSums::kNone: return "NoPartials";
    case PartialSums::kAtomic: return "AtomicPartials";
    case PartialSums::kTwoPass: return "StoredPartials";
  }
  return "?";
}

// Formula: where partial sums begin in the workspace.
std::string partials_offset(const RowsConfig& config, const OperatorSpec& spec) {
  return config.input == RowsConfig::Input::kRelayout ? relayout_bytes(spec) : "0";
}

KernelText rows_text(const RowsConfig& config, const OperatorSpec& spec, const Coding* coding) {
  const bool targets = config.row_order != RowOrder::kNatural || config.split_length > 0;
  const bool token_major_input = spec.layout == Layout::kTokenMajor && config.input != RowsConfig::Input::kRelayout;
  const bool shared = config.input == RowsConfig::Input::kShared;
  KernelText text;
  text.name = fmt::format("rows_{}_u{}_v{}_tl{}_tt{}_s{}_h{}_r{}_n{}_x{}_p{}{}_b{}", spec_tag(spec), config.index_bits,
                          config.vector_width, config.token_lanes, config.tokens_per_thread, config.shuffle_lanes,
                          config.shared_parts, config.rows_per_group, config.unroll,
                          std::string_view("gsr").substr(static_cast<std::size_t>(config.input), 1),
                          std::string_view("nat").substr(static_cast<std::size_t>(config.partial_sums), 1),
                          targets ? "t" : "", config.threads_per_block);
  if (coding != nullptr) text.name += fmt::format("_{}", coding->name);
  text.summary = fmt::format("Y = W X for {} weights in csr, {} reduction lanes a row, {} tokens a tile",
                             short_name(spec.type), config.shuffle_lanes * config.shared_parts, config.token_tile());
  text.threads = config.threads_per_block;
  text.headers = {"snippets/prolog/csr_stream.cuh",
                  "snippets/prolog/codings.cuh",
                  shared ? "snippets/prolog/shared_input.cuh" : "snippets/prolog/global_input.cuh",
                  "snippets/reduction/register_sums.cuh",
                  "snippets/reduction/shuffle_sum.cuh",
                  "snippets/reduction/shared_sum.cuh",
                  "snippets/reduction/partial_sums.cuh",
                  "snippets/kernels/rows.cuh"};
  text.lines = {
      stored_type(coding == nullptr ? spec.type : coding->stored),
      coding_type(coding),
      input_type(spec),
      output_type(spec),
      {fmt::format("using Index = u{}", config.index_bits), "of a column"},
      {fmt::format("constexpr int kTokenLanes = {}", config.token_lanes), "lanes that share out a token tile"},
      {fmt::format("constexpr int kTokens = {}", config.tokens_per_thread), "tokens of a thread"},
      {fmt::format("constexpr int kShuffleLanes = {}", config.shuffle_lanes), "lanes of a row that combine by shuffle"},
      {fmt::format("constexpr int kSharedParts = {}", config.shared_parts),
       "parts of a row that combine through shared memory"},
      {fmt::format("using Stream = CsrStream<Stored, Index, {}>", config.vector_width), "nonzeros a load"},
      {fmt::format("using Input = {}<InputType, {}, kTokenLanes, kTokens, kThreads>",
                   shared ? "SharedInput" : "GlobalInput", boolean(token_major_input)),
       "X token-major"},
      {fmt::format("using Sums = RegisterSums<{}, kTokens>", config.rows_per_group), "rows of a thread group"},
      {"using Shuffle = ShuffleSum<kShuffleLanes, kTokenLanes>", ""},
      {"using Shared = SharedSum<kSharedParts, kShuffleLanes * kTokenLanes, kTokenLanes, kThreads>", ""},
      {fmt::format("using Partials = {}", partials_type(config.partial_sums)), "of rows that were cut"},
  };
  add_output(spec, text);
  text.lines.push_back(
      {fmt::format("using Kernel = RowsKernel<Stream, Coding, Input, Sums, Shuffle, Shared, Partials, Output, "
                   "kTokenLanes, {}, {}, kThreads>",
                   config.unroll, boolean(targets)),
       "vectors in flight, segments name their rows"});
  add_shared_bytes(config.sums_bytes(), "Shared::shared_bytes<Sums>()", text);
  text.max_shared_bytes += config.panel_bytes(spec.cols, size_of(spec.type));
  const bool relaid = config.input == RowsConfig::Input::kRelayout;
  const PlanArgument partials =
      config.partial_sums == PartialSums::kNone ? null_pointer() : workspace(partials_offset(config, spec));
  text.parameters = {{"const csr::Segment*", "segments", packed_array("segments")},
                     {"const u32*", "targets", targets ? packed_array("targets") : null_pointer()},
                     {"const Index*", "columns", packed_array("columns")},
                     {"const Stored*", "values", packed_array("values")},
                     {"const InputType*", "x", relaid ? workspace() : operand("x")},
                     {"float*", "partials", partials},
                     {"int", "segment_count", integer("fact.segments")},
                     {"int", "cols", integer(spec.cols)},
                     {"int", "n", integer("n")},
                     {"i64", "ldx", integer(relaid ? kRelayoutStride : "ld.x")}};
  add_output_parameters(text);
  text.body = "const Stream stream{columns, values};\n" + make_coding(coding, spec, text) +
              "Input input(x, ldx, cols, shared_memory());\n" + kMakeOutput +
              "Kernel::run(segments, targets, stream, coding, input, output, partials, segment_count, n,\n"
              "            shared_memory() + Input::shared_bytes(cols));";
  return text;
}

KernelText finish_text(const RowsConfig& config, const OperatorSpec& spec) {
  KernelText text;
  text.name = "finish_rows_" + spec_tag(spec);
  text.summary = "adds up the partial sums of rows that were cut, and runs the epilog";
  text.threads = 256;
  text.headers = {"snippets/kernels/finish_rows.cuh"};
  text.lines = {output_type(spec)};
  add_output(spec, text);
  text.lines.push_back({"using Kernel = FinishRowsKernel<Output, kThreads>", ""});
  text.parameters = {{"const u32*", "split_rows", packed_array("split_rows")},
                     {"const u32*", "slot_offsets", packed_array("slot_offsets")},
                     {"const float*", "partials", workspace(partials_offset(config, spec))},
                     {"int", "split_row_count", integer("fact.split_rows")},
                     {"int", "n", integer("n")}};
  add_output_parameters(text);
  text.body = std::string(kMakeOutput) + "Kernel::run(split_rows, slot_offsets, partials, output, split_row_count, n);";
  return text;
}

PlanStep rows_step(const RowsConfig& config, const Problem& problem, const KernelText& text) {
  const std::int64_t per_block =
      std::int64_t{config.threads_per_block} / config.group_threads() * config.rows_per_group;
  std::string blocks = fmt::format("max(ceil_div(fact.segments, {}), 1)", per_block);
  if (config.blocks_per_sm > 0)
    blocks =
        fmt::format("min({}, {})", blocks, std::int64_t{config.blocks_per_sm} * std::max(problem.device.sm_count, 1));
  PlanStep step = launch_of(text);
  step.grid = {IntegerExpression::of(blocks), token_blocks(config.token_tile()), 1};
  return step;
}

PlanStep finish_step(const KernelText& text) {
  PlanStep step = launch_of(text);
  step.grid[0] = IntegerExpression::of(fmt::format("min(ceil_div(fact.split_rows * n, {}), 65535)", text.threads));
  return step;
}

// The kernels of a plan; those that it does not launch count for nothing.
struct Texts {
  KernelText main;
  KernelText relayout;
  KernelText finish;
};

LaunchPlan rows_plan(const RowsConfig& config, const Problem& problem, const PackedWeight& packed, const Texts& texts) {
  const std::string offset = partials_offset(config, problem.spec);
  const std::string partial_bytes = "fact.slots * 4 * n";
  const bool splits = packed.facts.at("split_rows") > 0;
  LaunchPlan plan;
  plan.workspace_bytes = IntegerExpression::of(offset + " + " + partial_bytes);
  if (config.input == RowsConfig::Input::kRelayout) plan.steps.push_back(relayout_step(problem.spec, texts.relayout));
  if (splits && config.partial_sums == PartialSums::kAtomic) {
    PlanStep zero;
    zero.kind = PlanStep::Kind::kZero;
    zero.zero_offset = IntegerExpression::of(offset);
    zero.zero_bytes = IntegerExpression::of(partial_bytes);
    plan.steps.push_back(std::move(zero));
  }
  plan.steps.push_back(rows_step(config, problem, texts.main));
  if (splits) plan.steps.push_back(finish_step(texts.finish));
  return plan;
}

Status take_out(Ablation part, KernelText& text) {
  AblatedText ablated(part, text);
  switch (part) {
    case Ablation::kNoDecode: ablated.wrap("Input", "UngatheredInput", "snippets/ablation/ungathered_input.cuh"); break;
    case Ablation::kNoMultiply:
      ablated.wrap("Sums", "UnmultipliedSums", "snippets/ablation/unmultiplied_sums.cuh");
      break;
    case Ablation::kCopyOnly:
      ablated.replace("Kernel", "RowsKernel", "RowsCopyKernel", "snippets/ablation/rows_copy.cuh");
      break;
  }
  return ablated.status();
}

Result<Candidate> candidate_of(const Config& config, const Problem& problem, const PackedWeight& packed,
                               std::optional<Ablation> without) {
  const RowsConfig rows(config);
  const Coding* const coding = coding_of(without_transposed(packed.packing));
  if (coding != nullptr && (rows.split_length > 0 || rows.vector_width == 1))
    return unsupported("codes are of whole rows, and loaded by two at least");
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, rows.csr_packing().name(), packed));
  Texts texts{rows_text(rows, problem.spec, coding), relayout_text(problem.spec), finish_text(rows, problem.spec)};
  if (without) SPARSMITH_RETURN_IF_ERROR(take_out(*without, texts.main));
  LaunchPlan plan = rows_plan(rows, problem, packed, texts);
  if (without == Ablation::kCopyOnly) keep_kernel(plan, texts.main.name);
  const KernelText all[] = {texts.main, texts.relayout, texts.finish};
  return make_candidate(config, problem, packed, std::move(plan), all);
}

}  // namespace

Result<Candidate> RowsFamily::generate(const Config& config, const Problem& problem, const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, std::nullopt);
}

std::vector<Ablation> RowsFamily::ablations(const Config& /*config*/) const {
  return {std::begin(kAblations), std::end(kAblations)};
}

Result<Candidate> RowsFamily::generate_without(Ablation part, const Config& config, const Problem& problem,
                                               const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, part);
}

}  // namespace sparsmith
