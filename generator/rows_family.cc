#include "generator/rows_family.h"

#include <algorithm>
#include <bit>

#include "generator/catalogue.h"

namespace sparsmith {
namespace {

// Statistics-independent: a kernel with such a config would be wrong or would not launch.
std::vector<Rule> legal_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kLegal,
       {"alignment", "vector_width"},
       "a vector load needs segments aligned to it",
       [](const RuleInput& in) { return in["vector_width"] <= in["alignment"]; }},
      {Kind::kLegal,
       {"split_length", "partial_sums"},
       "partial sums are kept exactly when rows are cut",
       [](const RuleInput& in) { return (in["split_length"] == 0) == (in["partial_sums"] == 0); }},
      {Kind::kLegal,
       {"shuffle_lanes", "token_lanes"},
       "a shuffle stays inside a warp",
       [](const RuleInput& in) { return in["shuffle_lanes"] * in["token_lanes"] <= 32; }},
      {Kind::kLegal,
       {"shuffle_lanes", "token_lanes", "shared_parts", "threads_per_block"},
       "a thread group lies in one block",
       [](const RuleInput& in) {
         return in["shuffle_lanes"] * in["token_lanes"] * in["shared_parts"] <= in["threads_per_block"];
       }},
      {Kind::kLegal,
       {"rows_per_group", "tokens_per_thread", "unroll", "vector_width"},
       "sums and loads in flight exceed the registers of a thread",
       [](const RuleInput& in) {
         return in["rows_per_group"] * in["tokens_per_thread"] <= 32 &&
                in["rows_per_group"] * in["unroll"] * in["vector_width"] <= 32;
       }},
      {Kind::kLegal,
       {"input", "token_lanes", "tokens_per_thread", "shuffle_lanes", "shared_parts", "rows_per_group",
        "threads_per_block"},
       "the panel of X and the row sums exceed the shared memory of a block",
       [](const RuleInput& in) {
         const RowsConfig config(in.config);
         return config.panel_bytes(in.problem.spec.cols, size_of(in.problem.spec.type)) + config.sums_bytes() <=
                in.problem.device.shared_bytes_per_block;
       }},
      {Kind::kLegal,
       {"input"},
       "feature-major X needs no relayout",
       [](const RuleInput& in) {
         return static_cast<RowsConfig::Input>(in["input"]) != RowsConfig::Input::kRelayout ||
                in.problem.spec.layout == Layout::kTokenMajor;
       }},
  };
}

// What another config does with less, or has never been seen to win.
std::vector<Rule> worthwhile_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kWorthwhile,
       {"alignment", "vector_width"},
       "segments aligned to the load, or to the widest one where rows are long",
       [](const RuleInput& in) {
         return in["alignment"] == in["vector_width"] ||
                (in["alignment"] == 8 && in["vector_width"] == 4 && in.statistics.row_mean >= 64);
       }},
      {Kind::kWorthwhile,
       {"alignment"},
       "padding stays under a fifth of the nonzeros",
       [](const RuleInput& in) {
         return in["alignment"] == 1 || static_cast<double>(in["alignment"] - 1) / 2 <= 0.2 * in.statistics.row_mean;
       }},
      {Kind::kWorthwhile,
       {"vector_width"},
       "long rows are worth loads of at least 8 bytes of columns",
       [](const RuleInput& in) { return in["vector_width"] >= 4 || in.statistics.row_mean < 32; }},
      {Kind::kWorthwhile,
       {"row_order"},
       "equal rows need no order",
       [](const RuleInput& in) {
         return in["row_order"] == 0 || in.statistics.row_cov > (in["row_order"] == 1 ? 0.05 : 0.3);
       }},
      {Kind::kWorthwhile,
       {"split_length"},
       "only rows far above the mean are worth cutting",
       [](const RuleInput& in) {
         const auto length = static_cast<double>(in["split_length"]);
         return length == 0 || (static_cast<double>(in.statistics.row_max) > length &&
                                in.statistics.row_max_over_mean > 4 && length >= 2 * in.statistics.row_mean);
       }},
      {Kind::kWorthwhile,
       {"vector_width", "shuffle_lanes", "shared_parts"},
       "a thread group no wider than its rows",
       [](const RuleInput& in) {
         const std::int64_t lanes = in["shuffle_lanes"] * in["shared_parts"];
         return lanes == 1 || static_cast<double>(lanes * in["vector_width"]) < 4 * in.statistics.row_mean;
       }},
      {Kind::kWorthwhile,
       {"vector_width", "shuffle_lanes", "shared_parts", "token_lanes"},
       "a row is not left to so few threads that it takes over 64 rounds",
       [](const RuleInput& in) {
         const std::int64_t lanes = in["shuffle_lanes"] * in["shared_parts"];
         return in["token_lanes"] >= 8 ||
                in.statistics.row_mean <= 64 * static_cast<double>(lanes * in["vector_width"]);
       }},
      {Kind::kWorthwhile,
       {"shuffle_lanes", "shared_parts", "token_lanes"},
       "a row's work is shared out by whole warps before several take part",
       [](const RuleInput& in) { return in["shared_parts"] == 1 || in["shuffle_lanes"] * in["token_lanes"] == 32; }},
      {Kind::kWorthwhile,
       {"token_lanes", "tokens_per_thread"},
       "a token tile no larger than the tokens, nor much smaller",
       [](const RuleInput& in) {
         const auto tokens = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(in.problem.tokens)));
         const std::int64_t tile = in["token_lanes"] * in["tokens_per_thread"];
         return tile <= tokens && tile >= std::min<std::int64_t>(tokens, 8);
       }},
      {Kind::kWorthwhile,
       {"token_lanes", "tokens_per_thread"},
       "a thread takes several tokens before more lanes do",
       [](const RuleInput& in) { return in["token_lanes"] == 1 || in["tokens_per_thread"] >= 4; }},
      {Kind::kWorthwhile,
       {"input"},
       "a relayout needs tokens to gather side by side",
       [](const RuleInput& in) { return in["input"] != 2 || in.problem.tokens > 1; }},
      {Kind::kWorthwhile,
       {"input", "token_lanes"},
       "lanes that share out tokens need them side by side",
       [](const RuleInput& in) {
         return in["token_lanes"] == 1 || in["input"] != 0 || in.problem.spec.layout == Layout::kFeatureMajor;
       }},
      {Kind::kWorthwhile,
       {"index_bits", "rows_per_group", "unroll", "vector_width", "tokens_per_thread", "threads_per_block"},
       "what a thread holds fits the registers that its block leaves it",
       [](const RuleInput& in) {
         // Columns and values in flight, sums, one column's tokens; addresses, counters and lengths.
         const auto nonzero = in["index_bits"] / 8 + static_cast<std::int64_t>(size_of(in.problem.spec.type));
         const std::int64_t registers = in["rows_per_group"] * in["unroll"] * in["vector_width"] * nonzero / 4 +
                                        in["rows_per_group"] * (in["tokens_per_thread"] + 4) + in["tokens_per_thread"] +
                                        34;
         return registers * in["threads_per_block"] <= in.problem.device.registers_per_sm;
       }},
      {Kind::kWorthwhile,
       {"rows_per_group", "unroll", "vector_width", "tokens_per_thread"},
       "X values in flight take at most 32 registers of a thread",
       [](const RuleInput& in) {
         const std::int64_t values = in["rows_per_group"] * in["unroll"] * in["vector_width"] * in["tokens_per_thread"];
         return values * static_cast<std::int64_t>(size_of(in.problem.spec.type)) <= 128;
       }},
      {Kind::kWorthwhile,
       {"rows_per_group", "unroll", "vector_width"},
       "4 to 32 nonzeros in flight a thread",
       [](const RuleInput& in) {
         const std::int64_t flight = in["rows_per_group"] * in["unroll"] * in["vector_width"];
         return flight <= 32 && (flight >= 4 || in.statistics.row_mean < 16);
       }},
      {Kind::kWorthwhile,
       {"blocks_per_sm", "input", "threads_per_block"},
       "a staged panel is worth a persistent grid that fits, and only that",
       [](const RuleInput& in) {
         if (in["input"] != 1) return in["blocks_per_sm"] == 0;
         return in["blocks_per_sm"] > 0 &&
                in["blocks_per_sm"] * in["threads_per_block"] <= in.problem.device.max_threads_per_sm &&
                in["blocks_per_sm"] * in["threads_per_block"] >= 512;
       }},
      {Kind::kWorthwhile,
       {"input", "threads_per_block"},
       "small blocks refill a multiprocessor sooner; panels want large ones",
       [](const RuleInput& in) {
         return (in["input"] == 1) == (in["threads_per_block"] >= 512) || in["threads_per_block"] == 256;
       }},
      {Kind::kWorthwhile,
       {"blocks_per_sm", "input", "token_lanes", "tokens_per_thread", "shuffle_lanes", "shared_parts", "rows_per_group",
        "threads_per_block"},
       "a persistent grid that fits the shared memory",
       [](const RuleInput& in) {
         const RowsConfig config(in.config);
         const std::int64_t block = config.panel_bytes(in.problem.spec.cols, size_of(in.problem.spec.type)) + 1024;
         return config.blocks_per_sm == 0 || config.blocks_per_sm * block <= in.problem.device.shared_bytes_per_sm;
       }},
  };
}

}  // namespace

std::vector<Rule> csr_column_rules() {
  using Kind = Rule::Kind;
  constexpr std::int64_t kMaxColumns16 = 65536;
  return {
      {Kind::kLegal,
       {"index_bits"},
       "16-bit columns need K <= 65,536",
       [](const RuleInput& in) { return in["index_bits"] == 32 || in.problem.spec.cols <= kMaxColumns16; }},
      {Kind::kWorthwhile,
       {"index_bits"},
       "32-bit columns only where 16-bit ones do not do",
       [](const RuleInput& in) { return in["index_bits"] == 16 || in.problem.spec.cols > kMaxColumns16; }},
  };
}

RowsConfig::RowsConfig(const Config& config)
    : index_bits(static_cast<int>(config.at("index_bits"))),
      alignment(static_cast<int>(config.at("alignment"))),
      row_order(static_cast<RowOrder>(config.at("row_order"))),
      split_length(config.at("split_length")),
      partial_sums(static_cast<PartialSums>(config.at("partial_sums"))),
      vector_width(static_cast<int>(config.at("vector_width"))),
      shuffle_lanes(static_cast<int>(config.at("shuffle_lanes"))),
      shared_parts(static_cast<int>(config.at("shared_parts"))),
      token_lanes(static_cast<int>(config.at("token_lanes"))),
      tokens_per_thread(static_cast<int>(config.at("tokens_per_thread"))),
      rows_per_group(static_cast<int>(config.at("rows_per_group"))),
      unroll(static_cast<int>(config.at("unroll"))),
      input(static_cast<Input>(config.at("input"))),
      threads_per_block(static_cast<int>(config.at("threads_per_block"))),
      blocks_per_sm(static_cast<int>(config.at("blocks_per_sm"))) {}

CsrPacking RowsConfig::csr_packing() const {
  return {index_bits / 8, alignment, row_order, split_length, partial_sums};
}

std::int64_t RowsConfig::panel_bytes(std::int64_t cols, std::size_t element_bytes) const {
  if (input != Input::kShared) return 0;
  return (cols * token_tile() * static_cast<std::int64_t>(element_bytes) + 15) / 16 * 16;
}

std::int64_t RowsConfig::sums_bytes() const {
  if (shared_parts == 1) return 0;
  return std::int64_t{threads_per_block} / shuffle_lanes * rows_per_group * tokens_per_thread * 4;
}

std::vector<Parameter> RowsFamily::parameters() const {
  return {
      {"index_bits", "u", {16, 32}, "bytes of a column against the largest K"},
      {"vector_width", "v", tuned("CsrStream", "kVectorWidth"), "nonzeros a load: load width against padding"},
      {"alignment", "a", {1, 2, 4, 8}, "a segment begins at a multiple of it: vector loads against padding"},
      {"row_order", "o", {0, 1, 2}, "balance against locality of Y", {"natural", "sorted", "binned"}},
      {"split_length", "l", {0, 128, 512, 2048, 8192}, "longer rows are cut: balance against a second pass"},
      {"partial_sums", "p", {0, 1, 2}, "how a cut row adds up", {"none", "atomic", "two_pass"}},
      {"token_lanes", "tl", tuned("RowsKernel", "kTokenLanes"),
       "lanes that share out a token tile: coalescing of X against lanes a row"},
      {"tokens_per_thread", "tt", tuned("RegisterSums", "kTokens"), "use of a loaded nonzero against registers"},
      {"shuffle_lanes", "s", tuned("ShuffleSum", "kLanes"),
       "lanes of a row that combine by shuffle: balance against depth"},
      {"shared_parts", "h", tuned("SharedSum", "kParts"), "parts of a row that combine through shared memory"},
      {"rows_per_group", "r", tuned("RegisterSums", "kRows"),
       "rows in flight a thread group: latency hiding against registers"},
      {"unroll", "n", tuned("RowsKernel", "kUnroll"), "vectors in flight a thread: latency hiding against registers"},
      {"input", "x", {0, 1, 2}, "gather cost against staging", {"global", "shared", "relayout"}},
      {"threads_per_block", "b", tuned("RowsKernel", "kThreads"), "occupancy against tail"},
      {"blocks_per_sm", "g", {0, 1, 2, 4, 8}, "blocks of a persistent grid; 0: a block for each piece of work"},
  };
}

std::vector<Rule> RowsFamily::rules() const {
  std::vector<Rule> rules = csr_column_rules();
  for (Rule& rule : legal_rules()) rules.push_back(std::move(rule));
  for (Rule& rule : worthwhile_rules()) rules.push_back(std::move(rule));
  return rules;
}

std::string RowsFamily::packing_of_rows(const Config& config, const Problem&) const {
  return RowsConfig(config).csr_packing().name();
}

}  // namespace sparsmith
