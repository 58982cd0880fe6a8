#include "search/ablation_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "generator/ablation.h"
#include "generator/family.h"
#include "search/trial/device_session.h"
#include "search/trial/kernel_store.h"
#include "search/trial/trial.h"

namespace sparsmith {
namespace {

class AblationRun {
 public:
  AblationRun(const TuneOptions& options, const TuneResources& resources, TuneReport& report, DeviceSession session)
      : options_(options),
        report_(report),
        session_(std::move(session)),
        // Without the cache: what is compiled here is for this run alone.
        kernels_(resources.compiler, nullptr, fmt::format("sm_{}", report.device.compute_capability),
                 options.compile_threads) {}

  // Every sparse choice of a weight; tells of each before it begins. Error: there is no device any more.
  using Progress = std::function<void(std::int64_t tokens)>;
  Status time(const CsrMatrix& matrix, WeightResult& weight, const Progress& progress) {
    std::optional<OperatorKind> loaded;
    CsrMatrix factor;  // the session refers to it
    for (BucketChoice& bucket : weight.buckets) {
      if (bucket.is_baseline()) continue;
      if (loaded != bucket.spec.kind) {
        loaded = bucket.spec.kind;
        factor = multiplied(bucket.spec.kind, matrix);
        SPARSMITH_RETURN_IF_ERROR(session_.set_weight(factor, bucket.spec));
      }
      if (progress) progress(bucket.tokens);
      AblationTimes& times = bucket.ablation.emplace();
      const Status timed = time(weight, bucket, times);
      SPARSMITH_RETURN_IF_ERROR(session_.health());
      times.reason = timed.message();
    }
    return {};
  }

 private:
  Status time(const WeightResult& weight, const BucketChoice& bucket, AblationTimes& times) {
    if (session_.properties().is_emulator) return unsupported("the emulator measures no time; that takes a GPU");
    const auto packed = std::ranges::find(weight.packings, bucket.candidate.packing, &PackedWeight::packing);
    if (packed == weight.packings.end()) return internal_error("the report has no " + bucket.candidate.packing);
    const Problem problem{bucket.spec, bucket.tokens, report_.device};
    std::vector<Ablation> parts;
    const std::vector<Trial> builds = builds_of(bucket.candidate.config, problem, *packed, parts, times);
    if (builds.empty()) {
      return times.missing.empty() ? unsupported(bucket.candidate.config.family + " has no builds without a part")
                                   : unsupported(times.missing.begin()->second);
    }
    SPARSMITH_ASSIGN_OR_RETURN(CompiledCandidate whole, loaded_choice(bucket.candidate));
    std::vector<CompiledCandidate> timed = {std::move(whole)};
    for (const Trial& build : builds) timed.push_back(build.loaded);
    if (!session_.has_packing(packed->packing)) SPARSMITH_RETURN_IF_ERROR(session_.add_packing(*packed));
    SPARSMITH_RETURN_IF_ERROR(session_.set_tokens(bucket.tokens, options_.seed));
    SPARSMITH_ASSIGN_OR_RETURN(std::vector<Timing> timings, session_.time_unverified(timed, options_.timing));
    times.whole = std::move(timings.front());
    for (std::size_t i = 0; i < parts.size(); ++i) times.without[parts[i]] = std::move(timings[i + 1]);
    return {};
  }

  // The chosen kernels with the binaries that were measured.
  Result<CompiledCandidate> loaded_choice(const Candidate& candidate) const {
    CompiledCandidate loaded = loaded_candidate(candidate);
    for (std::size_t i = 0; i < loaded.kernels.size(); ++i) {
      const auto image = std::ranges::find_if(
          report_.images, [&](const KernelImages& each) { return each.kernel.name == loaded.kernels[i].name; });
      if (image == report_.images.end() || image->binaries.empty())
        return not_found("the report has no binary of " + loaded.kernels[i].name);
      loaded.kernels[i].cubin = image->binaries.front().cubin;
    }
    return loaded;
  }

  // Those that can be made and compiled, and in `parts` what each lacks; why the others cannot goes to `times`.
  std::vector<Trial> builds_of(const Config& config, const Problem& problem, const PackedWeight& packed,
                               std::vector<Ablation>& parts, AblationTimes& times) {
    const Family& made_by = *family(config.family);
    std::vector<Trial> builds;
    for (const Ablation part : ablations(made_by)) {
      auto candidate = generate_without(part, made_by, config, problem, packed);
      if (!candidate.ok()) {
        times.missing[part] = candidate.status().message();
        continue;
      }
      if (problem.device.compute_capability >= kProgrammaticFrom)
        launch_programmatically(candidate->plan, options_.timing.programmatic);
      Trial& build = builds.emplace_back();
      build.candidate = *std::move(candidate);
      build.loaded = loaded_candidate(build.candidate);
      parts.push_back(part);
    }
    std::vector<const Candidate*> candidates;
    for (const Trial& build : builds) candidates.push_back(&build.candidate);
    kernels_.ensure(candidates, KernelStore::Urgency::kNow);
    for (std::size_t i = builds.size(); i-- > 0;) {
      attach_binaries(kernels_, problem.device, builds[i]);
      if (builds[i].state != Trial::State::kRejected) continue;
      times.missing[parts[i]] = builds[i].reason;
      builds.erase(builds.begin() + static_cast<std::ptrdiff_t>(i));
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return builds;
  }

  const TuneOptions& options_;
  TuneReport& report_;
  DeviceSession session_;
  KernelStore kernels_;
};

}  // namespace

Status time_ablations(std::span<const WeightInput> weights, const TuneOptions& options, const TuneResources& resources,
                      TuneReport& report) {
  if (resources.workers.empty()) return unsupported("that takes a GPU");
  CsrMatrix matrix;  // the session refers to it
  SPARSMITH_ASSIGN_OR_RETURN(DeviceSession session, DeviceSession::open(resources.workers.front()));
  AblationRun run(options, resources, report, std::move(session));
  for (std::size_t i = 0; i < report.weights.size(); ++i) {
    WeightResult& weight = report.weights[i];
    if (resources.interrupted && resources.interrupted()) return {};
    if (std::ranges::all_of(weight.buckets, &BucketChoice::is_baseline)) continue;
    const auto input = std::ranges::find(weights, weight.name, &WeightInput::name);
    if (input == weights.end()) return internal_error("no weight is called " + weight.name);
    std::vector<GroupMember> members;
    SPARSMITH_ASSIGN_OR_RETURN(matrix, read_weight(*input, options, members));
    AblationRun::Progress progress;
    if (resources.progress) {
      progress = [&](std::int64_t tokens) {
        resources.progress({i, i, report.weights.size(), weight.name, fmt::format("ablation, N = {}", tokens), 0, 1});
      };
    }
    SPARSMITH_RETURN_IF_ERROR(run.time(matrix, weight, progress));
  }
  return {};
}

}  // namespace sparsmith
