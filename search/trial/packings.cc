#include "search/trial/packings.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/parallel_for.h"
#include "base/stopwatch.h"
#include "formats/places.h"

namespace sparsmith {

struct Packings::Made {
  Result<PackedWeight> packed;
  double seconds = 0;
};

Result<const PackedWeight*> Packings::get(const Config& config, const Problem& problem) {
  const Family* of = family(config.family);
  if (of == nullptr) return not_found("no kernel family is called " + config.family);
  if (const PackedWeight* made = find(of->packing(config, problem))) return made;
  double seconds = 0;
  auto packed = timed(seconds, [&] { return of->pack(config, problem, matrix_); });
  if (!packed.ok()) return packed.status();
  const std::lock_guard lock(mutex_);
  return keep({std::move(packed), seconds});
}

void Packings::make(std::span<const Config* const> configs, const Problem& problem) {
  std::map<std::string, const Config*> missing;
  for (const Config* config : configs) {
    if (const Family* of = family(config->family)) missing.emplace(of->packing(*config, problem), config);
  }
  std::unique_lock lock(mutex_);
  std::erase_if(missing, [this](const auto& each) { return found(each.first) != nullptr; });
  std::vector<const Config*> queue;
  std::vector<std::string> own;
  for (const auto& [name, config] : missing) {
    if (!in_work_.insert(name).second) continue;
    own.push_back(name);
    queue.push_back(config);
  }
  lock.unlock();
  std::vector<std::optional<Made>> made(queue.size());
  parallel_for(static_cast<std::int64_t>(queue.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      double seconds = 0;
      auto packed = timed(seconds, [&] { return family(queue[i]->family)->pack(*queue[i], problem, matrix_); });
      made[i].emplace(std::move(packed), seconds);
    }
  });
  lock.lock();
  for (std::optional<Made>& each : made) {
    if (each->packed.ok()) keep(std::move(*each));
  }
  for (const std::string& name : own) in_work_.erase(name);
  packed_.notify_all();
  packed_.wait(lock, [&] {
    return std::ranges::none_of(missing, [this](const auto& each) { return in_work_.contains(each.first); });
  });
}

const PackedWeight* Packings::keep(Made made) {
  auto packed = std::make_unique<PackedWeight>(std::move(*made.packed));
  if (const PackedWeight* const other = found(packed->packing)) return other;
  sizes_[packed->packing] = packed->bytes();
  trained_sizes_[packed->packing] = bytes_with_places(*packed);
  seconds_.emplace(packed->packing, made.seconds);
  all_.push_back(std::move(packed));
  return all_.back().get();
}

const PackedWeight* Packings::found(const std::string& name) const {
  for (const auto& packed : all_) {
    if (packed->packing == name) return packed.get();
  }
  return nullptr;
}

const PackedWeight* Packings::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return found(name);
}

std::int64_t Packings::bytes() const {
  const std::lock_guard lock(mutex_);
  std::int64_t sum = 0;
  for (const auto& packed : all_) sum += packed->bytes();
  return sum;
}

void Packings::reserve(const void* reader, std::set<std::string> names) {
  const std::lock_guard lock(mutex_);
  if (names.empty()) {
    reserved_.erase(reader);
  } else {
    reserved_[reader] = std::move(names);
  }
}

bool Packings::is_reserved(const std::string& name) const {
  return std::ranges::any_of(reserved_, [&](const auto& each) { return each.second.contains(name); });
}

std::vector<std::string> Packings::unreserved() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& packed : all_) {
    if (!is_reserved(packed->packing)) names.push_back(packed->packing);
  }
  return names;
}

void Packings::drop(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (!is_reserved(name)) std::erase_if(all_, [&](const auto& packed) { return packed->packing == name; });
}

PackedWeight Packings::take(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto place =
      std::ranges::find(all_, name, [](const auto& packed) -> const std::string& { return packed->packing; });
  PackedWeight packed = std::move(**place);
  all_.erase(place);
  return packed;
}

std::map<std::string, std::int64_t> Packings::sizes(bool trains) const {
  const std::lock_guard lock(mutex_);
  return trains ? trained_sizes_ : sizes_;
}

double Packings::seconds(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto place = seconds_.find(name);
  return place == seconds_.end() ? 0 : place->second;
}

}  // namespace sparsmith
