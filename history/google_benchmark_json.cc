#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "history/recording.h"

namespace sparsmith {
namespace {

using nlohmann::json;

// Microseconds of a unit; 0: not a unit of time.
double microseconds_of(const std::string& unit) {
  if (unit == "ns") return 1e-3;
  if (unit == "us") return 1;
  if (unit == "ms") return 1e3;
  return unit == "s" ? 1e6 : 0;
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
  const double us = benchmark.at("real_time").get<double>() * microseconds_of(unit);
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

Result<Recording> parse_google_benchmark(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed.ok()) return parsed.status().annotate("not what Google Benchmark prints as JSON");
  const json& document = *parsed;
  try {
    Recording recording;
    const json& context = document.at("context");
    const std::string machine = fmt::format("{} CPUs", json_integer(context.value("num_cpus", json(0))).value_or(0));
    recording.environment.device = context.value("host_name", "");
    const double mhz = context.value("mhz_per_cpu", 0.0);
    // What Google Benchmark reads here moves with the clock of the moment unless scaling is off.
    if (mhz > 0 && !context.value("cpu_scaling_enabled", true))
      recording.environment.clocks = fmt::format("{:.0f} MHz", mhz);
    recording.program_version = context.value("library_version", "");
    const std::string executable = context.value("executable", "benchmark");
    for (const json& benchmark : document.at("benchmarks")) add_benchmark(benchmark, executable, machine, recording);
    return recording;
  } catch (const json::exception& error) {
    return invalid_input(fmt::format("not what Google Benchmark prints as JSON: {}", json_error(error)));
  }
}

}  // namespace sparsmith
