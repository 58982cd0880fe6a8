#include "search/contenders.h"

#include <algorithm>
#include <utility>

#include "base/parallel_for.h"
#include "base/stopwatch.h"
#include "search/cached_choices.h"
#include "search/weight_tuner.h"

namespace sparsmith {
namespace {

// Of packed copies, in this process; the worker holds as many, and the device. Beyond it, those that the next batch
// does not read are dropped.
constexpr std::int64_t kResidentBytes = std::int64_t{2} << 30;

}  // namespace

Contenders::Contenders(const TuneContext& context, Packings& packings, const Problem& problem, SearchPoints points,
                       TuneCounts& counts)
    : problem_(problem), context_(context), packings_(packings), points_(std::move(points)), counts_(counts) {
  made_.resize(points_.points.size());
}

void Contenders::add_baseline(Contender contender) {
  SpacePoint point;
  point.packing = contender.identity.packing;
  point.baseline = true;
  points_.selected.insert(points_.selected.begin(), points_.points.size());
  points_.points.push_back(std::move(point));
  made_.push_back(std::make_unique<Contender>(std::move(contender)));
}

Contender* Contenders::baseline() {
  if (points_.selected.empty() || !points_.points[points_.selected.front()].baseline) return nullptr;
  return made_[points_.selected.front()].get();
}

Status Contenders::pack(std::span<const std::size_t> points) {
  std::set<std::string> needed;
  std::vector<const Config*> configs;
  for (const std::size_t point : points) {
    if (points_.points[point].baseline || failed_.contains(point)) continue;
    needed.insert(points_.points[point].packing);
    configs.push_back(&points_.points[point].config);
  }
  if (packings_.bytes() > kResidentBytes) {
    std::vector<std::string> unneeded;
    for (const auto& packed : packings_.all()) {
      if (!needed.contains(packed->packing)) unneeded.push_back(packed->packing);
    }
    for (const std::string& name : unneeded) {
      if (context_.session != nullptr) SPARSMITH_RETURN_IF_ERROR(context_.session->drop_packing(name));
      packings_.drop(name);
    }
  }
  const Stopwatch stopwatch(counts_.pack_seconds);
  packings_.make(configs, problem_);
  return {};
}

Status Contenders::make(std::span<const std::size_t> points) {
  std::vector<std::size_t> missing;
  for (const std::size_t point : points) {
    if (made_[point] == nullptr && !failed_.contains(point)) missing.push_back(point);
  }
  if (missing.empty()) return {};
  SPARSMITH_RETURN_IF_ERROR(pack(missing));
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
      ++counts_.rejected["cannot be generated: " + errors[i].message()];
      failed_.insert(point);
      continue;
    }
    ++counts_.candidates;
    Contender& contender = *made_[point];
    if (paid_packings_.insert(contender.identity.packing).second)
      contender.seconds.pack = packings_.seconds(contender.identity.packing);
  }
  return {};
}

Status Contenders::generate(std::size_t index, const PackedWeight& packed) {
  const SpacePoint& point = points_.points[index];
  SPARSMITH_ASSIGN_OR_RETURN(Candidate candidate, generate_candidate(context_, point.config, problem_, packed));
  auto contender = std::make_unique<Contender>();
  contender->candidate = std::move(candidate);
  contender->candidate.predicted_us = point.predicted_us;
  contender->incumbent = point.incumbent;
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

void Contenders::compile(std::span<const std::size_t> points) {
  std::vector<const Candidate*> missing;
  for (const std::size_t point : points) {
    if (made_[point] != nullptr && !compiled_.contains(point)) missing.push_back(&made_[point]->candidate);
  }
  if (missing.empty()) return;
  context_.kernels->ensure(missing, [&](std::size_t done, std::size_t total) {
    if (context_.progress) context_.progress("compile", done, total);
  });
  attach(points);
}

void Contenders::attach(std::span<const std::size_t> points) {
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
  }
}

Status Contenders::load(std::span<const std::size_t> points) {
  std::vector<std::size_t> missing;
  for (const std::size_t point : points) {
    const Contender* contender = made_[point].get();
    if (contender == nullptr || contender->dense || contender->state == Contender::State::kRejected) continue;
    if (!context_.session->has_packing(contender->identity.packing)) missing.push_back(point);
  }
  if (missing.empty()) return {};
  SPARSMITH_RETURN_IF_ERROR(pack(points));
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

Status Contenders::prepare(std::span<const std::size_t> points) {
  SPARSMITH_RETURN_IF_ERROR(make(points));
  compile(points);
  return load(points);
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
