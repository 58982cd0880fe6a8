// Any bytes as the file of a cache: opened, checked, read, and taken over into a sound cache, which stays sound.
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "base/file.h"
#include "tests/fuzz/cache_sample.h"

namespace sparsmith {
namespace {

Cache sample_cache() {
  static const std::string path = fuzz::file_in_memory("own");
  fuzz::remove_database(path);
  if (!write_file_atomically(path, fuzz::cache_sample()).ok()) std::abort();
  auto cache = Cache::open(path, Cache::Mode::kReadWrite);
  if (!cache.ok()) std::abort();
  return std::move(*cache);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string path = fuzz::file_in_memory("import");
  static std::optional<Cache> own;
  if (!own) own = sample_cache();
  fuzz::remove_database(path);
  if (!write_file_atomically(path, {reinterpret_cast<const char*>(data), size}).ok()) std::abort();
  if (auto cache = Cache::open(path, Cache::Mode::kReadOnly); cache.ok()) {
    (void)cache->verify();
    (void)cache->counts();
    (void)cache->choices();
    (void)cache->weights();
  }
  const auto merged = own->merge_from(path);
  if (merged.ok()) {
    if (merged->binaries < 0 || merged->measurements < 0 || merged->choices < 0 || merged->damaged < 0) std::abort();
    (void)own->choices();
  }
  if (const auto problems = own->verify(); !problems.ok() || !problems->empty()) std::abort();
  // The next input meets the sample, not what this one brought.
  if (merged.ok()) own.reset();
  fuzz::remove_database(path);
  return 0;
}

}  // namespace sparsmith
