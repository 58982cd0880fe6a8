#include "generator/families/scatter_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "formats/scatter_layout.h"
#include "generator/catalogue.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kMostRounds = 56;
constexpr double kNearlyAll = 1.64;  // deviations from the mean: 95 % of the tiles

std::vector<std::string> with(std::vector<std::string> parameters, const std::vector<std::string>& more) {
  parameters.insert(parameters.end(), more.begin(), more.end());
  return parameters;
}

// The share of the variation between rows that is left between row blocks once 16-row parts have been dealt out.
double left_by_dealing(int tile_rows) { return tile_rows == 64 ? 0.12 : tile_rows == 32 ? 0.22 : 1.0; }

}  // namespace

double entries_of_tile(const ScatterPacking& packing, const SparsityStatistics& statistics) {
  const double elements = static_cast<double>(statistics.rows) * static_cast<double>(statistics.cols);
  if (elements == 0) return 0;
  return std::min<double>(packing.tile_rows, static_cast<double>(statistics.rows)) *
         std::min<double>(packing.tile_columns(), static_cast<double>(statistics.cols)) *
         static_cast<double>(statistics.nnz) / elements;
}

ScatterRounds scatter_rounds(const ScatterPacking& packing, const SparsityStatistics& statistics) {
  const double entries = entries_of_tile(packing, statistics);
  const double density = entries / scatter::kTileElements;
  // Entries fall into a tile by chance, and the rows of a block differ together.
  const double by_rows =
      entries * statistics.row_cov / std::sqrt(packing.tile_rows) * left_by_dealing(packing.tile_rows);
  ScatterRounds rounds;
  rounds.mean = entries / 32 + (packing.entry == ScatterEntry::kByte ? 1.3 : 0.5);
  rounds.deviation = std::sqrt(entries * (1 - density) + by_rows * by_rows) / 32;
  return rounds;
}

double ScatterRounds::beyond(int held) const {
  const double spread = std::max(deviation, 0.1);
  const double above = (held - mean) / spread;
  return spread * (std::exp(-above * above / 2) / 2.507 - above * 0.5 * std::erfc(above / std::sqrt(2.0)));
}

KernelText::Line ScatterListConfig::entries_line() const {
  return {fmt::format("using Entries = {}<{}, {}>", bytes() ? "ByteEntries" : "WordEntries", min_rounds, max_rounds),
          "rounds of every tile, rounds held in registers"};
}

double ScatterListConfig::store_turns(const ScatterRounds& rounds, double crowded) const {
  const double loaded = loaded_rounds(rounds);
  return std::max(loaded, crowded - 1.3 * (loaded - rounds.mean));  // rounds to spare keep stores to one bank apart
}

double DenseTileConfig::tile_turns(const ScatterRounds& rounds) const {
  const bool whole = whole_tiles != 0;
  const double density = rounds.mean * 32 / scatter::kTileElements;
  const double stores = store_turns(rounds, rounds.mean * std::max(1.02, 2.15 - 4 * density));  // of uniform tiles
  return stores * (whole ? 1 : 2) + (whole ? 64 : 0) + load_turns(rounds);
}

double DenseTileConfig::entry_instructions(const ScatterRounds& rounds) const {
  return std::max<double>(rounds.mean, max_rounds) * (bytes() ? 4.0 : 2.5) * (whole_tiles != 0 ? 1 : 1.75);
}

int missing_registers(int needed, int threads, const DeviceProperties& device) {
  return std::max(0, needed - std::min(254, device.registers_per_sm / threads / 8 * 8));
}

Parameter entry_parameter() {
  return {"entry", "e", {0, 1}, "bytes a nonzero against padding and decode work", {"byte", "word"}};
}

Parameter min_rounds_parameter() {
  return {"min_rounds", "i", tuned("ByteEntries", "kMinRounds"), "rounds of every tile: no predicates against padding"};
}

Parameter max_rounds_parameter() {
  return {"max_rounds", "a", tuned("ByteEntries", "kMaxRounds"),
          "rounds held in registers; those beyond are loaded when needed"};
}

std::vector<Rule> legal_scatter_rules() {
  return legal({
      {{"entry"}, "tensor cores take 16-bit values", [](auto& in) { return size_of(in.spec.type) == 2; }},
      {{"min_rounds", "max_rounds"},
       "rounds that every tile has are held in registers",
       [](auto& in) { return in["min_rounds"] <= in["max_rounds"]; }},
  });
}

std::vector<Rule> worthwhile_scatter_rules(const ScatterChoice& choice) {
  return {
      {{"entry"},
       "so dense that dense is as fast, or so sparse that gathers are",
       [](auto& in) { return in.statistics.sparsity >= 0.45 && in.statistics.sparsity <= 0.985; }},
      {with(choice.parameters, {"min_rounds", "max_rounds"}),
       "the rounds that nearly all tiles have are not predicated, or none are",
       [choice](const RuleInput& in) {
         const ScatterRounds rounds = scatter_rounds(choice.packing(in), in.statistics);
         const double low = std::max(0.0, rounds.mean - kNearlyAll * rounds.deviation);
         const std::int64_t least = in["min_rounds"];
         static const std::vector<std::int64_t> kMinRounds = min_rounds_parameter().values;
         const auto between = std::ranges::count_if(
             kMinRounds, [&](std::int64_t value) { return value > least && static_cast<double>(value) <= low; });
         const std::int64_t predicated = in["max_rounds"] - least;
         return (static_cast<double>(least) <= low && between < choice.values_below) ||
                (predicated <= (choice.padded ? 4 : 0) &&
                 static_cast<double>(least) <= rounds.mean + (choice.padded ? 5.5 : 4.5));
       }},
      {with(choice.parameters, {"max_rounds"}), "registers hold what nearly all tiles have, and little more",
       [choice](const RuleInput& in) {
         const ScatterRounds rounds = scatter_rounds(choice.packing(in), in.statistics);
         const double high = rounds.mean + kNearlyAll * rounds.deviation;
         const auto most = static_cast<double>(in["max_rounds"]);
         return (most >= high - 2 && most < high + 6) || (most >= kMostRounds - 8 && high > kMostRounds - 4);
       }},
  };
}

void add_scatter_weight_parameters(KernelText& text) {
  text.parameters = {{"const u32*", "entries", packed_array("entries")},
                     {"const u32*", "more_entries", packed_array("more_entries")},
                     {"const u32*", "more_offsets", packed_array("more_offsets")},
                     {"const u32*", "row_parts", packed_array("row_parts")},
                     {"int", "row_blocks", integer("fact.row_blocks")},
                     {"int", "column_tiles", integer("fact.column_tiles")}};
}

void add_scatter_parameters(const OperatorSpec& spec, KernelText& text) {
  add_scatter_weight_parameters(text);
  text.parameters.insert(text.parameters.end(), {{"const InputType*", "x", operand("x")},
                                                 {"int", "rows", integer(spec.rows)},
                                                 {"int", "cols", integer(spec.cols)},
                                                 {"int", "n", integer("n")},
                                                 {"i64", "ldx", integer("ld.x")}});
}

}  // namespace sparsmith
