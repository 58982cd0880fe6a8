#include "generator/gather_family.h"

#include <algorithm>

#include "generator/catalogue.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kMostSlots = 4096;

// Slots whose sums fit in shared memory.
std::int64_t slots_that_fit(const GatherConfig& config, const Problem& problem) {
  const std::int64_t sums_bytes = config.tile_tokens(problem.spec.type) * 4;
  return std::min(problem.device.shared_bytes_per_block / sums_bytes / 64 * 64, kMostSlots);
}

std::vector<Rule> legal_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kLegal,
       {"token_lanes", "segment_lanes"},
       "the teams of a segment lie in one warp",
       [](const RuleInput& in) { return in["token_lanes"] * in["segment_lanes"] <= panel::kWarpLanes; }},
      {Kind::kLegal,
       {"depth", "ahead"},
       "rows that are asked for ahead need four steps under way",
       [](const RuleInput& in) { return in["ahead"] == 0 || in["depth"] >= 4; }},
      {Kind::kLegal,
       {"token_lanes", "segment_lanes", "segment_length", "row_parts", "threads_per_block", "sweep_columns", "depth",
        "ahead"},
       "the sums exceed the shared memory of a block",
       [](const RuleInput& in) {
         const GatherConfig config(in.config);
         return slots_that_fit(config, in.problem) >= least_slots(config.packing(in.problem));
       }},
  };
}

std::vector<Rule> worthwhile_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kWorthwhile,
       {"token_lanes"},
       "rows of X are gathered for the sake of several tokens",
       [](const RuleInput& in) { return in.problem.tokens > 1; }},
      {Kind::kWorthwhile,
       {"token_lanes"},
       "half of the token lanes have tokens",
       [](const RuleInput& in) {
         const std::int64_t lane_tokens = 16 / static_cast<std::int64_t>(size_of(in.problem.spec.type));
         return in["token_lanes"] == 1 || in["token_lanes"] * lane_tokens < 2 * in.problem.tokens;
       }},
      {Kind::kWorthwhile,
       {"token_lanes"},
       "more than 16 bytes of a row where there are more",
       [](const RuleInput& in) {
         const std::int64_t lane_tokens = 16 / static_cast<std::int64_t>(size_of(in.problem.spec.type));
         return in["token_lanes"] > 1 || in.problem.tokens <= 2 * lane_tokens;
       }},
      {Kind::kWorthwhile,
       {"token_lanes", "segment_lanes", "segment_length"},
       "a segment long enough for its lanes",
       [](const RuleInput& in) {
         return in["segment_length"] >= 8 * in["segment_lanes"] &&
                (in["segment_lanes"] == 1 || static_cast<double>(in["segment_lanes"]) <= in.statistics.row_mean);
       }},
      {Kind::kWorthwhile,
       {"threads_per_block", "ahead"},
       "rows asked for ahead take more registers than 1,024 threads have",
       [](const RuleInput& in) {
         return in["ahead"] == 0 || in["threads_per_block"] < 1024 || size_of(in.problem.spec.type) == 4;
       }},
      {Kind::kWorthwhile,
       {"segment_length"},
       "rows of usual length are not cut, and segments no longer than the longest row",
       [](const RuleInput& in) {
         const auto length = static_cast<double>(in["segment_length"]);
         return (length >= in.statistics.row_mean || length >= 512) &&
                (length <= 4 * static_cast<double>(in.statistics.row_max) || length <= 32);
       }},
      {Kind::kWorthwhile,
       {"sweep_columns"},
       "several blocks of columns, with several nonzeros of a row in each",
       [](const RuleInput& in) {
         const auto columns = static_cast<double>(in["sweep_columns"]);
         const auto cols = static_cast<double>(in.problem.spec.cols);
         return columns == 0 || (2 * columns <= cols && in.statistics.row_mean * columns >= 4 * cols);
       }},
      {Kind::kWorthwhile,
       {"threads_per_block", "row_parts", "sweep_columns"},
       "a sweep has several rows for each warp, and warps enough in a block",
       [](const RuleInput& in) {
         return in["sweep_columns"] == 0 || (in["threads_per_block"] >= 512 &&
                                             in.problem.spec.rows >= in["row_parts"] * in["threads_per_block"] / 8);
       }},
      {Kind::kWorthwhile,
       {"row_parts"},
       "a part of several rows",
       [](const RuleInput& in) { return in["row_parts"] <= 8 || in["row_parts"] * 4 <= in.problem.spec.rows; }},
      {Kind::kWorthwhile,
       {"token_lanes", "threads_per_block", "row_parts"},
       "threads for every multiprocessor that has rows, and no more blocks than run in four waves",
       [](const RuleInput& in) {
         const Problem& problem = in.problem;
         const std::int64_t tile = GatherConfig(in.config).tile_tokens(problem.spec.type);
         const std::int64_t blocks = in["row_parts"] * ((problem.tokens + tile - 1) / tile);
         const std::int64_t threads = blocks * in["threads_per_block"];
         const std::int64_t sms = std::max(problem.device.sm_count, 1);
         const bool few_rows = in["row_parts"] * 12 > problem.spec.rows;
         return (few_rows || (2 * blocks >= sms && threads >= sms * 256)) &&
                threads <= 4 * sms * problem.device.max_threads_per_sm;
       }},
  };
}

}  // namespace

GatherConfig::GatherConfig(const Config& config)
    : token_lanes(static_cast<int>(config.at("token_lanes"))),
      segment_lanes(static_cast<int>(config.at("segment_lanes"))),
      segment_length(static_cast<int>(config.at("segment_length"))),
      sweep_columns(static_cast<int>(config.at("sweep_columns"))),
      row_parts(static_cast<int>(config.at("row_parts"))),
      threads_per_block(static_cast<int>(config.at("threads_per_block"))),
      depth(static_cast<int>(config.at("depth"))),
      ahead(static_cast<int>(config.at("ahead"))) {}

std::int64_t GatherConfig::tile_tokens(DataType type) const {
  return std::int64_t{token_lanes} * 16 / static_cast<std::int64_t>(size_of(type));
}

PanelPacking GatherConfig::packing(const Problem& problem) const {
  return {.row_parts = row_parts,
          .warps = threads_per_block / panel::kWarpLanes,
          .segment_lanes = segment_lanes,
          .segment_length = segment_length,
          .max_slots = static_cast<int>(slots_that_fit(*this, problem)),
          .token_lanes = token_lanes,
          .sweep_columns = sweep_columns};
}

std::vector<Parameter> GatherFamily::parameters() const {
  return {
      {"token_lanes", "n", tuned("GatheredRows", "kTeamLanes"),
       "lanes that share an entry: bytes of a row of X against reach of L1"},
      {"segment_lanes", "t", tuned("GatheredProducts", "kLanes"),
       "teams of a segment: balance of few rows against sums to combine"},
      {"segment_length", "l", {32, 128, 512}, "longer rows are cut: balance against sums to combine"},
      {"threads_per_block", "b", tuned("GatherKernel", "kThreads"),
       "warps that hide latency against registers of each"},
      {"row_parts",
       "r",
       {1, 2, 4, 8, 16, 33, 66, 132, 264, 528},
       "blocks that share out the rows: balance against reuse of L1"},
      {"sweep_columns",
       "s",
       {0, 512, 1024, 2048},
       "all warps on the same columns: rows of X that L1 still holds against sums added more often"},
      {"depth", "d", {2, 4}, "steps in flight a warp: latency hiding against registers"},
      {"ahead", "a", tuned("GatherKernel", "kAhead"),
       "rows of X asked for a step early: latency hiding against registers"},
  };
}

std::vector<Rule> GatherFamily::rules() const {
  std::vector<Rule> rules = legal_rules();
  for (Rule& rule : worthwhile_rules()) rules.push_back(std::move(rule));
  return rules;
}

std::string GatherFamily::packing_of_rows(const Config& config, const Problem& problem) const {
  return GatherConfig(config).packing(problem).name();
}

}  // namespace sparsmith
