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
  double significance = 0.01;     // of the test, two-sided
  int fewest_rounds = 6;          // a side
  int fewest_pairs = 8;           // with fewer, no signed-rank sum is significant
  int most_rounds = 60;           // a side: beyond, noise is not met with further rounds
  double precision = 0.7;         // of the smallest change: half the interval that rounds are asked for until it is met
  bool confirm = true;            // SLOW and FAST need a second set of rounds that says the same
};

// A round of base and one of head that were measured one right after the other: what the machine does meanwhile meets
// both alike.
struct TimePair {
  double base = 0;
  double head = 0;
};

// One set of rounds: us of each, and the pairs that they come in where they were measured in turns.
struct TimeSet {
  std::vector<double> base;
  std::vector<double> head;
  std::vector<TimePair> pairs;
};

// What the times of a set say.
struct Finding {
  Verdict verdict = Verdict::kAmbiguous;
  Estimate base;
  Estimate head;
  double change = 0;      // head over base, less 1
  double change_low = 0;  // its interval
  double change_high = 0;
  double p = 1;         // of the test: the signed-rank test of pairs, or the Mann-Whitney test
  bool paired = false;  // which of the two
  int more_rounds = 0;  // that each side lacks before noise no longer hides a change that counts
  std::string reason;
};

// One set, unconfirmed. SLOW needs a change of at least the smallest, an accepted test, and intervals that are disjoint
// or, in pairs, an interval of the change without 0; FAST likewise. SAME where the change is below the smallest and
// even the far end of its interval is within twice of it. REQUIRES: neither side is empty.
Finding compare_rounds(const TimeSet& times, const VerdictRules& rules);

// The verdict over both sets. A first set that says SLOW or FAST is confirmed by the second, or refuted: then
// AMBIGUOUS. Until the second set has as many rounds as the first, and as its noise asks for, or confirms it earlier,
// it is AMBIGUOUS and `suspected`.
struct Judgement {
  Finding first;
  std::optional<Finding> again;
  Verdict verdict = Verdict::kAmbiguous;
  bool suspected = false;  // to be measured again
  std::string reason;
};
Judgement judge(const TimeSet& first, const TimeSet& again, const VerdictRules& rules);

}  // namespace sparsmith
