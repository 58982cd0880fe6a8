// The rows family: the csr format, one thread group per row, and PaiSparse's reduction chain (snippets/kernels/rows.cuh
// has the device side).
#pragma once

#include "formats/csr.h"
#include "generator/family.h"

namespace sparsmith {

// A rows config with named values.
struct RowsConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  enum class Input { kGlobal, kShared, kRelayout };

  int index_bits = at("index_bits");  // 16 or 32
  int alignment = at("alignment");    // of segments, in nonzeros
  RowOrder row_order = at("row_order");
  std::int64_t split_length = at("split_length");  // 0: rows are not cut
  PartialSums partial_sums = at("partial_sums");
  int vector_width = at("vector_width");    // nonzeros per load
  int shuffle_lanes = at("shuffle_lanes");  // lanes of a row that combine by shuffle
  int shared_parts = at("shared_parts");    // parts of a row that combine through shared memory
  int token_lanes = at("token_lanes");      // lanes that share out a token tile
  int tokens_per_thread = at("tokens_per_thread");
  int rows_per_group = at("rows_per_group");  // rows that a thread group works on at once
  int unroll = at("unroll");                  // vectors that a thread loads before it multiplies
  Input input = at("input");
  int threads_per_block = at("threads_per_block");
  int blocks_per_sm = at("blocks_per_sm");  // of a persistent grid; 0: as many blocks as the work needs

  CsrPacking packing() const;
  int group_threads() const { return shuffle_lanes * shared_parts * token_lanes; }
  int token_tile() const { return token_lanes * tokens_per_thread; }
  std::int64_t panel_bytes(std::int64_t cols, std::size_t element_bytes) const;  // shared memory for X
  std::int64_t sums_bytes() const;                                               // shared memory for the third link
};

// The rules on "index_bits", for every family that reads a csr packing.
std::vector<Rule> csr_column_rules();

const Family& rows_family();
double predicted_rows_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics);

}  // namespace sparsmith
