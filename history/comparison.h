// Compares two commits case by case: the change, its size, and its cause (the kernel or the tuner's choice).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "history/store.h"
#include "history/verdict.h"

namespace sparsmith {

// The difference of a case between two commits: the first of these that applies.
enum class Cause : std::uint8_t {
  kEnvironment,  // another device, driver, compiler or clock: times cannot be compared
  kNone,         // the same code on the same bytes
  kOtherChoice,  // the tuner chose another family, config or packing
  kKernel,       // the same choice, another binary
  kPacking,      // the same choice and binary, other packed bytes
  kLaunchPlan,   // the same choice, binary and bytes, another launch plan
  kUnknown,      // the recorded data does not tell
};
inline constexpr std::string_view kCauseNames[] = {"environment", "none",        "other choice", "kernel",
                                                   "packing",     "launch plan", "not known"};
constexpr std::string_view cause_name(Cause cause) { return name_in(kCauseNames, cause); }

// A value that differs: "registers of rows_k1", "40", "64".
struct Difference {
  std::string what;
  std::string base;
  std::string head;
};

// `suspected`, a member of the judgement: the case must be measured again before it may become SLOW or FAST.
struct ComparisonRow : Judgement {
  CaseKey key;
  Cause cause = Cause::kUnknown;
  bool unsure = false;  // needs more rounds: noise may hide a relevant change
  TimeSet first_times;  // the times of the judgement's first finding
  TimeSet again_times;
  bool measured = false;  // both sides have rounds of one environment; else findings mean nothing
  int base_rounds = 0;
  int head_rounds = 0;
  std::vector<Difference> differences;
  std::vector<std::string> snippets;  // kernel headers with different text
  std::optional<PerfMark> accepted;   // the mark that accepts the change
  std::string command;                // reproduces the head's measurement
};

struct Comparison {
  std::string base;  // commits
  std::string head;
  std::vector<ComparisonRow> rows;  // SLOW first, then suspected, FAST, AMBIGUOUS and SAME; the largest change first
  std::vector<CaseKey> only_base;
  std::vector<CaseKey> only_head;
  double geometric_mean = 1;  // of head / base, over all measured rows
  // Measures the noise of the machine: the number of measured cases with the same code on both sides, and how many of
  // them would be SLOW or FAST.
  int unchanged_measured = 0;
  int unchanged_alarms = 0;

  int count(Verdict verdict) const;
};

struct ComparisonOptions {
  std::string base_session{};  // empty: the sessions that both sides have, or else all sessions
  std::string head_session{};
  std::string case_name{};  // empty: every case
  VerdictRules rules{};
};

// `base` and `head` are hashes of commits in the store. Error: kNotFound when a commit has no rounds.
Result<Comparison> compare(PerfStore& store, const std::string& base, const std::string& head,
                           const ComparisonOptions& options);

// The cause of a difference between two implementations: kNone, kUnknown, kOtherChoice, kKernel, kPacking or
// kLaunchPlan.
Cause cause_of(const Implementation& base, const Implementation& head);
std::vector<Difference> differences(const Implementation& base, const Implementation& head);
// Kernel headers, sorted, that have different hashes or that only one side has.
std::vector<std::string> changed_snippets(const Implementation& base, const Implementation& head);

}  // namespace sparsmith
