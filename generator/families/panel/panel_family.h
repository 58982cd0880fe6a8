// The panel family: the panel format, and a panel of X in shared memory from which warps gather without bank conflicts
// (snippets/kernels/panel.cuh has the device side).
#pragma once

#include "formats/panel.h"
#include "generator/family.h"
#include "generator/kernel_text.h"

namespace sparsmith {

// A panel config with named values.
struct PanelConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  enum class Products { kPlain, kTensor };
  // How panels are filled. kDirect: by each block for itself. kRelayout: after a launch that lays X out. kNeighbours,
  // kShared: by two blocks of a cluster together; their panels are neighbours, or they work on row parts of the same
  // panel.
  enum class Input { kDirect, kRelayout, kNeighbours, kShared };

  // Threads for which a multiprocessor has registers.
  static constexpr int kThreadsAtOnce = 1024;
  static constexpr std::int64_t kFlagBytes = 16;  // shared memory between the panel and the sums

  Products products = at("products");
  int segment_lanes = at("segment_lanes");    // lanes of a segment
  int segment_length = at("segment_length");  // nonzeros; longer rows are cut
  int row_parts = at("row_parts");            // blocks that share out the rows
  int column_parts = at("column_parts");      // parts of K
  int threads_per_block = at("threads_per_block");
  int depth = at("depth");  // steps that a warp loads ahead
  Input input = at("input");
  panel::RowStore store = at("store");
  int panels = 1 << at("panels").number;  // panels that a block keeps

  PanelPacking packing(const Problem& problem) const;
  bool turns(Layout layout) const { return layout == Layout::kTokenMajor && input != Input::kRelayout; }
  // Whether lanes that multiply without tensor cores may do so in chains of fp16.
  bool chains(const OperatorSpec& spec) const {
    return products == Products::kPlain && spec.accumulation == Accumulation::kFp16Chains;
  }
  // Whether a block processes all parts of K.
  bool sweeps() const { return store == panel::RowStore::kAdded; }
  bool pairs() const { return input == Input::kNeighbours || input == Input::kShared; }
  std::int64_t block_tokens(DataType type) const;  // tokens of all its panels
  // The number of blocks side by side that cover all tokens. If two blocks fill panels together, it is even.
  std::int64_t token_blocks(const Problem& problem) const;
  std::int64_t panel_bytes(std::int64_t cols) const;  // shared memory for X
  // Blocks whose registers should fit on a multiprocessor: with 64 registers per thread if shared memory has room for
  // more than 512 threads, otherwise with 128.
  int blocks_per_sm(const Problem& problem) const;
  // Whether a thread has 128 registers: room for twice the loads of X, and for the values that a part looks up.
  bool roomy(const Problem& problem) const { return threads_per_block * blocks_per_sm(problem) <= 512; }
};

// Tokens of a panel.
inline std::int64_t panel_tokens(DataType type) { return panel::kRowBytes / static_cast<std::int64_t>(size_of(type)); }

const Family& panel_family();
Result<PlannedKernels> panel_kernels(const Config& values, const Problem& problem, const PackedWeight& packed);
double predicted_panel_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics);

// Adds, for the families on the panel format, the parameters of the packed weight. They come first.
void add_panel_parameters(KernelText& text);

}  // namespace sparsmith
