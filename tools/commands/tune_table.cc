#include "tools/commands/tune_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "generator/family.h"
#include "tools/report/layers.h"
#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

// "fewer zeros than --min-sparsity asks" of "0.1 % of it is zero; fewer zeros than --min-sparsity asks".
std::string without_figures(const std::string& reason) {
  const std::size_t end = reason.find("; ");
  const bool begins_with_figure = !reason.empty() && reason[0] >= '0' && reason[0] <= '9';
  return begins_with_figure && end != std::string::npos ? reason.substr(end + 2) : reason;
}

// The choices as the pages have them.
std::vector<ResultCase> cases_of(const TuneReport& report) {
  std::vector<ResultCase> cases;
  for (const WeightResult& weight : report.weights) {
    for (const BucketChoice& bucket : weight.buckets) {
      const PackedWeight* const packed = weight.packing_of(bucket);
      cases.push_back({.weight = weight.name,
                       .operator_name = bucket.spec.name(),
                       .rows = weight.rows,
                       .cols = weight.cols,
                       .nnz = weight.nnz,
                       .sparsity = weight.sparsity,
                       .tokens = bucket.tokens,
                       .family = family_title(bucket.candidate.config),
                       .measured = bucket.evidence == "measured",
                       .us = bucket.us(),
                       .cublas_us = bucket.dense_us,
                       .packed_bytes = packed == nullptr ? 0 : static_cast<double>(packed->bytes()),
                       .dense_bytes = static_cast<double>(weight.dense_bytes())});
    }
  }
  return cases;
}

// The most frequent first, at most ten.
std::string tallied(const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::pair<std::int64_t, std::string>> sorted;
  for (const auto& [reason, count] : counts) sorted.emplace_back(count, reason);
  std::ranges::sort(sorted, std::greater<>());
  std::string text;
  constexpr std::size_t kShown = 10;
  for (std::size_t i = 0; i < std::min(kShown, sorted.size()); ++i)
    text += fmt::format("  {:>6}  {}\n", sorted[i].first, sorted[i].second);
  if (sorted.size() > kShown) text += fmt::format("  and {} further reasons\n", sorted.size() - kShown);
  return text;
}

}  // namespace

std::string family_title(const Config& config) { return family_of(config.text()); }

std::string short_config(const Config& config) {
  const Family* of = family(config.family);
  if (of == nullptr) return config.text();
  std::string text = family_title(config);
  for (const Parameter& parameter : of->parameters) {
    const auto found = config.values.find(parameter.name);
    if (found != config.values.end() && found->second != parameter.values.front())
      text += fmt::format(" {}{}", parameter.abbreviation, found->second);
  }
  return text;
}

std::string readable_config(const std::string& text) {
  const auto config = Config::parse(text);
  const Family* of = config.ok() ? family(config->family) : nullptr;
  if (of == nullptr) return text;
  std::string readable = family_title(*config);
  const char* separator = ": ";
  for (const Parameter& parameter : of->parameters) {
    const auto found = config->values.find(parameter.name);
    if (found == config->values.end()) continue;
    std::string words = parameter.name;
    std::ranges::replace(words, '_', ' ');
    const auto at =
        static_cast<std::size_t>(std::ranges::find(parameter.values, found->second) - parameter.values.begin());
    readable += fmt::format("{}{} {}", separator, words,
                            at < parameter.labels.size() ? parameter.labels[at] : std::to_string(found->second));
    separator = ", ";
  }
  return readable;
}

std::string short_config(const std::string& text) {
  const auto config = Config::parse(text);
  return config.ok() ? short_config(*config) : text;
}

std::string operator_note(const WeightResult& weight, const BucketChoice& bucket) {
  if (weight.operators().size() == 1) return "";
  return fmt::format(" ({})", operator_kind_name(bucket.spec.kind));
}

std::string skipped_text(const std::vector<std::pair<std::string, std::string>>& skipped, bool full) {
  std::string text;
  if (full || skipped.size() <= 3) {
    for (const auto& [name, reason] : skipped) text += fmt::format("skipped {}: {}\n", name, reason);
    return text;
  }
  std::map<std::string, std::int64_t> counts;
  for (const auto& [name, reason] : skipped) ++counts[without_figures(reason)];
  text = fmt::format("skipped {} tensors (--full lists them):", skipped.size());
  const char* separator = " ";
  for (const auto& [reason, count] : counts) {
    text += fmt::format("{}{}: {}", separator, count, reason);
    separator = " | ";
  }
  return text + "\n";
}

Table choice_table(const TuneReport& report, const std::vector<std::string>& columns, const FurtherCells& further) {
  Table table{.columns = {"weight", "shape", ">zeros", ">N", "choice", ">GPU bytes", ">us"}};
  std::ranges::copy(columns, std::back_inserter(table.columns));
  for (const WeightResult& weight : report.weights) {
    for (const BucketChoice& bucket : weight.buckets) {
      const PackedWeight* const packed = weight.packing_of(bucket);
      table.add(weight.name + operator_note(weight, bucket), fmt::format("{}x{}", weight.rows, weight.cols),
                percent(weight.sparsity), bucket.tokens, short_config(bucket.candidate.config),
                packed == nullptr ? "-" : human_bytes(packed->bytes()), us_text(bucket.us()));
      std::ranges::copy(further(weight, bucket), std::back_inserter(table.rows.back()));
    }
  }
  return table;
}

std::string choices_table(const TuneReport& report) {
  const auto further = [](const WeightResult& weight, const BucketChoice& bucket) -> std::vector<std::string> {
    return {us_text(bucket.dense_us), ratio_text(bucket.dense_us, bucket.us()),
            bucket.us() > 0 ? fmt::format("{:.0f}", weight.bytes_moved(bucket) / bucket.us() / 1e3) : "-",
            bucket.evidence + (bucket.verification.ok ? "" : ", not verified") + (bucket.cached ? ", cached" : "") +
                (bucket.complete ? "" : ", cut short")};
  };
  const Table table = choice_table(report, {">dense us", ">speedup", ">GB/s", "evidence"}, further);
  return table.rows.empty() ? "" : table.plain();
}

std::string folded_table(const TuneReport& report) {
  const Table table = layers_table(cases_of(report));
  return table.rows.empty() ? "" : table.plain();
}

std::string memory_text(const TuneReport& report) {
  const MemoryUse& use = report.memory;
  std::string text =
      fmt::format("GPU memory: {} dense, {} tuned ({:.2f}x)\n", human_bytes(use.dense_bytes), human_bytes(use.bytes),
                  use.dense_bytes > 0 ? static_cast<double>(use.bytes) / static_cast<double>(use.dense_bytes) : 0.0);
  if (use.faster.memory > 0) {
    text += fmt::format("--memory {:g}x would take {} and be {:.2f}x as fast over all N\n", use.faster.memory,
                        human_bytes(use.faster.bytes), use.us / use.faster.us);
  }
  return text;
}

std::string training_text(const TrainingUse& use) {
  std::string text = styled("training: the three products of a step, once for each weight", Style::kBold) + "\n";
  Table table{.columns = {">N", ">dense us", ">us", ">speedup"}};
  for (const TrainingUse::Step& step : use.steps)
    table.add(step.tokens, us_text(step.dense_us), us_text(step.us), ratio_text(step.dense_us, step.us));
  const double share =
      use.dense_bytes > 0 ? static_cast<double>(use.bytes()) / static_cast<double>(use.dense_bytes) : 0.0;
  return text + table.plain() +
         fmt::format(
             "GPU memory of training: {} dense under a mask, {} sparse ({:.2f}x): {} gradients, master values and "
             "moments, {} packings, {} places; besides, up to {} of workspace\n",
             human_bytes(use.dense_bytes), human_bytes(use.bytes()), share, human_bytes(use.state_bytes),
             human_bytes(use.packing_bytes), human_bytes(use.place_bytes), human_bytes(use.workspace_bytes));
}

std::string model_summary(const TuneReport& report) {
  const std::vector<ResultCase> cases = cases_of(report);
  if (cases.empty()) return "";
  const std::string title = fmt::format("whole model, one call of each of {} weight{}", report.weights.size(),
                                        report.weights.size() == 1 ? "" : "s");
  std::string text =
      fmt::format("{}\n{}{}", styled(title, Style::kBold), model_table(cases).plain(), memory_text(report));
  if (std::ranges::any_of(cases, &ResultCase::dense))
    text += "dense kernels stay where no sparse kernel within the memory bound is faster (show --why)\n";
  return text + fmt::format("N above {0} runs the kernels of N = {0}; add larger N to --tokens where they occur\n",
                            std::ranges::max(cases, {}, &ResultCase::tokens).tokens);
}

std::string run_summary(const TuneReport& report, bool full) {
  std::string text = fmt::format(
      "{} (weight, N) pairs: {} from the cache, {} reused from similar layers; {} configs considered, {} candidates; "
      "{} kernel requests: {} compiled, {} from the cache, others reused{}\n",
      report.pairs, report.cached, report.transferred, report.considered, report.candidates, report.kernels.asked,
      report.kernels.compiled, report.kernels.cache_hits,
      report.kernels.failed > 0 ? fmt::format("; {} failed", report.kernels.failed) : "");
  const DeviceSession::Seconds& device = report.device_seconds;
  text += fmt::format("{:.1f} s{}\n", report.seconds,
                      report.devices > 1 ? fmt::format(" on {} devices", report.devices) : "");
  if (full) {
    text += fmt::format(
        "device: {:.1f} s sending, {:.1f} reference, {:.1f} verifying, {:.1f} timing, {:.1f} in libraries, {:.1f} "
        "waiting; beside it: {:.1f} reading, {:.1f} selecting, {:.1f} packing, {:.1f} compiling\n",
        device.sending, device.reference, device.verifying, device.timing, device.libraries, device.waiting,
        report.read_seconds, report.select_seconds, report.pack_seconds, report.kernels.compile_seconds);
  }
  if (report.worker_restarts > 0)
    text += fmt::format("the worker was started again {} times\n", report.worker_restarts);
  if (report.unjudged > 0)
    text += fmt::format("{} candidates met a fault of the machine and were not judged: run the same command again\n",
                        report.unjudged);
  if (report.cache_failures.count > 0) {
    text += fmt::format("the cache was not written {} times: {}\nthe next run searches the missing choices again\n",
                        report.cache_failures.count, report.cache_failures.reason);
  }
  if (full && !report.rejected.empty()) text += "rejected candidates:\n" + tallied(report.rejected);
  std::vector<std::pair<std::string, std::string>> skipped;
  for (const TuneReport::Skipped& tensor : report.skipped) skipped.emplace_back(tensor.name, tensor.reason);
  text += skipped_text(skipped, full);
  return text;
}

}  // namespace sparsmith::tools
