// What is computed from a weight, and the arrays that it takes. Plain values.
#pragma once

#include <cstdint>
#include <string_view>

#include "sparsmith/data_type.h"

namespace sparsmith {

// What is computed from a weight.
enum class OperatorKind : std::uint8_t {
  kSpmm,            // Y = W X
  kSpmmTransposed,  // Y = W^T X: a layer's gradient of X from that of Y
  kSddmm,           // values = dY X^T where W has elements: the gradient of W
};
inline constexpr OperatorKind kOperatorKinds[] = {OperatorKind::kSpmm, OperatorKind::kSpmmTransposed,
                                                  OperatorKind::kSddmm};

// How an operator uses an operand.
enum class Access : std::uint8_t { kIn, kOut, kInOut };

// A size of an operand: a number, or N.
struct Extent {
  std::int64_t fixed = 0;
  bool is_tokens = false;

  std::int64_t of(std::int64_t tokens) const { return is_tokens ? tokens : fixed; }
  bool operator==(const Extent&) const = default;
};

// An array that an operator reads or writes besides the weight: `lines` of `length` elements, one behind the other or
// with gaps.
struct Operand {
  std::string_view name;
  DataType type = DataType::kFloat32;
  Access access = Access::kIn;
  Extent lines;
  Extent length;
  bool has_stride = true;  // from line to line, in elements. Not of a vector
  bool present = true;     // false: the operator was made without it

  // Elements of an array whose lines are `stride` elements apart.
  std::int64_t elements(std::int64_t tokens, std::int64_t stride) const {
    return lines.of(tokens) * (has_stride ? stride : length.of(tokens));
  }
  bool operator==(const Operand&) const = default;
};

}  // namespace sparsmith
