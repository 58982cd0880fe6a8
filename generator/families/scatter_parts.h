// Parts that the families on the scatter format share: scatter, wgmma, specialized, cooperative, unpack_scatter.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "formats/scatter.h"
#include "generator/family.h"
#include "generator/kernel_text.h"

namespace sparsmith {

// The rounds of a tile, as expected from the statistics of the rows.
struct ScatterRounds {
  double mean = 0;
  double deviation = 0;

  // Rounds of a normal draw beyond the first `held`, in the mean.
  double beyond(int held) const;
};
// By the entry and the tile height of `packing`; its rounds do not matter.
// Nonzeros of a tile, in the mean.
double entries_of_tile(const ScatterPacking& packing, const SparsityStatistics& statistics);
ScatterRounds scatter_rounds(const ScatterPacking& packing, const SparsityStatistics& statistics);

// The values of the parameters that all four have.
struct ScatterListConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  ScatterEntry entry = at("entry");
  int min_rounds = at("min_rounds");  // of every tile
  int max_rounds = at("max_rounds");  // that registers hold; a tile with more loads them again

  bool bytes() const { return entry == ScatterEntry::kByte; }
  const char* entry_letter() const { return bytes() ? "b" : "w"; }
  KernelText::Line entries_line() const;
  // Registers for the entries of a tile, and for their places alone.
  int list_registers() const { return bytes() ? max_rounds * 3 / 4 : max_rounds; }
  int place_registers() const { return bytes() ? max_rounds / 4 : max_rounds; }

  // Cost model: rounds that are loaded of a tile, and the tile's bytes.
  double loaded_rounds(const ScatterRounds& rounds) const { return std::max<double>(rounds.mean, min_rounds); }
  double tile_bytes(const ScatterRounds& rounds) const { return loaded_rounds(rounds) * 32 * (bytes() ? 3 : 4) + 4; }
  // Turns of shared memory in which entries are stored to a tile that takes `crowded` turns where the packer has no
  // rounds to spare, and are loaded.
  double store_turns(const ScatterRounds& rounds, double crowded) const;
  double load_turns(const ScatterRounds& rounds) const { return loaded_rounds(rounds) * (bytes() ? 0.75 : 1.0); }
};

// The same of wgmma, specialized and cooperative: warpgroups multiply tiles of 64 rows.
struct DenseTileConfig : ScatterListConfig {
  using ScatterListConfig::ScatterListConfig;
  static constexpr int kTileRows = 64;
  int whole_tiles = at("whole_tiles");    // 1: a tile is cleared as a whole, not entry by entry
  int column_parts = at("column_parts");  // blocks that share out the columns

  const char* clearing() const { return whole_tiles != 0 ? "whole" : "entries"; }
  // Registers for the places that a tile is cleared by.
  int cleared_registers() const { return whole_tiles != 0 ? 0 : place_registers(); }
  // Cost model, of a tile: turns of shared memory, and instructions for its entries.
  double tile_turns(const ScatterRounds& rounds) const;
  double entry_instructions(const ScatterRounds& rounds) const;
};

// The same of wgmma and specialized.
struct WarpgroupConfig : DenseTileConfig {
  using DenseTileConfig::DenseTileConfig;
  int row_tiles = at("row_tiles");        // of a block
  int warpgroups = at("warpgroups");      // of a block, that multiply
  int tile_buffers = at("tile_buffers");  // tiles that a warp has room for

  int rows() const { return row_tiles * kTileRows; }
};

// Of `needed` registers, those that a block of so many threads does not leave to each.
int missing_registers(int needed, int threads, const DeviceProperties& device);

// How a family states its packing.
struct ScatterChoice {
  std::vector<std::string> parameters;  // that `packing` looks at
  std::function<ScatterPacking(const RuleInput&)> packing;
  int values_below = 1;  // of min_rounds, at or below the rounds of nearly all tiles, that are worth a try
  bool padded = false;   // all tiles filled up to the rounds of nearly all, or to four less, are worth a try
};

Parameter entry_parameter();
Parameter min_rounds_parameter();
Parameter max_rounds_parameter();

// REQUIRES: parameters entry, min_rounds and max_rounds.
std::vector<Rule> legal_scatter_rules();
std::vector<Rule> worthwhile_scatter_rules(const ScatterChoice& choice);

// The parameters of the packed weight, alone or with `rows` and those of X, and the statement that makes a `weight` of
// them and `rows`.
void add_scatter_weight_parameters(KernelText& text);
void add_scatter_parameters(const OperatorSpec& spec, KernelText& text);
inline constexpr const char* kMakeScatterWeight =
    "const scatter::Weight weight{entries, more_entries, more_offsets, row_parts, rows, row_blocks, column_tiles};\n";

}  // namespace sparsmith
