#include "search/recorded_space.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"

namespace sparsmith {
namespace {

using nlohmann::json;

constexpr int kFormatVersion = 1;
constexpr std::size_t kLongestLine = std::size_t{4} << 20;
constexpr MeasurementStatus kStatuses[] = {
    MeasurementStatus::kRunning, MeasurementStatus::kOk,      MeasurementStatus::kWrong,  MeasurementStatus::kFailed,
    MeasurementStatus::kCrashed, MeasurementStatus::kTimeout, MeasurementStatus::kTooSlow};

// Thrown and caught inside of this source alone, for what is valid JSON and yet no record.
struct BadRecord {
  std::string message;
};

std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

// Nanoseconds are more than a replay resolves.
json samples_json(const std::vector<float>& samples) {
  json array = json::array();
  for (const float sample : samples) array.push_back(static_cast<double>(std::lround(sample * 1e4)) / 1e4);
  return array;
}

double positive(const json& value, const char* what) {
  const double number = value.get<double>();
  if (!(number >= 0) || number > 1e15) throw BadRecord{fmt::format("{} is {}", what, number)};
  return number;
}

std::int64_t count(const json& value, const char* what) {
  if (!value.is_number_integer()) throw BadRecord{fmt::format("{} is no integer", what)};
  const auto count = json_integer(value, 0);
  if (!count) throw BadRecord{fmt::format("{} is out of range", what)};
  return *count;
}

std::vector<float> samples_of(const json& value) {
  std::vector<float> samples;
  for (const json& sample : value) samples.push_back(static_cast<float>(positive(sample, "a sample")));
  return samples;
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

RecordedCandidate candidate_of(const json& object) {
  RecordedCandidate candidate;
  auto config = Config::parse(object.at("config").get_ref<const std::string&>());
  if (!config.ok()) throw BadRecord{config.status().message()};
  candidate.config = std::move(*config);
  candidate.packing = object.at("packing");
  candidate.packed_bytes = count(object.at("packed_bytes"), "packed_bytes");
  candidate.kernels = object.at("kernels").get<std::vector<std::string>>();
  candidate.closure_hash = object.at("closure_hash");
  candidate.predicted_us = positive(object.at("predicted_us"), "predicted_us");
  candidate.registers = static_cast<int>(std::min<std::int64_t>(count(object.at("registers"), "registers"), 1 << 20));
  const auto& status = object.at("status").get_ref<const std::string&>();
  const auto* const known =
      std::ranges::find_if(kStatuses, [&](MeasurementStatus each) { return status == measurement_status_name(each); });
  if (known == std::end(kStatuses)) throw BadRecord{"no such status: " + status};
  candidate.status = *known;
  candidate.reason = object.value("reason", "");
  candidate.samples_us = samples_of(object.at("samples_us"));
  if (object.contains("final_us")) candidate.final_us = samples_of(object["final_us"]);
  candidate.copies = static_cast<int>(std::min<std::int64_t>(count(object.at("copies"), "copies"), 1 << 20));
  candidate.warm = object.value("warm", false);
  const json& error = object.at("max_error_over_bound");
  candidate.max_error_over_bound = error.is_null() ? std::numeric_limits<double>::infinity() : error.get<double>();
  const json& seconds = object.at("seconds");
  candidate.seconds.pack = positive(seconds.at("pack"), "seconds");
  candidate.seconds.compile = positive(seconds.at("compile"), "seconds");
  candidate.seconds.verify = positive(seconds.at("verify"), "seconds");
  candidate.seconds.time = positive(seconds.at("time"), "seconds");
  if (candidate.status == MeasurementStatus::kOk && candidate.samples_us.empty())
    throw BadRecord{"a candidate that is ok has no samples"};
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

RecordedSpace space_of(const json& object) {
  const std::int64_t version = count(object.at("version"), "version");
  if (version != kFormatVersion)
    throw BadRecord{fmt::format("version {}, while this program reads version {}", version, kFormatVersion)};
  RecordedSpace space;
  space.weight = object.at("weight");
  space.pattern_hash = object.at("pattern_hash");
  space.value_hash = object.at("value_hash");
  space.rows = count(object.at("M"), "M");
  space.cols = count(object.at("K"), "K");
  space.nnz = count(object.at("nnz"), "nnz");
  space.row_cov = positive(object.at("row_cov"), "row_cov");
  for (const json& each : object.at("row_length_histogram"))
    space.row_length_histogram.push_back(count(each, "row_length_histogram"));
  space.operator_name = object.at("operator");
  space.tokens = count(object.at("tokens"), "tokens");
  space.device_class = object.at("device_class");
  space.device_name = object.at("device_name");
  space.memory_bandwidth = positive(object.at("memory_bandwidth"), "memory_bandwidth");
  space.driver_version = object.at("driver");
  space.nvrtc_version = object.at("nvrtc");
  space.program_version = object.at("sparsmith");
  space.timing_policy = object.at("timing_policy");
  space.recorded_at = object.at("recorded_at");
  space.strategy = object.at("strategy");
  const auto seed = json_unsigned(object.at("seed"));
  if (!seed) throw BadRecord{"the seed is no integer of 64 bits"};
  space.seed = *seed;
  space.considered = count(object.at("considered"), "considered");
  space.complete = object.at("complete").get<bool>();
  for (const json& each : object.at("vendors")) {
    RecordedVendor& vendor = space.vendors.emplace_back();
    vendor.name = each.at("name");
    vendor.supported = each.at("supported").get<bool>();
    vendor.detail = each.at("detail");
    vendor.samples_us = samples_of(each.at("samples_us"));
    vendor.weight_bytes = count(each.at("weight_bytes"), "weight_bytes");
  }
  return space;
}

// Spaces line by line.
class SpaceReader {
 public:
  Status take(std::string_view line) {
    ++line_;
    if (line.empty()) return {};
    const auto bad = [&](const std::string& reason) {
      return invalid_input(fmt::format("line {} is no record of a space: {}", line_, reason));
    };
    const auto object = parse_json(line);
    if (!object.ok()) return bad(object.status().message());
    try {
      add(*object);
    } catch (const BadRecord& error) {
      return bad(error.message);
    } catch (const json::exception& error) {
      return bad(json_error(error));
    }
    return {};
  }
  std::vector<RecordedSpace> spaces() { return std::move(spaces_); }

 private:
  void add(const json& object) {
    if (object.contains("space")) {
      spaces_.push_back(space_of(object["space"]));
    } else if (!object.contains("candidate")) {
      throw BadRecord{"neither a space nor a candidate"};
    } else if (spaces_.empty()) {
      throw BadRecord{"a candidate before its space"};
    } else {
      spaces_.back().candidates.push_back(candidate_of(object["candidate"]));
    }
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
