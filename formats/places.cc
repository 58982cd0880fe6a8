#include "formats/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/ceil_div.h"
#include "base/half.h"
#include "formats/coding.h"
#include "formats/hybrid.h"
#include "formats/packed_format.h"

namespace sparsmith {
namespace {

constexpr int kMostRunBits = 6;
constexpr std::size_t kMostOffsets = 1 << 16;  // few enough to stay in a cache

// Elements for each nonzero, at most, of arrays that are written as a whole: then the index of each element takes no
// more bytes than places and 16-bit values that are kept.
constexpr std::int64_t kMostPadding = 2;
constexpr std::int64_t kMaskElements = 64;
constexpr std::int64_t kMaskWords = 3;
constexpr std::string_view kDense = "dense";
constexpr std::int64_t kMostElements = (std::int64_t{1} << 32) - 1;

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

std::size_t words_of(const PlaceArrays& arrays) { return arrays.runs.size() + arrays.offsets.size(); }

// Of ascending nonzeros.
PlaceArrays masks_of(const std::vector<std::uint32_t>& sources) {
  PlaceArrays masks{PlaceArrays::Kind::kMasks, kMostRunBits, {}, {}, {}};
  std::uint32_t next = 0;
  for (std::size_t first = 0; first < sources.size(); first += kMaskElements) {
    std::uint64_t mask = 0;
    const std::size_t count = std::min<std::size_t>(kMaskElements, sources.size() - first);
    for (std::size_t i = 0; i < count; ++i)
      if (sources[first + i] != PlaceArrays::kNoNonzero) mask |= std::uint64_t{1} << i;
    masks.runs.insert(masks.runs.end(),
                      {next, static_cast<std::uint32_t>(mask), static_cast<std::uint32_t>(mask >> 32)});
    next += std::popcount(mask);
  }
  return masks;
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

bool writes_all(std::string_view packing, std::int64_t elements, std::int64_t nonzeros) {
  if (nonzeros >= std::int64_t{PlaceArrays::kNoNonzero} || elements > kMostElements) return false;
  if (elements == nonzeros) return true;
  if (packing == kDense) return elements * kMaskWords <= nonzeros * kMaskElements;
  const auto values_alone = [](std::string_view name) {
    const Result<const PackedFormat*> format = packed_format(name);
    return format.ok() && (*format)->values_alone;
  };
  const auto hybrid = HybridPacking::named(without_transposed(packing));
  if (!values_alone(packing) || (hybrid && !values_alone(hybrid->rest))) return false;
  return elements <= nonzeros * kMostPadding;
}

PlaceArrays place_arrays(std::string_view packing, const Places& places, std::int64_t elements) {
  using Kind = PlaceArrays::Kind;
  PlaceArrays best;
  if (writes_all(packing, elements, std::ssize(places.first))) {
    best.kind = Kind::kSources;
    best.runs.assign(elements, PlaceArrays::kNoNonzero);
    for (std::size_t i = 0; i < places.first.size(); ++i) best.runs[places.first[i]] = static_cast<std::uint32_t>(i);
    for (const PlaceCopy& copy : places.copies) best.runs[copy.place] = copy.nonzero;
  } else {
    best.runs = places.first;
    best.copies = places.copies;
  }
  if (best.runs.empty()) return best;
  const std::vector<std::uint32_t> indices = best.runs;
  const bool sources = best.kind == Kind::kSources;
  for (int bits = kMostRunBits; 1 << bits >= PlaceArrays::kGroup; --bits) {
    const std::size_t length = std::size_t{1} << bits;
    if (indices.size() % length != 0) continue;
    PlaceArrays found{best.kind, bits, {}, {}, best.copies};
    std::unordered_map<std::string, std::uint32_t> kinds;  // where their offsets begin, by these
    std::vector<std::uint32_t> offsets(length);
    std::size_t first = 0;
    for (; first < indices.size() && words_of(found) < words_of(best); first += length) {
      const auto run = std::span(indices).subspan(first, length);
      const auto is_none = [&](std::uint32_t index) { return sources && index == PlaceArrays::kNoNonzero; };
      const auto base = std::ranges::find_if_not(run, is_none);
      for (std::size_t i = 0; i < length; ++i) offsets[i] = is_none(run[i]) ? run[i] : run[i] - *base;
      const std::string bytes(reinterpret_cast<const char*>(offsets.data()), length * sizeof(std::uint32_t));
      const auto [kind, is_new] = kinds.try_emplace(bytes, static_cast<std::uint32_t>(found.offsets.size()));
      if (is_new) found.offsets.insert(found.offsets.end(), offsets.begin(), offsets.end());
      if (found.offsets.size() > kMostOffsets) break;
      found.runs.push_back(base == run.end() ? 0 : *base);
      found.runs.push_back(kind->second);
    }
    if (first == indices.size() && words_of(found) < words_of(best)) best = std::move(found);
  }
  if (!sources || !places.copies.empty() || value_array_names(packing).size() > 1 ||
      !std::ranges::is_sorted(places.first))
    return best;
  PlaceArrays masks = masks_of(indices);
  return words_of(masks) < words_of(best) ? std::move(masks) : best;
}

Result<std::vector<std::uint32_t>> indices_of(const PlaceArrays& arrays, std::int64_t count, std::int64_t nonzeros) {
  using Kind = PlaceArrays::Kind;
  const auto& [kind, bits, runs, run_offsets, copies] = arrays;
  const bool masks = kind == Kind::kMasks;
  const auto length = static_cast<std::size_t>(std::int64_t{1} << std::clamp(bits, 0, kMostRunBits));
  const std::size_t each = masks ? kMaskWords : bits == 0 ? 1 : 2;
  const auto all = static_cast<std::size_t>(count);
  const auto most = static_cast<std::uint64_t>(nonzeros);
  if ((bits != 0 && length < PlaceArrays::kGroup) || (masks && length != kMaskElements) ||
      (!masks && all % length != 0) || runs.size() != ceil_div(all, length) * each)
    return invalid_input(fmt::format("{} places are not in runs of {}", count, length));
  std::vector<std::uint32_t> indices;
  indices.reserve(all);
  for (std::size_t run = 0; run < runs.size(); run += each) {
    const std::size_t begin = each == 2 ? runs[run + 1] : 0;
    if (each == 2 && (begin % length != 0 || begin > run_offsets.size() || run_offsets.size() - begin < length))
      return invalid_input(fmt::format("a run of places begins at offset {} of {}", begin, run_offsets.size()));
    const std::uint64_t mask = masks ? runs[run + 1] | std::uint64_t{runs[run + 2]} << 32 : 0;
    for (std::size_t i = 0; i < length; ++i) {
      const std::uint32_t offset = masks       ? std::popcount(mask & ((std::uint64_t{1} << i) - 1))
                                   : each == 1 ? 0
                                               : run_offsets[begin + i];
      const bool is_none = masks
                               ? (mask >> i & 1) == 0
                               : kind == Kind::kSources && (each == 1 ? runs[run] : offset) == PlaceArrays::kNoNonzero;
      if (masks && indices.size() == all) {
        if (mask >> i != 0) return invalid_input(fmt::format("a mask has places beyond {}", count));
        break;
      }
      indices.push_back(is_none ? PlaceArrays::kNoNonzero : runs[run] + offset);
      if (kind != Kind::kPlaces && !is_none && indices.back() >= most)
        return invalid_input(fmt::format("a place has nonzero {} of {}", indices.back(), nonzeros));
    }
  }
  for (const PlaceCopy& copy : copies)
    if (copy.nonzero >= most) return invalid_input(fmt::format("a copy of nonzero {} of {}", copy.nonzero, nonzeros));
  return indices;
}

void add_places(const Places& places, PackedWeight& packed) {
  std::int64_t elements = 0;
  for (const ValueArray& array : value_arrays(packed)) {
    packed.facts[place_count_fact(array.name)] = array.count;
    elements += array.count;
  }
  const PlaceArrays made = place_arrays(packed.packing, places, elements);
  packed.arrays.push_back(array_of(kPlaceRuns, DataType::kUint32, made.runs));
  packed.arrays.push_back(array_of(kPlaceOffsets, DataType::kUint32, made.offsets));
  packed.arrays.push_back(array_of(kPlaceCopies, DataType::kUint32, made.copies));
  packed.facts[kPlaces] = made.kind == PlaceArrays::Kind::kPlaces ? std::ssize(places.first) : elements;
  packed.facts[kPlaceRunBits] = made.bits;
  packed.facts[kPlaceKind] = static_cast<std::int64_t>(made.kind);
  packed.facts[kPlaceCopies] = std::ssize(made.copies);
}

std::int64_t bytes_with_places(const PackedWeight& packed) {
  constexpr std::int64_t kIndexBytes = sizeof(std::uint32_t);
  std::int64_t elements = 0;
  std::int64_t room = 0;
  for (const ValueArray& array : value_arrays(packed)) {
    elements += array.count;
    room += array_room(array.count * static_cast<std::int64_t>(size_of(packed.value_type)));
  }
  if (elements == 0) return packed.bytes();
  if (!writes_all(packed.packing, elements, packed.nnz)) return packed.bytes() + packed.nnz * kIndexBytes;
  if (packed.packing == kDense) return packed.bytes() + ceil_div(elements, kMaskElements) * kMaskWords * kIndexBytes;
  return packed.bytes() - room + elements * kIndexBytes;
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
  if (!arrays.empty() && arrays.back().first_place + arrays.back().count > kMostElements)
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
