// The places of the values in a packed weight, for writing new values into it.
//
// A place is the index of an element of the weight's type, counted over the format's value arrays one behind the other.
// Places are found by packing the pattern with numbers in place of values. So formats need no code for them. A packing
// of a pattern alone has none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

struct PlaceCopy {
  std::uint32_t nonzero = 0;
  std::uint32_t place = 0;
  bool operator==(const PlaceCopy&) const = default;
};

struct Places {
  std::vector<std::uint32_t> first;  // the place of each nonzero, in the order of the pattern
  std::vector<PlaceCopy> copies;     // further places, in formats that pad with copies of a nonzero; ascending
};

// The places of the pattern in the packing of this name, with values of `type`. Takes the time and memory of two to
// four packings.
//   Errors: those of PackedFormat::pack(); kUnsupported beyond 2^32 elements or 2^42 nonzeros, and for coded values;
//   kInternal if the numbers between the values depend on the values.
Result<Places> places_of(std::string_view packing, const SparsityPattern& pattern, DataType type);

// A value array and its share of the places.
struct ValueArray {
  std::string name;
  std::int64_t first_place = 0;
  std::int64_t count = 0;
};
// REQUIRES: a packing of a known format, with all its arrays.
std::vector<ValueArray> value_arrays(const PackedWeight& packed);

// Whether writers write all elements of a packing's value arrays, zeros where no value lies. They do where padding is
// little, and for the dense packing where masks take fewer bytes than places. Such arrays need no memory between
// writes.
bool writes_all(std::string_view packing, std::int64_t elements, std::int64_t nonzeros);

// What a plan that writes values binds to, besides the packing's own arrays and facts: indices in few bytes, 4 each at
// most. A run is 2^bits indices that follow each other; runs of one kind have the same offsets from a first index.
struct PlaceArrays {
  static constexpr std::uint32_t kNoNonzero = 0x80000000U;
  static constexpr int kGroup = 8;  // indices of a thread: no run is shorter

  enum class Kind {
    kPlaces,   // the indices are places, of one nonzero after the other
    kSources,  // they are nonzeros, of one element of the value arrays after the other (writes_all()), or kNoNonzero
    kMasks,    // the same where nonzeros ascend: of each 64 elements the first nonzero, and in two words which have one
  };
  Kind kind = Kind::kPlaces;
  int bits = 0;
  std::vector<std::uint32_t> runs;     // bits = 0: indices. Else of each run a first index, and where its offsets begin
  std::vector<std::uint32_t> offsets;  // 2^bits of each kind, to be added in 32 bits; kNoNonzero stays
  std::vector<PlaceCopy> copies;       // of places
};
// `elements`: of all value arrays. Takes the fewest bytes of all run lengths up to 64 that divide the indices.
PlaceArrays place_arrays(std::string_view packing, const Places& places, std::int64_t elements);
// The `count` indices of arrays of unknown origin. Error: kInvalidInput where an offset or a nonzero does not exist.
Result<std::vector<std::uint32_t>> indices_of(const PlaceArrays& arrays, std::int64_t count, std::int64_t nonzeros);

// Adds the arrays "place_runs", "place_offsets" and "place_copies" (uint32); the facts "places" (indices),
// "place_run_bits", "place_kind" (PlaceArrays::Kind), "place_copies", and the count of each value array.
void add_places(const Places& places, PackedWeight& packed);
inline constexpr const char* kPlaceRuns = "place_runs";
inline constexpr const char* kPlaceOffsets = "place_offsets";
inline constexpr const char* kPlaceCopies = "place_copies";  // the fact, too
inline constexpr const char* kPlaces = "places";
inline constexpr const char* kPlaceRunBits = "place_run_bits";
inline constexpr const char* kPlaceKind = "place_kind";
std::string place_count_fact(std::string_view value_array);

// GPU bytes, at most, of a packing that each run writes: with these arrays, and without values that are written as a
// whole, but for dense ones, which libraries read (runtime/training_memory.h).
std::int64_t bytes_with_places(const PackedWeight& packed);

}  // namespace sparsmith
