// Whether a case became slower: four answers, and when each may be given (docs/performance_history.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "history/statistics.h"

namespace sparsmith {

enum class Verdict : std::uint8_t {
  kSame,  // the same code on the same bytes, or the interval of the change lies within the smallest one that counts
  kFast,  // certainly faster
  kSlow,  // certainly slower, twice
  kAmbiguous,  // neither: too few rounds, too much noise, or not yet measured again
};
const char* verdict_name(Verdict verdict);  // "SAME", "FAST", "SLOW", "AMBIGUOUS"

struct VerdictRules {
  double smallest_change = 0.01;  // as a share of the base: less is nobody's concern
  double significance = 0.01;     // of the Mann-Whitney test, two-sided
  int fewest_rounds = 6;          // a side
  bool confirm = true;            // SLOW and FAST need a second set of rounds that says the same
};

// Times of one side in us: one a round, of the first set and of the one measured again.
struct RoundTimes {
  std::vector<double> first;
  std::vector<double> again;
};

// What the times of two sets say.
struct Finding {
  Verdict verdict = Verdict::kAmbiguous;
  Estimate base;
  Estimate head;
  double change = 0;      // head over base, less 1
  double change_low = 0;  // its interval
  double change_high = 0;
  double p = 1;  // of the Mann-Whitney test
  std::string reason;
};

// One set against another, unconfirmed: SLOW needs disjoint intervals, a change of at least the smallest, and an
// accepted test; FAST likewise. SAME where the change is below the smallest and even the far ends of the intervals are
// within twice of it. REQUIRES: no empty set.
Finding compare_rounds(std::span<const double> base, std::span<const double> head, const VerdictRules& rules);

// The verdict over both sets. A first set that says SLOW or FAST is confirmed by the second, or refuted: then
// AMBIGUOUS; without a second set it is AMBIGUOUS and `suspected`.
struct Judgement {
  Finding first;
  std::optional<Finding> again;
  Verdict verdict = Verdict::kAmbiguous;
  bool suspected = false;  // to be measured again
  std::string reason;
};
Judgement judge(const RoundTimes& base, const RoundTimes& head, const VerdictRules& rules);

}  // namespace sparsmith
