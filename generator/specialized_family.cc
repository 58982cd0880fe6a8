#include "generator/specialized_family.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "generator/catalogue.h"
#include "generator/scatter_rules.h"

namespace sparsmith {
namespace {

const ScatterChoice kChoice = {
    .parameters = {"entry"},
    .packing =
        [](const RuleInput& in) {
          return ScatterPacking{.entry = static_cast<ScatterEntry>(in["entry"]),
                                .tile_rows = SpecializedConfig::kTileRows};
        },
};

// The share of multiprocessors at work when blocks go over them in waves, one to each.
double use_of_sms(const RuleInput& in, std::int64_t row_tiles, std::int64_t column_parts) {
  const std::int64_t panels =
      std::max<std::int64_t>(1, ceil_div(in.problem.spec.rows, row_tiles * SpecializedConfig::kTileRows));
  const std::int64_t blocks = panels * column_parts * ceil_div(in.problem.tokens, in["token_tile"]);
  const std::int64_t sms = std::max(in.problem.device.sm_count, 1);
  return static_cast<double>(blocks) / static_cast<double>(ceil_div(blocks, sms) * sms);
}

std::vector<Rule> legal_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kLegal,
       {"entry"},
       "only devices of compute capability 9.0 have wgmma",
       [](const RuleInput& in) { return in.problem.device.compute_capability == 90; }},
      {Kind::kLegal,
       {"row_tiles", "warpgroups", "producers", "tile_buffers", "stage_columns"},
       "every row tile has warpgroups, and there are places for two stages' tiles of each of them, each of one "
       "warpgroup",
       [](const RuleInput& in) {
         const std::int64_t places = in["producers"] * in["tile_buffers"];
         const std::int64_t of_stage = in["row_tiles"] * in["stage_columns"] / 64;
         const std::int64_t of_turn = in["warpgroups"] / in["row_tiles"] * of_stage;
         return in["warpgroups"] % in["row_tiles"] == 0 && places % of_turn == 0 && places >= 2 * of_turn;
       }},
      {Kind::kLegal,
       {"token_tile", "row_tiles", "warpgroups", "producers", "tile_buffers"},
       "the places of tiles take partial sums, but for one",
       [](const RuleInput& in) {
         const std::int64_t sums =
             in["warpgroups"] / in["row_tiles"] * in["token_tile"] * (in["row_tiles"] * 64 + 4) * 4;
         return sums <= (in["producers"] * in["tile_buffers"] - 1) * 8192;
       }},
      {Kind::kLegal,
       {"token_tile", "warpgroups", "producers"},
       "a multiplication's sums, and its operands, are in registers: otherwise it does not compile",
       [](const RuleInput& in) {
         const std::int64_t threads = (in["warpgroups"] * 4 + in["producers"] + SpecializedConfig::kLoaders) * 32;
         return in["token_tile"] / 2 + 26 <= in.problem.device.registers_per_sm / threads / 8 * 8;
       }},
      {Kind::kLegal,
       {"entry", "min_rounds", "max_rounds", "token_tile", "row_tiles", "warpgroups", "producers", "tile_buffers",
        "whole_tiles", "stages", "stage_columns", "column_parts"},
       "what a block needs exceeds registers or shared memory by far",
       [](const RuleInput& in) {
         const SpecializedConfig config(in.config);
         return config.shared_bytes() <= in.problem.device.shared_bytes_per_block &&
                config.missing_registers(in.problem.device) <= 24;
       }},
  };
}

std::vector<Rule> worthwhile_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kWorthwhile,
       {"token_tile"},
       "the least tile of tokens that takes all of them, or 64 or 128 of them at a time",
       [](const RuleInput& in) {
         const std::int64_t tile = in["token_tile"];
         return tile >= in.problem.tokens ? tile == 8 || tile / 2 < in.problem.tokens : tile >= 64;
       }},
      {Kind::kWorthwhile,
       {"token_tile", "row_tiles"},
       "for few tokens X is too small to share it between row tiles",
       [](const RuleInput& in) { return in["row_tiles"] == 1 || in["token_tile"] >= 32; }},
      {Kind::kWorthwhile,
       {"token_tile", "stages", "stage_columns"},
       "stages that hide what X takes from L2, and leave shared memory to tiles",
       [](const RuleInput& in) {
         const std::int64_t columns = in["stages"] * in["stage_columns"];
         return in["stage_columns"] * in["token_tile"] <= 4096 &&
                (columns * in["token_tile"] >= 32768 || columns >= 1024);
       }},
      {Kind::kWorthwhile,
       {"row_tiles", "column_parts", "token_tile"},
       "the columns are cut where that gives more multiprocessors work",
       [](const RuleInput& in) {
         return in["column_parts"] == 1 ||
                use_of_sms(in, in["row_tiles"], 2) > 1.1 * use_of_sms(in, in["row_tiles"], 1);
       }},
      {Kind::kWorthwhile,
       {"entry", "min_rounds", "max_rounds", "token_tile", "row_tiles", "warpgroups", "producers", "tile_buffers"},
       "no more than a few registers spill",
       [](const RuleInput& in) {
         Config config = in.config;
         config.values.insert({{"column_parts", 1}, {"stages", 4}, {"stage_columns", 64}, {"whole_tiles", 0}});
         return SpecializedConfig(config).missing_registers(in.problem.device) <= 8;
       }},
  };
}

}  // namespace

SpecializedConfig::SpecializedConfig(const Config& config)
    : entry(static_cast<ScatterEntry>(config.at("entry"))),
      min_rounds(static_cast<int>(config.at("min_rounds"))),
      max_rounds(static_cast<int>(config.at("max_rounds"))),
      token_tile(static_cast<int>(config.at("token_tile"))),
      row_tiles(static_cast<int>(config.at("row_tiles"))),
      warpgroups(static_cast<int>(config.at("warpgroups"))),
      producers(static_cast<int>(config.at("producers"))),
      tile_buffers(static_cast<int>(config.at("tile_buffers"))),
      whole_tiles(static_cast<int>(config.at("whole_tiles"))),
      stages(static_cast<int>(config.at("stages"))),
      stage_columns(static_cast<int>(config.at("stage_columns"))),
      column_parts(static_cast<int>(config.at("column_parts"))) {}

std::int64_t SpecializedConfig::shared_bytes() const {
  const std::int64_t places = std::int64_t{producers} * tile_buffers;
  const std::int64_t x = std::int64_t{stages} * stage_columns * token_tile * 2;
  const std::int64_t others = std::int64_t{token_tile} * rows() * 4 / column_parts * (column_parts - 1);
  return places * 8192 + x + others + (places + stages) * 16 + std::int64_t{row_tiles} * 16 + warpgroups * 16;
}

int SpecializedConfig::registers() const {
  const bool bytes = entry == ScatterEntry::kByte;
  const int list = bytes ? max_rounds * 3 / 4 : max_rounds;
  const int positions = whole_tiles != 0 ? 0 : bytes ? max_rounds / 4 : max_rounds;  // which a tile is cleared by
  const int produce = list + tile_buffers * positions + 40;
  const int multiply = token_tile / 2 + 40;
  return std::max(produce, multiply);
}

int SpecializedConfig::missing_registers(const DeviceProperties& device) const {
  return std::max(0, registers() - std::min(254, device.registers_per_sm / threads() / 8 * 8));
}

std::vector<Parameter> SpecializedFamily::parameters() const {
  return {
      {"entry", "e", {0, 1}, "bytes a nonzero against padding and decode work", {"byte", "word"}},
      min_rounds_parameter(),
      max_rounds_parameter(),
      {"token_tile", "t", tuned("SpecializedKernel", "kTokens"),
       "passes over the weight against registers and shared memory"},
      {"row_tiles", "r", tuned("SpecializedKernel", "kRowTiles"),
       "use of a loaded X against blocks to fill the device with"},
      {"warpgroups", "w", tuned("SpecializedKernel", "kWarpgroups"),
       "waits for tensor cores against registers a thread"},
      {"producers", "p", tuned("SpecializedKernel", "kProducers"), "latency hiding against registers a thread"},
      {"tile_buffers", "b", tuned("SpecializedKernel", "kBuffers"), "waits for tensor cores against shared memory"},
      {"whole_tiles", "z", {0, 1}, "registers and instructions against accesses of shared memory"},
      {"stages", "s", tuned("InputRing", "kStages"), "waits for X against shared memory"},
      {"stage_columns", "x", {64, 128, 256}, "waits for X against shared memory"},
      {"column_parts", "k", tuned("SpecializedKernel", "kBlocks"),
       "blocks to fill the device with against sums in a cluster"},
  };
}

std::vector<Rule> SpecializedFamily::rules() const {
  std::vector<Rule> rules;
  for (const std::vector<Rule>& some :
       {legal_scatter_rules(), legal_rules(), worthwhile_scatter_rules(kChoice), worthwhile_rules()})
    rules.insert(rules.end(), some.begin(), some.end());
  return rules;
}

std::string SpecializedFamily::packing_of_rows(const Config& config, const Problem&) const {
  return SpecializedConfig(config).packing().name();
}

}  // namespace sparsmith
