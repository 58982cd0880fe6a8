// The results for report pages as plain data, from any file or command.
#pragma once

#include <algorithm>
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
  SparsityStatistics statistics;  // without quantiles of row lengths when it comes from JSON
  std::string structure;          // WeightStructure::text(), or nothing
  DensityMap map;                 // without cells when the weight was not read
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

// A candidate that was tried for one weight at one N.
struct TriedCandidate {
  std::string config;
  double predicted_us = 0;  // 0: not predicted
  double us = 0;            // median; 0: not timed
};

// The choice for one weight at one N, and its peers in the same run. Times are medians in microseconds; 0: not known.
struct ResultCase {
  std::string weight{};
  std::string operator_name{};
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  double sparsity = 0;
  std::int64_t tokens = 1;
  std::string family{};   // "slots", "panel", ...; "dense" for a dense choice
  std::string reason{};   // of the choice
  bool measured = false;  // false: predicted
  double us = 0;
  double predicted_us = 0;
  double cublas_us = 0;
  double cusparse_us = 0;
  double packed_bytes = 0;  // on the GPU, of the choice's packing; 0: not known
  // Of the weight, at every N and for every operator the same: dense, with all packings of its choices, and as cuSPARSE
  // holds it; 0: not known.
  double dense_bytes = 0;
  double gpu_bytes = 0;
  double cusparse_bytes = 0;
  double bytes_moved = 0;
  double bound_us = 0;     // the shortest possible time on the device: the roofline; 0: not known
  std::string bound_by{};  // "memory", "tensor cores"
  // The kernel's time, measured again together with builds that lack a part (generator/ablation.h).
  struct Ablation {
    double full_us = 0;
    double no_decode_us = 0;
    double no_multiply_us = 0;
    double copy_only_us = 0;
  };
  Ablation ablation{};
  std::vector<TriedCandidate> tried{};

  bool dense() const { return family == "dense"; }
  // cuBLAS time / our time; 0: not known.
  double speedup() const { return us > 0 && cublas_us > 0 ? cublas_us / us : 0; }
  // The time of the faster library; 0: no library was measured.
  double best_peer_us() const {
    return cublas_us <= 0 || cusparse_us <= 0 ? std::max(cublas_us, cusparse_us) : std::min(cublas_us, cusparse_us);
  }
};

// The results of one file or run of `tune`, `bench` or bench/cells.py.
struct TuningResults {
  std::string source;
  std::string device{};
  double memory_bandwidth = 0;  // bytes/s; 0: not known
  std::vector<ResultCase> cases{};
  std::map<std::string, double> seconds{};     // by purpose
  std::map<std::string, double> cuts{};        // candidates that a rule left out, by rule
  std::map<std::string, double> rejections{};  // candidates that failed, by reason
};

// The sparsity from which a sparse kernel is chosen, for one way of drawing weights and one N.
struct BreakEvenCase {
  std::string name;  // operator and pattern of weights: "spmm 4096x4096 ..., uniform"
  std::int64_t tokens = 1;
  std::optional<double> dense_at{};   // highest sparsity with a dense choice; empty: none
  std::optional<double> sparse_at{};  // lowest sparsity above it with a sparse choice; empty: none
  bool changes_once = true;           // false: below dense_at there is a sparse choice
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

// A strategy in a recorded search space, from `space simulate`.
struct SimulatedStrategy {
  std::string name;
  double tried = 0;   // candidates, mean over runs
  double regret = 1;  // chosen / best recorded, geometric mean over runs
  double worst = 1;
  std::vector<double> curve{};  // best found / best recorded, after each candidate
  double packings = 0;          // packings of the candidates, mean over runs; 0: not known
};

struct SimulatedSpace {
  std::string name;
  double best_us = 0;
  std::int64_t candidates = 0;
  double predicted = 1;  // choice of the cost model alone / best recorded
  std::vector<SimulatedStrategy> strategies{};
};

struct SimulationResults {
  std::string source;
  std::vector<SimulatedSpace> spaces{};
};

// One case over commits. Values are in `unit`; smaller is better.
struct HistorySeries {
  std::string name;
  std::string unit = "us";
  std::string detail{};  // further parts of the key: operator, device class, ...; may be empty
  struct Point {
    std::string commit;  // a hash, or another short name
    double median = 0;
    double low = 0;  // an interval of the median
    double high = 0;
    std::string segment;  // the environment; a change of it begins a new segment. May be empty.
    std::string date{};   // of the commit: "2026-01-31". May be empty.
  };
  std::vector<Point> points{};  // oldest first
  struct Change {
    std::size_t at = 0;  // index of the first point after the change
    double before = 0;   // level from the detection method
    double after = 0;
    std::string accepted;  // the reason for accepting the change; empty: not accepted
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
