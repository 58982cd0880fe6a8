// What the tests of all families ask of one: each family says it in a file of its own beside this one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/kernel_cases.h"

namespace sparsmith::test {

struct PackedCase : KernelCase {
  PackedWeight packed;
};
using Cases = std::vector<PackedCase>;  // of one kernel

// A mistake that the tests of kernels must see: a change of a kernel's text.
struct Mutation {
  using Matters = std::function<bool(const Config&, const Cases&)>;

  const char* name;
  const char* from;  // text that stands once in the kernel
  const char* to;
  Matters matters;  // whether the mistake changes what a kernel of this config does on some of these weights
};

// How blocks along an axis of a grid share out `work`: all of it is covered, with less than a block to spare.
struct AxisWork {
  static constexpr std::int64_t kMostBlocks = 65535;  // of a grid's y

  int axis = 0;
  std::int64_t work = 0;
  std::int64_t per_block = 1;
  std::int64_t factor = 1;  // blocks for each `per_block`
  std::int64_t most = kMostBlocks;

  std::int64_t blocks() const {
    std::int64_t needed = 0;
    while (needed * per_block < work) ++needed;
    return std::min(std::max<std::int64_t>(needed * factor, 1), most);
  }
};
inline AxisWork tokens_of_grid(std::int64_t n, std::int64_t tile) { return {.axis = 1, .work = n, .per_block = tile}; }
inline AxisWork rows_of_grid(std::int64_t count, std::int64_t per_block, std::int64_t factor = 1) {
  return {.axis = 0, .work = count, .per_block = per_block, .factor = factor};
}
inline AxisWork parts_of_grid(std::int64_t parts) { return {.axis = 2, .work = parts}; }

// Whether a weight holds all of 16 aligned rows by 32 columns, twice.
inline bool holds_whole_words(const CsrMatrix& matrix) {
  std::map<std::pair<std::int64_t, std::int64_t>, int> held;
  for (std::int64_t row = 0; row < matrix.rows; ++row)
    for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i)
      ++held[{row / 16, matrix.column_indices[i] / 32}];
  return std::ranges::count_if(held, [](const auto& word) { return word.second == 16 * 32; }) > 1;
}

struct KnownFamily {
  const std::vector<Mutation>& (*mutations)();
  // The grid of the family's own kernel at N = n.
  std::vector<AxisWork> (*grid)(const KernelCase&, const PackedWeight&, std::int64_t n);
};

// By name.
std::map<std::string, KnownFamily>& known_families();

struct Registration {
  Registration(const char* name, KnownFamily family) { known_families().emplace(name, family); }
};

}  // namespace sparsmith::test
