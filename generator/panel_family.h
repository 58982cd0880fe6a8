// The panel family: the panel format, and a panel of X in shared memory from which warps gather without bank conflicts
// (snippets/kernels/panel.cuh has the device side).
//
// Three files: panel_family.cc says the parameters, the rules and the packing; panel_kernel.cc makes kernels and launch
// plans; panel_cost.cc predicts.
#pragma once

#include "formats/panel.h"
#include "generator/family.h"
#include "generator/kernel_text.h"

namespace sparsmith {

// A panel config with its values named.
struct PanelConfig {
  enum class Products { kPlain, kTensor };
  // Each block for itself, a launch in front of it, or two blocks of a cluster together: whose panels are neighbours,
  // or who work on row parts of the same panel.
  enum class Input { kDirect, kRelayout, kNeighbours, kShared };

  // That registers leave room for on a multiprocessor.
  static constexpr int kThreadsAtOnce = 1024;

  Products products;
  int segment_lanes;   // lanes of a segment
  int segment_length;  // nonzeros; longer rows are cut
  int row_parts;       // blocks that share out the rows
  int column_parts;    // parts of K
  int threads_per_block;
  int depth;  // steps that a warp loads ahead
  Input input;
  panel::RowStore store;
  int panels;  // that a block keeps

  explicit PanelConfig(const Config& config);
  PanelPacking packing(const Problem& problem) const;
  bool turns(Layout layout) const { return layout == Layout::kTokenMajor && input != Input::kRelayout; }
  // Whether lanes that multiply for themselves may do so in chains of fp16.
  bool chains(const OperatorSpec& spec) const {
    return products == Products::kPlain && spec.accumulation == Accumulation::kFp16Chains;
  }
  // Whether a block goes through all parts of K.
  bool sweeps() const { return store == panel::RowStore::kAdded; }
  bool pairs() const { return input == Input::kNeighbours || input == Input::kShared; }
  std::int64_t block_tokens(DataType type) const;  // of all its panels
  // Blocks side by side that have all tokens between them; where two fill panels together, an even number.
  std::int64_t token_blocks(const Problem& problem) const;
  std::int64_t panel_bytes(std::int64_t cols) const;  // shared memory for X
  // Blocks whose registers are to fit a multiprocessor: 64 registers a thread where shared memory has room for more
  // than 512 threads, else 128.
  int blocks_per_sm(const Problem& problem) const;
  // Whether a thread has 128 registers: there is room for twice the loads of X, and for what a part looks up.
  bool roomy(const Problem& problem) const { return threads_per_block * blocks_per_sm(problem) <= 512; }
};

// Tokens of a panel.
inline std::int64_t panel_tokens(DataType type) { return panel::kRowBytes / static_cast<std::int64_t>(size_of(type)); }

class PanelFamily : public Family {
 public:
  std::string name() const override { return "panel"; }
  std::vector<Parameter> parameters() const override;
  std::vector<Rule> rules() const override;
  std::string packing_of_rows(const Config& config, const Problem& problem) const override;
  Result<Candidate> generate(const Config& config, const Problem& problem, const PackedWeight& packed) const override;
  std::vector<Ablation> ablations(const Config& config) const override;
  Result<Candidate> generate_without(Ablation part, const Config& config, const Problem& problem,
                                     const PackedWeight& packed) const override;
  double predict(const Config& config, const Problem& problem, const SparsityStatistics& statistics) const override;
};

// Of the families on the panel format: the parameters of the packed weight, first of all.
void add_panel_parameters(KernelText& text);

}  // namespace sparsmith
