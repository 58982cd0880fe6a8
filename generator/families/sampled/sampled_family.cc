#include "generator/families/sampled/sampled_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/ceil_div.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/families/rows/rows_family.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

// Of the cost model: what a launch and a chain of loads take, and what L2 gives to gathers. Not fitted: an order among
// configs, by the constants of the family `rows`.
constexpr double kLaunchUs = 2.2;
constexpr double kLoadLatencyUs = 0.3;
constexpr double kL2GatherBytesPerUs = 5.15e6;
constexpr double kSectorBytes = 32;
constexpr double kIssued = 0.5;  // instructions a cycle of a scheduler

bool is_token_major(const Problem& problem) { return problem.spec.layout == Layout::kTokenMajor; }

KernelText sampled_text(const SampledConfig& config, const OperatorSpec& spec) {
  KernelText text;
  text.name =
      fmt::format("sampled_{}_u{}_tl{}_tt{}_cl{}_n{}_b{}", spec_tag(spec), config.index_bits, config.token_lanes,
                  config.tokens_per_thread, config.column_lanes, config.nonzeros_per_thread, config.threads_per_block);
  text.summary = fmt::format("values = dY X^T at the nonzeros of a weight in csr, in {}, {} lanes a row",
                             short_name(spec.type), config.group_threads());
  text.threads = config.threads_per_block;
  text.headers = {"snippets/prolog/global_input.cuh", "snippets/reduction/register_sums.cuh",
                  "snippets/reduction/shuffle_sum.cuh", "snippets/epilog/store_output.cuh",
                  "snippets/kernels/sampled_rows.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      {fmt::format("using Index = u{}", config.index_bits), "of a column"},
      {fmt::format("constexpr int kTokenLanes = {}", config.token_lanes), "lanes that share out the tokens"},
      {fmt::format("constexpr int kTokens = {}", config.tokens_per_thread), "tokens of a thread at a time"},
      {fmt::format("using Input = GlobalInput<InputType, {}, kTokenLanes, kTokens, kThreads>", token_major(spec)),
       "X and dY token-major"},
      {fmt::format("using Sums = RegisterSums<{}, 1>", config.nonzeros_per_thread), "nonzeros of a thread"},
      {"using Shuffle = ShuffleSum<kTokenLanes, 1>", ""},
      {fmt::format("using Output = StoreOutput<OutputType, false, NoActivation, false, {}, false>",
                   boolean(spec.epilogue.beta)),
       "a line of one element a nonzero; + beta * its old value"},
      {fmt::format("using Kernel = SampledRowsKernel<Index, Input, Sums, Shuffle, Output, kTokens, {}, kThreads>",
                   config.column_lanes),
       "nonzeros side by side"},
  };
  text.parameters = {{"const csr::Segment*", "segments", packed_array("segments")},
                     {"const Index*", "columns", packed_array("columns")},
                     {"const InputType*", "x", operand("x")},
                     {"const InputType*", "dy", operand("dy")},
                     {"OutputType*", "values", operand("values")},
                     {"int", "rows", integer(spec.rows)},
                     {"int", "n", integer("n")},
                     {"i64", "ldx", integer("ld.x")},
                     {"i64", "lddy", integer("ld.dy")},
                     {"float", "alpha", scalar("alpha")},
                     {"float", "beta", scalar("beta")}};
  text.body =
      "Input activations(x, ldx, 0, nullptr);\n"
      "Input gradients(dy, lddy, 0, nullptr);\n"
      "const Output output{values, 1, nullptr, nullptr, 0, alpha, beta};\n"
      "Kernel::run(segments, columns, activations, gradients, output, rows, n);";
  return text;
}

Result<PlannedKernels> sampled_kernels(const Config& values, const Problem& problem, const PackedWeight& /*packed*/) {
  const SampledConfig config(values);
  PlannedKernels kernels;
  kernels.launch(sampled_text(config, problem.spec)).grid[0] = std::max<std::int64_t>(
      1, ceil_div(problem.spec.rows * config.group_threads(), std::int64_t{config.threads_per_block}));
  return kernels;
}

std::vector<Parameter> parameters() {
  return {
      {"index_bits", "u", {16, 32}, "bytes of a column against the largest K"},
      {"token_lanes", "tl", tuned("ShuffleSum", "kLanes"), "coalescing of X's tokens against nonzeros side by side"},
      {"tokens_per_thread", "tt", tuned("SampledRowsKernel", "kTokens"),
       "loads in flight and their width against registers"},
      {"column_lanes", "cl", tuned("SampledRowsKernel", "kColumnLanes"),
       "nonzeros of a row side by side: balance against locality"},
      {"nonzeros_per_thread", "n", tuned("RegisterSums", "kRows"), "use of a loaded dY against registers"},
      {"threads_per_block", "b", tuned("SampledRowsKernel", "kThreads"), "occupancy against tail"},
  };
}

std::vector<Rule> legal_rules() {
  return legal({
      {{"token_lanes", "column_lanes"},
       "a row's lanes lie in one warp",
       [](auto& in) { return in["token_lanes"] * in["column_lanes"] <= 32; }},
  });
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"token_lanes"},
       "lanes that share out tokens need them side by side",
       [](auto& in) { return in["token_lanes"] == 1 || !is_token_major(in.problem); }},
      {{"token_lanes", "tokens_per_thread"},
       "a token tile no larger than the tokens",
       [](auto& in) {
         const auto tokens = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(in.problem.tokens)));
         return in["token_lanes"] * in["tokens_per_thread"] <= tokens;
       }},
      {{"column_lanes", "nonzeros_per_thread"},
       "a thread group no wider than its rows",
       [](auto& in) {
         const std::int64_t nonzeros = in["column_lanes"] * in["nonzeros_per_thread"];
         return nonzeros == 1 || static_cast<double>(nonzeros) < 2 * in.statistics.row_mean;
       }},
      {{"token_lanes", "column_lanes"},
       "long rows are shared out by at least eight lanes",
       [](auto& in) { return in["token_lanes"] * in["column_lanes"] >= 8 || in.statistics.row_mean < 16; }},
      {{"tokens_per_thread", "nonzeros_per_thread"},
       "at most 32 values of X in flight a thread",
       [](auto& in) { return in["tokens_per_thread"] * in["nonzeros_per_thread"] <= 32; }},
  };
}

double predicted_sampled_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const SampledConfig config(values);
  const double element = static_cast<double>(size_of(problem.spec.type));
  const double tokens = static_cast<double>(problem.tokens);
  const double rows = static_cast<double>(problem.spec.rows);
  const double cols = static_cast<double>(problem.spec.cols);
  const DeviceRates device(problem.device);
  const double nonzeros = static_cast<double>(statistics.nnz);
  const double length = std::max(statistics.row_mean, 1.0);

  const double bytes = nonzeros * (element + config.index_bits / 8.0) + rows * 8 + (rows + cols) * tokens * element;
  const double memory_us = bytes / (0.92 * std::max(problem.device.memory_bandwidth, 1e11) / 1e6);
  // What a warp's load of X brings: neighbouring tokens of a column, or of one token neighbouring nonzeros, which lie
  // the further apart the fewer a row has. It takes whole sectors.
  const double side_by_side = is_token_major(problem) ? std::min(static_cast<double>(config.column_lanes), length)
                                                      : std::min<double>(config.token_lanes, tokens);
  const double apart = is_token_major(problem) ? std::max(1.0, cols / length) : 1.0;
  const double width = is_token_major(problem) ? element : element * config.tokens_per_thread;
  const double loaded = std::max(kSectorBytes, side_by_side * apart * width) / side_by_side;
  const double for_each = std::min(loaded, kSectorBytes);  // of a load of one thread
  const double loads = nonzeros * tokens * element / width;
  const double l2_us = loads * for_each / (kL2GatherBytesPerUs * l2_speed(problem.device));
  // Instructions: of a load with its products, of the loads of dY that its nonzeros share, of a nonzero's sum.
  const double tile = static_cast<double>(config.token_lanes) * config.tokens_per_thread;
  const double rounds = std::ceil(tokens / tile) * tile / tokens;
  const double idle = std::ceil(length / (config.column_lanes * config.nonzeros_per_thread)) * config.column_lanes *
                      config.nonzeros_per_thread / length;
  const double products = nonzeros * tokens * rounds * (2 + 2 * element / width + 2.0 / config.nonzeros_per_thread);
  const double ends = nonzeros * config.token_lanes * (8 + 2 * std::log2(config.token_lanes));
  const double issue_us = idle * (products + ends) / 32 / (device.sms * 4 * kIssued) / device.clock_mhz;
  const double chain =
      std::ceil(length / (config.column_lanes * config.nonzeros_per_thread)) * std::ceil(tokens / tile);
  const double resident = 2048.0 * device.sms / config.group_threads();
  const double latency_us = kLoadLatencyUs * (2 + chain) * std::max(1.0, rows / resident);
  return kLaunchUs + launch_delay_us(problem.device) + std::max({memory_us, l2_us, issue_us, latency_us});
}

}  // namespace

CsrPacking SampledConfig::packing() const { return {index_bits / 8, 1, RowOrder::kNatural, 0, PartialSums::kNone}; }

const Family& sampled_family() {
  static const Family kFamily = {
      .name = "sampled",
      .serves = [](const OperatorSpec& spec) { return spec.kind == OperatorKind::kSddmm; },
      .parameters = parameters(),
      .rules = joined({csr_column_rules(), legal_rules(), worthwhile_rules()}),
      .packing_of_rows = packing_name<SampledConfig>,
      .kernels = sampled_kernels,
      .predict = predicted_sampled_us,
  };
  return kFamily;
}

}  // namespace sparsmith
