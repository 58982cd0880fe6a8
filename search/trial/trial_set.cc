#include "search/trial/trial_set.h"

#include <utility>

#include "base/parallel_for.h"
#include "base/stopwatch.h"
#include "generator/families/dense/dense_family.h"

namespace sparsmith {

TrialSet::TrialSet(KernelStore& kernels, Packings& packings, Problem problem, bool programmatic, SearchPoints points)
    : kernels_(kernels),
      packings_(packings),
      problem_(std::move(problem)),
      programmatic_(programmatic),
      points_(std::move(points)),
      made_(points_.points.size()) {}

TrialSet::~TrialSet() { packings_.reserve(this, {}); }

void TrialSet::pack(std::span<const std::size_t> points) {
  std::set<std::string> needed;
  std::vector<const Config*> configs;
  for (const std::size_t point : points) {
    if (failed_.contains(point)) continue;
    needed.insert(points_.points[point].packing);
    configs.push_back(&points_.points[point].config);
  }
  packings_.reserve(this, std::move(needed));
  const Stopwatch stopwatch(pack_seconds_);
  packings_.make(configs, problem_);
}

// Packings that no search reads next, where all take much memory.
Status TrialSet::drop_unneeded(DeviceSession& session) {
  if (packings_.bytes() <= Packings::kResidentBytes) return {};
  for (const std::string& name : packings_.unreserved()) {
    SPARSMITH_RETURN_IF_ERROR(session.drop_packing(name));
    packings_.drop(name);
  }
  return {};
}

void TrialSet::make(std::span<const std::size_t> points) {
  std::vector<std::size_t> missing;
  for (const std::size_t point : points) {
    if (made_[point] == nullptr && !failed_.contains(point)) missing.push_back(point);
  }
  if (missing.empty()) return;
  pack(points);
  std::vector<const PackedWeight*> packed;
  std::vector<Status> errors(missing.size());
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const auto found = packings_.get(points_.points[missing[i]].config, problem_);
    packed.push_back(found.ok() ? *found : nullptr);
    errors[i] = found.status();
  }
  parallel_for(static_cast<std::int64_t>(missing.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (errors[i].ok()) errors[i] = generate(missing[i], *packed[i]);
    }
  });
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const std::size_t point = missing[i];
    if (!errors[i].ok()) {
      // What many have in common comes first.
      const std::string& reason = errors[i].message();
      const std::string outcome = "cannot be generated: " + reason.substr(0, reason.find(": "));
      const Config& config = points_.points[point].config;
      ungenerated_.push_back({config.text(), config.family, outcome, reason});
      failed_.insert(point);
      continue;
    }
    Trial& trial = *made_[point];
    if (paid_packings_.insert(trial.identity.packing).second)
      trial.seconds.pack = packings_.seconds(trial.identity.packing);
  }
}

Status TrialSet::generate(std::size_t index, const PackedWeight& packed) {
  const SpacePoint& point = points_.points[index];
  SPARSMITH_ASSIGN_OR_RETURN(Candidate candidate, generate_candidate(point.config, problem_, packed, programmatic_));
  auto trial = std::make_unique<Trial>();
  trial->candidate = std::move(candidate);
  trial->candidate.predicted_us = point.predicted_us;
  trial->incumbent = point.incumbent;
  trial->baseline = point.baseline;
  if (gathers(trial->candidate)) trial->predicted_product_us = predicted_dense_us(problem_);
  trial->packed_bytes = packed.bytes();
  trial->identity = {trial->candidate.config.text(), trial->candidate.packing, packed.packer_version,
                     closure_hash_of(trial->candidate), point.predicted_us};
  trial->loaded = loaded_candidate(trial->candidate);
  made_[index] = std::move(trial);
  return {};
}

void TrialSet::add_candidates(std::vector<const Candidate*>& candidates) const {
  for (const auto& trial : made_) {
    if (trial != nullptr) candidates.push_back(&trial->candidate);
  }
}

void TrialSet::compile(std::span<const std::size_t> points, KernelStore::Urgency urgency,
                       const KernelStore::Progress& progress) {
  std::vector<const Candidate*> missing;
  for (const std::size_t point : points) {
    if (made_[point] != nullptr && !compiled_.contains(point)) missing.push_back(&made_[point]->candidate);
  }
  if (missing.empty()) return;
  kernels_.ensure(missing, urgency, progress);
  for (const std::size_t point : points) {
    if (made_[point] == nullptr || !compiled_.insert(point).second) continue;
    Trial& trial = *made_[point];
    attach_binaries(kernels_, problem_.device, trial);
    for (const KernelSource& kernel : trial.candidate.kernels) {
      const auto found = kernels_.find(kernel);
      if (found.ok() && paid_kernels_.insert(kernel.name).second) trial.seconds.compile += (*found)->seconds;
    }
  }
}

Status TrialSet::load(DeviceSession& session, std::span<const std::size_t> points) {
  std::vector<Trial*> missing;
  for (const std::size_t point : points) {
    Trial* const trial = made_[point].get();
    if (trial == nullptr || trial->state == Trial::State::kRejected) continue;
    if (!session.has_packing(trial->identity.packing)) missing.push_back(trial);
  }
  if (missing.empty()) return {};
  pack(points);
  SPARSMITH_RETURN_IF_ERROR(drop_unneeded(session));
  for (Trial* const trial : missing) {
    if (session.has_packing(trial->identity.packing)) continue;
    const PackedWeight* packed = packings_.find(trial->identity.packing);
    const Status added = packed == nullptr ? internal_error("its packing was made before and cannot be made again")
                                           : session.add_packing(*packed);
    if (added.ok()) continue;
    SPARSMITH_RETURN_IF_ERROR(session.health());
    trial->reject_unseen(added);
  }
  return {};
}

std::vector<Trial> TrialSet::take() {
  std::vector<Trial> all;
  for (const std::size_t point : points_.selected) {
    if (made_[point] != nullptr) all.push_back(std::move(*std::exchange(made_[point], nullptr)));
  }
  for (auto& trial : made_) {
    if (trial != nullptr) all.push_back(std::move(*trial));
  }
  made_.clear();
  return all;
}

}  // namespace sparsmith
