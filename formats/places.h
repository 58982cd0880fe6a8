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

// The places of all nonzeros in few bytes: 4 a nonzero at most. A run is 2^bits nonzeros that follow each other; runs
// of one kind have the same offsets from the place of their first nonzero.
struct PlaceRuns {
  int bits = 0;
  std::vector<std::uint32_t> runs;  // bits = 0: places. Else of each run the first place, and where its offsets begin
  std::vector<std::uint32_t> offsets;  // 2^bits of each kind, to be added in 32 bits
};
// Of Places::first. Takes the fewest bytes of all run lengths up to 64 that divide the number of nonzeros.
PlaceRuns runs_of(std::span<const std::uint32_t> places);

// The places of `nonzeros` nonzeros, and of the copies behind them. The arguments may be of unknown origin. Error:
// kInvalidInput where a nonzero or an offset does not exist; places are not checked.
Result<std::vector<std::uint32_t>> all_places(const PlaceRuns& runs, std::span<const PlaceCopy> copies,
                                              std::int64_t nonzeros);

// Adds what a plan that writes values binds to, besides the packing's own arrays: "place_runs" and "place_offsets" of
// PlaceRuns, and "place_copies" (uint32[][2]); facts: "places" (nnz), "place_run_bits", "place_copies", and the count
// of each value array.
void add_places(const Places& places, PackedWeight& packed);
inline constexpr const char* kPlaceRuns = "place_runs";
inline constexpr const char* kPlaceOffsets = "place_offsets";
inline constexpr const char* kPlaceCopies = "place_copies";  // the fact, too
inline constexpr const char* kPlaces = "places";
inline constexpr const char* kPlaceRunBits = "place_run_bits";
std::string place_count_fact(std::string_view value_array);

}  // namespace sparsmith
