// What a search measured of one (weight, N) space, kept so that strategies can be compared without a GPU.
//
// A file holds any number of spaces as JSON lines, compressed by gzip: a line {"space": ...} and, behind it, a line
// {"candidate": ...} for each. Since members of a gzip file may follow each other, `cat a.gz b.gz > c.gz` joins files;
// join_spaces() then makes one space of those that several runs recorded. docs/reference/file_formats.md has the
// fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_limit.h"
#include "generator/config.h"
#include "search/trial/trial.h"

namespace sparsmith {

struct RecordedCandidate {
  Config config;
  std::string packing;
  std::int64_t packed_bytes = 0;
  std::vector<std::string> kernels;  // names
  std::string closure_hash;          // of all of them
  double predicted_us = 0;
  int registers = 0;  // of the kernel that needs most; 0 where none was compiled

  MeasurementStatus status = MeasurementStatus::kRunning;
  std::string reason;             // unless it is kOk
  std::vector<float> samples_us;  // one a replay, in order
  std::vector<float> final_us;    // interleaved with the best and with dense; of the best alone
  int copies = 1;
  bool warm = false;
  double max_error_over_bound = 0;
  Trial::Costs seconds;

  bool ok() const { return status == MeasurementStatus::kOk && !samples_us.empty(); }
  double median_us() const;  // of all samples. REQUIRES: ok()
};

struct RecordedVendor {
  std::string name;
  bool supported = false;
  std::string detail;
  std::vector<float> samples_us;
  std::int64_t weight_bytes = 0;
};

struct RecordedSpace {
  std::string weight;  // its name
  std::string pattern_hash;
  std::string value_hash;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  double row_cov = 0;
  std::vector<std::int64_t> row_length_histogram;  // as SparsityStatistics has it
  std::string operator_name;
  std::int64_t tokens = 1;

  std::string device_class;
  std::string device_name;
  double memory_bandwidth = 0;  // bytes/s, read plus written
  std::string driver_version;
  std::string nvrtc_version;
  std::string program_version;
  std::string timing_policy;
  std::string recorded_at;  // UTC, ISO 8601
  std::string strategy;
  std::uint64_t seed = 0;
  std::int64_t considered = 0;  // configs that broke no rule; the candidates are drawn from these
  bool complete = true;         // every candidate had its turn

  std::vector<RecordedVendor> vendors;  // dense first
  std::vector<RecordedCandidate> candidates;

  // What was searched, and where: spaces of one identity are joined.
  std::string identity() const;
  std::string title() const;  // "fc1 4096x4096 N=8", for people
};

// REQUIRES: not empty.
double median_of(std::vector<float> samples);

// Adds one space to the file, or makes it. Error: kIoError.
Status append_space(const std::string& path, const RecordedSpace& space);

// Whether the file begins as append_space() writes it, compressed or not.
bool holds_spaces(const std::string& path);

// Errors: kIoError; kInvalidInput with the line, and what is wrong with it; kOutOfMemory for records of more than
// `max_bytes`, uncompressed.
Result<std::vector<RecordedSpace>> read_spaces(const std::string& path, std::int64_t max_bytes = kNoMemoryLimit);
// The same from what a file holds, uncompressed.
Result<std::vector<RecordedSpace>> parse_spaces(std::string_view text);
std::string to_json_lines(const RecordedSpace& space);

// One space for each identity: samples of a candidate that several recorded follow each other; where one run failed
// it and another did not, the failure counts.
std::vector<RecordedSpace> join_spaces(std::vector<RecordedSpace> spaces);

// The results as JSON of the T4 schema, version 1.0.0 (Kernel Tuner, kernel_tuner/schema/T4/1.0.0). "correctness" is
// the largest error over its bound; what took a worker down is "runtime", since the schema has no word for it.
std::string to_t4(const RecordedSpace& space);

}  // namespace sparsmith
