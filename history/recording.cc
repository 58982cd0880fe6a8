#include "history/recording.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace sparsmith {
namespace {

using nlohmann::json;

// `read` adds the document's measurements. `not_it`: the error of any other text.
template <class Read>
Result<Recording> recording_of(std::string_view text, const char* not_it, const Read& read) {
  const auto parsed = parse_json(text);
  if (!parsed.ok()) return parsed.status().annotate(not_it);
  SPARSMITH_RETURN_IF_ERROR(check_json_version(*parsed));
  try {
    Recording recording;
    read(*parsed, recording);
    return recording;
  } catch (const json::exception& error) {
    return invalid_input(fmt::format("{}: {}", not_it, json_error(error)));
  }
}

// What an older sparsmith did not print is empty.
std::string text_or_none(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t count_or_none(const json& object, const char* name,
                           std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  const auto found = object.find(name);
  return found == object.end() ? 0 : json_integer(*found, 0, most).value_or(0);
}

std::vector<float> samples_of(const json& timing) {
  std::vector<float> samples;
  const auto found = timing.find("samples_us");
  if (found == timing.end()) return samples;
  for (const json& sample : *found) {
    const auto us = sample.get<float>();
    if (!std::isfinite(us) || us <= 0) return {};
    samples.push_back(us);
  }
  return samples;
}

PerfKernel kernel_of(const json& object) {
  PerfKernel kernel;
  object.at("name").get_to(kernel.name);
  kernel.cubin_hash = text_or_none(object, "cubin_hash");
  kernel.registers = static_cast<int>(count_or_none(object, "registers", std::numeric_limits<int>::max()));
  kernel.spill_bytes = count_or_none(object, "spill_bytes");
  if (object.contains("snippets")) {
    for (const auto& [header, hash] : object.at("snippets").items())
      kernel.snippets.push_back({header, hash.get<std::string>()});
  }
  return kernel;
}

Implementation implementation_of(const json& choice) {
  Implementation implementation;
  choice.at("config").get_to(implementation.config);
  implementation.choice = implementation.config.substr(0, implementation.config.find(' '));
  choice.at("packing").get_to(implementation.packing);
  implementation.packing_hash = text_or_none(choice, "packing_hash");
  implementation.packed_bytes = count_or_none(choice, "packed_bytes");
  implementation.plan_hash = text_or_none(choice, "plan_hash");
  if (choice.contains("binaries")) {
    for (const json& binary : choice.at("binaries")) implementation.kernels.push_back(kernel_of(binary));
  }
  return implementation;
}

void add_weight(const json& document, const json& weight, Recording& recording) {
  for (const json& choice : weight.at("choices")) {
    PerfMeasurement measurement;
    CaseKey& key = measurement.key;
    const auto tokens = json_integer(choice.at("tokens"), 1);
    if (!tokens) throw json::type_error::create(302, "tokens must be an integer above 0", &choice);
    key.name = fmt::format("{} N={}", weight.at("name").get<std::string>(), *tokens);
    weight.at("operator").get_to(key.operator_name);
    key.weight = text_or_none(weight, "pattern_hash");
    document.at("device").at("class").get_to(key.device_class);
    document.at("timing_policy").get_to(key.cache_policy);
    if (choice.at("timing").value("warm", false)) key.cache_policy += " (warm)";
    measurement.samples_us = samples_of(choice.at("timing"));
    if (choice.at("evidence") != "measured" || measurement.samples_us.empty()) {
      recording.left_out.push_back(fmt::format(
          "{}: {}", key.name, choice.at("evidence") == "measured" ? "it has no samples" : "predicted, not measured"));
      continue;
    }
    measurement.implementation = implementation_of(choice);
    measurement.command = text_or_none(choice, "command");
    recording.measurements.push_back(std::move(measurement));
  }
}

// The name as a regular expression of its own, for --benchmark_filter and the shell.
std::string command_of(const std::string& executable, const std::string& name) {
  std::string filter;
  for (const char c : name) {
    if (c == '\'') {
      filter += '.';
    } else {
      if (std::string_view(".[]{}()\\*+?^$|").find(c) != std::string_view::npos) filter += '\\';
      filter += c;
    }
  }
  return fmt::format("{} --benchmark_filter='^{}$'", executable, filter);
}

// A benchmark that was not repeated is named by `name`; one that was, by `run_name`.
std::string name_of(const json& benchmark) {
  return benchmark.contains("run_name") ? benchmark["run_name"].get<std::string>()
                                        : benchmark.at("name").get<std::string>();
}

// Manual and wall-clock time stand in real_time, which is what a GPU's benchmark measures.
void add_benchmark(const json& benchmark, const std::string& executable, const std::string& machine,
                   Recording& recording) {
  if (benchmark.value("run_type", "iteration") != "iteration") return;
  PerfMeasurement measurement;
  measurement.key.name = name_of(benchmark);
  measurement.key.device_class = machine;
  if (benchmark.value("error_occurred", false)) {
    recording.left_out.push_back(
        fmt::format("{}: {}", measurement.key.name, benchmark.value("error_message", "it failed")));
    return;
  }
  const std::string unit = benchmark.value("time_unit", "ns");
  static const std::map<std::string, double> kMicroseconds = {{"ns", 1e-3}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}};
  const auto scale = kMicroseconds.find(unit);
  const double us = scale == kMicroseconds.end() ? 0 : benchmark.at("real_time").get<double>() * scale->second;
  if (!std::isfinite(us) || !(static_cast<float>(us) > 0) || !std::isfinite(static_cast<float>(us))) {
    recording.left_out.push_back(
        fmt::format("{}: its time is {} {}", measurement.key.name, benchmark.at("real_time").dump(), unit));
    return;
  }
  measurement.samples_us = {static_cast<float>(us)};
  measurement.implementation.choice = "google benchmark";
  measurement.command = command_of(executable, measurement.key.name);
  recording.measurements.push_back(std::move(measurement));
}

}  // namespace

Result<Recording> parse_bench_json(std::string_view text) {
  return recording_of(text, "not what `sparsmith bench --json` prints", [](const json& document, Recording& recording) {
    const json& device = document.at("device");
    device.at("name").get_to(recording.environment.device);
    recording.environment.driver = text_or_none(device, "driver");
    document.at("nvrtc").get_to(recording.environment.nvrtc);
    const double mhz = device.value("clock_mhz", 0.0);
    if (mhz > 0) recording.environment.clocks = fmt::format("{:.0f} MHz", mhz);
    recording.program_version = text_or_none(document, "version");
    recording.search_s = document.value("seconds", 0.0);
    for (const json& weight : document.at("weights")) add_weight(document, weight, recording);
  });
}

Result<Recording> parse_google_benchmark(std::string_view text) {
  return recording_of(text, "not what Google Benchmark prints as JSON", [](const json& document, Recording& recording) {
    const json& context = document.at("context");
    const std::string machine = fmt::format("{} CPUs", json_integer(context.value("num_cpus", json(0))).value_or(0));
    recording.environment.device = context.value("host_name", "");
    const double mhz = context.value("mhz_per_cpu", 0.0);
    // The rate that Google Benchmark reads here moves with the clock of the moment unless scaling is off.
    if (mhz > 0 && !context.value("cpu_scaling_enabled", true))
      recording.environment.clocks = fmt::format("{:.0f} MHz", mhz);
    recording.program_version = context.value("library_version", "");
    const std::string executable = context.value("executable", "benchmark");
    for (const json& benchmark : document.at("benchmarks")) add_benchmark(benchmark, executable, machine, recording);
  });
}

}  // namespace sparsmith
