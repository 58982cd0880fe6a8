#include "generator/sampled_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/kernel_parts.h"
#include "generator/rows_family.h"

namespace sparsmith {
namespace {

// Of the cost model: what a launch and a chain of loads take, and what L2 gives to gathers. Not fitted: an order among
// configs, by the constants of the family `rows`.
constexpr double kLaunchUs = 2.2;
constexpr double kLoadLatencyUs = 0.3;
constexpr double kL2GatherBytesPerUs = 5.15e6;
constexpr double kSectorBytes = 32;
constexpr double kIssued = 0.5;  // instructions a cycle of a scheduler

bool token_major(const Problem& problem) { return problem.spec.layout == Layout::kTokenMajor; }

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
      {fmt::format("using Input = GlobalInput<InputType, {}, kTokenLanes, kTokens, kThreads>",
                   boolean(spec.layout == Layout::kTokenMajor)),
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

}  // namespace

SampledConfig::SampledConfig(const Config& config)
    : index_bits(static_cast<int>(config.at("index_bits"))),
      token_lanes(static_cast<int>(config.at("token_lanes"))),
      tokens_per_thread(static_cast<int>(config.at("tokens_per_thread"))),
      column_lanes(static_cast<int>(config.at("column_lanes"))),
      nonzeros_per_thread(static_cast<int>(config.at("nonzeros_per_thread"))),
      threads_per_block(static_cast<int>(config.at("threads_per_block"))) {}

CsrPacking SampledConfig::csr_packing() const { return {index_bits / 8, 1, RowOrder::kNatural, 0, PartialSums::kNone}; }

std::vector<Parameter> SampledFamily::parameters() const {
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

std::vector<Rule> SampledFamily::rules() const {
  using Kind = Rule::Kind;
  std::vector<Rule> rules = csr_column_rules();
  const std::vector<Rule> own = {
      {Kind::kLegal,
       {"token_lanes", "column_lanes"},
       "a row's lanes lie in one warp",
       [](const RuleInput& in) { return in["token_lanes"] * in["column_lanes"] <= 32; }},
      {Kind::kWorthwhile,
       {"token_lanes"},
       "lanes that share out tokens need them side by side",
       [](const RuleInput& in) { return in["token_lanes"] == 1 || !token_major(in.problem); }},
      {Kind::kWorthwhile,
       {"token_lanes", "tokens_per_thread"},
       "a token tile no larger than the tokens",
       [](const RuleInput& in) {
         const auto tokens = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(in.problem.tokens)));
         return in["token_lanes"] * in["tokens_per_thread"] <= tokens;
       }},
      {Kind::kWorthwhile,
       {"column_lanes", "nonzeros_per_thread"},
       "a thread group no wider than its rows",
       [](const RuleInput& in) {
         const std::int64_t nonzeros = in["column_lanes"] * in["nonzeros_per_thread"];
         return nonzeros == 1 || static_cast<double>(nonzeros) < 2 * in.statistics.row_mean;
       }},
      {Kind::kWorthwhile,
       {"token_lanes", "column_lanes"},
       "long rows are shared out by at least eight lanes",
       [](const RuleInput& in) { return in["token_lanes"] * in["column_lanes"] >= 8 || in.statistics.row_mean < 16; }},
      {Kind::kWorthwhile,
       {"tokens_per_thread", "nonzeros_per_thread"},
       "at most 32 values of X in flight a thread",
       [](const RuleInput& in) { return in["tokens_per_thread"] * in["nonzeros_per_thread"] <= 32; }},
  };
  rules.insert(rules.end(), own.begin(), own.end());
  return rules;
}

std::string SampledFamily::packing_of_rows(const Config& config, const Problem&) const {
  return SampledConfig(config).csr_packing().name();
}

Result<Candidate> SampledFamily::generate(const Config& config_, const Problem& problem,
                                          const PackedWeight& packed) const {
  const SampledConfig config(config_);
  SPARSMITH_RETURN_IF_ERROR(check_packing(config_, config.csr_packing().name(), packed));
  const KernelText text = sampled_text(config, problem.spec);
  LaunchPlan plan;
  plan.steps = {launch_of(text)};
  plan.steps[0].grid[0] = std::max<std::int64_t>(
      1, (problem.spec.rows * config.group_threads() + config.threads_per_block - 1) / config.threads_per_block);
  const KernelText all[] = {text};
  return make_candidate(config_, problem, packed, std::move(plan), all);
}

double SampledFamily::predict(const Config& config_, const Problem& problem,
                              const SparsityStatistics& statistics) const {
  const SampledConfig config(config_);
  const double element = static_cast<double>(size_of(problem.spec.type));
  const double tokens = static_cast<double>(problem.tokens);
  const double rows = static_cast<double>(problem.spec.rows);
  const double cols = static_cast<double>(problem.spec.cols);
  const double sms = std::max(problem.device.sm_count, 1);
  const double clock_mhz = std::max(problem.device.clock_khz, 1000000) / 1000.0;
  const double nonzeros = static_cast<double>(statistics.nnz);
  const double length = std::max(statistics.row_mean, 1.0);

  const double bytes = nonzeros * (element + config.index_bits / 8.0) + rows * 8 + (rows + cols) * tokens * element;
  const double memory_us = bytes / (0.92 * std::max(problem.device.memory_bandwidth, 1e11) / 1e6);
  // What a warp's load of X brings: neighbouring tokens of a column, or of one token neighbouring nonzeros, which lie
  // the further apart the fewer a row has. It takes whole sectors.
  const double side_by_side = token_major(problem) ? std::min(static_cast<double>(config.column_lanes), length)
                                                   : std::min<double>(config.token_lanes, tokens);
  const double apart = token_major(problem) ? std::max(1.0, cols / length) : 1.0;
  const double width = token_major(problem) ? element : element * config.tokens_per_thread;
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
  const double issue_us = idle * (products + ends) / 32 / (sms * 4 * kIssued) / clock_mhz;
  const double chain =
      std::ceil(length / (config.column_lanes * config.nonzeros_per_thread)) * std::ceil(tokens / tile);
  const double resident = 2048.0 * sms / config.group_threads();
  const double latency_us = kLoadLatencyUs * (2 + chain) * std::max(1.0, rows / resident);
  return kLaunchUs + launch_delay_us(problem.device) + std::max({memory_us, l2_us, issue_us, latency_us});
}

}  // namespace sparsmith
