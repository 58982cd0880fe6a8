// Kernels and launch plans of the bsr family.
#include <fmt/format.h>

#include <optional>

#include "generator/bsr_family.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

KernelText bsr_text(const BsrConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  text.name = fmt::format("bsr_{}_r{}_j{}_w{}_a{}_{}", spec_tag(spec), config.tiles, config.token_tiles, config.warps,
                          config.ahead, config.all ? "all" : "listed");
  text.summary = fmt::format("Y = W X for {} weights in blocks of {} x 32, by tensor cores: {} tokens a block",
                             short_name(spec.type), config.rows(), config.tokens());
  text.threads = config.threads();
  text.headers = {"snippets/prolog/bsr_blocks.cuh", "snippets/prolog/fragment_input.cuh",
                  "snippets/reduction/fragment_sums.cuh", "snippets/kernels/bsr.cuh"};
  text.lines = {
      stored_type(spec.type),
      input_type(spec),
      output_type(spec),
      {fmt::format("constexpr int kWarps = {}", config.warps), "of a block: they share out K"},
      {fmt::format("using Blocks = BsrBlocks<Stored, {}, {}>", config.tiles, boolean(config.all)),
       "16-row tiles of a block; every block is stored"},
      {fmt::format("using Input = FragmentInput<InputType, {}>", boolean(spec.layout == Layout::kTokenMajor)),
       "X as operands; token-major"},
      {fmt::format("using Sums = FragmentSums<InputType, {}, {}, kWarps>", config.tiles, config.token_tiles),
       "16-row tiles, 8-token tiles"},
  };
  add_output(spec, text);
  text.lines.push_back({fmt::format("using Kernel = BsrKernel<Blocks, Input, Sums, Output, kWarps, {}>", config.ahead),
                        "blocks loaded together"});
  add_shared_bytes(config.shared_bytes(), "Sums::kSharedBytes", text);
  text.parameters = {{"const Stored*", "values", packed_array("blocks")},
                     {"const u32*", "row_blocks", packed_array("row_blocks")},
                     {"const u32*", "block_columns", packed_array("block_columns")},
                     {"int", "row_width", integer("fact.block_columns")},
                     {"int", "rows", integer(spec.rows)},
                     {"int", "block_rows", integer("fact.block_rows")},
                     {"const InputType*", "x", operand("x")},
                     {"i64", "ldx", integer("ld.x")},
                     {"int", "cols", integer(spec.cols)},
                     {"int", "n", integer("n")}};
  add_output_parameters(text);
  text.body = std::string(kMakeOutput) +
              "const Blocks blocks{values, row_blocks, block_columns, row_width};\n"
              "const Input input(x, ldx, cols, n);\n"
              "Kernel::run(blocks, input, output, rows, block_rows, n, reinterpret_cast<float*>(shared_memory()));";
  return text;
}

LaunchPlan bsr_plan(const BsrConfig& config, const KernelText& text) {
  PlanStep step = launch_of(text);
  step.grid = {IntegerExpression::of("max(fact.block_rows, 1)"), token_blocks(config.tokens()), 1};
  return {.steps = {step}};
}

Status take_out(Ablation part, KernelText& text) {
  AblatedText ablated(part, text);
  switch (part) {
    case Ablation::kNoDecode: break;  // refused before
    case Ablation::kNoMultiply: ablated.wrap("InputType", "Unmultiplied", "snippets/ablation/unmultiplied.cuh"); break;
    case Ablation::kCopyOnly:
      ablated.replace("Kernel", "BsrKernel", "BsrCopyKernel", "snippets/ablation/bsr_copy.cuh");
      break;
  }
  return ablated.status();
}

Result<Candidate> candidate_of(const Config& config, const Problem& problem, const PackedWeight& packed,
                               std::optional<Ablation> without) {
  const BsrConfig bsr(config);
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, bsr.packing().name(), packed));
  KernelText texts[] = {bsr_text(bsr, problem)};
  if (without) SPARSMITH_RETURN_IF_ERROR(take_out(*without, texts[0]));
  return make_candidate(config, problem, packed, bsr_plan(bsr, texts[0]), texts);
}

}  // namespace

Result<Candidate> BsrFamily::generate(const Config& config, const Problem& problem, const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, std::nullopt);
}

std::vector<Ablation> BsrFamily::ablations(const Config& /*config*/) const {
  return {Ablation::kNoMultiply, Ablation::kCopyOnly};  // blocks are operands as they are loaded
}

Result<Candidate> BsrFamily::generate_without(Ablation part, const Config& config, const Problem& problem,
                                              const PackedWeight& packed) const {
  if (part == Ablation::kNoDecode) return Family::generate_without(part, config, problem, packed);
  return candidate_of(config, problem, packed, part);
}

}  // namespace sparsmith
