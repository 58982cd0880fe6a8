// What report pages are made of, as plain data, whichever file or command it comes from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "matrix/sparsity_statistics.h"
#include "tools/report/density_map.h"

namespace sparsmith::tools {

struct AnalyzedLayer {
  std::string name;
  SparsityStatistics statistics;  // without quantiles of row lengths where it comes from JSON
  DensityMap map;                 // without cells where the weight was not read
};

// The weights of one model file.
struct LayerAnalysis {
  std::string source;
  std::vector<AnalyzedLayer> layers{};
  struct Skipped {
    std::string name;
    std::string description;
    std::string reason;
  };
  std::vector<Skipped> skipped{};
};

// A candidate of one weight at one N, in the order in which they were tried.
struct TriedCandidate {
  std::string config;
  double predicted_us = 0;  // 0: was not predicted
  double us = 0;            // median; 0: was not timed
  std::string outcome;      // "timed", "timed in the final", "waiting", or why it was rejected
};

// The choice for one weight at one N, and its peers in the same run. Times are medians in microseconds; 0: not known.
struct ResultCase {
  std::string weight;
  std::string operator_name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  double sparsity = 0;
  std::int64_t tokens = 1;
  std::string family;  // "slots", "panel", ...; "dense" where that stays
  std::string config;
  bool measured = false;  // false: predicted
  double us = 0;
  double q1_us = 0;
  double q3_us = 0;
  double predicted_us = 0;
  double cublas_us = 0;
  double cusparse_us = 0;
  double packed_bytes = 0;  // on the GPU, of the packing that it reads; 0: not known
  double bytes_moved = 0;
  double bound_us = 0;   // what the device lets it take: the roofline; 0: not known
  std::string bound_by;  // "memory", "tensor cores"
  // The kernel timed once more, beside builds of it without a part (generator/ablation.h).
  struct Ablation {
    double full_us = 0;
    double no_decode_us = 0;
    double no_multiply_us = 0;
    double copy_only_us = 0;
  };
  Ablation ablation;
  std::vector<TriedCandidate> tried;

  bool dense() const { return family == "dense"; }
  // The faster of the libraries that were measured; 0 without any.
  double best_peer_us() const;
};

// Bytes of a weight on the GPU.
struct WeightBytes {
  std::string weight;
  double sparsity = 0;
  double dense = 0;
  double chosen = 0;
  double cusparse = 0;  // 0: not known
};

// What one file or run of `tune`, `bench` or bench/cells.py says.
struct TuningResults {
  std::string source;
  std::string device{};
  double memory_bandwidth = 0;  // bytes/s; 0: not known
  std::vector<ResultCase> cases{};
  std::vector<WeightBytes> bytes{};
  std::map<std::string, double> seconds{};     // by what they went into
  std::map<std::string, double> cuts{};        // candidates that a rule left out, by rule
  std::map<std::string, double> rejections{};  // candidates that failed, by reason
};

// From which sparsity on a sparse kernel is chosen, for weights drawn alike and one N.
struct BreakEvenCase {
  std::string name;  // of the operator and how weights are drawn: "spmm 4096x4096 ..., uniform"
  std::int64_t tokens = 1;
  std::optional<double> dense_at{};   // highest sparsity at which dense stayed; empty: at none
  std::optional<double> sparse_at{};  // lowest above it at which it did not; empty: at none
  bool changes_once = true;           // false: below dense_at it did not stay everywhere
  struct Probe {
    double sparsity = 0;
    double us = 0;  // of the choice
    double dense_us = 0;
    std::string choice;
    bool measured = false;
  };
  std::vector<Probe> probes{};  // in ascending order of sparsity
};

struct BreakEvenResults {
  std::string source;
  std::string device{};
  std::vector<BreakEvenCase> cases{};
};

// Strategies in recorded search spaces, as `space simulate` has them.
struct SimulatedStrategy {
  std::string name;
  double tried = 0;   // candidates, mean over runs
  double regret = 1;  // chosen over the best recorded, geometric mean over runs
  double worst = 1;
  std::vector<double> curve{};  // best found over the best recorded, after each candidate
};

struct SimulatedSpace {
  std::string name;
  double best_us = 0;
  std::int64_t candidates = 0;
  double predicted = 1;  // the choice of the cost model alone, over the best recorded
  std::vector<SimulatedStrategy> strategies{};
};

struct SimulationResults {
  std::string source;
  std::vector<SimulatedSpace> spaces{};
};

// One case over commits. Values are times or whatever `unit` says; smaller is better.
struct HistorySeries {
  std::string name;
  std::string unit = "us";
  std::string detail{};  // operator, device class, ...: what else tells the case from others; may be empty
  struct Point {
    std::string commit;  // a hash, or another short name
    double median = 0;
    double low = 0;  // an interval of the median
    double high = 0;
    std::string segment;  // the environment; a new one begins where it changes. May be empty.
  };
  std::vector<Point> points{};  // oldest first
  struct Change {
    std::size_t at = 0;  // index of the first point behind it
    double before = 0;   // level, as the method of detection has it
    double after = 0;
    std::string accepted;  // the reason given when someone marked it as accepted; empty: nobody did
  };
  std::vector<Change> changes{};
};

struct PerformanceHistory {
  std::string source;
  std::vector<HistorySeries> series{};
};

struct ReportInputs {
  std::vector<LayerAnalysis> analyses{};
  std::vector<TuningResults> results{};
  std::vector<BreakEvenResults> break_evens{};
  std::vector<SimulationResults> simulations{};
  std::vector<PerformanceHistory> histories{};
};

}  // namespace sparsmith::tools
