// The sampled family: sddmm on the csr format, one thread group per row (snippets/kernels/sampled_rows.cuh). The
// packing keeps rows in order and without padding, so its nonzeros have the order of CSR, and so do the outputs.
#pragma once

#include "formats/csr.h"
#include "generator/family.h"

namespace sparsmith {

// A sampled config with named values.
struct SampledConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  int index_bits = at("index_bits");                // 16 or 32
  int token_lanes = at("token_lanes");              // lanes that share out the tokens of a nonzero
  int tokens_per_thread = at("tokens_per_thread");  // at a time
  int column_lanes = at("column_lanes");            // nonzeros of a row side by side
  int nonzeros_per_thread = at("nonzeros_per_thread");
  int threads_per_block = at("threads_per_block");

  CsrPacking packing() const;
  int group_threads() const { return token_lanes * column_lanes; }
};

const Family& sampled_family();

}  // namespace sparsmith
