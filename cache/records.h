// The rows of the cache as plain values. Text fields have no meaning here: the rooms that write a config, an operator
// or a device class define it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ptxas_figures.h"

namespace sparsmith {

struct DeviceRecord {
  std::string device_class;  // "sm_90 132 SMs": devices of one class share choices
  std::string name;          // "NVIDIA H200"
  int compute_capability = 0;
  int sm_count = 0;
  std::int64_t memory_bytes = 0;
  double memory_bandwidth = 0;  // bytes/s; 0: not measured
};

// The results of a device's probe (DeviceSpeeds).
struct SpeedsRecord {
  double memory_bandwidth = 0;  // bytes/s
  double l2_bandwidth = 0;      // bytes/s
  double launch_us = 0;
};

struct EnvironmentRecord {
  std::string driver_version;
  std::string nvrtc_version;
  std::string program_version;
};

struct WeightRecord {
  std::string pattern_hash;
  std::string value_hash;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  std::string histogram;  // of row lengths, and how blocks are filled, as JSON (search/choice/transfer.h)
};

// The key of a binary: exactly this source, compiled by exactly this compiler.
struct KernelKey {
  std::string name;
  std::string closure_hash;
  std::string architecture;  // "sm_90"
  std::string nvrtc_version;
};

struct KernelRecord {
  KernelKey key;
  std::string config;
  std::vector<std::byte> cubin;
  PtxasFigures figures;
};

// The key of measurements and choices.
struct ProblemKey {
  std::string pattern_hash;
  std::string operator_name;  // data types, layout, epilogue
  std::int64_t tokens = 0;    // the bucket
  std::string device_class;
  std::string timing_policy;
  bool operator==(const ProblemKey&) const = default;
};

enum class MeasurementStatus : std::uint8_t {
  kRunning,  // begun, not finished; becomes kCrashed when its process is dead
  kOk,       // verified and timed
  kWrong,    // its output exceeded the error bound
  kFailed,   // it could not be compiled, loaded or launched
  kCrashed,  // its worker died, or its process died
  kTimeout,  // it did not end in time
  kTooSlow,  // it was stopped: far slower than the best
};
const char* measurement_status_name(MeasurementStatus status);

struct MeasurementRecord {
  ProblemKey key;
  std::string value_hash;
  std::string config;  // or "vendor:cublas"
  std::string packing;
  int packer_version = 0;
  std::string closure_hash;  // of all kernels of the candidate
  double predicted_us = 0;
  std::int64_t device_id = 0;
  std::int64_t environment_id = 0;

  MeasurementStatus status = MeasurementStatus::kRunning;
  bool abandoned = false;  // crashed because the process that began it is gone, or others killed its worker: the
                           // candidate may be innocent
  std::string reason;      // for kOk a detail
  double median_us = 0;
  double q1_us = 0;
  double q3_us = 0;
  int samples = 0;
  int copies = 1;
  bool warm = false;
  double max_error_over_bound = 0;
  std::string began_at;  // UTC, ISO 8601
};

struct ChoiceRecord {
  ProblemKey key;
  int compute_capability = 0;  // of the device class, for lookups of similar classes
  int sm_count = 0;

  std::string kind;  // "generated"; earlier programs: "dense", "vendor" (config: a library's name)
  std::string config;
  std::string packing;
  int packer_version = 0;
  std::string closure_hash;
  std::string nvrtc_version;
  std::string evidence;  // "measured" or "predicted"
  std::string reason;    // the reason for the choice
  std::string families;  // the families in the comparison, joined by commas
  std::string goal;      // the goal for it and the other N of its weight; "": not recorded
  double us = 0;
  double q1_us = 0;
  double q3_us = 0;
  double dense_us = 0;
  bool complete = true;   // false: the search was cut short by its budget or an interrupt
  double budget_s = 0;    // seconds that the search took, or its budget
  std::string chosen_at;  // UTC, ISO 8601; set by put_choice() when empty
};

enum class MatchQuality : std::uint8_t {
  kNone,
  kSameArchitecture,  // another SM count: a hint for the search
  kExact,             // this device class
};
const char* match_quality_name(MatchQuality quality);

struct ChoiceMatch {
  MatchQuality quality = MatchQuality::kNone;
  ChoiceRecord choice;  // meaningless for kNone
};

}  // namespace sparsmith
