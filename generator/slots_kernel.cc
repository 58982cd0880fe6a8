// Kernels and launch plans of the slots family.
#include <fmt/format.h>

#include <optional>

#include "formats/slots_layout.h"
#include "generator/kernel_parts.h"
#include "generator/slots_family.h"

namespace sparsmith {
namespace {

std::string columns_type(const SlotsConfig& config) {
  switch (config.columns) {
    case SlotColumns::kUint16: return fmt::format("Columns16<{}>", config.vector_width);
    case SlotColumns::kUint32: return fmt::format("Columns32<{}>", config.vector_width);
    case SlotColumns::kDelta8: return fmt::format("Columns8<{}, true>", config.vector_width);
    case SlotColumns::kOffset8: return fmt::format("Columns8<{}, false>", config.vector_width);
    case SlotColumns::kDelta4: return fmt::format("Columns4<{}>", config.vector_width);
    case SlotColumns::kDelta6: return "Columns6";
    case SlotColumns::kDelta3: return "Columns3";
  }
  return "?";
}

KernelText slots_text(const SlotsConfig& config, const OperatorSpec& spec, bool long_rows) {
  const bool shared = config.input == SlotsConfig::Input::kShared;
  KernelText text;
  text.name =
      fmt::format("slots_{}_{}_v{}_p{}_d{}_s{}_x{}_n{}_b{}x{}{}", spec_tag(spec), slot_columns_name(config.columns),
                  config.vector_width, config.tiles_per_slot, config.depth, config.row_lanes, shared ? "s" : "g",
                  config.tokens_per_pass, config.threads_per_block, config.blocks_per_sm, long_rows ? "_l" : "");
  text.summary = fmt::format("Y = W X for {} weights in slots of {} nonzeros, {} tokens a pass", short_name(spec.type),
                             config.vector_width * config.tiles_per_slot, config.tokens_per_pass);
  text.threads = config.threads_per_block;
  text.min_blocks_per_sm = config.blocks_per_sm;
  text.headers = {"snippets/prolog/slot_stream.cuh",
                  shared ? "snippets/prolog/staged_vector.cuh" : "snippets/prolog/direct_vector.cuh",
                  "snippets/reduction/slot_sums.cuh", "snippets/kernels/slots.cuh"};
  text.lines = {
      stored_type(spec.type),
      input_type(spec),
      output_type(spec),
      {fmt::format("using Columns = {}", columns_type(config)), "of a lane's tile"},
      {"using Stream = SlotStream<Stored, Columns>", ""},
      {shared ? fmt::format("using Input = StagedVector<InputType, {}, kThreads>", config.tokens_per_pass)
              : fmt::format("using Input = DirectVector<InputType, {}>", config.tokens_per_pass),
       "tokens of X"},
      {fmt::format("using Sums = SlotSums<{}, {}, {}>", config.row_lanes, config.tokens_per_pass,
                   long_rows ? "kThreads" : "0"),
       "lanes that add up a row, tokens, threads that add up a long one"},
  };
  add_output(spec, text);
  text.lines.push_back({fmt::format("using Kernel = SlotsKernel<Stream, Input, Sums, Output, {}, {}, kThreads>",
                                    config.tiles_per_slot, config.depth),
                        "tiles a slot, tiles in flight"});
  const bool token_major = spec.layout == Layout::kTokenMajor;
  text.parameters = {{"const u8*", "stream", packed_array("slots")},
                     {"const slots::Row*", "rows", packed_array("rows")},
                     {"const InputType*", "x", operand("x")},
                     {"int", "groups", integer("fact.groups")},
                     {"int", "heavy_parts", integer("fact.heavy_parts")},
                     {"int", "heavy_groups", integer("fact.heavy_groups")},
                     {"int", "rows_per_part", integer("fact.rows_per_part")},
                     {"int", "cols", integer(spec.cols)},
                     {"int", "n", integer("n")},
                     {"i64", "column_stride", integer(token_major ? "1" : "ld.x")},
                     {"i64", "token_stride", integer(token_major ? "ld.x" : "1")}};
  add_output_parameters(text);
  text.body = std::string("Input input(x, column_stride, token_stride, cols, shared_memory());\n") +
              "const Sums sums{reinterpret_cast<float*>(shared_memory() + Input::shared_bytes(cols)), heavy_groups * "
              "32};\n" +
              kMakeOutput + "const slots::PartSizes sizes{heavy_parts, heavy_groups, groups};\n" +
              "Kernel::run(stream, rows, input, sums, output, sizes, rows_per_part, n);";
  return text;
}

LaunchPlan slots_plan(const SlotsConfig& config, const OperatorSpec& spec, const KernelText& text, bool long_rows) {
  PlanStep step = launch_of(text);
  step.grid = {IntegerExpression::of("fact.parts"), token_blocks(config.tokens_per_pass), 1};
  const std::int64_t places = long_rows ? text.threads / slots::kLanes + 1 : 0;
  step.shared_bytes =
      IntegerExpression::of(fmt::format("{} + (fact.heavy_groups * {} + {}) * {}", config.vector_bytes(spec),
                                        slots::kLanes, places, 4 * config.tokens_per_pass));
  return {.steps = {step}};
}

Status take_out(Ablation part, KernelText& text) {
  AblatedText ablated(part, text);
  switch (part) {
    case Ablation::kNoDecode:
      ablated.wrap("Stream", "UngatheredSlots", "snippets/ablation/ungathered_slots.cuh");
      break;
    case Ablation::kNoMultiply:
      ablated.wrap("Stream", "UnmultipliedSlots", "snippets/ablation/unmultiplied_slots.cuh");
      break;
    case Ablation::kCopyOnly:
      ablated.replace("Kernel", "SlotsKernel", "SlotsCopyKernel", "snippets/ablation/slots_copy.cuh");
      break;
  }
  return ablated.status();
}

Result<Candidate> candidate_of(const Config& config, const Problem& problem, const PackedWeight& packed,
                               std::optional<Ablation> without) {
  const SlotsConfig slots_config(config);
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, slots_config.packing(problem).name(), packed));
  const bool long_rows = slots_config.adds_long_rows(packed);
  KernelText text = slots_text(slots_config, problem.spec, long_rows);
  if (without) SPARSMITH_RETURN_IF_ERROR(take_out(*without, text));
  return make_candidate(config, problem, packed, slots_plan(slots_config, problem.spec, text, long_rows), {&text, 1});
}

}  // namespace

Result<Candidate> SlotsFamily::generate(const Config& config, const Problem& problem,
                                        const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, std::nullopt);
}

std::vector<Ablation> SlotsFamily::ablations(const Config& /*config*/) const {
  return {std::begin(kAblations), std::end(kAblations)};
}

Result<Candidate> SlotsFamily::generate_without(Ablation part, const Config& config, const Problem& problem,
                                                const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, part);
}

}  // namespace sparsmith
