// Two commits, case by case: what changed, how much, and whether it is the kernel or the tuner's choice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "history/store.h"
#include "history/verdict.h"

namespace sparsmith {

// What is different about a case between two commits, the first of these that applies.
enum class Cause : std::uint8_t {
  kEnvironment,  // another device, driver, compiler or clock: times cannot be compared
  kNone,         // the same code on the same bytes
  kOtherChoice,  // the tuner chose another family, config or packing
  kKernel,       // the same choice, another binary
  kPacking,      // the same choice and binary, other packed bytes
  kLaunchPlan,   // the same choice, binary and bytes, launched otherwise
  kUnknown,      // not enough is recorded to tell
};
const char* cause_name(Cause cause);  // "environment", "none", "other choice", "kernel", "packing", ...

// One fact that differs: "registers of rows_k1", "40", "64".
struct Difference {
  std::string what;
  std::string base;
  std::string head;
};

struct ComparisonRow {
  CaseKey key;
  Verdict verdict = Verdict::kAmbiguous;
  Cause cause = Cause::kUnknown;
  std::string reason;
  bool suspected = false;  // to be measured again before it may be called SLOW or FAST
  bool unsure = false;     // needs more rounds: noise may hide a change that counts
  Finding finding;         // of the first set of rounds; of no meaning where `measured` is false
  std::optional<Finding> again;
  TimeSet first_times;  // what the findings stand on
  TimeSet again_times;
  bool measured = false;  // both sides have rounds of one environment
  int base_rounds = 0;
  int head_rounds = 0;
  std::vector<Difference> differences;
  std::vector<std::string> snippets;  // headers of kernels whose text differs
  std::optional<PerfMark> accepted;   // somebody marked the change as accepted
  std::string command;                // reproduces the head's measurement
};

struct Comparison {
  std::string base;  // commits
  std::string head;
  std::vector<ComparisonRow> rows;  // SLOW first, then suspected, FAST, AMBIGUOUS and SAME; the largest change first
  std::vector<CaseKey> only_base;
  std::vector<CaseKey> only_head;
  double geometric_mean = 1;  // of head over base, over all measured rows
  // What the noise of the machine looks like: of the cases with the same code that were measured all the same, so many
  // would have been called SLOW or FAST.
  int unchanged_measured = 0;
  int unchanged_alarms = 0;

  int count(Verdict verdict) const;
};

struct ComparisonOptions {
  std::string base_session{};  // empty: the sessions that both sides have, or else everything
  std::string head_session{};
  std::string case_name{};  // empty: every case
  VerdictRules rules{};
};

// `base` and `head` are hashes that the store knows. Error: kNotFound when one of them has no rounds.
Result<Comparison> compare(PerfStore& store, const std::string& base, const std::string& head,
                           const ComparisonOptions& options);

// Where two implementations differ. kNone, kUnknown, kOtherChoice, kKernel, kPacking or kLaunchPlan.
Cause cause_of(const Implementation& base, const Implementation& head);
std::vector<Difference> differences(const Implementation& base, const Implementation& head);
// Headers of kernels, sorted, whose hash differs or that only one side has.
std::vector<std::string> changed_snippets(const Implementation& base, const Implementation& head);

}  // namespace sparsmith
