#include "search/contenders.h"

#include <algorithm>
#include <utility>

#include "base/parallel_for.h"
#include "base/stopwatch.h"
#include "search/cached_choices.h"
#include "search/weight_tuner.h"
#include "tuner/environment_fault.h"

namespace sparsmith {
Contenders::Contenders(const TuneContext& context, Packings& packings, const Problem& problem, SearchPoints points)
    : problem_(problem), context_(context), packings_(packings), points_(std::move(points)) {
  made_.resize(points_.points.size());
}

Contenders::~Contenders() { packings_.reserve(this, {}); }

void Contenders::pack(std::span<const std::size_t> points) {
  std::set<std::string> needed;
  std::vector<const Config*> configs;
  for (const std::size_t point : points) {
    if (failed_.contains(point)) continue;
    needed.insert(points_.points[point].packing);
    configs.push_back(&points_.points[point].config);
  }
  packings_.reserve(this, std::move(needed));
  const Stopwatch stopwatch(counts_.pack_seconds);
  packings_.make(configs, problem_);
}

// Packings that no search reads next, where all take much memory.
Status Contenders::drop_unneeded() {
  if (packings_.bytes() <= Packings::kResidentBytes) return {};
  for (const std::string& name : packings_.unreserved()) {
    SPARSMITH_RETURN_IF_ERROR(context_.session->drop_packing(name));
    packings_.drop(name);
  }
  return {};
}

void Contenders::make(std::span<const std::size_t> points) {
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
  std::set<std::string> paid;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const std::size_t point = missing[i];
    if (!errors[i].ok()) {
      // What many have in common comes first.
      const std::string& reason = errors[i].message();
      const std::string outcome = "cannot be generated: " + reason.substr(0, reason.find(": "));
      ++counts_.rejected[outcome];
      const Config& config = points_.points[point].config;
      ungenerated_.push_back({config.text(), config.family, outcome, reason});
      failed_.insert(point);
      continue;
    }
    ++counts_.candidates;
    Contender& contender = *made_[point];
    if (paid_packings_.insert(contender.identity.packing).second)
      contender.seconds.pack = packings_.seconds(contender.identity.packing);
  }
}

Status Contenders::generate(std::size_t index, const PackedWeight& packed) {
  const SpacePoint& point = points_.points[index];
  SPARSMITH_ASSIGN_OR_RETURN(Candidate candidate, generate_candidate(context_, point.config, problem_, packed));
  auto contender = std::make_unique<Contender>();
  contender->candidate = std::move(candidate);
  contender->candidate.predicted_us = point.predicted_us;
  contender->incumbent = point.incumbent;
  contender->baseline = point.baseline;
  contender->packed_bytes = packed.bytes();
  contender->identity = {contender->candidate.config.text(), contender->candidate.packing, packed.packer_version,
                         closure_hash_of(contender->candidate), point.predicted_us};
  contender->loaded = loaded_candidate(contender->candidate);
  made_[index] = std::move(contender);
  return {};
}

void Contenders::add_candidates(std::vector<const Candidate*>& candidates) const {
  for (const auto& contender : made_) {
    if (contender != nullptr) candidates.push_back(&contender->candidate);
  }
}

void Contenders::compile(std::span<const std::size_t> points, KernelStore::Urgency urgency) {
  std::vector<const Candidate*> missing;
  for (const std::size_t point : points) {
    if (made_[point] != nullptr && !compiled_.contains(point)) missing.push_back(&made_[point]->candidate);
  }
  if (missing.empty()) return;
  context_.kernels->ensure(missing, urgency, [&](std::size_t done, std::size_t total) {
    if (context_.progress) context_.progress("compile", done, total);
  });
  for (const std::size_t point : points) {
    if (made_[point] == nullptr || !compiled_.insert(point).second) continue;
    Contender& contender = *made_[point];
    const Status status = attach_binaries(*context_.kernels, context_.device, contender);
    for (const KernelSource& kernel : contender.candidate.kernels) {
      const auto found = context_.kernels->find(kernel);
      if (found.ok() && paid_kernels_.insert(kernel.name).second) contender.seconds.compile += (*found)->seconds;
    }
    if (status.ok()) continue;
    contender.state = Contender::State::kRejected;
    contender.status = MeasurementStatus::kFailed;
    contender.reason = status.message();
    contender.unjudged = is_environment_fault(status);
  }
}

Status Contenders::load(std::span<const std::size_t> points) {
  std::vector<std::size_t> missing;
  for (const std::size_t point : points) {
    const Contender* contender = made_[point].get();
    if (contender == nullptr || contender->state == Contender::State::kRejected) continue;
    if (!context_.session->has_packing(contender->identity.packing)) missing.push_back(point);
  }
  if (missing.empty()) return {};
  pack(points);
  SPARSMITH_RETURN_IF_ERROR(drop_unneeded());
  for (const std::size_t point : missing) {
    Contender& contender = *made_[point];
    if (context_.session->has_packing(contender.identity.packing)) continue;
    const PackedWeight* packed = packings_.find(contender.identity.packing);
    const Status added = packed == nullptr ? internal_error("its packing was made before and cannot be made again")
                                           : context_.session->add_packing(*packed);
    if (added.ok()) continue;
    SPARSMITH_RETURN_IF_ERROR(context_.session->health());
    contender.state = Contender::State::kRejected;
    contender.status = MeasurementStatus::kFailed;
    contender.reason = added.message();
  }
  return {};
}

std::vector<Contender> Contenders::take() {
  std::vector<Contender> all;
  for (const std::size_t point : points_.selected) {
    if (made_[point] != nullptr) all.push_back(std::move(*std::exchange(made_[point], nullptr)));
  }
  for (auto& contender : made_) {
    if (contender != nullptr) all.push_back(std::move(*contender));
  }
  made_.clear();
  return all;
}

}  // namespace sparsmith
