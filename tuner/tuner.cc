#include "tuner/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "base/log.h"
#include "tuner/weight_tuner.h"

namespace sparsmith {
namespace {

using Clock = std::chrono::steady_clock;

Status check_options(const TuneOptions& options) {
  if (options.tokens.empty()) return invalid_argument("no number of tokens is given");
  if (!std::ranges::is_sorted(options.tokens, std::less_equal<>()) || options.tokens.front() < 1)
    return invalid_argument("numbers of tokens must be positive, ascending, and different");
  if (options.calls.size() != options.tokens.size())
    return invalid_argument(
        fmt::format("{} counts of calls for {} numbers of tokens", options.calls.size(), options.tokens.size()));
  if (std::ranges::any_of(options.calls, [](double calls) { return !(calls > 0); }))
    return invalid_argument("counts of calls must be positive");
  if (options.packings < 1) return invalid_argument("a weight keeps at least one packing");
  return {};
}

// "sm_90a" -> 90; 0 when it is no architecture.
int compute_capability_of(const std::string& architecture) {
  int number = 0;
  if (!architecture.starts_with("sm_")) return 0;
  for (const char digit : architecture.substr(3)) {
    if (digit < '0' || digit > '9') break;
    number = number * 10 + (digit - '0');
    if (number > 10000) return 0;
  }
  return number;
}

// Shares what is left of the budget evenly among what is left to do.
class Budget {
 public:
  Budget(double seconds, std::size_t buckets) : left_(buckets) {
    if (seconds > 0)
      end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  void bucket_begins() {
    if (!end_) return;
    const auto now = Clock::now();
    bucket_end_ = now + (*end_ - now) / static_cast<std::int64_t>(std::max<std::size_t>(1, left_));
    bucket_end_ = std::min(bucket_end_, *end_);
    if (left_ > 0) --left_;
  }
  // A weight that needed no search gives its time to the others.
  void weight_is_done(std::size_t buckets_after_it) { left_ = buckets_after_it; }
  bool out_of_time() const { return end_ && Clock::now() >= bucket_end_; }

 private:
  std::optional<Clock::time_point> end_;
  Clock::time_point bucket_end_;
  std::size_t left_;
};

class Run {
 public:
  Run(std::span<const WeightInput> weights, const TuneOptions& options, const TuneResources& resources,
      DeviceSession session)
      : weights_(weights),
        options_(options),
        resources_(resources),
        session_(std::move(session)),
        budget_(options.budget_s, weights.size() * options.tokens.size()) {}

  Result<TuneReport> execute() {
    const auto begin = Clock::now();
    choose_device();
    KernelStore& kernels =
        kernels_.emplace(resources_.compiler, resources_.cache,
                         fmt::format("sm_{}", context_.device.compute_capability), options_.compile_threads);
    prepare(kernels);
    for (index_ = 0; index_ < weights_.size(); ++index_) {
      if (interrupted()) {
        report_.skipped.push_back({weights_[index_].name, "interrupted before its turn"});
        report_.complete = false;
        continue;
      }
      SPARSMITH_RETURN_IF_ERROR(tune_one(weights_[index_]));
      budget_.weight_is_done((weights_.size() - index_ - 1) * options_.tokens.size());
    }
    collect_images(kernels);
    report_.device = context_.device;
    report_.interrupted = interrupted() && !report_.complete;  // one that came too late changed nothing
    report_.kernels = kernels.counts();
    report_.device_seconds = session_.seconds();
    report_.worker_restarts = session_.restarts();
    report_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return std::move(report_);
  }

 private:
  bool interrupted() const { return resources_.interrupted && resources_.interrupted(); }

  void choose_device() {
    context_.predict = session_.properties().is_emulator;
    if (context_.predict) {
      const int asked = options_.architectures.empty() ? 0 : compute_capability_of(options_.architectures.front());
      context_.device = typical_device(asked > 0 ? asked : 90);
      return;
    }
    const auto bandwidth = session_.measure_memory_bandwidth();
    if (bandwidth.ok()) session_.set_memory_bandwidth(*bandwidth);
    if (!bandwidth.ok()) log_warning("the memory bandwidth was not measured: {}", bandwidth.status().message());
    context_.device = session_.properties();
  }

  void prepare(KernelStore& kernels) {
    context_.options = &options_;
    context_.session = &session_;
    context_.kernels = &kernels;
    context_.cache = resources_.cache;
    context_.record = resources_.record;
    if (options_.transfer && options_.use_choices && !resources_.record) context_.transfer = &transfer_;
    context_.program_version = resources_.program_version;
    context_.interrupted = [this] { return interrupted(); };
    context_.out_of_time = [this] { return budget_.out_of_time(); };
    context_.bucket_begins = [this] { budget_.bucket_begins(); };
    context_.progress = [this](const std::string& stage, std::size_t done, std::size_t total) {
      if (resources_.progress)
        resources_.progress({index_, weights_.size(), weights_[index_].name, stage, done, total});
    };
    if (resources_.cache == nullptr) return;
    const DeviceProperties& device = context_.device;
    const auto device_id =
        resources_.cache->put_device({device.device_class(), device.name, device.compute_capability, device.sm_count,
                                      device.memory_bytes, context_.predict ? 0 : device.memory_bandwidth});
    const auto environment_id = resources_.cache->put_environment(
        {context_.predict ? "emulator" : device.driver_version, kernels.nvrtc_version(), resources_.program_version});
    if (device_id.ok() && environment_id.ok()) {
      context_.device_id = *device_id;
      context_.environment_id = *environment_id;
    } else {
      const Status& status = device_id.ok() ? environment_id.status() : device_id.status();
      log_warning("the cache is not used in this run: {}", status.message());
      context_.cache = nullptr;
    }
  }

  // The binaries of the chosen kernels, for this device and every further architecture asked for.
  void collect_images(KernelStore& kernels) {
    std::vector<const Candidate*> chosen;
    std::map<std::string, KernelImages> images;
    for (const WeightResult& weight : report_.weights) {
      for (const BucketChoice& bucket : weight.buckets) {
        if (bucket.candidate.kernels.empty()) continue;
        chosen.push_back(&bucket.candidate);
        for (const KernelSource& kernel : bucket.candidate.kernels) {
          // Weights that share a kernel need not ask for equally much shared memory.
          KernelSource& kept = images[kernel.name].kernel;
          const std::int64_t shared_bytes = std::max(kept.max_shared_bytes, kernel.max_shared_bytes);
          kept = kernel;
          kept.max_shared_bytes = shared_bytes;
        }
      }
    }
    add_binaries(kernels, chosen, images);
    for (const std::string& architecture : options_.architectures) {
      if (architecture == kernels.architecture()) continue;
      KernelStore more(resources_.compiler, resources_.cache, architecture, options_.compile_threads);
      add_binaries(more, chosen, images);
    }
    for (auto& [name, image] : images) report_.images.push_back(std::move(image));
  }

  static void add_binaries(KernelStore& kernels, const std::vector<const Candidate*>& chosen,
                           std::map<std::string, KernelImages>& images) {
    kernels.ensure(chosen);
    for (auto& [name, image] : images) {
      const auto compiled = kernels.find(image.kernel);
      if (compiled.ok()) {
        image.binaries.push_back({kernels.architecture_of(image.kernel), (*compiled)->cubin, (*compiled)->figures});
      } else {
        log_warning("no binary of {} for {}: {}", name, kernels.architecture(), compiled.status().message());
      }
    }
  }

  // The weight as the options want it.
  Result<CsrMatrix> read_matrix(const WeightInput& input) const {
    auto loaded = input.load();
    if (!loaded.ok()) return loaded.status().annotate(input.name);
    CsrMatrix matrix = options_.transpose ? transposed(*loaded) : std::move(*loaded);
    if (options_.type && *options_.type != matrix.data_type) matrix = converted(matrix, *options_.type);
    return matrix;
  }

  // The same of a group, whose members go to `members`.
  Result<CsrMatrix> read_weight(const WeightInput& input, std::vector<GroupMember>& members) const {
    if (input.members.empty()) return read_matrix(input);
    CsrMatrix group;
    for (const WeightInput& member : input.members) {
      SPARSMITH_ASSIGN_OR_RETURN(CsrMatrix matrix, read_matrix(member));
      members.push_back({member.name, group.rows, matrix.rows});
      if (members.size() == 1) {
        group = std::move(matrix);
        continue;
      }
      const Status appended = append_rows(group, matrix);
      if (!appended.ok()) return appended.annotate(input.name + ": member " + member.name);
    }
    return group;
  }

  Status tune_one(const WeightInput& input) {
    context_.progress("read", 0, 1);
    std::vector<GroupMember> members;
    SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, read_weight(input, members));
    auto tuned = tune_weight(context_, input.name, matrix, report_);
    if (!tuned.ok()) {
      SPARSMITH_RETURN_IF_ERROR(session_.health());
      report_.skipped.push_back({input.name, tuned.status().message()});
      return {};
    }
    tuned->members = std::move(members);
    for (const BucketChoice& bucket : tuned->buckets) {
      ++report_.pairs;
      report_.complete = report_.complete && bucket.complete;
      report_.measured = report_.measured || bucket.evidence == "measured";
    }
    report_.weights.push_back(std::move(*tuned));
    if (resources_.weight_is_done) resources_.weight_is_done(report_.weights.back());
    return {};
  }

  std::span<const WeightInput> weights_;
  const TuneOptions& options_;
  const TuneResources& resources_;
  DeviceSession session_;
  Budget budget_;
  std::optional<KernelStore> kernels_;
  TuneContext context_;
  std::map<std::string, Transfer> transfer_;
  TuneReport report_;
  std::size_t index_ = 0;
};

}  // namespace

Result<TuneReport> tune(std::span<const WeightInput> weights, const TuneOptions& options,
                        const TuneResources& resources) {
  TuneOptions complete = options;
  if (complete.calls.empty()) complete.calls.assign(complete.tokens.size(), 1.0);
  SPARSMITH_RETURN_IF_ERROR(check_options(complete));
  SPARSMITH_ASSIGN_OR_RETURN(DeviceSession session, DeviceSession::open(resources.measurers));
  return Run(weights, complete, resources, std::move(session)).execute();
}

}  // namespace sparsmith
