#include "generator/families/strip_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

// Formula: where partial sums begin in the workspace.
std::string partials_offset(const StripConfig& config, const OperandRelayout& relayout) {
  return config.relayout ? relayout.bytes() : "0";
}

}  // namespace

std::int64_t StripConfig::shared_room(const DeviceProperties& device) const {
  constexpr std::int64_t kReservedBytes = 1024;  // that the driver takes a block
  return std::min(device.shared_bytes_per_sm / blocks_per_sm - kReservedBytes, device.shared_bytes_per_block);
}

std::vector<Parameter> strip_parameters(bool later) {
  return {{"bulk_copies", "c", {0, 1}, "who copies strips to shared memory", {"async", "bulk"}},
          {"blocks_per_sm", "g", {1, 2, 3}, "blocks that a multiprocessor has room for: occupancy against registers"},
          {"column_parts", "k", tuned("ClusterSums", "kParts"),
           "parts of K: blocks for a weight of few rows against sums to add"},
          {"sum", "m", {0, 1}, "who adds up the sums of parts", {"launch", "cluster"}},
          input_parameter(later)};
}

std::vector<Rule> legal_strip_rules() {
  return legal({
      {{"bulk_copies"},
       "bulk copies exist from sm_90 on",
       [](auto& in) { return in["bulk_copies"] == 0 || in.device.compute_capability >= 90; }},
      {{"column_parts", "sum"},
       "clusters exist from sm_90 on, and add up several parts",
       [](auto& in) { return in["sum"] == 0 || (in["column_parts"] > 1 && in.device.compute_capability >= 90); }},
  });
}

std::vector<Rule> worthwhile_strip_rules() {
  return {
      {{"token_tiles"},
       "a token tile no larger than the tokens, nor smaller up to 64",
       [](auto& in) {
         const std::int64_t wanted = std::min<std::int64_t>((in.problem.tokens + 7) / 8, 8);
         return in["token_tiles"] < 2 * wanted && in["token_tiles"] >= wanted;
       }},
      {{"bulk_copies"},
       "bulk copies wherever there are any",
       [](auto& in) { return in["bulk_copies"] == 1 || in.device.compute_capability < 90; }},
  };
}

double strip_finish_us(const StripConfig& config, const Problem& problem, double sums_us, double exchange_us,
                       double second_us, double l2_bytes_per_us) {
  double us = sums_us;
  if (config.cluster) {
    us += exchange_us;
  } else if (config.column_parts > 1) {
    const double outputs = static_cast<double>(problem.spec.rows) * static_cast<double>(problem.tokens);
    us += second_us + 8 * outputs * config.column_parts / l2_bytes_per_us + launch_delay_us(problem.device);
  }
  if (config.relayout) us += relayout_us(problem);
  return us;
}

KernelText::Line strip_input(const StripConfig& config, const OperatorSpec& spec, const char* direct) {
  return {config.relayout
              ? fmt::format("using Input = OperandInput<InputType, {}, {}>", token_major(spec), config.token_tiles)
              : fmt::format("using Input = {}<InputType, {}>", direct, token_major(spec)),
          "X as operands; token-major"};
}

void add_strip_body(const StripConfig& config, const OperatorSpec& spec, const OperandRelayout& relayout,
                    const std::string& strips, const std::string& make_ring, const std::string& run, KernelText& text) {
  add_input_parameters(spec, text);
  if (config.relayout) add_operand_parameters(relayout, text);
  text.body = make_part_range(config.column_parts, "strip", strips, text);
  text.body += make_part_output(spec, config.splits(), partials_offset(config, relayout), text);
  text.body += "u8* shared = shared_memory();\n" + make_ring;
  text.body += config.relayout ? kMakeOperandInput : "Input input(x, ldx, cols, n);\n";
  text.body += run;
}

PlannedKernels strip_kernels(const StripConfig& config, const OperatorSpec& spec, const OperandRelayout& relayout,
                             KernelText text, const IntegerExpression& row_blocks,
                             const IntegerExpression& shared_bytes) {
  PlannedKernels kernels;
  std::string workspace_bytes = partials_offset(config, relayout);
  if (config.relayout) add_operand_relayout(spec, relayout, kernels);
  PlanStep& step = kernels.launch(std::move(text));
  step.grid = {row_blocks, token_blocks(config.tokens()), config.column_parts};
  step.cluster = {1, 1, config.cluster_blocks()};
  step.shared_bytes = shared_bytes;
  if (config.splits()) {
    add_finish_parts(spec, config.column_parts, partials_offset(config, relayout), kernels);
    workspace_bytes += " + " + part_bytes(spec, config.column_parts);
  }
  kernels.plan.workspace_bytes = IntegerExpression::of(workspace_bytes);
  return kernels;
}

}  // namespace sparsmith
