// The results of a tuning run as plain data. Tables, JSON, pages and tuned files are made from it.
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
#include "search/choice/byte_fit.h"
#include "search/trial/device_session.h"
#include "search/trial/kernel_store.h"
#include "search/trial/trial.h"
#include "sparsmith/group_member.h"
#include "tuner/vendor/vendor_timing.h"

namespace sparsmith {

// A trial of one weight at one N, for reports.
struct TrialSummary {
  std::string config;
  double predicted_us = 0;
  double median_us = 0;  // 0: not timed; on a machine that cannot time, the prediction of one that passed
  std::string outcome;   // "timed", "timed in the final", "not tried", or why it was rejected
};

// Times of a chosen kernel and of builds of it without one part (generator/ablation.h), interleaved in one run.
struct AblationTimes {
  Timing whole;
  std::map<Ablation, Timing> without;       // by the missing part
  std::map<Ablation, std::string> missing;  // why a build was not timed; no entry: the family has none
  std::string reason;                       // why nothing was timed; empty: something was
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
  Verification verification;          // not ok: nothing has run the kernels
  std::vector<VendorTiming> vendors;  // the baseline, if one passed, and the measured libraries

  bool cached = false;               // taken from the cache without measuring
  bool complete = true;              // false: the search was cut short
  std::string incumbent;             // match quality of what the cache had: "exact", "same architecture", "none"
  int tried = 0;                     // candidates
  std::vector<TrialSummary> trials;  // of this run, in order

  static constexpr std::size_t kMostRejections = 100;
  std::vector<Rejection> rejections;    // the first ones of this run
  std::int64_t further_rejections = 0;  // beyond these

  std::optional<AblationTimes> ablation;  // if asked for, and the family has a part to take out

  double us() const { return timing.median_us; }
  bool is_baseline() const { return sparsmith::is_baseline(candidate.config); }
};

// A way to keep a weight: its choices and their cost.
struct Alternative {
  ByteOption cost;
  std::vector<BucketChoice> buckets;  // empty where only the cost is known
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
  std::vector<PackedWeight> packings;  // of the choices
  // These choices, and smaller or faster ones, in ascending order of bytes. Choices are kept only for smaller ones of a
  // model whose bytes are bounded.
  std::vector<Alternative> alternatives;

  // The choices of one operator after the other.
  std::vector<std::span<const BucketChoice>> operators() const;

  std::int64_t dense_bytes() const;
  // Of all packings of the choices.
  std::int64_t gpu_bytes() const;
  const PackedWeight* packing_of(const BucketChoice& bucket) const;  // null: not kept
  // The least bytes that one run moves: the packed weight, X and Y.
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

// Counts of one weight, or of many.
struct TuneCounts {
  std::map<std::string, std::int64_t> rejected;  // candidates by reason
  std::map<std::string, std::int64_t> cuts;      // of the search space, by rule
  std::int64_t transferred = 0;                  // (weight, N) searched only among a near weight's configs
  std::int64_t cached = 0;                       // (weight, N) taken from the cache
  std::int64_t unjudged = 0;                     // candidates that met a fault of the machine each time
  std::int64_t considered = 0;                   // configs that broke no rule
  std::int64_t candidates = 0;                   // generated
  double read_seconds = 0;                       // reading and analysing weights
  double select_seconds = 0;                     // enumerating and selecting configs
  double pack_seconds = 0;

  void add(const TuneCounts& other);
};

// The memory and time of a whole model, and the gain of more memory. Times are summed over weights and N, weighted by
// calls.
struct MemoryUse {
  std::int64_t dense_bytes = 0;
  std::int64_t bytes = 0;
  double us = 0;
  std::string unmet;  // why the bound cannot be met, with the least that can; empty: met

  // The least memory with which the model is faster by more than 1 %. `memory` 0: not known.
  struct Faster {
    double memory = 0;  // of each weight, as options.memory
    std::int64_t bytes = 0;
    double us = 0;
  };
  Faster faster;
};

// The GPU bytes and the times of training all weights (training.h).
struct TrainingUse {
  std::int64_t dense_bytes = 0;  // of masked dense training
  std::int64_t state_bytes = 0;  // of sparse training: gradients, master values, moments,
  std::int64_t packing_bytes = 0;
  std::int64_t place_bytes = 0;
  std::int64_t workspace_bytes = 0;  // the most that one product takes, which is not part of the sum
  std::int64_t bytes() const { return state_bytes + packing_bytes + place_bytes; }

  // The three products of each weight, once.
  struct Step {
    std::int64_t tokens = 0;
    double us = 0;
    double dense_us = 0;  // 0: not known of all products
  };
  std::vector<Step> steps;
};

// Seconds overlap: weights are prepared, compiled and measured at the same time. Those of several devices are summed.
struct TuneReport : TuneCounts {
  std::vector<WeightResult> weights;
  struct Skipped {
    std::string name;
    std::string reason;
  };
  std::vector<Skipped> skipped;

  DeviceProperties device;  // the target
  std::size_t devices = 1;  // that shared the weights; 0: nothing ran
  bool measured = false;    // false: all choices of this run are predicted
  bool complete = true;     // false: interrupted, or out of budget
  bool interrupted = false;
  Cache::WriteFailures cache_failures;  // of this run
  std::int64_t pairs = 0;               // (weight, N) with a choice
  std::int64_t unverified = 0;          // of these, predicted choices that no device and no emulator has run
  KernelStore::Counts kernels;
  std::vector<KernelImages> images;  // of all kernels of the choices
  MemoryUse memory;
  std::optional<TrainingUse> training;  // if the run tuned for training
  int worker_restarts = 0;
  DeviceSession::Seconds device_seconds;
  double seconds = 0;
};

}  // namespace sparsmith
