#include "generator/wgmma_family.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/scatter_rules.h"

namespace sparsmith {
namespace {

const ScatterChoice kChoice = {
    .parameters = {"entry"},
    .packing =
        [](const RuleInput& in) {
          return ScatterPacking{.entry = static_cast<ScatterEntry>(in["entry"]), .tile_rows = WgmmaConfig::kTileRows};
        },
};

std::int64_t panels(const RuleInput& in) {
  return std::max<std::int64_t>(1, ceil_div(in.problem.spec.rows, in["row_tiles"] * WgmmaConfig::kTileRows));
}

// The share of multiprocessors at work when blocks go over them in waves, one to each.
double use_of_sms(const RuleInput& in, std::int64_t column_parts, std::int64_t cluster) {
  const std::int64_t blocks = panels(in) * column_parts * ceil_div(in.problem.tokens, WgmmaConfig::kTokens);
  const std::int64_t sms = multiprocessors_for_clusters(cluster, in.problem.device);
  const auto all = static_cast<double>(std::max(in.problem.device.sm_count, 1));
  return static_cast<double>(blocks) / (static_cast<double>(ceil_div(blocks, sms)) * all);
}

std::vector<Rule> legal_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kLegal,
       {"entry"},
       "only devices of compute capability 9.0 have wgmma",
       [](const RuleInput& in) { return in.problem.device.compute_capability == 90; }},
      {Kind::kLegal,
       {"row_tiles", "taken_tiles"},
       "X is held for the column tiles of a step at most",
       [](const RuleInput& in) { return in["row_tiles"] * in["taken_tiles"] <= 4; }},
      {Kind::kLegal,
       {"column_parts", "sum"},
       "a cluster is two blocks or four",
       [](const RuleInput& in) { return in["sum"] == 0 || in["column_parts"] == 2 || in["column_parts"] == 4; }},
      {Kind::kLegal,
       {"entry", "min_rounds", "max_rounds", "row_tiles", "warpgroups", "whole_tiles", "taken_tiles", "tile_buffers",
        "column_parts", "sum"},
       "what a block needs exceeds registers or shared memory by far",
       [](const RuleInput& in) {
         const WgmmaConfig config(in.config);
         return config.shared_bytes() <= in.problem.device.shared_bytes_per_block &&
                config.missing_registers(in.problem.device) <= 40;
       }},
  };
}

std::vector<Rule> worthwhile_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kWorthwhile,
       {"entry"},
       "up to 16 tokens each warp for itself is faster",
       [](const RuleInput& in) { return in.problem.tokens > 16; }},
      {Kind::kWorthwhile,
       {"row_tiles", "column_parts", "sum"},
       "as few parts of the columns as give all multiprocessors work",
       [](const RuleInput& in) {
         const double used = use_of_sms(in, in["column_parts"], in["sum"] != 0 ? in["column_parts"] : 1);
         for (const std::int64_t parts : {1, 2, 3, 4, 6, 8}) {
           if (parts >= in["column_parts"]) break;
           if (use_of_sms(in, parts, 1) * 1.1 > used) return false;
         }
         return true;
       }},
      {Kind::kWorthwhile,
       {"row_tiles", "warpgroups", "column_parts"},
       "warps that all have several tiles",
       [](const RuleInput& in) {
         const std::int64_t tiles = ceil_div(in.problem.spec.cols, 64) * in["row_tiles"];
         return in["warpgroups"] == 1 || tiles >= in["column_parts"] * in["warpgroups"] * 4 * 2;
       }},
      {Kind::kWorthwhile,
       {"entry", "min_rounds", "max_rounds", "row_tiles", "warpgroups", "whole_tiles", "taken_tiles", "tile_buffers"},
       "as many warpgroups as have the registers, or one more with a few spilled",
       [](const RuleInput& in) {
         Config config = in.config;
         config.values.insert({{"column_parts", 1}, {"sum", 0}});
         const WgmmaConfig one(config);
         config.values["warpgroups"] = one.warpgroups + 1;
         const WgmmaConfig more(config);
         const bool more_fit = one.warpgroups < 4 && more.missing_registers(in.problem.device) == 0 &&
                               more.shared_bytes() <= in.problem.device.shared_bytes_per_block;
         return one.missing_registers(in.problem.device) <= 18 && !more_fit;
       }},
      {Kind::kWorthwhile,
       {"row_tiles", "taken_tiles"},
       "X of two column tiles is enough to keep tensor cores at work",
       [](const RuleInput& in) { return in["taken_tiles"] <= 2; }},
      {Kind::kWorthwhile,
       {"row_tiles", "taken_tiles", "tile_buffers"},
       "with two buffers all products of a step are started at once, so that nothing waits for some of them",
       [](const RuleInput& in) { return in["tile_buffers"] == 1 || in["row_tiles"] * in["taken_tiles"] == 4; }},
  };
}

}  // namespace

WgmmaConfig::WgmmaConfig(const Config& config)
    : entry(static_cast<ScatterEntry>(config.at("entry"))),
      min_rounds(static_cast<int>(config.at("min_rounds"))),
      max_rounds(static_cast<int>(config.at("max_rounds"))),
      row_tiles(static_cast<int>(config.at("row_tiles"))),
      warpgroups(static_cast<int>(config.at("warpgroups"))),
      whole_tiles(static_cast<int>(config.at("whole_tiles"))),
      taken_tiles(static_cast<int>(config.at("taken_tiles"))),
      tile_buffers(static_cast<int>(config.at("tile_buffers"))),
      column_parts(static_cast<int>(config.at("column_parts"))),
      cluster_sums(static_cast<int>(config.at("sum"))) {}

std::int64_t WgmmaConfig::shared_bytes() const {
  const std::int64_t partials = std::int64_t{kTokens} * (rows() + 8) * 4;
  const std::int64_t others = std::int64_t{kTokens} * rows() * 4 / cluster() * (cluster() - 1);
  const std::int64_t tiles_and_x = std::int64_t{4} * tile_buffers * (8192 + 2048 * (4 / row_tiles));
  return warpgroups * std::max(tiles_and_x, partials) + others + std::int64_t{row_tiles} * 16 + warpgroups * 16;
}

std::int64_t WgmmaConfig::multiprocessors(const DeviceProperties& device) const {
  return multiprocessors_for_clusters(cluster(), device);
}

int WgmmaConfig::registers() const {
  const bool bytes = entry == ScatterEntry::kByte;
  const int list = bytes ? max_rounds * 3 / 4 : max_rounds;
  const int positions = whole_tiles != 0 ? 0 : bytes ? max_rounds / 4 : max_rounds;  // which a tile is cleared by
  const int lists = tile_buffers > 1 ? list + 2 * positions : whole_tiles != 0 ? list : 2 * list;
  // By what ptxas says of kernels that spill and of kernels that do not.
  const int others = tile_buffers > 1 ? (row_tiles == 4 ? 72 : 84) : row_tiles == 2 ? 44 : 58;
  const int predicates = max_rounds > min_rounds ? 2 : 0;
  return row_tiles * 32 + 16 * taken_tiles + lists + others + predicates;
}

int WgmmaConfig::missing_registers(const DeviceProperties& device) const {
  return std::max(0, registers() - std::min(254, device.registers_per_sm / (warpgroups * 128) / 8 * 8));
}

std::vector<Parameter> WgmmaFamily::parameters() const {
  return {
      {"entry", "e", {0, 1}, "bytes a nonzero against padding and decode work", {"byte", "word"}},
      min_rounds_parameter(),
      max_rounds_parameter(),
      {"row_tiles", "r", tuned("WgmmaKernel", "kRowTiles"),
       "use of a loaded X against registers, and against blocks to fill the device with"},
      {"warpgroups", "w", tuned("WgmmaKernel", "kWarpgroups"), "latency hiding against registers a thread"},
      {"whole_tiles", "z", {0, 1}, "registers and instructions against accesses of shared memory"},
      {"taken_tiles", "x", tuned("WgmmaKernel", "kTakenTiles"), "waits for tensor cores against registers"},
      {"tile_buffers", "b", tuned("WgmmaKernel", "kBuffers"),
       "scattering beside multiplications against shared memory"},
      {"column_parts", "k", {1, 2, 3, 4, 6, 8}, "blocks to fill the device with against a second kernel"},
      {"sum",
       "s",
       {0, 1},
       "sums of column parts through L2 and a second kernel, or in a cluster",
       {"launch", "cluster"}},
  };
}

std::vector<Rule> WgmmaFamily::rules() const {
  std::vector<Rule> rules;
  for (const std::vector<Rule>& some :
       {legal_scatter_rules(), legal_rules(), worthwhile_scatter_rules(kChoice), worthwhile_rules()})
    rules.insert(rules.end(), some.begin(), some.end());
  return rules;
}

std::string WgmmaFamily::packing_of_rows(const Config& config, const Problem&) const {
  return WgmmaConfig(config).packing().name();
}

}  // namespace sparsmith
