// Kernels and launch plans of the rows family.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

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

KernelText rows_text(const RowsConfig& config, const OperatorSpec& spec) {
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
  text.summary = fmt::format("Y = W X for {} weights in csr, {} reduction lanes a row, {} tokens a tile",
                             short_name(spec.type), config.shuffle_lanes * config.shared_parts, config.token_tile());
  text.threads = config.threads_per_block;
  text.max_shared_bytes = config.panel_bytes(spec.cols, size_of(spec.type)) + config.sums_bytes();
  text.headers = {"snippets/prolog/csr_stream.cuh",
                  shared ? "snippets/prolog/shared_input.cuh" : "snippets/prolog/global_input.cuh",
                  "snippets/reduction/register_sums.cuh",
                  "snippets/reduction/shuffle_sum.cuh",
                  "snippets/reduction/shared_sum.cuh",
                  "snippets/reduction/partial_sums.cuh",
                  "snippets/kernels/rows.cuh"};
  text.lines = {
      {fmt::format("using Value = {}", device_type(spec.type)), "of W, X, Y, bias and residual"},
      {fmt::format("using Index = u{}", config.index_bits), "of a column"},
      {fmt::format("constexpr int kTokenLanes = {}", config.token_lanes), "lanes that share out a token tile"},
      {fmt::format("constexpr int kTokens = {}", config.tokens_per_thread), "tokens of a thread"},
      {fmt::format("constexpr int kShuffleLanes = {}", config.shuffle_lanes), "lanes of a row that combine by shuffle"},
      {fmt::format("constexpr int kSharedParts = {}", config.shared_parts),
       "parts of a row that combine through shared memory"},
      {fmt::format("using Stream = CsrStream<Value, Index, {}>", config.vector_width), "nonzeros a load"},
      {fmt::format("using Input = {}<Value, {}, kTokenLanes, kTokens, kThreads>",
                   shared ? "SharedInput" : "GlobalInput", boolean(token_major_input)),
       "X token-major"},
      {fmt::format("using Sums = RegisterSums<{}, kTokens>", config.rows_per_group), "rows of a thread group"},
      {"using Shuffle = ShuffleSum<kShuffleLanes, kTokenLanes>", ""},
      {"using Shared = SharedSum<kSharedParts, kShuffleLanes * kTokenLanes, kTokenLanes, kThreads>", ""},
      {fmt::format("using Partials = {}", partials_type(config.partial_sums)), "of rows that were cut"},
  };
  add_output(spec, text);
  text.lines.push_back({fmt::format("using Kernel = RowsKernel<Stream, Input, Sums, Shuffle, Shared, Partials, Output, "
                                    "kTokenLanes, {}, {}, kThreads>",
                                    config.unroll, boolean(targets)),
                        "vectors in flight, segments name their rows"});
  text.parameters = {{"const csr::Segment*", "segments"},
                     {"const u32*", "targets"},
                     {"const Index*", "columns"},
                     {"const Value*", "values"},
                     {"const Value*", "x"},
                     {"float*", "partials"},
                     {"int", "segment_count"},
                     {"int", "cols"},
                     {"int", "n"},
                     {"i64", "ldx"}};
  add_output_parameters(text);
  text.body = std::string("const Stream stream{columns, values};\n") + "Input input(x, ldx, cols, shared_memory());\n" +
              kMakeOutput +
              "Kernel::run(segments, targets, stream, input, output, partials, segment_count, n,\n"
              "            shared_memory() + Input::shared_bytes(cols));";
  return text;
}

KernelText finish_text(const OperatorSpec& spec) {
  KernelText text;
  text.name = "finish_rows_" + spec_tag(spec);
  text.summary = "adds up the partial sums of rows that were cut, and runs the epilog";
  text.threads = 256;
  text.headers = {"snippets/kernels/finish_rows.cuh"};
  text.lines = {{fmt::format("using Value = {}", device_type(spec.type)), "of Y, bias and residual"}};
  add_output(spec, text);
  text.lines.push_back({"using Kernel = FinishRowsKernel<Output, kThreads>", ""});
  text.parameters = {{"const u32*", "split_rows"},
                     {"const u32*", "slot_offsets"},
                     {"const float*", "partials"},
                     {"int", "split_row_count"},
                     {"int", "n"}};
  add_output_parameters(text);
  text.body = std::string(kMakeOutput) + "Kernel::run(split_rows, slot_offsets, partials, output, split_row_count, n);";
  return text;
}

// Adds the steps of a plan one by one; a formula that does not parse is a bug, reported by build().
class PlanBuilder {
 public:
  PlanBuilder(const RowsConfig& config, const Problem& problem, const PackedWeight& packed)
      : config_(config), problem_(problem), packed_(packed) {}

  Result<LaunchPlan> build(const KernelText& rows, const KernelText& relayout, const KernelText& finish) {
    const OperatorSpec& spec = problem_.spec;
    const std::int64_t split_rows = packed_.facts.at("split_rows");
    const std::int64_t slots = packed_.facts.at("slots");
    const bool relaid = config_.input == RowsConfig::Input::kRelayout;
    const std::string xt_bytes = relaid ? relayout_bytes(spec) : "0";
    const std::string partial_bytes = fmt::format("{} * n", slots * 4);
    plan_.workspace_bytes = arguments_.expression(fmt::format("{} + {}", xt_bytes, partial_bytes));
    if (relaid) plan_.steps.push_back(relayout_step(spec, relayout, arguments_));
    if (split_rows > 0 && config_.partial_sums == PartialSums::kAtomic) {
      PlanStep zero;
      zero.kind = PlanStep::Kind::kZero;
      zero.zero_offset = arguments_.expression(xt_bytes);
      zero.zero_bytes = arguments_.expression(partial_bytes);
      plan_.steps.push_back(std::move(zero));
    }
    add_rows(rows, relaid, split_rows > 0 ? arguments_.workspace(xt_bytes) : PlanArguments::null());
    if (split_rows > 0) add_finish(finish, split_rows, arguments_.workspace(xt_bytes));
    if (!arguments_.error().ok()) return arguments_.error();
    return std::move(plan_);
  }

 private:
  void add_rows(const KernelText& text, bool relaid, const PlanArgument& partials) {
    const std::int64_t segments = packed_.facts.at("segments");
    const std::int64_t per_block =
        std::int64_t{config_.threads_per_block} / config_.group_threads() * config_.rows_per_group;
    std::int64_t blocks = std::max<std::int64_t>(1, (segments + per_block - 1) / per_block);
    if (config_.blocks_per_sm > 0)
      blocks =
          std::min<std::int64_t>(blocks, std::int64_t{config_.blocks_per_sm} * std::max(problem_.device.sm_count, 1));
    PlanStep step;
    step.kernel = text.name;
    step.grid = {blocks, arguments_.expression(fmt::format("min(ceil_div(n, {}), 65535)", config_.token_tile())), 1};
    step.block = {text.threads, 1, 1};
    step.shared_bytes = text.max_shared_bytes;
    step.arguments = {PlanArguments::packed("segments"),
                      packed_.facts.at("has_targets") != 0 ? PlanArguments::packed("targets") : PlanArguments::null(),
                      PlanArguments::packed("columns"),
                      PlanArguments::packed("values"),
                      relaid ? arguments_.workspace("0") : PlanArguments::x(),
                      partials,
                      arguments_.int32(std::to_string(segments)),
                      arguments_.int32(std::to_string(problem_.spec.cols)),
                      arguments_.int32("n"),
                      arguments_.int64(relaid ? kRelayoutStride : "ldx")};
    add_output_arguments(step);
    plan_.steps.push_back(std::move(step));
  }

  void add_finish(const KernelText& text, std::int64_t split_rows, const PlanArgument& partials) {
    PlanStep step;
    step.kernel = text.name;
    step.grid = {arguments_.expression(fmt::format("min(ceil_div({} * n, {}), 65535)", split_rows, text.threads)), 1,
                 1};
    step.block = {text.threads, 1, 1};
    step.arguments = {PlanArguments::packed("split_rows"), PlanArguments::packed("slot_offsets"), partials,
                      arguments_.int32(std::to_string(split_rows)), arguments_.int32("n")};
    add_output_arguments(step);
    plan_.steps.push_back(std::move(step));
  }

  const RowsConfig& config_;
  const Problem& problem_;
  const PackedWeight& packed_;
  LaunchPlan plan_;
  PlanArguments arguments_{"rows"};
};

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
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, rows.csr_packing().name(), packed));
  KernelText texts[] = {rows_text(rows, problem.spec), relayout_text(problem.spec), finish_text(problem.spec)};
  if (without) SPARSMITH_RETURN_IF_ERROR(take_out(*without, texts[0]));
  SPARSMITH_ASSIGN_OR_RETURN(LaunchPlan plan, PlanBuilder(rows, problem, packed).build(texts[0], texts[1], texts[2]));
  if (without == Ablation::kCopyOnly) keep_kernel(plan, texts[0].name);
  return make_candidate(config, problem, packed, std::move(plan), texts);
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
