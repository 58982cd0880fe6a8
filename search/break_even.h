// Break-even sparsity: the least share of zeros with which a tuned kernel is no slower than dense, by bisection over
// drawn weights.
//
// More zeros usually make a weight faster, but not always: kernels, packings and noise differ. So a few points of the
// whole range are measured first, both ends among them. The last change from dense to sparse is bisected; earlier
// changes are reported.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "matrix/synthesis.h"
#include "search/tune.h"

namespace sparsmith {

// The choice for one drawn weight at one N.
struct BreakEvenProbe {
  double sparsity = 0;
  bool sparse = false;  // a sparse kernel was chosen; otherwise dense stays
  std::string choice;   // a config
  double us = 0;        // of the choice
  double dense_us = 0;  // 0: not known
  std::string evidence;
};

struct BreakEvenRange {
  double low = 0.3;  // sparsities; low < high
  double high = 0.95;
  int points = 5;           // measured first, evenly spaced, both ends among them; at least 2
  double tolerance = 0.01;  // the largest distance between dense_at and sparse_at
};

struct BreakEven {
  std::optional<double> dense_at;      // the highest sparsity at which dense stayed; empty: at none
  std::optional<double> sparse_at;     // the lowest above it at which a sparse kernel was chosen; empty: at none
  bool changes_once = true;            // false: below dense_at a sparse kernel was chosen, too
  std::vector<BreakEvenProbe> probes;  // all that were measured, in ascending order of sparsity
};

// Measures weights of these sparsities; one probe for each, in that order.
using MeasureProbes = std::function<Result<std::vector<BreakEvenProbe>>(std::span<const double> sparsities)>;

//   Errors: kInvalidArgument for a range that is none; what `measure` says.
Result<BreakEven> find_break_even(const BreakEvenRange& range, const MeasureProbes& measure);

// Calls tune() with the caller's resources and options.
using TuneWeights = std::function<Result<TuneReport>(std::span<const WeightInput> weights, const TuneOptions& options)>;

// The same for one N. Each weight is drawn as `weight` says, but for its sparsity, and tuned for this N alone, so that
// other N do not influence the kept packings.
//   Errors: kInvalidArgument for a weight that cannot be drawn; kUnsupported where dense is not known, or a weight was
//   not tuned, with why not (also: interrupted); what `tune` says.
Result<BreakEven> break_even_of_drawn(const SynthesisSpec& weight, std::int64_t tokens, const TuneOptions& options,
                                      const BreakEvenRange& range, const TuneWeights& tune);

}  // namespace sparsmith
