#include "search/record/recorded_space.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_reader.h"
#include "base/json_text.h"

namespace sparsmith {
namespace {

using nlohmann::json;

constexpr int kFormatVersion = 1;
constexpr std::size_t kLongestLine = std::size_t{4} << 20;
constexpr double kMost = 1e15;  // of a time, and of anything else that is measured
constexpr std::int64_t kMostCount = std::numeric_limits<std::int64_t>::max();
constexpr MeasurementStatus kStatuses[] = {
    MeasurementStatus::kRunning, MeasurementStatus::kOk,      MeasurementStatus::kWrong,  MeasurementStatus::kFailed,
    MeasurementStatus::kCrashed, MeasurementStatus::kTimeout, MeasurementStatus::kTooSlow};

std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

// Nanoseconds are more than a replay resolves.
json samples_json(const std::vector<float>& samples) {
  json array = json::array();
  for (const float sample : samples) array.push_back(static_cast<double>(std::lround(sample * 1e4)) / 1e4);
  return array;
}

std::vector<float> samples_of(JsonReader& reader, const char* key) {
  const std::vector<double> samples = reader.numbers(key, 0, kMost);
  return {samples.begin(), samples.end()};
}

json json_of(const RecordedCandidate& candidate) {
  json object = {{"config", candidate.config.text()},
                 {"packing", candidate.packing},
                 {"packed_bytes", candidate.packed_bytes},
                 {"kernels", candidate.kernels},
                 {"closure_hash", candidate.closure_hash},
                 {"predicted_us", candidate.predicted_us},
                 {"registers", candidate.registers},
                 {"status", measurement_status_name(candidate.status)},
                 {"samples_us", samples_json(candidate.samples_us)},
                 {"copies", candidate.copies},
                 {"max_error_over_bound",
                  std::isfinite(candidate.max_error_over_bound) ? json(candidate.max_error_over_bound) : json()},
                 {"seconds",
                  {{"pack", candidate.seconds.pack},
                   {"compile", candidate.seconds.compile},
                   {"verify", candidate.seconds.verify},
                   {"time", candidate.seconds.time}}}};
  if (!candidate.reason.empty()) object["reason"] = candidate.reason;
  if (!candidate.final_us.empty()) object["final_us"] = samples_json(candidate.final_us);
  if (candidate.warm) object["warm"] = true;
  return object;
}

Result<RecordedCandidate> candidate_of(const json& object) {
  constexpr std::int64_t kMostThings = 1 << 20;
  JsonReader reader(object, "a candidate");
  RecordedCandidate candidate;
  candidate.config = reader.take(Config::parse(reader.text("config")));
  candidate.packing = reader.text("packing");
  candidate.packed_bytes = reader.integer("packed_bytes", 0, kMostCount);
  candidate.kernels = reader.texts("kernels");
  candidate.closure_hash = reader.text("closure_hash");
  candidate.predicted_us = reader.number("predicted_us", 0, kMost);
  candidate.registers = static_cast<int>(std::min(reader.integer("registers", 0, kMostCount), kMostThings));
  const std::string status = reader.text("status");
  const auto* const known =
      std::ranges::find_if(kStatuses, [&](MeasurementStatus each) { return status == measurement_status_name(each); });
  if (known == std::end(kStatuses)) {
    reader.fail("status", "is no such status: " + status);
  } else {
    candidate.status = *known;
  }
  candidate.reason = reader.text_or("reason", "");
  candidate.samples_us = samples_of(reader, "samples_us");
  if (reader.has("final_us")) candidate.final_us = samples_of(reader, "final_us");
  candidate.copies = static_cast<int>(std::min(reader.integer("copies", 0, kMostCount), kMostThings));
  candidate.warm = reader.has("warm") && reader.boolean("warm");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  candidate.max_error_over_bound = reader.number_or("max_error_over_bound", -kInfinity, kInfinity, kInfinity);
  JsonReader seconds(reader.object("seconds"), reader.place("seconds"));
  candidate.seconds.pack = seconds.number("pack", 0, kMost);
  candidate.seconds.compile = seconds.number("compile", 0, kMost);
  candidate.seconds.verify = seconds.number("verify", 0, kMost);
  candidate.seconds.time = seconds.number("time", 0, kMost);
  reader.adopt(seconds.status());
  if (candidate.status == MeasurementStatus::kOk && candidate.samples_us.empty())
    reader.fail("samples_us", "is empty, of a candidate that is ok");
  if (!reader.status().ok()) return reader.status();
  return candidate;
}

json json_of(const RecordedSpace& space) {
  json vendors = json::array();
  for (const RecordedVendor& vendor : space.vendors) {
    vendors.push_back({{"name", vendor.name},
                       {"supported", vendor.supported},
                       {"detail", vendor.detail},
                       {"samples_us", samples_json(vendor.samples_us)},
                       {"weight_bytes", vendor.weight_bytes}});
  }
  return {{"version", kFormatVersion},
          {"weight", space.weight},
          {"pattern_hash", space.pattern_hash},
          {"value_hash", space.value_hash},
          {"M", space.rows},
          {"K", space.cols},
          {"nnz", space.nnz},
          {"row_cov", space.row_cov},
          {"row_length_histogram", space.row_length_histogram},
          {"operator", space.operator_name},
          {"tokens", space.tokens},
          {"device_class", space.device_class},
          {"device_name", space.device_name},
          {"memory_bandwidth", space.memory_bandwidth},
          {"driver", space.driver_version},
          {"nvrtc", space.nvrtc_version},
          {"sparsmith", space.program_version},
          {"timing_policy", space.timing_policy},
          {"recorded_at", space.recorded_at},
          {"strategy", space.strategy},
          {"seed", space.seed},
          {"considered", space.considered},
          {"complete", space.complete},
          {"vendors", vendors}};
}

Result<RecordedSpace> space_of(const json& object) {
  JsonReader reader(object, "a space");
  const std::int64_t version = reader.integer("version", 0, kMostCount);
  if (reader.status().ok() && version != kFormatVersion)
    return invalid_input(fmt::format("version {}, while this program reads version {}", version, kFormatVersion));
  RecordedSpace space;
  space.weight = reader.text("weight");
  space.pattern_hash = reader.text("pattern_hash");
  space.value_hash = reader.text("value_hash");
  space.rows = reader.integer("M", 0, kMostCount);
  space.cols = reader.integer("K", 0, kMostCount);
  space.nnz = reader.integer("nnz", 0, kMostCount);
  space.row_cov = reader.number("row_cov", 0, kMost);
  space.row_length_histogram = reader.integers("row_length_histogram", 0, kMostCount);
  space.operator_name = reader.text("operator");
  space.tokens = reader.integer("tokens", 0, kMostCount);
  space.device_class = reader.text("device_class");
  space.device_name = reader.text("device_name");
  space.memory_bandwidth = reader.number("memory_bandwidth", 0, kMost);
  space.driver_version = reader.text("driver");
  space.nvrtc_version = reader.text("nvrtc");
  space.program_version = reader.text("sparsmith");
  space.timing_policy = reader.text("timing_policy");
  space.recorded_at = reader.text("recorded_at");
  space.strategy = reader.text("strategy");
  space.seed = reader.unsigned_integer("seed");
  space.considered = reader.integer("considered", 0, kMostCount);
  space.complete = reader.boolean("complete");
  for (const json& each : reader.array("vendors")) {
    JsonReader fields(each, reader.place("vendors"));
    RecordedVendor& vendor = space.vendors.emplace_back();
    vendor.name = fields.text("name");
    vendor.supported = fields.boolean("supported");
    vendor.detail = fields.text("detail");
    vendor.samples_us = samples_of(fields, "samples_us");
    vendor.weight_bytes = fields.integer("weight_bytes", 0, kMostCount);
    reader.adopt(fields.status());
  }
  if (!reader.status().ok()) return reader.status();
  return space;
}

// Spaces line by line.
class SpaceReader {
 public:
  Status take(std::string_view line) {
    ++line_;
    if (line.empty()) return {};
    const Result<json> object = parse_json(line);
    const Status added = object.ok() ? add(*object) : object.status();
    return added.annotate(fmt::format("line {} is no record of a space", line_));
  }
  std::vector<RecordedSpace> spaces() { return std::move(spaces_); }

 private:
  Status add(const json& object) {
    if (object.contains("space")) {
      SPARSMITH_ASSIGN_OR_RETURN(RecordedSpace space, space_of(object["space"]));
      spaces_.push_back(std::move(space));
      return {};
    }
    if (!object.contains("candidate")) return invalid_input("neither a space nor a candidate");
    if (spaces_.empty()) return invalid_input("a candidate before its space");
    SPARSMITH_ASSIGN_OR_RETURN(RecordedCandidate candidate, candidate_of(object["candidate"]));
    spaces_.back().candidates.push_back(std::move(candidate));
    return {};
  }

  std::size_t line_ = 0;
  std::vector<RecordedSpace> spaces_;
};

}  // namespace

double median_of(std::vector<float> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t half = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[half] : (samples[half - 1] + samples[half]) / 2.0;
}

double RecordedCandidate::median_us() const { return median_of(samples_us); }

std::string RecordedSpace::identity() const {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}", pattern_hash, operator_name, tokens, device_class, timing_policy,
                     nvrtc_version, driver_version);
}

std::string RecordedSpace::title() const { return fmt::format("{} {}x{} N={}", weight, rows, cols, tokens); }

std::string to_json_lines(const RecordedSpace& space) {
  std::string text = dumped({{"space", json_of(space)}}) + "\n";
  for (const RecordedCandidate& candidate : space.candidates)
    text += dumped({{"candidate", json_of(candidate)}}) + "\n";
  return text;
}

Result<std::vector<RecordedSpace>> parse_spaces(std::string_view text) {
  SpaceReader reader;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    SPARSMITH_RETURN_IF_ERROR(reader.take(line));
  }
  return reader.spaces();
}

bool holds_spaces(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), &gzclose);
  char begin[16] = {};
  if (file == nullptr || gzread(file.get(), begin, sizeof(begin)) < static_cast<int>(sizeof(begin))) return false;
  return std::string_view(begin, sizeof(begin)).starts_with("{\"space\":{");
}

Status append_space(const std::string& path, const RecordedSpace& space) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "ab"), &gzclose);
  if (file == nullptr) return io_error(path + ": cannot be opened for writing");
  const std::string text = to_json_lines(space);
  // zlib counts in 32 bits.
  for (std::size_t at = 0; at < text.size();) {
    const int written = gzwrite(file.get(), text.data() + at,
                                static_cast<unsigned>(std::min<std::size_t>(text.size() - at, std::size_t{1} << 20)));
    if (written <= 0) return io_error(path + ": cannot be written; is the disk full?");
    at += static_cast<std::size_t>(written);
  }
  if (gzflush(file.get(), Z_FINISH) != Z_OK) return io_error(path + ": cannot be written; is the disk full?");
  return {};
}

Result<std::vector<RecordedSpace>> read_spaces(const std::string& path, std::int64_t max_bytes) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), &gzclose);
  if (file == nullptr) return io_error(path + ": cannot be opened");
  SpaceReader reader;
  std::string line;  // as far as it was read
  std::vector<char> block(std::size_t{1} << 16);
  double bytes = 0;
  const auto end_line = [&] {
    const Status status = reader.take(line);
    line.clear();
    return status.annotate(path);
  };
  while (true) {
    const int read = gzread(file.get(), block.data(), static_cast<unsigned>(block.size()));
    if (read < 0) return invalid_input(path + ": is damaged, or no gzip file");
    if (read == 0) break;
    // What is kept of a record takes about as much as its text.
    SPARSMITH_RETURN_IF_ERROR(check_memory(path + ": its records", bytes += read, max_bytes));
    std::string_view rest(block.data(), static_cast<std::size_t>(read));
    for (std::size_t end = 0; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
      line += rest.substr(0, end);
      SPARSMITH_RETURN_IF_ERROR(end_line());
    }
    line += rest;
    if (line.size() > kLongestLine)
      return invalid_input(fmt::format("{}: a line exceeds {} bytes", path, kLongestLine));
  }
  int error = Z_OK;
  gzerror(file.get(), &error);
  if (error == Z_BUF_ERROR) return invalid_input(path + ": ends in the middle of a record");
  SPARSMITH_RETURN_IF_ERROR(end_line());
  return reader.spaces();
}

std::vector<RecordedSpace> join_spaces(std::vector<RecordedSpace> spaces) {
  std::vector<RecordedSpace> joined;
  std::map<std::string, std::size_t> place;
  for (RecordedSpace& space : spaces) {
    const auto [at, is_new] = place.emplace(space.identity(), joined.size());
    if (is_new) {
      joined.push_back(std::move(space));
      continue;
    }
    RecordedSpace& whole = joined[at->second];
    whole.complete = whole.complete && space.complete;
    whole.considered = std::max(whole.considered, space.considered);
    std::map<std::string, RecordedCandidate*> known;
    for (RecordedCandidate& candidate : whole.candidates)
      known.emplace(candidate.config.text() + candidate.closure_hash, &candidate);
    std::vector<RecordedCandidate> further;
    for (RecordedCandidate& candidate : space.candidates) {
      const auto found = known.find(candidate.config.text() + candidate.closure_hash);
      if (found == known.end()) {
        further.push_back(std::move(candidate));
      } else if (found->second->status == MeasurementStatus::kOk) {
        std::vector<float> samples = std::move(found->second->samples_us);
        std::vector<float> final = std::move(found->second->final_us);
        const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
          to.insert(to.end(), from.begin(), from.end());
        };
        append(samples, candidate.samples_us);
        append(final, candidate.final_us);
        *found->second = std::move(candidate);
        found->second->samples_us = std::move(samples);
        found->second->final_us = std::move(final);
      }
    }
    std::ranges::move(further, std::back_inserter(whole.candidates));
  }
  return joined;
}

std::string to_t4(const RecordedSpace& space) {
  json results = json::array();
  for (const RecordedCandidate& candidate : space.candidates) {
    json configuration = {{"family", candidate.config.family}};
    for (const auto& [name, value] : candidate.config.values) configuration[name] = value;
    const auto invalidity = [&] {
      switch (candidate.status) {
        case MeasurementStatus::kOk: return "correct";
        case MeasurementStatus::kWrong: return "correctness";
        case MeasurementStatus::kTimeout:
        case MeasurementStatus::kTooSlow: return "timeout";
        case MeasurementStatus::kFailed: return candidate.seconds.verify > 0 ? "runtime" : "compile";
        default: return "runtime";
      }
    };
    json milliseconds = json::array();
    for (const float sample : candidate.samples_us) milliseconds.push_back(sample / 1e3);
    json measurements = json::array();
    const auto measured = [&](const char* name, const json& value, const char* unit) {
      measurements.push_back({{"name", name}, {"value", value}, {"unit", unit}});
    };
    if (candidate.ok()) measured("time", candidate.median_us(), "us");
    measured("predicted_time", candidate.predicted_us, "us");
    measured("packed_weight", candidate.packed_bytes, "bytes");
    measured("registers", candidate.registers, "registers a thread");
    measured("kernels", fmt::format("{}", fmt::join(candidate.kernels, ",")), "");
    if (!candidate.reason.empty()) measured("reason", candidate.reason, "");
    json result = {{"timestamp", space.recorded_at},
                   {"configuration", configuration},
                   {"objectives", json::array({"time"})},
                   {"times",
                    {{"compilation_time", candidate.seconds.compile * 1e3},
                     {"runtimes", milliseconds},
                     {"framework", (candidate.seconds.pack + candidate.seconds.time) * 1e3},
                     {"search_algorithm", 0},
                     {"validation", candidate.seconds.verify * 1e3}}},
                   {"invalidity", invalidity()},
                   {"correctness", std::isfinite(candidate.max_error_over_bound) ? candidate.max_error_over_bound
                                                                                 : std::numeric_limits<double>::max()},
                   {"measurements", measurements}};
    results.push_back(std::move(result));
  }
  return dumped({{"schema_version", "1.0.0"}, {"results", results}});
}

}  // namespace sparsmith
