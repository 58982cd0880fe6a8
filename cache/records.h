// The rows of the cache as plain values. Text fields are opaque here: what a config, an operator or a device
// class says is decided by the rooms that write them.
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

// What a probe of a device found (DeviceSpeeds).
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
  std::string histogram;  // of row lengths, a JSON array
};

// A binary is good for exactly this source, compiled by exactly this compiler.
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

// What something was measured or chosen for.
struct ProblemKey {
  std::string pattern_hash;
  std::string operator_name;  // data types, layout, epilogue
  std::int64_t tokens = 0;    // the bucket
  std::string device_class;
  std::string timing_policy;
  bool operator==(const ProblemKey&) const = default;
};

enum class MeasurementStatus : std::uint8_t {
  kRunning,  // begun and not finished: by a live process, or it is about to be called crashed
  kOk,       // verified and timed
  kWrong,    // its output broke the bound
  kFailed,   // it could not be compiled, loaded or launched
  kCrashed,  // it took its worker down, or its process died over it
  kTimeout,  // it did not come back in time
  kTooSlow,  // it was stopped, being so much slower than the best
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
  std::string reason;      // of any status but kOk; a detail otherwise
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
  int compute_capability = 0;  // of the device class, for lookups of near ones
  int sm_count = 0;

  std::string kind;  // "generated"; of earlier programs "dense" and "vendor", with a library's name as config
  std::string config;
  std::string packing;
  int packer_version = 0;
  std::string closure_hash;
  std::string nvrtc_version;
  std::string evidence;  // "measured" or "predicted"
  std::string reason;    // why this one
  std::string families;  // that it was compared with, joined by commas
  std::string goal;      // what was asked of it and of the other N of its weight; "": of a program that did not say
  double us = 0;
  double q1_us = 0;
  double q3_us = 0;
  double dense_us = 0;
  bool complete = true;   // false: the search was cut short by its budget or an interrupt
  double budget_s = 0;    // seconds that the search took or was given
  std::string chosen_at;  // UTC, ISO 8601; filled when put
};

enum class MatchQuality : std::uint8_t {
  kNone,
  kSameArchitecture,  // another SM count: a hint where to start
  kExact,             // this device class
};
const char* match_quality_name(MatchQuality quality);

struct ChoiceMatch {
  MatchQuality quality = MatchQuality::kNone;
  ChoiceRecord choice;  // meaningless for kNone
};

}  // namespace sparsmith
