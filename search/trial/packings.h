// The packed forms of one weight.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>
#include "generator/family.h"

namespace sparsmith {

// Packs on demand. The address of a packed weight stays valid until it is dropped. Thread-safe.
class Packings {
 public:
  // Above this sum, packings without a reader are dropped here and in the worker.
  static constexpr std::int64_t kResidentBytes = std::int64_t{2} << 30;

  explicit Packings(const CsrMatrix& matrix) : matrix_(matrix) {}

  // The packing that `config` reads.
  Result<const PackedWeight*> get(const Config& config, const Problem& problem);
  // Makes the packings of many configs on all cores, and waits for those that other threads make. get() returns the
  // error of a packing that failed.
  void make(std::span<const Config* const> configs, const Problem& problem);
  const PackedWeight* find(const std::string& name) const;  // nullptr when it is not there
  std::int64_t bytes() const;                               // of all packings in memory

  // Reserves packings for a reader, in place of its earlier ones. Reserved packings are not dropped.
  void reserve(const void* reader, std::set<std::string> names);
  std::vector<std::string> unreserved() const;
  void drop(const std::string& name);          // does nothing where it is reserved
  PackedWeight take(const std::string& name);  // moves it out. REQUIRES: it is there
  // GPU bytes of every packing that was ever made; where its weight trains, of bytes_with_places().
  std::map<std::string, std::int64_t> sizes(bool trains = false) const;
  // Seconds that packing took; 0: never packed.
  double seconds(const std::string& name) const;

 private:
  struct Made;
  // REQUIRES: the mutex is held.
  const PackedWeight* found(const std::string& name) const;
  const PackedWeight* keep(Made made);
  bool is_reserved(const std::string& name) const;

  const CsrMatrix& matrix_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable packed_;
  std::set<std::string> in_work_;
  std::map<const void*, std::set<std::string>> reserved_;
  std::vector<std::unique_ptr<PackedWeight>> all_;
  std::map<std::string, std::int64_t> sizes_;
  std::map<std::string, std::int64_t> trained_sizes_;
  std::map<std::string, double> seconds_;
};

}  // namespace sparsmith
