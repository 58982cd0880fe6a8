// The trials of one weight at one N. Candidates are made when a search asks for them first.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "generator/family.h"
#include "search/strategy/strategy.h"
#include "search/trial/device_session.h"
#include "search/trial/packings.h"
#include "search/trial/trial.h"

namespace sparsmith {

// One thread at a time; packing, generating and compiling use all cores.
class TrialSet {
 public:
  // `kernels` and `packings` outlive it. `programmatic`: as generate_candidate() takes it.
  TrialSet(KernelStore& kernels, Packings& packings, Problem problem, bool programmatic, SearchPoints points);
  TrialSet(const TrialSet&) = delete;
  TrialSet& operator=(const TrialSet&) = delete;
  ~TrialSet();

  const SearchPoints& points() const { return points_; }

  // Packs and generates the candidates that are not made yet. ungenerated() lists the failures.
  void make(std::span<const std::size_t> points);
  // Compiles the kernels and attaches the binaries. Rejects trials whose kernels do not compile or spill much.
  void compile(std::span<const std::size_t> points, KernelStore::Urgency urgency,
               const KernelStore::Progress& progress = {});
  // Puts the points' packings on the device. Rejects trials whose packing does not fit. Error: the device is gone.
  Status load(DeviceSession& session, std::span<const std::size_t> points);

  // nullptr: not made, or failed to generate.
  Trial* find(std::size_t point) { return made_[point].get(); }
  // Appends the candidates of all trials.
  void add_candidates(std::vector<const Candidate*>& candidates) const;

  // Moves all trials out, the selected points first.
  std::vector<Trial> take();

  // Configs that could not be generated.
  const std::vector<Rejection>& ungenerated() const { return ungenerated_; }
  double pack_seconds() const { return pack_seconds_; }

 private:
  void pack(std::span<const std::size_t> points);
  Status drop_unneeded(DeviceSession& session);
  Status generate(std::size_t index, const PackedWeight& packed);

  KernelStore& kernels_;
  Packings& packings_;
  const Problem problem_;
  const bool programmatic_;
  SearchPoints points_;
  std::vector<Rejection> ungenerated_;
  double pack_seconds_ = 0;
  std::vector<std::unique_ptr<Trial>> made_;
  std::set<std::size_t> failed_;
  std::set<std::size_t> compiled_;
  std::set<std::string> paid_packings_;
  std::set<std::string> paid_kernels_;
};

}  // namespace sparsmith
