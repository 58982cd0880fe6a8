#include "tools/tune_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "generator/family.h"
#include "tools/text_table.h"

namespace sparsmith::tools {
namespace {

std::string ratio_text(double dense_us, double us) {
  return dense_us > 0 && us > 0 ? fmt::format("{:.2f}x", dense_us / us) : "-";
}

struct Sums {
  double us = 0;
  double dense_us = 0;
  bool dense_known = true;
};

std::map<std::int64_t, Sums> sums_by_tokens(const TuneReport& report) {
  std::map<std::int64_t, Sums> sums;
  for (const WeightResult& weight : report.weights) {
    for (const BucketChoice& bucket : weight.buckets) {
      Sums& sum = sums[bucket.tokens];
      sum.us += bucket.us();
      sum.dense_us += bucket.dense_us;
      sum.dense_known = sum.dense_known && bucket.dense_us > 0;
    }
  }
  return sums;
}

// The most frequent first, at most ten.
std::string tallied(const std::map<std::string, std::int64_t>& counts, const char* what) {
  std::vector<std::pair<std::int64_t, std::string>> sorted;
  for (const auto& [reason, count] : counts) sorted.emplace_back(count, reason);
  std::ranges::sort(sorted, std::greater<>());
  std::string text;
  constexpr std::size_t kShown = 10;
  for (std::size_t i = 0; i < std::min(kShown, sorted.size()); ++i)
    text += fmt::format("  {:>6} {} {}\n", sorted[i].first, what, sorted[i].second);
  if (sorted.size() > kShown) text += fmt::format("  and {} further reasons\n", sorted.size() - kShown);
  return text;
}

}  // namespace

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 2, kUnits[unit]);
}

std::string short_config(const Config& config) {
  const Family* of = family(config.family);
  if (of == nullptr) return config.text();
  std::string text = config.family;
  for (const Parameter& parameter : of->parameters()) {
    const auto found = config.values.find(parameter.name);
    if (found == config.values.end() || found->second == parameter.values.front()) continue;
    text += fmt::format(" {}{}", parameter.abbreviation, found->second);
  }
  return text;
}

std::string short_config(const std::string& text) {
  const auto config = Config::parse(text);
  return config.ok() ? short_config(*config) : text;
}

std::string operator_note(const WeightResult& weight, const BucketChoice& bucket) {
  if (weight.operators().size() == 1) return "";
  return fmt::format(" ({})", operator_kind_name(bucket.spec.kind));
}

std::string gpu_bytes_text(const WeightResult& weight, const BucketChoice& bucket) {
  const PackedWeight* const packed = weight.packing_of(bucket);
  return packed == nullptr ? "-" : human_bytes(static_cast<double>(packed->bytes()));
}

std::string choices_table(const TuneReport& report) {
  TextTable table({{"weight"},
                   {"shape"},
                   {"zeros", true},
                   {"N", true},
                   {"choice"},
                   {"GPU bytes", true},
                   {"us", true},
                   {"dense us", true},
                   {"ratio", true},
                   {"GB/s", true},
                   {"evidence"}});
  for (const WeightResult& weight : report.weights) {
    for (const BucketChoice& bucket : weight.buckets) {
      table.add({weight.name + operator_note(weight, bucket), fmt::format("{}x{}", weight.rows, weight.cols),
                 fmt::format("{:.1f} %", 100 * weight.sparsity), std::to_string(bucket.tokens),
                 short_config(bucket.candidate.config), gpu_bytes_text(weight, bucket),
                 fmt::format("{:.2f}", bucket.us()), bucket.dense_us > 0 ? fmt::format("{:.2f}", bucket.dense_us) : "-",
                 ratio_text(bucket.dense_us, bucket.us()),
                 bucket.us() > 0 ? fmt::format("{:.0f}", weight.bytes_moved(bucket) / bucket.us() / 1e3) : "-",
                 bucket.evidence + (bucket.cached ? ", cached" : "") + (bucket.complete ? "" : ", cut short")});
    }
  }
  return table.empty() ? "" : table.plain();
}

std::string memory_text(const TuneReport& report) {
  const MemoryUse& use = report.memory;
  const auto bytes = [](std::int64_t count) { return human_bytes(static_cast<double>(count)); };
  std::string text =
      fmt::format("GPU memory: {} dense, {} tuned ({:.2f}x)\n", bytes(use.dense_bytes), bytes(use.bytes),
                  use.dense_bytes > 0 ? static_cast<double>(use.bytes) / static_cast<double>(use.dense_bytes) : 0.0);
  if (use.faster.memory > 0) {
    text += fmt::format("--memory {:g}x would take {} and {:.1f} us for all N together, instead of {:.1f} us\n",
                        use.faster.memory, bytes(use.faster.bytes), use.faster.us, use.us);
  }
  return text;
}

std::string model_summary(const TuneReport& report) {
  if (report.weights.empty()) return "";
  std::string text = fmt::format("whole model ({} weights)\n", report.weights.size());
  TextTable table({{"N", true},
                   {"us dense", true},
                   {"us tuned", true},
                   {"us a token dense", true},
                   {"us a token tuned", true},
                   {"ratio", true}});
  for (const auto& [tokens, sum] : sums_by_tokens(report)) {
    const double n = static_cast<double>(tokens);
    table.add({std::to_string(tokens), sum.dense_known ? fmt::format("{:.1f}", sum.dense_us) : "-",
               fmt::format("{:.1f}", sum.us), sum.dense_known ? fmt::format("{:.2f}", sum.dense_us / n) : "-",
               fmt::format("{:.2f}", sum.us / n), sum.dense_known ? ratio_text(sum.dense_us, sum.us) : "-"});
  }
  return text + table.plain() + memory_text(report);
}

std::string run_summary(const TuneReport& report) {
  std::string text = fmt::format(
      "{} (weight, N) pairs, {} from the cache, {} after a like weight; {} configs considered, {} candidates; {} "
      "kernels asked for, {} compiled, {} from the cache{}\n",
      report.pairs, report.cached, report.transferred, report.considered, report.candidates, report.kernels.asked,
      report.kernels.compiled, report.kernels.cache_hits,
      report.kernels.failed > 0 ? fmt::format(", {} failed", report.kernels.failed) : "");
  const DeviceSession::Seconds& device = report.device_seconds;
  text += fmt::format(
      "{:.1f} s{}: {:.1f} sending, {:.1f} reference, {:.1f} verifying, {:.1f} timing, {:.1f} in libraries, {:.1f} "
      "waiting; meanwhile {:.1f} reading, {:.1f} selecting, {:.1f} packing, {:.1f} compiling\n",
      report.seconds, report.devices > 1 ? fmt::format(" on {} devices", report.devices) : "", device.sending,
      device.reference, device.verifying, device.timing, device.libraries, device.waiting, report.read_seconds,
      report.select_seconds, report.pack_seconds, report.kernels.compile_seconds);
  if (report.worker_restarts > 0)
    text += fmt::format("the worker was started again {} times\n", report.worker_restarts);
  if (report.unjudged > 0)
    text += fmt::format("{} candidates met a fault of the machine and were not judged: run the same command again\n",
                        report.unjudged);
  if (report.cache_failures.count > 0) {
    text += fmt::format("the cache was not written {} times: {}\nwhat was lost is found out again by the next run\n",
                        report.cache_failures.count, report.cache_failures.reason);
  }
  if (!report.rejected.empty()) text += "rejected candidates:\n" + tallied(report.rejected, "");
  if (!report.skipped.empty()) {
    text += "skipped:\n";
    for (const TuneReport::Skipped& tensor : report.skipped)
      text += fmt::format("  {}: {}\n", tensor.name, tensor.reason);
  }
  return text;
}

}  // namespace sparsmith::tools
