// The options of a tuning run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/operator_spec.h"
#include "search/choice/choice.h"
#include "search/strategy/candidate_selection.h"
#include "search/strategy/strategy.h"
#include "tuner/time/timing.h"

namespace sparsmith {

// The most memory of one weight, as a multiple of its dense bytes, where the bytes of the whole model are bounded.
inline constexpr double kMostMemory = 2;

struct TuneOptions {
  std::vector<std::int64_t> tokens{1};  // the N to tune for, ascending
  std::vector<double> calls;            // how often each is run, as long as `tokens`; empty: calls_of()
  std::vector<OperatorKind> kinds{OperatorKind::kSpmm};  // of each weight, without repetitions
  std::optional<DataType> type;                          // of the operator; empty: the weight's own
  Layout layout = Layout::kTokenMajor;
  Epilogue epilogue;                                // of weights that have none of their own (WeightInput)
  Accumulation accumulation = Accumulation::kFp32;  // of fp16 operators; others have fp32
  bool transpose = false;                           // tune W^T

  // The most GPU bytes of all packings of a weight together, as a multiple of its dense bytes. The search minimises
  // time within this bound, with no N slower than dense.
  double memory = 1;
  std::int64_t model_bytes = 0;  // a bound for all weights together in place of `memory`; 0: none
  // The bound of each weight is that of training, in place of `memory`: training_room(). The products of a step count
  // alike at each N. REQUIRES: `kinds` has all.
  bool train = false;

  double most_memory() const { return model_bytes > 0 ? kMostMemory : memory; }
  SelectionLimits selection;
  StrategyKind strategy = StrategyKind::kRace;
  std::size_t most_candidates = 1000;  // of one N that an exhaustive search tries
  // Of a weight with this type, shape and epilogue: one of each kind. The epilogue is that of spmm alone where there
  // are several kinds.
  std::vector<OperatorSpec> specs_of(std::int64_t rows, std::int64_t cols, std::int64_t nnz, DataType weight_type,
                                     const Epilogue& of_weight) const {
    std::vector<OperatorSpec> specs;
    for (const OperatorKind kind : kinds) {
      OperatorSpec& spec =
          specs.emplace_back(OperatorSpec{.type = type.value_or(weight_type), .layout = layout, .kind = kind});
      if (kinds.size() == 1 || kind == OperatorKind::kSpmm) spec.epilogue = of_weight;
      spec.set_weight(rows, cols, nnz);
      if (spec.type == DataType::kFloat16) spec.accumulation = accumulation;
    }
    return specs;
  }
  double budget_s = 0;  // for the whole run; 0: no limit
  TimingPolicy timing;
  std::vector<std::string> vendors;        // libraries to measure besides dense
  std::vector<std::string> architectures;  // further ones to compile for
  std::uint64_t seed = 1;                  // of drawn activations and candidates
  int compile_threads = 0;                 // 0: one a core
  int searches_per_device = 2;             // at once: one is timed while another waits for kernels
  bool transfer = true;                    // learn from near weights
  bool use_choices = true;                 // false: search again in spite of cached choices
  bool compare = false;                    // time cached choices again beside the libraries, without a search
  bool keep_choices = false;               // keep cached choices even if code, packer or dense have changed
};

}  // namespace sparsmith
