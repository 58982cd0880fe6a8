// The counts behind sparsity statistics, of a pattern whose rows come as bit masks. No CsrMatrix is built.
#pragma once

#include <cstdint>
#include <functional>

#include "matrix/sparsity_statistics.h"

namespace sparsmith {

struct MaskedRows {
  // Sets bit c of `mask` ([ceil(cols / 64)] words) where the row holds a nonzero in column c; the bits behind the last
  // column are 0. Returns false when the row is at fault; the mask then means nothing. Several threads call it.
  std::function<bool(std::int64_t row, std::uint64_t* mask)> read;
  std::int64_t row_bytes = 1;  // that read() goes through: threads take rows by them
  std::int64_t chunk_bytes = std::int64_t{4} << 20;
  // Rows [begin, end) have been read. Several threads call it; may be empty.
  std::function<void(std::int64_t begin, std::int64_t end)> release{};
};

// Adds up `counts`, which have a shape. Returns the first row at fault, at which the counts mean nothing; the number of
// rows: there is none.
std::int64_t count_masks(const MaskedRows& rows, int threads, PatternCounts& counts);

}  // namespace sparsmith
