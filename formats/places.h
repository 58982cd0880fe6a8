// The places of the values in a packed weight, for writing new values into it.
//
// A place is the index of an element of the weight's type, counted over the format's value arrays one behind the other.
// Places are found by packing the pattern with numbers in place of values. So formats need no code for them. A packing
// of a pattern alone has none.
#pragma once

#include <cstdint>
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

// Adds what a plan that writes values binds to, besides the packing's own arrays: "places" (uint32[nnz]) and
// "place_copies" (uint32[][2]), facts of the same names with their lengths, and a fact for the count of each value
// array.
void add_places(const Places& places, PackedWeight& packed);
inline constexpr const char* kPlaces = "places";
inline constexpr const char* kPlaceCopies = "place_copies";
std::string place_count_fact(std::string_view value_array);

}  // namespace sparsmith
