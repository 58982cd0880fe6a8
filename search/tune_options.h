// What is asked of a tuning run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/operator_spec.h"
#include "search/candidate_selection.h"
#include "search/choice.h"
#include "search/strategy.h"
#include "tuner/worker.h"

namespace sparsmith {

// A weight of a model whose bytes are bounded as a whole, as a multiple of its dense bytes.
inline constexpr double kMostMemory = 2;

struct TuneOptions {
  std::vector<std::int64_t> tokens{1};  // the N to tune for, ascending
  std::vector<double> calls;            // how often each is run; empty: equally often. As long as `tokens`
  std::vector<OperatorKind> kinds{OperatorKind::kSpmm};  // what is computed from each weight; each once
  std::optional<DataType> type;                          // of the operator; empty: the weight's own
  Layout layout = Layout::kTokenMajor;
  Epilogue epilogue;                                // of spmm alone where there are several kinds
  Accumulation accumulation = Accumulation::kFp32;  // of fp16 operators; others have fp32
  bool transpose = false;                           // tune W^T

  // GPU bytes that all packings of a weight may take together, the dense one among them, as a multiple of its dense
  // bytes: the least time within that is what is searched for, and no N slower than dense.
  double memory = 1;
  std::int64_t model_bytes = 0;  // instead: of all weights together; 0: no such bound

  double most_memory() const { return model_bytes > 0 ? kMostMemory : memory; }
  SelectionLimits selection;
  StrategyKind strategy = StrategyKind::kRace;
  int trials = 0;  // candidates of one N that another strategy than the race tries at most; 0: 1,000 where it is
                   // exhaustive, 64 otherwise
  std::size_t most_candidates() const {
    return trials > 0 ? static_cast<std::size_t>(trials) : strategy == StrategyKind::kExhaustive ? 1000 : 64;
  }
  // Of a weight with this type and shape: one of each kind.
  std::vector<OperatorSpec> specs_of(std::int64_t rows, std::int64_t cols, std::int64_t nnz,
                                     DataType weight_type) const {
    std::vector<OperatorSpec> specs;
    for (const OperatorKind kind : kinds) {
      OperatorSpec& spec =
          specs.emplace_back(OperatorSpec{.type = type.value_or(weight_type), .layout = layout, .kind = kind});
      if (kinds.size() == 1 || kind == OperatorKind::kSpmm) spec.epilogue = epilogue;
      spec.set_weight(rows, cols, nnz);
      if (spec.type == DataType::kFloat16) spec.accumulation = accumulation;
    }
    return specs;
  }
  double budget_s = 0;  // for the whole run; 0: no limit
  TimingPolicy timing;
  std::vector<std::string> vendors;        // measured besides dense
  std::vector<std::string> architectures;  // further ones that the tuned file shall hold kernels for
  std::uint64_t seed = 1;                  // of what is drawn: activations, candidates
  int compile_threads = 0;                 // 0: one a core
  int searches_per_device = 2;             // weights at once at most: while one waits for kernels, another is timed
  bool transfer = true;                    // what near weights chose is tried first, and little else
  bool use_choices = true;                 // false: search again, whatever the cache says
  bool compare = false;                    // measure cached choices again, beside the vendors, without a search
  bool keep_choices = false;               // also those whose code or packer has changed; dense takes no one's place
};

}  // namespace sparsmith
