// Any bytes as the file of a cache: opened, checked, read, and taken over into a sound cache, which stays sound.
#include <cstdint>
#include <cstdlib>

#include "base/file.h"
#include "tests/fuzz/cache_sample.h"

namespace sparsmith {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string path = fuzz::file_in_memory("import");
  static const std::string own = fuzz::file_in_memory("own");
  fuzz::remove_database(path);
  fuzz::remove_database(own);
  if (!write_file_atomically(path, {reinterpret_cast<const char*>(data), size}).ok()) std::abort();
  if (auto cache = Cache::open(path, Cache::Mode::kReadOnly); cache.ok()) {
    (void)cache->verify();
    (void)cache->counts();
    (void)cache->choices();
    (void)cache->weights();
  }
  if (!write_file_atomically(own, fuzz::cache_sample()).ok()) std::abort();
  auto cache = Cache::open(own, Cache::Mode::kReadWrite);
  if (!cache.ok()) std::abort();
  const auto merged = cache->merge_from(path);
  if (merged.ok()) {
    if (merged->binaries < 0 || merged->measurements < 0 || merged->choices < 0 || merged->damaged < 0) std::abort();
    (void)cache->choices();
  }
  if (const auto problems = cache->verify(); !problems.ok() || !problems->empty()) std::abort();
  fuzz::remove_database(path);
  fuzz::remove_database(own);
  return 0;
}

}  // namespace sparsmith
