// Where the values of a packed weight lie: what it takes to write new ones into it.
//
// A place is the number of an element of the weight's type, counted through the format's value arrays one behind the
// other. Places are found by packing the pattern with numbers in place of values, so no format has code of its own for
// them.
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
  std::vector<std::uint32_t> first;  // of each nonzero, in the order of the pattern
  std::vector<PlaceCopy> copies;     // what formats that pad with copies of a nonzero have besides, in ascending places
};

// The places of the pattern in the packing of that name, with values of `type`. Takes as long as two to four packings,
// and their memory.
//   Errors: PackedFormat::pack()'s; kUnsupported beyond 2^32 elements or 2^42 nonzeros, and for coded values; kInternal
//   where what is between the values depends on them.
Result<Places> places_of(std::string_view packing, const SparsityPattern& pattern, DataType type);

// A value array and its share of the places.
struct ValueArray {
  std::string_view name;
  std::int64_t first_place = 0;
  std::int64_t count = 0;
};
// REQUIRES: a packing of a known format, with all its arrays.
std::vector<ValueArray> value_arrays(const PackedWeight& packed);

// What a plan that writes values binds to, besides the packing's own arrays: "places" (uint32[nnz]) and "place_copies"
// (uint32[][2]), facts of the same names for how many there are, and a fact for the count of each value array.
void add_places(const Places& places, PackedWeight& packed);
inline constexpr const char* kPlaces = "places";
inline constexpr const char* kPlaceCopies = "place_copies";
std::string place_count_fact(std::string_view value_array);

}  // namespace sparsmith
