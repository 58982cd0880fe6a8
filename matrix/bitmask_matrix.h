// Weights that compressed-tensors stores as bits and values ("sparse-bitmask", "sparse-24-bitmask"). The parts of the
// weight L.weight with R rows and C columns are tensors of their own:
//
//   L.shape        I64 [2] or [2, 1]: R and C
//   L.bitmask      U8 [R, ceil(C / 8)]: bit i of byte b is set where the row stores the element of column 8 b + i
//   L.compressed   the stored elements, row by row: flat; of a 2:4 weight [R, C / 2], two of each four columns
//   L.row_offsets  I64 [R]: the number of elements that the rows above store; a 2:4 weight has none
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/memory_limit.h"
#include "matrix/csr_matrix.h"
#include "matrix/safetensors.h"
#include "matrix/sparsity_statistics.h"

namespace sparsmith {

// kWeight: L.weight itself, which must not be there a second time.
enum class BitmaskPart : std::uint8_t { kShape, kBitmask, kCompressed, kRowOffsets, kWeight };
inline constexpr std::array<std::string_view, 5> kBitmaskParts = {"shape", "bitmask", "compressed", "row_offsets",
                                                                  "weight"};

// "L" and the part for "L.shape"; nothing for the name of no part.
std::optional<std::pair<std::string_view, BitmaskPart>> bitmask_part(std::string_view name);

struct BitmaskTensors {
  struct Place {
    const SafetensorsEntry* entry = nullptr;  // null: the part is missing
    std::size_t file = 0;                     // index of the header that has it
  };
  std::array<Place, kBitmaskParts.size()> parts{};

  const Place& place(BitmaskPart part) const { return parts[static_cast<std::size_t>(part)]; }
  const SafetensorsEntry* find(BitmaskPart part) const { return place(part).entry; }
};

// By L, every L with at least two of shape, bitmask and compressed. One tensor of such a name alone means nothing. The
// headers outlive the result.
std::map<std::string_view, BitmaskTensors> find_bitmask_tensors(std::span<const SafetensorsHeader> headers);

// The parts in the bytes of their files, which outlive the object. The contents are not checked yet.
struct BitmaskMatrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DataType data_type = DataType::kFloat32;
  std::int64_t stored = 0;  // elements of `compressed`; some may be 0
  std::span<const std::byte> bitmask;
  std::span<const std::byte> compressed;
  std::span<const std::byte> row_offsets;  // of a 2:4 weight: empty
  bool two_four = false;
};

// Checks types and shapes of the parts. `files`: the bytes of the files, in the order of the headers; the parts may lie
// in several, since a model is split at any tensor. `data_type` means something where `compressed` has the type of a
// weight.
//   Error: kInvalidInput with the tensor and the reason.
Result<BitmaskMatrix> bitmask_matrix(std::string_view module, const BitmaskTensors& tensors,
                                     std::span<const std::span<const std::byte>> files);

// The nonzeros: stored zeros are dropped, as in every file. Uses all cores.
//   Errors: kInvalidInput with the row and the reason when the parts contradict each other, or when an element is not
//   finite; kOutOfMemory for more than `max_bytes`.
Result<CsrMatrix> csr_from_bitmask(const BitmaskMatrix& matrix, std::int64_t max_bytes = kNoMemoryLimit);

// Called after the last read of `bytes`, which are of one part. Any of the threads may call it.
using ReleasePart = std::function<void(std::span<const std::byte> bytes)>;

// The result of compute_statistics(csr_from_bitmask(matrix)), in one pass over the parts on `threads` threads. Needs
// memory only for a few rows and for the row and column counts. Error: kInvalidInput as csr_from_bitmask.
Result<SparsityStatistics> compute_bitmask_statistics(const BitmaskMatrix& matrix, int threads,
                                                      const ReleasePart& release = {});

}  // namespace sparsmith
