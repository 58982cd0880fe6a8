// What the performance history holds, as plain values: who measured what, when, and every sample of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sparsmith {

// What is measured, over all commits: the key of a history.
struct CaseKey {
  std::string name;           // "layers.0.fc1.weight N=8"
  std::string operator_name;  // data types, layout, epilogue
  std::string weight;         // the fingerprint of the weight's pattern
  std::string device_class;   // "sm_90 132 SMs"
  std::string cache_policy;   // "cold_weights"
  auto operator<=>(const CaseKey&) const = default;
};

// Where it was measured. A change of it begins a new segment of every history: times before and after say nothing
// about a commit.
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
  int registers = 0;  // of a thread
  std::int64_t spill_bytes = 0;
  // The headers it was made of and the hash of each: which snippet changed.
  struct Snippet {
    std::string header;  // "snippets/prolog/csr_row.cuh"
    std::string hash;
    bool operator==(const Snippet&) const = default;
  };
  std::vector<Snippet> snippets;
  bool operator==(const PerfKernel&) const = default;
};

// What ran: the tuner's choice and what became of it. Two equal ones run the same code on the same bytes.
struct Implementation {
  std::string choice;  // the family
  std::string config;
  std::string packing;
  std::string packing_hash;  // of every packed byte
  std::int64_t packed_bytes = 0;
  std::string plan_hash;  // of the launch plan
  std::vector<PerfKernel> kernels;
  bool operator==(const Implementation&) const = default;

  // Whether enough is known for equal values to mean equal code: every kernel has its binary's hash, and there are a
  // launch plan and packed bytes.
  bool identified() const;
};

// Cases keep one command for all commits.
inline constexpr std::string_view kCommitOfCommand = "{commit}";

// One round: samples taken in one go. Rounds of a case are far enough apart to be independent, the samples inside one
// need not be.
struct PerfMeasurement {
  CaseKey key;
  Implementation implementation;
  std::string command;  // reproduces it; kCommitOfCommand in it is the commit's hash
  std::vector<float> samples_us;
};

// One recording, of one commit.
struct PerfRun {
  std::string commit;
  std::string parents;       // commits, separated by blanks; may be empty
  std::string committed_at;  // ISO 8601, stored in UTC; may be empty
  std::string branch;
  std::string session;      // what was measured in turns; may be empty
  bool again = false;       // measured again to confirm what a comparison suspects
  double search_s = 0;      // seconds that the tuner searched; 0: it did not
  std::string recorded_at;  // UTC, ISO 8601; filled when recorded
  std::string program_version;
  PerfEnvironment environment;
};

// A change that was looked at and accepted.
struct PerfMark {
  std::string commit;
  std::string case_name;  // empty: every case
  std::string reason;
  std::string author;
  std::string marked_at;  // UTC, ISO 8601; filled when stored
};

}  // namespace sparsmith
