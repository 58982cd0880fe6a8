#include "formats/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "base/half.h"
#include "formats/coding.h"
#include "formats/packed_format.h"

namespace sparsmith {
namespace {

constexpr int kMostRunBits = 6;
constexpr std::size_t kMostOffsets = 1 << 16;  // few enough to stay in a cache

// A number of a nonzero is packed digit by digit, as values whose bits are 1 + digit: finite, and no zero in any type.
int digit_bits(DataType type) { return type == DataType::kFloat32 ? 30 : 14; }

float value_of_bits(std::uint32_t bits, DataType type) {
  switch (type) {
    case DataType::kFloat16: return float_from_fp16(static_cast<std::uint16_t>(bits));
    case DataType::kBFloat16: return float_from_bf16(static_cast<std::uint16_t>(bits));
    default: return std::bit_cast<float>(bits);
  }
}

std::uint32_t element(const PackedWeight& packed, std::size_t array, std::int64_t i) {
  std::uint32_t bits = 0;
  const std::size_t size = size_of(packed.value_type);
  std::memcpy(&bits, packed.arrays[array].bytes.data() + static_cast<std::size_t>(i) * size, size);
  return bits;
}

// The pattern, packed with one digit of each nonzero's number.
class NumberedWeight {
 public:
  NumberedWeight(std::string_view packing, const SparsityPattern& pattern, DataType type)
      : packing_(packing), type_(type) {
    static_cast<SparsityPattern&>(matrix_) = pattern;
    matrix_.data_type = type;
    matrix_.values.resize(pattern.nnz());
  }

  // opposite: with the digit's complement, which differs from it for each nonzero.
  Result<PackedWeight> pack(int digit, bool opposite) {
    const int bits = digit_bits(type_);
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    for (std::size_t i = 0; i < matrix_.values.size(); ++i) {
      const std::uint64_t number = (i >> (digit * bits) & mask) ^ (opposite ? mask : 0);
      matrix_.values[i] = value_of_bits(static_cast<std::uint32_t>(number) + 1, type_);
    }
    return sparsmith::pack(packing_, matrix_, type_);
  }

 private:
  const std::string_view packing_;
  const DataType type_;
  CsrMatrix matrix_;
};

Status not_of_the_pattern_alone(const PackedWeight& packed, std::string_view part) {
  return internal_error(fmt::format("{}: {} depends on values", packed.packing, part));
}

// All but the value arrays.
Status check_structure(const PackedWeight& one, const PackedWeight& other, const std::vector<ValueArray>& values) {
  if (one.facts != other.facts || one.arrays.size() != other.arrays.size())
    return not_of_the_pattern_alone(one, "a fact, or the number of arrays,");
  for (std::size_t i = 0; i < one.arrays.size(); ++i) {
    const PackedArray& array = one.arrays[i];
    const bool has_values = std::ranges::find(values, array.name, &ValueArray::name) != values.end();
    if (array.bytes.size() != other.arrays[i].bytes.size() || (!has_values && array.bytes != other.arrays[i].bytes))
      return not_of_the_pattern_alone(one, "array " + array.name);
  }
  return {};
}

}  // namespace

std::vector<ValueArray> value_arrays(const PackedWeight& packed) {
  std::vector<ValueArray> arrays;
  std::int64_t place = 0;
  for (std::string& name : value_array_names(packed.packing)) {
    const auto bytes = static_cast<std::int64_t>(packed.array(name)->bytes.size());
    const auto count = bytes / static_cast<std::int64_t>(size_of(packed.value_type));
    arrays.push_back({std::move(name), place, count});
    place += count;
  }
  return arrays;
}

std::string place_count_fact(std::string_view value_array) { return fmt::format("places_in_{}", value_array); }

PlaceRuns runs_of(std::span<const std::uint32_t> places) {
  PlaceRuns best{0, {places.begin(), places.end()}, {}};
  if (places.empty()) return best;
  const auto size_of_runs = [](const PlaceRuns& of) { return of.runs.size() + of.offsets.size(); };
  for (int bits = kMostRunBits; bits > 0; --bits) {
    const std::size_t length = std::size_t{1} << bits;
    if (places.size() % length != 0) continue;
    PlaceRuns found{bits, {}, {}};
    std::map<std::vector<std::uint32_t>, std::uint32_t> kinds;  // where their offsets begin
    std::vector<std::uint32_t> offsets(length);
    std::size_t first = 0;
    for (; first < places.size() && size_of_runs(found) < size_of_runs(best); first += length) {
      for (std::size_t i = 0; i < length; ++i) offsets[i] = places[first + i] - places[first];
      const auto [kind, is_new] = kinds.emplace(offsets, static_cast<std::uint32_t>(found.offsets.size()));
      if (is_new) found.offsets.insert(found.offsets.end(), offsets.begin(), offsets.end());
      if (found.offsets.size() > kMostOffsets) break;
      found.runs.push_back(places[first]);
      found.runs.push_back(kind->second);
    }
    if (first == places.size() && size_of_runs(found) < size_of_runs(best)) best = std::move(found);
  }
  return best;
}

Result<std::vector<std::uint32_t>> all_places(const PlaceRuns& runs, std::span<const PlaceCopy> copies,
                                              std::int64_t nonzeros) {
  const auto length = static_cast<std::size_t>(std::int64_t{1} << std::clamp(runs.bits, 0, kMostRunBits));
  const std::size_t each = runs.bits == 0 ? 1 : 2;
  const auto count = static_cast<std::size_t>(nonzeros);
  if (count % length != 0 || runs.runs.size() != count / length * each)
    return invalid_input(fmt::format("{} places are not in runs of {}", nonzeros, length));
  std::vector<std::uint32_t> places;
  places.reserve(count + copies.size());
  for (std::size_t run = 0; run < runs.runs.size(); run += each) {
    const std::size_t begin = each == 1 ? 0 : runs.runs[run + 1];
    if (each == 2 && (begin > runs.offsets.size() || runs.offsets.size() - begin < length))
      return invalid_input(fmt::format("a run of places begins at offset {} of {}", begin, runs.offsets.size()));
    for (std::size_t i = 0; i < length; ++i)
      places.push_back(runs.runs[run] + (each == 1 ? 0 : runs.offsets[begin + i]));
  }
  for (const PlaceCopy& copy : copies) {
    if (copy.nonzero >= count) return invalid_input(fmt::format("a copy of nonzero {} of {}", copy.nonzero, nonzeros));
    places.push_back(copy.place);
  }
  return places;
}

void add_places(const Places& places, PackedWeight& packed) {
  for (const ValueArray& array : value_arrays(packed)) packed.facts[place_count_fact(array.name)] = array.count;
  const PlaceRuns runs = runs_of(places.first);
  packed.arrays.push_back(array_of(kPlaceRuns, DataType::kUint32, runs.runs));
  packed.arrays.push_back(array_of(kPlaceOffsets, DataType::kUint32, runs.offsets));
  packed.arrays.push_back(array_of(kPlaceCopies, DataType::kUint32, places.copies));
  packed.facts[kPlaces] = std::ssize(places.first);
  packed.facts[kPlaceRunBits] = runs.bits;
  packed.facts[kPlaceCopies] = std::ssize(places.copies);
}

Result<Places> places_of(std::string_view packing, const SparsityPattern& pattern, DataType type) {
  if (coding_of(without_transposed(packing)) != nullptr)
    return unsupported(fmt::format("{}: new values would need new scales, which no kernel writes", packing));
  if (!holds_values(packing)) return Places();
  const int bits = digit_bits(type);
  const int digits = (static_cast<int>(std::bit_width(static_cast<std::uint64_t>(pattern.nnz()))) + bits - 1) / bits;
  if (digits > 3) return unsupported(fmt::format("{}: {} nonzeros have no places", packing, pattern.nnz()));
  NumberedWeight numbered(packing, pattern, type);
  std::vector<PackedWeight> packed;
  for (int digit = 0; digit < std::max(1, digits); ++digit) {
    SPARSMITH_ASSIGN_OR_RETURN(packed.emplace_back(), numbered.pack(digit, false));
  }
  SPARSMITH_ASSIGN_OR_RETURN(const PackedWeight opposite, numbered.pack(0, true));
  const std::vector<ValueArray> arrays = value_arrays(opposite);
  for (const PackedWeight& each : packed) SPARSMITH_RETURN_IF_ERROR(check_structure(each, opposite, arrays));
  constexpr std::int64_t kMost = (std::int64_t{1} << 32) - 1;
  if (!arrays.empty() && arrays.back().first_place + arrays.back().count > kMost)
    return unsupported(fmt::format("{}: over 2^32 elements have no places", packing));

  constexpr std::uint32_t kNone = 0xFFFFFFFFU;
  Places places;
  places.first.assign(pattern.nnz(), kNone);
  for (const ValueArray& array : arrays) {
    const auto at = static_cast<std::size_t>(std::ranges::find(opposite.arrays, array.name, &PackedArray::name) -
                                             opposite.arrays.begin());
    for (std::int64_t i = 0; i < array.count; ++i) {
      if (element(packed[0], at, i) == element(opposite, at, i)) continue;
      std::uint64_t number = 0;
      for (int digit = 0; digit < digits; ++digit)
        number |= std::uint64_t{element(packed[digit], at, i) - 1} << (digit * bits);
      if (number >= places.first.size()) return not_of_the_pattern_alone(opposite, "array " + array.name);
      const auto place = static_cast<std::uint32_t>(array.first_place + i);
      if (places.first[number] == kNone) {
        places.first[number] = place;
      } else {
        places.copies.push_back({static_cast<std::uint32_t>(number), place});
      }
    }
  }
  if (std::ranges::find(places.first, kNone) != places.first.end())
    return internal_error(fmt::format("{}: a nonzero has no place", packing));
  return places;
}

}  // namespace sparsmith
