#include "history/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sparsmith {
namespace {

std::string share(double value) { return fmt::format("{:.1f} %", 100 * value); }

// How far head may be from base in either direction, by the ends of both intervals.
double farthest(const Finding& f) { return std::max(f.head.high / f.base.low - 1, 1 - f.head.low / f.base.high); }

bool disjoint(const Finding& f) { return f.head.low > f.base.high || f.head.high < f.base.low; }

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame: return "SAME";
    case Verdict::kFast: return "FAST";
    case Verdict::kSlow: return "SLOW";
    case Verdict::kAmbiguous: return "AMBIGUOUS";
  }
  return "AMBIGUOUS";
}

Finding compare_rounds(std::span<const double> base, std::span<const double> head, const VerdictRules& rules) {
  Finding f;
  f.base = hodges_lehmann(base);
  f.head = hodges_lehmann(head);
  f.change = f.head.center / f.base.center - 1;
  f.change_low = f.head.low / f.base.high - 1;
  f.change_high = f.head.high / f.base.low - 1;
  f.p = mann_whitney_p(base, head);
  const auto fewest = static_cast<int>(std::min(base.size(), head.size()));
  if (fewest < rules.fewest_rounds) {
    f.reason = fmt::format("{} rounds a side are too few to tell; at least {} are needed", fewest, rules.fewest_rounds);
    return f;
  }
  // In the time of the slower side, so that a change and its reversal count alike.
  const double gap = f.head.center > f.base.center ? f.change : f.base.center / f.head.center - 1;
  const bool counts = gap >= rules.smallest_change;
  if (counts && disjoint(f) && f.p <= rules.significance) {
    f.verdict = f.change > 0 ? Verdict::kSlow : Verdict::kFast;
  } else if (!counts && farthest(f) < 2 * rules.smallest_change) {
    f.verdict = Verdict::kSame;
    f.reason = fmt::format("a change of less than {}", share(rules.smallest_change));
  } else if (!counts) {
    f.reason = fmt::format("the noise hides whether it changed: it may be up to {}", share(farthest(f)));
  } else if (!disjoint(f)) {
    f.reason = fmt::format("a change of {:+.1f} % within the noise: the intervals overlap", 100 * f.change);
  } else {
    f.reason = fmt::format("a change of {:+.1f} %, but chance makes as much with p = {:.3f}", 100 * f.change, f.p);
  }
  return f;
}

Judgement judge(const RoundTimes& base, const RoundTimes& head, const VerdictRules& rules) {
  Judgement j;
  j.first = compare_rounds(base.first, head.first, rules);
  j.verdict = j.first.verdict;
  j.reason = j.first.reason;
  const bool changed = j.verdict == Verdict::kSlow || j.verdict == Verdict::kFast;
  const char* const word = j.first.change > 0 ? "slower" : "faster";
  if (!base.again.empty() && !head.again.empty()) j.again = compare_rounds(base.again, head.again, rules);
  if (!changed) return j;
  const double size = std::abs(j.first.change);
  if (!rules.confirm) {
    j.reason = fmt::format("{} {}, measured once", share(size), word);
  } else if (!j.again) {
    j.verdict = Verdict::kAmbiguous;
    j.suspected = true;
    j.reason = fmt::format("{} {}, not yet measured again", share(size), word);
  } else if (j.again->verdict != j.verdict) {
    j.verdict = Verdict::kAmbiguous;
    j.reason = fmt::format("{} {} at first, {:+.1f} % when measured again: not confirmed", share(size), word,
                           100 * j.again->change);
  } else {
    j.reason = fmt::format("{} {}, and {} when measured again", share(size), word, share(std::abs(j.again->change)));
  }
  return j;
}

}  // namespace sparsmith
