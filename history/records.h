// The rows of the performance history as plain values: cases, environments, runs, and all samples.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sparsmith {

// The key of a history: the measured case, over all commits.
struct CaseKey {
  std::string name;           // "layers.0.fc1.weight N=8"
  std::string operator_name;  // data types, layout, epilogue
  std::string weight;         // the fingerprint of the weight's pattern
  std::string device_class;   // "sm_90 132 SMs"
  std::string cache_policy;   // "cold_weights"
  auto operator<=>(const CaseKey&) const = default;
};

// The environment of a measurement. A change of it begins a new segment of every history: a difference of times before
// and after it says nothing about a commit.
struct PerfEnvironment {
  std::string device;  // "NVIDIA H200"
  std::string driver;
  std::string nvrtc;
  std::string clocks;  // "1980 MHz", "locked 1500 MHz"
  auto operator<=>(const PerfEnvironment&) const = default;
};

// A kernel as it ran.
struct PerfKernel {
  std::string name;
  std::string cubin_hash;
  int registers = 0;  // per thread
  std::int64_t spill_bytes = 0;
  // The kernel's headers with their hashes. They show which snippet changed.
  struct Snippet {
    std::string header;  // "snippets/prolog/csr_row.cuh"
    std::string hash;
    bool operator==(const Snippet&) const = default;
  };
  std::vector<Snippet> snippets;
  bool operator==(const PerfKernel&) const = default;
};

// The code that ran: the tuner's choice with its kernels and packed bytes. Equal implementations run the same code on
// the same bytes.
struct Implementation {
  std::string choice;  // the family
  std::string config;
  std::string packing;
  std::string packing_hash;  // of every packed byte
  std::int64_t packed_bytes = 0;
  std::string plan_hash;  // of the launch plan
  std::vector<PerfKernel> kernels;
  bool operator==(const Implementation&) const = default;

  // Whether equal values prove equal code: every kernel has its binary's hash, and the launch plan and packed bytes are
  // known.
  bool identified() const;
};

// Stands for the commit in a command: a case has one command for all commits.
inline constexpr std::string_view kCommitOfCommand = "{commit}";

// One round: samples taken directly after each other. Rounds of a case are far enough apart to be independent. The
// samples inside a round may depend on each other.
struct PerfMeasurement {
  CaseKey key;
  Implementation implementation;
  std::string command;  // reproduces the measurement; kCommitOfCommand stands for the commit's hash
  std::vector<float> samples_us;
};

// One recording, of one commit.
struct PerfRun {
  std::string commit;
  std::string parents;       // commits, separated by blanks; may be empty
  std::string committed_at;  // ISO 8601, stored in UTC; may be empty
  std::string branch;
  std::string session;      // runs of one session were measured in turns; may be empty
  bool again = false;       // measured again to confirm a suspected change
  double search_s = 0;      // seconds of the tuner's search; 0: no search
  std::string recorded_at;  // UTC, ISO 8601; set by PerfStore::record() when empty
  std::string program_version;
  PerfEnvironment environment;
};

// A change that a person has checked and accepted.
struct PerfMark {
  std::string commit;
  std::string case_name;  // empty: every case
  std::string reason;
  std::string author;
  std::string marked_at;  // UTC, ISO 8601; set by PerfStore::mark()

  bool accepts(const std::string& name) const { return case_name.empty() || case_name == name; }
};

}  // namespace sparsmith
