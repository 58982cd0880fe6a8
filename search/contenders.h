// The contenders of one weight at one N, made when a search first asks for them.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "generator/family.h"
#include "search/contender.h"
#include "search/packings.h"
#include "search/strategy.h"
#include "search/weight_tuner.h"

namespace sparsmith {

// One thread at a time; packing, generating and compiling use all cores.
class Contenders {
 public:
  // `context` and `packings` outlive it.
  Contenders(const TuneContext& context, Packings& packings, const Problem& problem, SearchPoints points);
  Contenders(const Contenders&) = delete;
  Contenders& operator=(const Contenders&) = delete;
  ~Contenders();

  const SearchPoints& points() const { return points_; }

  // Packs and generates those that are not yet made. Candidates that cannot be generated are left out, and counted.
  void make(std::span<const std::size_t> points);
  // Compiles their kernels, and puts binaries into them; what does not compile, or is not worth timing, is rejected.
  void compile(std::span<const std::size_t> points, KernelStore::Urgency urgency);
  // Puts the packings that they read on the session's device; what reads one that does not fit is rejected. Error: the
  // device is gone.
  Status load(std::span<const std::size_t> points);

  // nullptr: not made, or it cannot be generated.
  Contender* find(std::size_t point) { return made_[point].get(); }
  // Adds those of all contenders that were made.
  void add_candidates(std::vector<const Candidate*>& candidates) const;

  // All that were made, the selected ones first; the object holds none any more.
  std::vector<Contender> take();

  const TuneCounts& counts() const { return counts_; }
  const std::vector<Rejection>& ungenerated() const { return ungenerated_; }

 private:
  void pack(std::span<const std::size_t> points);
  Status drop_unneeded();
  Status generate(std::size_t index, const PackedWeight& packed);

  Problem problem_;
  const TuneContext& context_;
  Packings& packings_;
  SearchPoints points_;
  TuneCounts counts_;
  std::vector<Rejection> ungenerated_;
  std::vector<std::unique_ptr<Contender>> made_;
  std::set<std::size_t> failed_;
  std::set<std::size_t> compiled_;
  std::set<std::string> paid_packings_;
  std::set<std::string> paid_kernels_;
};

}  // namespace sparsmith
