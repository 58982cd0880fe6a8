// The indices of places, which PyTorch layers may bring from anywhere.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "formats/places.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using sparsmith::PlaceArrays;
  constexpr std::size_t kHead = 8;
  if (size < kHead) return 0;
  const std::int64_t count = data[2] + 256 * data[3];
  const std::uint32_t nonzeros = data[4] + 256U * data[5];
  std::size_t at = kHead;
  const auto words = [&](std::size_t most) {
    std::vector<std::uint32_t> all(std::min(most, (size - at) / 4));
    if (!all.empty()) std::memcpy(all.data(), data + at, 4 * all.size());
    at += 4 * all.size();
    return all;
  };
  PlaceArrays arrays{static_cast<PlaceArrays::Kind>(data[0] % 3), data[1] % 9, words(data[6]), words(data[7]), {}};
  const std::vector<std::uint32_t> copies = words(size);
  for (std::size_t i = 0; i + 1 < copies.size(); i += 2) arrays.copies.push_back({copies[i], copies[i + 1]});
  const auto indices = sparsmith::indices_of(arrays, count, nonzeros);
  if (!indices.ok()) return 0;
  // What a kernel would read.
  if (std::ssize(*indices) != count) std::abort();
  for (const sparsmith::PlaceCopy& copy : arrays.copies)
    if (copy.nonzero >= nonzeros) std::abort();
  for (const std::uint32_t index : *indices)
    if (arrays.kind != PlaceArrays::Kind::kPlaces && index != PlaceArrays::kNoNonzero && index >= nonzeros)
      std::abort();
  return 0;
}
