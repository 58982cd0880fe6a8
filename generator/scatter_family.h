// The scatter family: the scatter format, and tensor cores that multiply tiles which warps make dense in shared memory
// (snippets/kernels/scatter.cuh has the device side). For 16-bit values, 50 to 95 % zeros and few tokens.
//
// Inf and NaN in X: where a sum is not finite, the warp computes it again from the nonzeros alone, so a zero weight
// contributes nothing, as in every family. A weight that is stored as 0 (or becomes 0 in the operator's type) is a zero
// weight.
//
// Three files: scatter_family.cc says the parameters, the rules and the packing; scatter_kernel.cc makes kernels and
// launch plans; scatter_cost.cc predicts.
#pragma once

#include "formats/scatter.h"
#include "generator/family.h"
#include "generator/kernel_text.h"

namespace sparsmith {

// A scatter config with its values named.
struct ScatterConfig {
  ScatterEntry entry;
  int tile_rows;
  int min_rounds;  // of every tile
  int max_rounds;  // that registers hold; a tile with more loads them again
  int token_tile;
  int input_columns;  // of X whose fragments a warp holds
  int warps;          // of a block
  int row_tiles;      // that a warp multiplies by the same X
  int parts;          // blocks of a cluster, that share the columns of their rows
  int tiles_ahead;    // that are asked for as far as L2, behind the one that registers are loaded with
  bool relayout;      // of X, to operands, by a launch in front

  explicit ScatterConfig(const Config& config);
  ScatterPacking packing() const { return {entry, tile_rows, min_rounds}; }
  int tile_columns() const { return packing().tile_columns(); }
  int rows() const { return row_tiles * tile_rows; }  // of a block
  std::int64_t shared_bytes() const;
  std::int64_t resident_blocks(const DeviceProperties& device) const;  // of a multiprocessor, by what they ask for
  // An estimate of the registers a thread needs: sums, X, two tiles' entries, and the rest.
  int sum_registers() const { return rows() / 16 * token_tile / 8 * 4; }
  int input_registers() const { return token_tile * input_columns / 64; }
  int registers() const;
};

// What the rounds of a tile are likely to be, from what is known of the rows. By the entries and the height of tiles of
// `packing`; its rounds do not matter.
struct ScatterRounds {
  double mean = 0;
  double deviation = 0;
};
ScatterRounds scatter_rounds(const ScatterPacking& packing, const SparsityStatistics& statistics);

class ScatterFamily : public Family {
 public:
  std::string name() const override { return "scatter"; }
  double multiplied_share() const override { return 1; }
  std::vector<Parameter> parameters() const override;
  std::vector<Rule> rules() const override;
  std::string packing_of_rows(const Config& config, const Problem& problem) const override;
  Result<Candidate> generate(const Config& config, const Problem& problem, const PackedWeight& packed) const override;
  std::vector<Ablation> ablations(const Config& config) const override;
  Result<Candidate> generate_without(Ablation part, const Config& config, const Problem& problem,
                                     const PackedWeight& packed) const override;
  double predict(const Config& config, const Problem& problem, const SparsityStatistics& statistics) const override;
};

// Of the families on the scatter format: the parameters of the packed weight and of X, and the statement that makes a
// `weight` of them.
void add_scatter_parameters(const OperatorSpec& spec, KernelText& text);
inline constexpr const char* kMakeScatterWeight =
    "const scatter::Weight weight{entries, more_entries, more_offsets, row_parts, rows, row_blocks, column_tiles};\n";

}  // namespace sparsmith
