// What a tuning run found out, as plain data: what tables are printed from and tuned files are written from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ptxas_figures.h"
#include "cache/cache.h"
#include "formats/packed_weight.h"
#include "generator/ablation.h"
#include "generator/candidate.h"
#include "generator/family.h"
#include "runtime/device_properties.h"
#include "runtime/operator_spec.h"
#include "runtime/tuned_file.h"
#include "search/byte_fit.h"
#include "search/device_session.h"
#include "search/kernel_store.h"
#include "sparsmith/group_member.h"
#include "tuner/worker.h"

namespace sparsmith {

// A candidate that was in the race for one weight at one N.
struct Trial {
  std::string config;
  double predicted_us = 0;
  double median_us = 0;  // 0: was not timed; where nothing can be timed, the prediction of one that passed
  std::string outcome;   // "timed", "timed in the final", "not tried", or why it was rejected
};

// A candidate that no choice can take, and why.
struct Rejection {
  std::string config;
  std::string family;
  std::string outcome;  // in a few words, which many have in common
  std::string reason;   // in full
};

// What a chosen kernel takes beside builds of it without a part (generator/ablation.h), timed in turns in one run.
struct AblationTimes {
  Timing whole;
  std::map<Ablation, Timing> without;       // by what is left out
  std::map<Ablation, std::string> missing;  // why a build was not timed; not in here: the family has none
  std::string reason;                       // why nothing was; empty where something was
};

// The choice for one operator of a weight at one N.
struct BucketChoice {
  OperatorSpec spec;
  std::int64_t tokens = 1;
  double calls = 1;
  Candidate candidate;
  int packer_version = 0;

  Timing timing;         // of the choice; predicted choices have the median only
  double dense_us = 0;   // of the baseline; 0: not known
  std::string evidence;  // "measured" or "predicted"
  std::string reason;
  Verification verification;
  std::vector<VendorTiming> vendors;  // the baseline, where one passed, and libraries that were measured beside it

  bool cached = false;        // taken from the cache without measuring
  bool complete = true;       // false: the search was cut short
  std::string incumbent;      // match quality of what the cache had: "exact", "same architecture", "none"
  int tried = 0;              // candidates
  std::vector<Trial> trials;  // those of this run, in the order in which they were tried

  static constexpr std::size_t kMostRejections = 100;
  std::vector<Rejection> rejections;    // the first ones of this run
  std::int64_t further_rejections = 0;  // that are left out

  std::optional<AblationTimes> ablation;  // where that was asked for, and there is a part to take out

  double us() const { return timing.median_us; }
  bool is_baseline() const { return sparsmith::is_baseline(candidate.config); }
};

// A way to keep a weight: its choices, and what they cost.
struct Alternative {
  ByteOption cost;
  std::vector<BucketChoice> buckets;  // of costs alone: empty
};

struct WeightResult {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DataType type = DataType::kFloat32;  // of its packings
  std::int64_t nnz = 0;
  double sparsity = 0;
  std::string pattern_hash;
  std::string value_hash;
  std::vector<GroupMember> members;    // of a group
  std::vector<BucketChoice> buckets;   // operator by operator, each in ascending order of tokens
  std::vector<PackedWeight> packings;  // those that the choices use
  // These choices, and others that are smaller or faster, in ascending order of bytes. Only costs, but for smaller ones
  // where the model's bytes are bounded.
  std::vector<Alternative> alternatives;

  // The choices of one operator after the other.
  std::vector<std::span<const BucketChoice>> operators() const;

  std::int64_t dense_bytes() const;
  // Of all copies that the choices need.
  std::int64_t gpu_bytes() const;
  const PackedWeight* packing_of(const BucketChoice& bucket) const;  // null: the weight does not keep it
  // Bytes that one run moves at least: the weight as the choice has it, X and Y.
  double bytes_moved(const BucketChoice& bucket) const;
};

// A chosen kernel with its binaries.
struct KernelImages {
  struct Binary {
    std::string architecture;
    std::vector<std::byte> cubin;
    PtxasFigures figures{};
  };
  KernelSource kernel;
  std::vector<Binary> binaries;
};

// What was tried, for one weight or for many.
struct TuneCounts {
  std::map<std::string, std::int64_t> rejected;  // candidates by reason
  std::map<std::string, std::int64_t> cuts;      // of the search space, by rule
  std::int64_t transferred = 0;                  // (weight, N) that were searched only among what a near weight chose
  std::int64_t cached = 0;                       // of these, taken from the cache
  std::int64_t unjudged = 0;                     // candidates that met a fault of the machine each time
  std::int64_t considered = 0;                   // configs that broke no rule
  std::int64_t candidates = 0;                   // generated
  double read_seconds = 0;                       // reading weights, and looking at their zeros
  double select_seconds = 0;                     // enumerating search spaces, and choosing from them
  double pack_seconds = 0;

  void add(const TuneCounts& other);
};

// What a whole model takes, and what more memory would gain. Times are summed over weights and N, weighted by calls.
struct MemoryUse {
  std::int64_t dense_bytes = 0;
  std::int64_t bytes = 0;
  double us = 0;
  std::string unmet;  // why the bound cannot be met, and the least that can; empty: it is met

  // The least further memory with which all together are faster by more than 1 %; `memory` 0: none is known.
  struct Faster {
    double memory = 0;  // of each weight, as options.memory
    std::int64_t bytes = 0;
    double us = 0;
  };
  Faster faster;
};

// Preparing one weight overlaps with preparing and measuring others, and so do seconds, with those of the kernels'
// compiler too; of several devices they are summed.
struct TuneReport : TuneCounts {
  std::vector<WeightResult> weights;
  struct Skipped {
    std::string name;
    std::string reason;
  };
  std::vector<Skipped> skipped;

  DeviceProperties device;  // that was tuned for
  std::size_t devices = 1;  // of its class, that shared the weights
  bool measured = false;    // false: every choice of this run is predicted
  bool complete = true;     // false: interrupted, or out of budget
  bool interrupted = false;
  Cache::WriteFailures cache_failures;  // of this run
  std::int64_t pairs = 0;               // (weight, N) that have a choice
  KernelStore::Counts kernels;
  std::vector<KernelImages> images;  // of every kernel that a choice runs
  MemoryUse memory;
  int worker_restarts = 0;
  DeviceSession::Seconds device_seconds;
  double seconds = 0;
};

}  // namespace sparsmith
