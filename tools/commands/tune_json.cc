#include "tools/commands/tune_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "generator/source_closure.h"
#include "search/explain/roofline.h"

namespace sparsmith::tools {
namespace {

using nlohmann::json;

json json_of(const Timing& timing) {
  return {{"median_us", timing.median_us},       {"q1_us", timing.q1_us},   {"q3_us", timing.q3_us},
          {"samples", timing.samples_us.size()}, {"copies", timing.copies}, {"warm", timing.warm},
          {"samples_us", timing.samples_us}};
}

json json_of(const VendorTiming& vendor) {
  json object = {{"name", vendor.name}, {"supported", vendor.supported}, {"detail", vendor.detail}};
  if (!vendor.supported) return object;
  object["timing"] = json_of(vendor.timing);
  object["max_error_over_bound"] = vendor.verification.max_error_over_bound;
  object["norm_error"] = vendor.verification.norm_error;
  if (vendor.own_layout_us > 0) object["own_layout_us"] = vendor.own_layout_us;
  if (vendor.epilogue_left_out) object["epilogue_left_out"] = true;
  object["weight_bytes"] = vendor.weight_bytes;
  return object;
}

json json_of(const AblationTimes& times) {
  if (!times.reason.empty()) return {{"reason", times.reason}};
  json object = {{"full", json_of(times.whole)}};
  for (const auto& [part, timing] : times.without) object[std::string(ablation_key(part))] = json_of(timing);
  for (const auto& [part, reason] : times.missing) object["missing"][std::string(ablation_key(part))] = reason;
  return object;
}

// What ran, so far that equal values mean equal code: binaries of the device's architecture, and what they are made of.
json binaries_of(const TuneReport& report, const BucketChoice& bucket) {
  json binaries = json::array();
  for (const KernelSource& kernel : bucket.candidate.kernels) {
    const auto image = std::ranges::find_if(
        report.images, [&](const KernelImages& one) { return one.kernel.closure_hash == kernel.closure_hash; });
    if (image == report.images.end() || image->binaries.empty()) continue;
    const KernelImages::Binary& binary = image->binaries.front();
    json& entry = binaries.emplace_back(json{
        {"name", kernel.name}, {"cubin_hash", hash_bytes(binary.cubin)}, {"snippets", header_hashes(kernel.source)}});
    if (binary.figures.registers == 0) continue;  // the compiler's figures are not in a tuned file
    entry["registers"] = binary.figures.registers;
    entry["spill_bytes"] = binary.figures.spill_store_bytes + binary.figures.spill_load_bytes;
  }
  return binaries;
}

// The command that measures this case again.
std::string command_for(const TuneOutcome& outcome, const WeightResult& weight, const BucketChoice& bucket) {
  const OperatorKind kind = bucket.spec.kind;
  const std::string epilogue = bucket.spec.epilogue.name();
  return fmt::format("{}{}{} --tokens {}{}", outcome.command,
                     kind == OperatorKind::kSpmm ? "" : fmt::format(" --operator {}", operator_kind_name(kind)),
                     epilogue == "none" ? "" : " --epilogue " + epilogue, bucket.tokens,
                     weight.members.empty() ? " --include " + shell_word(weight.name) : "");
}

json json_of(const TuneOutcome& outcome, const WeightResult& weight, const BucketChoice& bucket) {
  json object = {{"tokens", bucket.tokens},
                 {"calls", bucket.calls},
                 {"evidence", bucket.evidence},
                 {"reason", bucket.reason},
                 {"timing", json_of(bucket.timing)},
                 {"bytes_moved", weight.bytes_moved(bucket)},
                 {"verified", bucket.verification.ok},
                 {"max_error_over_bound", bucket.verification.max_error_over_bound},
                 {"cached", bucket.cached},
                 {"complete", bucket.complete},
                 {"cache_match", bucket.incumbent},
                 {"candidates", bucket.tried}};
  object["roofline"] = json();
  if (const auto bound = roofline_bound(weight, bucket, outcome.report.device)) {
    object["roofline"] = {{"us", bound->us}, {"by", bound->by}};
    if (bucket.us() > 0) object["roofline"]["reached"] = bound->us / bucket.us();
  }
  if (bucket.ablation) object["ablation"] = json_of(*bucket.ablation);
  object["dense_us"] = bucket.dense_us > 0 ? json(bucket.dense_us) : json();
  object["config"] = bucket.candidate.config.text();
  object["packing"] = bucket.candidate.packing;
  for (const KernelSource& kernel : bucket.candidate.kernels) object["kernels"].push_back(kernel.name);
  object["predicted_us"] = bucket.candidate.predicted_us;
  if (const PackedWeight* const packed = weight.packing_of(bucket)) {
    object["packed_bytes"] = packed->bytes();
    object["packing_hash"] = packed->contents_hash();
  }
  // What a library runs in the plan is not known.
  if (!bucket.candidate.plan.has_matmul()) object["plan_hash"] = hash_text(to_json(bucket.candidate.plan));
  object["binaries"] = binaries_of(outcome.report, bucket);
  const bool is_part = outcome.rank_parts.parts.contains(weight.name);  // which no command times again
  object["command"] = is_part ? "" : command_for(outcome, weight, bucket);
  for (const TrialSummary& trial : bucket.trials) {
    object["trials"].push_back({{"config", trial.config},
                                {"predicted_us", trial.predicted_us},
                                {"median_us", trial.median_us},
                                {"outcome", trial.outcome}});
  }
  object["rejected"] = rejections_json(bucket.rejections);
  object["rejected_left_out"] = bucket.further_rejections;
  object["vendors"] = json::array();
  for (const VendorTiming& vendor : bucket.vendors) object["vendors"].push_back(json_of(vendor));
  return object;
}

// Of one operator of the weight.
json json_of(const TuneOutcome& outcome, const WeightResult& weight, std::span<const BucketChoice> choices) {
  json object = {{"name", weight.name},
                 {"M", weight.rows},
                 {"K", weight.cols},
                 {"nnz", weight.nnz},
                 {"sparsity", weight.sparsity},
                 {"operator", choices.front().spec.name()},
                 {"pattern_hash", weight.pattern_hash},
                 {"value_hash", weight.value_hash},
                 {"dense_bytes", weight.dense_bytes()},
                 {"gpu_bytes", weight.gpu_bytes()}};
  for (const GroupMember& member : weight.members) {
    object["members"].push_back({{"name", member.name}, {"first_row", member.first_row}, {"rows", member.rows}});
  }
  object["choices"] = json::array();
  for (const BucketChoice& bucket : choices) object["choices"].push_back(json_of(outcome, weight, bucket));
  return object;
}

json json_of(const TrainingUse& use) {
  json steps = json::array();
  for (const TrainingUse::Step& step : use.steps)
    steps.push_back(
        {{"tokens", step.tokens}, {"us", step.us}, {"dense_us", step.dense_us > 0 ? json(step.dense_us) : json()}});
  return {{"dense_bytes", use.dense_bytes}, {"bytes", use.bytes()},
          {"state_bytes", use.state_bytes}, {"packing_bytes", use.packing_bytes},
          {"place_bytes", use.place_bytes}, {"workspace_bytes", use.workspace_bytes},
          {"steps", std::move(steps)}};
}

}  // namespace

json tuning_json(const TuneOutcome& outcome) {
  const TuneReport& report = outcome.report;
  json object = {
      {"device",
       {{"name", report.device.name},
        {"class", report.device.device_class()},
        {"memory_bandwidth", report.device.memory_bandwidth},
        {"tensor_operations_per_second", report.device.tensor_operations_per_second()},
        {"driver", report.device.driver_version},
        {"clock_mhz", report.device.clock_khz / 1000.0},
        {"count", report.devices}}},
      {"version", SPARSMITH_VERSION},
      {"nvrtc", outcome.compiler_version},
      {"cache", outcome.cache_path},
      {"timing_policy", outcome.timing_policy},
      {"measured", report.measured},
      {"verified", report.unverified == 0},
      {"complete", report.complete},
      {"cache_writes_failed", {{"count", report.cache_failures.count}, {"reason", report.cache_failures.reason}}},
      {"seconds", report.seconds},
      {"counts",
       {{"pairs", report.pairs},
        {"pairs_from_cache", report.cached},
        {"pairs_after_a_like_weight", report.transferred},
        {"configs_considered", report.considered},
        {"candidates", report.candidates},
        {"kernels_asked", report.kernels.asked},
        {"kernels_compiled", report.kernels.compiled},
        {"kernels_from_cache", report.kernels.cache_hits},
        {"read_seconds", report.read_seconds},
        {"select_seconds", report.select_seconds},
        {"pack_seconds", report.pack_seconds},
        {"compile_seconds", report.kernels.compile_seconds},
        {"compiler_seconds", report.kernels.compiler_seconds},
        {"send_seconds", report.device_seconds.sending},
        {"reference_seconds", report.device_seconds.reference},
        {"verify_seconds", report.device_seconds.verifying},
        {"timing_seconds", report.device_seconds.timing},
        {"library_seconds", report.device_seconds.libraries},
        {"device_wait_seconds", report.device_seconds.waiting},
        {"kernels_failed", report.kernels.failed},
        {"unjudged", report.unjudged},
        {"worker_restarts", report.worker_restarts}}},
      {"rejected", report.rejected},
      {"cuts", report.cuts}};
  const MemoryUse& use = report.memory;
  object["memory"] = {{"dense_bytes", use.dense_bytes}, {"bytes", use.bytes}, {"us", use.us}, {"unmet", use.unmet}};
  if (use.faster.memory > 0)
    object["memory"]["faster"] = {{"memory", use.faster.memory}, {"bytes", use.faster.bytes}, {"us", use.faster.us}};
  if (report.training) object["training"] = json_of(*report.training);
  object["weights"] = json::array();
  for (const WeightResult& weight : report.weights)
    for (const std::span<const BucketChoice> choices : weight.operators())
      object["weights"].push_back(json_of(outcome, weight, choices));
  object["skipped"] = json::array();
  for (const TuneReport::Skipped& tensor : report.skipped)
    object["skipped"].push_back({{"name", tensor.name}, {"reason", tensor.reason}});
  return object;
}

json rejections_json(std::span<const Rejection> rejections) {
  json array = json::array();
  for (const Rejection& each : rejections)
    array.push_back(
        {{"config", each.config}, {"family", each.family}, {"outcome", each.outcome}, {"reason", each.reason}});
  return array;
}

}  // namespace sparsmith::tools
