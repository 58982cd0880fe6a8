// How examples/ci/perf_gate.sh measures, for tests that draw the times: in turns, and again what calls for it.
#pragma once

#include "history/suite.h"
#include "history/verdict.h"

namespace sparsmith {

// Adds `rounds` of base and head in turns, round by round: the first of each pair changes, so that a drift favours
// neither. `time_of_round(is_head)` is called in the order of time.
template <class TimeOfRound>
void add_turns(const TimeOfRound& time_of_round, int rounds, TimeSet& times) {
  for (int i = 0; i < rounds; ++i) {
    const bool head_first = times.pairs.size() % 2 == 1;
    TimePair& pair = times.pairs.emplace_back();
    for (const bool is_head : {head_first, !head_first}) {
      const double us = time_of_round(is_head);
      (is_head ? pair.head : pair.base) = us;
      (is_head ? times.head : times.base).push_back(us);
    }
  }
}

struct Measured {
  Judgement judgement;
  int rounds = 0;  // a side
};

// What is suspected, and with `more` what noise hides, gets the default rounds once more, and once more.
template <class TimeOfRound>
Measured measure_in_turns(const TimeOfRound& time_of_round, bool more) {
  constexpr int kMostPasses = 9;
  TimeSet first;
  TimeSet again;
  add_turns(time_of_round, kDefaultRounds, first);
  Measured measured;
  measured.judgement = judge(first, again, {});
  for (int pass = 0; pass < kMostPasses; ++pass) {
    const Judgement& now = measured.judgement;
    const bool hidden = now.verdict == Verdict::kAmbiguous && now.first.more_rounds > 0;
    const bool refuted = !more && !again.base.empty();
    if (refuted || !(now.suspected || (more && hidden))) break;
    add_turns(time_of_round, kDefaultRounds, now.suspected ? again : first);
    measured.judgement = judge(first, again, {});
  }
  measured.rounds = static_cast<int>(first.base.size() + again.base.size());
  return measured;
}

}  // namespace sparsmith
