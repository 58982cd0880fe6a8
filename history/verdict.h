// Verdicts on whether a case became slower: four values, and the rules for each (docs/guide/performance_history.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "history/statistics.h"

namespace sparsmith {

enum class Verdict : std::uint8_t {
  kSame,       // the same code on the same bytes, or a change that is certainly below twice smallest_change
  kFast,       // certainly faster
  kSlow,       // certainly slower, twice
  kAmbiguous,  // neither: too few rounds, too much noise, or not yet measured again
};
inline constexpr std::string_view kVerdictNames[] = {"SAME", "FAST", "SLOW", "AMBIGUOUS"};
constexpr std::string_view verdict_name(Verdict verdict) { return name_in(kVerdictNames, verdict); }

struct VerdictRules {
  double smallest_change = 0.01;  // as a share of the base; a smaller change is not relevant
  double significance = 0.01;     // of the test, two-sided
  int fewest_rounds = 6;          // per side
  int fewest_pairs = 8;           // fewer pairs never give a significant signed-rank sum
  int most_rounds = 60;           // per side: no further rounds against noise above this
  double precision = 0.7;         // rounds are added until half the interval is below this share of the smallest change
  bool confirm = true;            // SLOW and FAST need a second set of rounds with the same result
};

// A round of base and a round of head, measured directly after each other. Changes of the machine affect both in the
// same way.
struct TimePair {
  double base = 0;
  double head = 0;
};

// One set of rounds: the time of each in us, and pairs of rounds that were measured in turns.
struct TimeSet {
  std::vector<double> base;
  std::vector<double> head;
  std::vector<TimePair> pairs;
};

// The result of comparing one set.
struct Finding {
  Verdict verdict = Verdict::kAmbiguous;
  Estimate base;
  Estimate head;
  double change = 0;      // head / base - 1
  double change_low = 0;  // its interval
  double change_high = 0;
  double p = 1;         // of the test: the signed-rank test of pairs, or the Mann-Whitney test
  bool paired = false;  // true: the signed-rank test
  int more_rounds = 0;  // needed on each side, so that noise hides no relevant change
  std::string reason;
};

// The finding of one set, without confirmation. SLOW needs a change of at least smallest_change, a significant test,
// and disjoint intervals or, with pairs, an interval of the change without 0. FAST needs the same. SAME needs a change
// below smallest_change whose interval ends within twice of it. REQUIRES: neither side is empty.
Finding compare_rounds(const TimeSet& times, const VerdictRules& rules);

// The verdict from both sets. When the first set is SLOW or FAST, the second confirms it or refutes it; refuted gives
// AMBIGUOUS. A second set may confirm at any time. Until then the verdict is AMBIGUOUS and `suspected`, as long as the
// second set has fewer rounds than the first or than its noise demands.
struct Judgement {
  Finding first;
  std::optional<Finding> again;
  Verdict verdict = Verdict::kAmbiguous;
  bool suspected = false;  // must be measured again
  std::string reason;
};
Judgement judge(const TimeSet& first, const TimeSet& again, const VerdictRules& rules);

}  // namespace sparsmith
