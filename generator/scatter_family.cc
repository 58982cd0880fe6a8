#include "generator/scatter_family.h"

#include <algorithm>
#include <bit>

#include "base/ceil_div.h"
#include "formats/scatter_layout.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/operand_relayout.h"
#include "generator/scatter_rules.h"

namespace sparsmith {
namespace {

// The share of multiprocessors at work when blocks of `block_rows` rows, in so many parts, go over them in waves.
double use_of_sms(std::int64_t block_rows, std::int64_t parts, const Problem& problem) {
  const std::int64_t blocks = std::max<std::int64_t>(1, ceil_div(problem.spec.rows, block_rows)) * parts;
  const std::int64_t sms = multiprocessors_for_clusters(parts, problem.device);
  const auto all = static_cast<double>(std::max(problem.device.sm_count, 1));
  return static_cast<double>(blocks) / (static_cast<double>(ceil_div(blocks, sms)) * all);
}

const ScatterChoice kChoice = {
    .parameters = {"entry", "tile_rows"},
    .packing =
        [](const RuleInput& in) {
          return ScatterPacking{.entry = static_cast<ScatterEntry>(in["entry"]),
                                .tile_rows = static_cast<int>(in["tile_rows"])};
        },
    .values_below = 2,
};

std::vector<Rule> legal_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kLegal,
       {"tile_rows", "input_columns"},
       "X is loaded for a tile at most",
       [](const RuleInput& in) { return in["input_columns"] * in["tile_rows"] <= 4096; }},
      {Kind::kLegal,
       {"tile_rows", "row_tiles", "input_columns"},
       "X is loaded once for the tiles of several row blocks",
       [](const RuleInput& in) { return in["row_tiles"] == 1 || in["input_columns"] * in["tile_rows"] == 4096; }},
      {Kind::kLegal,
       {"parts"},
       "clusters need compute capability 9.0",
       [](const RuleInput& in) { return in["parts"] == 1 || in.problem.device.compute_capability >= 90; }},
      {Kind::kLegal,
       {"tiles_ahead"},
       "bulk prefetches ask for tiles ahead, and need compute capability 9.0",
       [](const RuleInput& in) { return in["tiles_ahead"] == 0 || in.problem.device.compute_capability >= 90; }},
      {Kind::kLegal,
       {"tile_rows", "row_tiles", "token_tile", "input_columns"},
       "sums and X exceed the registers of a thread",
       [](const RuleInput& in) {
         return in["row_tiles"] * in["tile_rows"] * in["token_tile"] / 32 +
                    in["token_tile"] * in["input_columns"] / 64 <=
                160;
       }},
      {Kind::kLegal,
       {"entry", "tile_rows", "min_rounds", "max_rounds", "token_tile", "input_columns", "warps", "row_tiles", "parts"},
       "the warps' tiles or partial sums exceed the shared memory of a block",
       [](const RuleInput& in) {
         return ScatterConfig(in.config).shared_bytes() <= in.problem.device.shared_bytes_per_block;
       }},
  };
}

std::vector<Rule> worthwhile_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kWorthwhile,
       {"tile_rows"},
       "lower tiles only where they keep more multiprocessors at work",
       [](const RuleInput& in) {
         return in["tile_rows"] == 64 ||
                use_of_sms(in["tile_rows"], 1, in.problem) > 1.1 * use_of_sms(in["tile_rows"] * 2, 1, in.problem);
       }},
      {Kind::kWorthwhile,
       {"tile_rows", "row_tiles", "parts"},
       "tiles of several row blocks, and parts of the columns, where multiprocessors are at work all the same or more",
       [](const RuleInput& in) {
         const std::int64_t rows = in["row_tiles"] * in["tile_rows"];
         const double use = use_of_sms(rows, in["parts"], in.problem);
         if (in["row_tiles"] == 2 && use < 0.95 * use_of_sms(in["tile_rows"], 1, in.problem)) return false;
         return in["parts"] == 1 || (in["parts"] == 2 && in["row_tiles"] == 2) ||
                use > 1.1 * use_of_sms(rows, in["parts"] / 2, in.problem);
       }},
      {Kind::kWorthwhile,
       {"tiles_ahead", "input"},
       "tiles ahead from 16 tokens on; then always where X is laid out",
       [](const RuleInput& in) {
         return in.problem.tokens < 16 ? in["tiles_ahead"] == 0
                                       : in["tiles_ahead"] >= in["input"] || in.problem.device.compute_capability < 90;
       }},
      {Kind::kWorthwhile,
       {"input"},
       kInputWorthwhile,
       [](const RuleInput& in) { return in["input"] == 0 || worth_laying_out(in.problem); }},
      {Kind::kWorthwhile,
       {"token_tile"},
       "a token tile that holds all tokens, or the largest ones",
       [](const RuleInput& in) {
         const auto tokens = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(in.problem.tokens)));
         return in["token_tile"] == std::clamp<std::int64_t>(tokens, 8, 64) || (in["token_tile"] == 32 && tokens > 32);
       }},
      {Kind::kWorthwhile,
       {"tile_rows", "token_tile", "input_columns"},
       "X is held for a whole tile in at most 32 registers, or for half of one where registers are short",
       [](const RuleInput& in) {
         const std::int64_t registers = in["token_tile"] * in["input_columns"] / 64;
         const bool whole = in["input_columns"] * in["tile_rows"] == 4096;
         return registers <= 32 && (whole || registers >= 16);
       }},
      {Kind::kWorthwhile,
       {"tile_rows", "warps", "parts"},
       "warps that all have tiles, and enough of them to hide latency",
       [](const RuleInput& in) {
         const std::int64_t tiles = ceil_div(in.problem.spec.cols * in["tile_rows"], 4096 * in["parts"]);
         return in["warps"] <= std::max<std::int64_t>(tiles, 4) && (in["warps"] >= 8 || tiles < 8);
       }},
      {Kind::kWorthwhile,
       {"entry", "tile_rows", "min_rounds", "max_rounds", "token_tile", "input_columns", "warps", "row_tiles", "parts",
        "input"},
       "what a thread holds fits the registers that its block leaves it",
       [](const RuleInput& in) {
         const ScatterConfig config(in.config);
         const int others = in.problem.device.compute_capability / 10 == 9 ? 0 : 24;  // the estimate is of sm_90
         return config.registers() + others <= std::min(254, in.problem.device.registers_per_sm / (config.warps * 32));
       }},
  };
}

}  // namespace

ScatterConfig::ScatterConfig(const Config& config)
    : entry(static_cast<ScatterEntry>(config.at("entry"))),
      tile_rows(static_cast<int>(config.at("tile_rows"))),
      min_rounds(static_cast<int>(config.at("min_rounds"))),
      max_rounds(static_cast<int>(config.at("max_rounds"))),
      token_tile(static_cast<int>(config.at("token_tile"))),
      input_columns(static_cast<int>(config.at("input_columns"))),
      warps(static_cast<int>(config.at("warps"))),
      row_tiles(static_cast<int>(config.at("row_tiles"))),
      parts(static_cast<int>(config.at("parts"))),
      tiles_ahead(static_cast<int>(config.at("tiles_ahead"))),
      relayout(config.at("input") != 0) {}

std::int64_t ScatterConfig::resident_blocks(const DeviceProperties& device) const {
  // Given out in eights. An exchange of sums takes its own, behind all others.
  const std::int64_t needed = ceil_div(std::max(registers(), parts > 1 ? 88 : 8), 8) * 8;
  const std::int64_t by_registers = device.registers_per_sm / (std::int64_t{32} * warps * needed);
  return std::max<std::int64_t>(1, std::min(by_registers, device.shared_bytes_per_block / shared_bytes()));
}

std::int64_t ScatterConfig::shared_bytes() const {
  const std::int64_t sent = std::int64_t{parts > 1 ? rows() * token_tile * 4 : 0};
  return std::int64_t{warps} * std::max(8192, token_tile * (rows() + 4) * 4) + rows() / scatter::kPartRows * 4 + sent;
}

int ScatterConfig::registers() const {
  const int words = entry == ScatterEntry::kByte ? max_rounds * 3 / 4 : max_rounds;
  // By what ptxas says of kernels that spill and of kernels that do not.
  const int predicates = max_rounds > min_rounds ? 3 : 0;
  // Loads of X, which keep their order; and multiplications that could otherwise stand in each other's way.
  const int loads = token_tile > 32 ? 72 : token_tile == 32 ? 8 : input_registers() > 16 ? 12 : 0;
  const int second_row = row_tiles > 1 ? 30 : 0;
  // Of these, X that lies as operands needs few: its loads have one address and no branches.
  const int spared = !relayout ? 0 : (token_tile > 32 ? 70 : token_tile == 32 ? 16 : 8) + (row_tiles > 1 ? 18 : 0);
  return sum_registers() + input_registers() + 2 * words + 24 + 2 * (token_tile / 8) + predicates + loads + second_row -
         spared;
}

std::vector<Parameter> ScatterFamily::parameters() const {
  return {
      {"entry", "e", {0, 1}, "bytes a nonzero against padding and decode work", {"byte", "word"}},
      {"tile_rows", "m", tuned("ScatterKernel", "kTileRows"),
       "use of a loaded X against blocks to fill the multiprocessors with"},
      min_rounds_parameter(),
      max_rounds_parameter(),
      {"token_tile", "t", tuned("ScatterKernel", "kTokens"), "use of a scattered tile against registers"},
      {"input_columns", "c", tuned("ScatterKernel", "kInputColumns"),
       "columns of X held ahead: latency hiding against registers"},
      {"warps", "w", tuned("ScatterKernel", "kWarps"), "latency hiding against registers a thread"},
      {"row_tiles", "r", tuned("ScatterKernel", "kRowTiles"),
       "tiles above one another that meet the same X, against registers for their sums"},
      {"parts", "k", tuned("ClusterSums", "kParts"),
       "blocks of a cluster that share the columns: more blocks, against an exchange of sums"},
      {.name = "tiles_ahead",
       .abbreviation = "p",
       .values = {0, 1},
       .meaning = "tiles asked for as far as L2, behind the one on its way: latency hiding against requests",
       .later = true},
      input_parameter(true),
  };
}

std::vector<Rule> ScatterFamily::rules() const {
  std::vector<Rule> rules;
  for (const std::vector<Rule>& some :
       {legal_scatter_rules(), legal_rules(), worthwhile_scatter_rules(kChoice), worthwhile_rules()})
    rules.insert(rules.end(), some.begin(), some.end());
  return rules;
}

std::string ScatterFamily::packing_of_rows(const Config& config, const Problem&) const {
  return ScatterConfig(config).packing().name();
}

}  // namespace sparsmith
