#include "history/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sparsmith {
namespace {

std::string share(double value) { return fmt::format("{:.1f} %", 100 * value); }

// How far head may be from base in either direction, in the time of the slower side.
double farthest(const Finding& f) { return std::max(f.change_high, 1 - 1 / (1 + f.change_low)); }

// The change with its interval, and whether that tells both sides apart.
bool compare_sides(const TimeSet& times, Finding& f) {
  f.change = f.head.center / f.base.center - 1;
  f.change_low = f.head.low / f.base.high - 1;
  f.change_high = f.head.high / f.base.low - 1;
  f.p = mann_whitney_p(times.base, times.head);
  return f.head.low > f.base.high || f.head.high < f.base.low;
}

bool compare_pairs(const TimeSet& times, Finding& f) {
  std::vector<double> ratios;  // logarithms
  for (const TimePair& pair : times.pairs) ratios.push_back(std::log(pair.head / pair.base));
  const Estimate ratio = hodges_lehmann(ratios);
  f.change = std::exp(ratio.center) - 1;
  f.change_low = std::exp(ratio.low) - 1;
  f.change_high = std::exp(ratio.high) - 1;
  f.p = signed_rank_p(ratios);
  return ratio.low > 0 || ratio.high < 0;
}

// Rounds that each side lacks: half the interval shrinks with the root of their number. A change that stands out of the
// noise by far needs no more.
int lacking_rounds(const Finding& f, std::size_t rounds, const VerdictRules& rules) {
  constexpr double kFar = 3;  // half intervals
  const double half = (f.change_high - f.change_low) / 2;
  const double wanted = rules.precision * rules.smallest_change;
  if (half <= wanted || std::abs(f.change) >= kFar * half) return 0;
  const double needed = std::ceil(static_cast<double>(rounds) * (half / wanted) * (half / wanted));
  return std::max(0, static_cast<int>(std::min<double>(rules.most_rounds, needed)) - static_cast<int>(rounds));
}

}  // namespace

Finding compare_rounds(const TimeSet& times, const VerdictRules& rules) {
  Finding f;
  f.base = hodges_lehmann(times.base);
  f.head = hodges_lehmann(times.head);
  f.paired = times.pairs.size() >= static_cast<std::size_t>(rules.fewest_pairs);
  const bool apart = f.paired ? compare_pairs(times, f) : compare_sides(times, f);
  const std::size_t fewest = std::min(times.base.size(), times.head.size());
  if (fewest < static_cast<std::size_t>(rules.fewest_rounds)) {
    f.reason = fmt::format("{} rounds a side are too few to tell; at least {} are needed", fewest, rules.fewest_rounds);
    return f;
  }
  f.more_rounds = lacking_rounds(f, fewest, rules);
  // In the time of the slower side, so that a change and its reversal count alike.
  const double gap = f.change > 0 ? f.change : 1 / (1 + f.change) - 1;
  const bool counts = gap >= rules.smallest_change;
  if (counts && apart && f.p <= rules.significance) {
    f.verdict = f.change > 0 ? Verdict::kSlow : Verdict::kFast;
  } else if (!counts && farthest(f) < 2 * rules.smallest_change) {
    f.verdict = Verdict::kSame;
    f.reason = fmt::format("a change of less than {}", share(rules.smallest_change));
  } else if (!counts) {
    f.reason = fmt::format("the noise hides whether it changed: it may be up to {}", share(farthest(f)));
  } else if (!apart) {
    f.reason = fmt::format("a change of {:+.1f} % within the noise: {}", 100 * f.change,
                           f.paired ? "its interval holds 0" : "the intervals overlap");
  } else {
    f.reason = fmt::format("a change of {:+.1f} %, but chance makes as much with p = {:.3f}", 100 * f.change, f.p);
  }
  return f;
}

Judgement judge(const TimeSet& first, const TimeSet& again, const VerdictRules& rules) {
  Judgement j;
  j.first = compare_rounds(first, rules);
  j.verdict = j.first.verdict;
  j.reason = j.first.reason;
  if (!again.base.empty() && !again.head.empty()) j.again = compare_rounds(again, rules);
  if (j.verdict != Verdict::kSlow && j.verdict != Verdict::kFast) return j;
  j.reason = fmt::format("{} {}", share(std::abs(j.first.change)), j.first.change > 0 ? "slower" : "faster");
  if (!rules.confirm) {
    j.reason += ", measured once";
  } else if (j.again && j.again->verdict == j.verdict) {
    j.reason += fmt::format(", and {} when measured again", share(std::abs(j.again->change)));
  } else {
    j.verdict = Verdict::kAmbiguous;
    const auto wanted = static_cast<int>(std::min(first.base.size(), first.head.size()));
    const auto rounds = static_cast<int>(std::min(again.base.size(), again.head.size()));
    const int lacking = std::max(wanted - rounds, j.again ? j.again->more_rounds : 0);
    j.suspected = lacking > 0;
    j.reason += !j.again
                    ? ", not yet measured again"
                    : fmt::format(" at first, {:+.1f} % when measured again: {}", 100 * j.again->change,
                                  j.suspected ? fmt::format("{} more rounds will tell", lacking) : "not confirmed");
  }
  return j;
}

}  // namespace sparsmith
