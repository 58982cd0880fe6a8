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
  return config.relayout ? fmt::format("using Input = OperandInput<Value, {}, {}>", token_major, config.token_tiles)
                         : fmt::format("using Input = PairedInput<Value, {}>", token_major);
}

void add_snippets(const TwoFourConfig& config, const OperatorSpec& spec, KernelText& text) {
  text.headers = {config.bulk_copies ? "snippets/prolog/bulk_strip_ring.cuh" : "snippets/prolog/strip_ring.cuh",
                  "snippets/prolog/two_four_tiles.cuh",
                  config.relayout ? "snippets/prolog/operand_input.cuh" : "snippets/prolog/paired_input.cuh",
                  "snippets/reduction/fragment_sums.cuh", "snippets/kernels/two_four.cuh"};
  text.lines = {
      {fmt::format("using Value = {}", device_type(spec.type)), "of W, X, Y, bias and residual"},
      {fmt::format("constexpr int kWarps = {}", config.warps), "that share out K"},
      {fmt::format("using Tiles = TwoFourTiles<Value, {}>", config.tiles), "of 16 rows, of a warp"},
      {fmt::format("using Ring = {}<TwoFourBounds<Tiles, kWarps>>", config.bulk_copies ? "BulkStripRing" : "StripRing"),
       "strips of W to shared memory, a ring a warp"},
      {input_line(config, spec), "X as operands; token-major"},
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
  text.name = fmt::format("two_four_{}_r{}_j{}_h{}_w{}_{}_g{}{}{}", spec_tag(spec), config.tiles, config.token_tiles,
                          config.row_warps, config.warps, config.bulk_copies ? "bulk" : "async", config.blocks_per_sm,
                          parts, config.relayout ? "_operands" : "");
  text.summary =
      fmt::format("Y = W X for {} weights with two nonzeros in four, by sparse tensor cores: {} rows by {} tokens",
                  short_name(spec.type), config.rows(), config.tokens());
  text.threads = config.threads();
  text.min_blocks_per_sm = config.blocks_per_sm;
  text.max_shared_bytes = problem.device.shared_bytes_per_block;
  add_snippets(config, spec, text);
  add_part_output(spec, split, text);
  text.lines.push_back(
      {fmt::format("using Kernel = TwoFourKernel<Ring, Input, Sums, Output, {}, kWarps, {}>", config.row_warps, blocks),
       "warps side by side; parts of K that a cluster adds up"});
  text.parameters = {{"const u8*", "tiles"},
                     {"int", "strips"},
                     {"int", "stages"},
                     {"int", "sent_offset"},
                     {"int", "barriers_offset"},
                     {"int", "rows"},
                     {"const Value*", "x"},
                     {"i64", "ldx"},
                     {"int", "cols"},
                     {"int", "n"}};
  if (config.relayout) add_operand_parameters(text);
  text.body = make_part_range(config.column_parts, "strip", "strips", text);
  text.body += make_part_output(split, text);
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

class TwoFourPlan {
 public:
  TwoFourPlan(const TwoFourConfig& config, const Problem& problem, const PackedWeight& packed)
      : config_(config),
        problem_(problem),
        spec_(problem.spec),
        strips_(packed.facts.at("strips")),
        relayout_{OperandOrder::kPaired, 2 * strips_, config.token_tiles},
        operand_bytes_(config.relayout ? relayout_.bytes() : "0"),
        arguments_("two_four") {}

  Result<LaunchPlan> make(const Texts& texts) {
    LaunchPlan plan;
    if (config_.relayout) plan.steps.push_back(relayout_operands_step(spec_, relayout_, texts.relayout, arguments_));
    PlanStep step = main_step(texts.main);
    std::string workspace = operand_bytes_;
    if (config_.column_parts > 1 && !config_.cluster) {
      step.arguments.push_back(arguments_.workspace(operand_bytes_));
      step.arguments.push_back(
          arguments_.int64(spec_.layout == Layout::kTokenMajor ? std::to_string(spec_.rows) : "n"));
      plan.steps.push_back(std::move(step));
      plan.steps.push_back(finish_parts_step(spec_, texts.finish, config_.column_parts, operand_bytes_, arguments_));
      workspace += fmt::format(" + {} * n", spec_.rows * config_.column_parts * 4);
    } else {
      add_output_arguments(step);
      plan.steps.push_back(std::move(step));
    }
    plan.workspace_bytes = arguments_.expression(workspace);
    if (!arguments_.error().ok()) return arguments_.error();
    return plan;
  }

 private:
  PlanArgument number(std::int64_t value) { return arguments_.int32(std::to_string(value)); }

  PlanStep main_step(const KernelText& text) {
    const std::int64_t block_rows = (spec_.rows + config_.rows() - 1) / config_.rows();
    const int stages = config_.stages_that_fit(problem_.device);
    PlanStep step;
    step.kernel = text.name;
    step.grid = {std::max<std::int64_t>(block_rows, 1),
                 arguments_.expression(fmt::format("min(ceil_div(n, {}), 65535)", config_.tokens())),
                 config_.column_parts};
    if (config_.cluster) step.cluster = {1, 1, config_.column_parts};
    step.block = {text.threads, 1, 1};
    step.shared_bytes = config_.shared_bytes(stages);
    step.arguments = {PlanArguments::packed("tiles")};
    for (const std::int64_t value :
         {strips_, std::int64_t{stages}, config_.sent_offset(stages), config_.barriers_offset(stages), spec_.rows})
      step.arguments.push_back(number(value));
    step.arguments.push_back(PlanArguments::x());
    step.arguments.push_back(arguments_.int64("ldx"));
    step.arguments.push_back(number(spec_.cols));
    step.arguments.push_back(arguments_.int32("n"));
    if (config_.relayout) add_operand_arguments(relayout_, arguments_, step);
    if (config_.column_parts > 1)
      step.arguments.push_back(number((strips_ + config_.column_parts - 1) / config_.column_parts));
    return step;
  }

  const TwoFourConfig& config_;
  const Problem& problem_;
  const OperatorSpec& spec_;
  const std::int64_t strips_;  // of a panel
  const OperandRelayout relayout_;
  const std::string operand_bytes_;  // formula: of the operands, which begin the workspace
  PlanArguments arguments_;
};

}  // namespace

Result<Candidate> TwoFourFamily::generate(const Config& config, const Problem& problem,
                                          const PackedWeight& packed) const {
  const TwoFourConfig two_four(config);
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, kTwoFourPacking, packed));
  const Texts texts{relayout_operands_text(problem.spec, OperandOrder::kPaired), two_four_text(two_four, problem),
                    finish_parts_text(problem.spec)};
  SPARSMITH_ASSIGN_OR_RETURN(LaunchPlan plan, TwoFourPlan(two_four, problem, packed).make(texts));
  const KernelText all[] = {texts.relayout, texts.main, texts.finish};
  return make_candidate(config, problem, packed, std::move(plan), all);
}

}  // namespace sparsmith
