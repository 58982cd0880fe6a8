// Kinds of operators, and the arrays that an operator reads and writes. Plain values.
#pragma once

#include <cstdint>
#include <string_view>

#include "sparsmith/data_type.h"

namespace sparsmith {

// A computation with a weight.
enum class OperatorKind : std::uint8_t {
  kSpmm,            // Y = W X
  kSpmmTransposed,  // Y = W^T X: the gradient of a layer's X from the gradient of its Y
  kSddmm,           // values = dY X^T at the pattern of W: the gradient of W
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

// An array of an operator besides the weight: `lines` lines of `length` elements, with or without gaps between lines.
struct Operand {
  std::string_view name;
  DataType type = DataType::kFloat32;
  Access access = Access::kIn;
  Extent lines;
  Extent length;
  bool has_stride = true;  // elements from line to line; a vector has none
  bool present = true;     // false: the operator was made without this operand

  // Elements of an array whose lines are `stride` elements apart.
  std::int64_t elements(std::int64_t tokens, std::int64_t stride) const {
    return lines.of(tokens) * (has_stride ? stride : length.of(tokens));
  }
  bool operator==(const Operand&) const = default;
};

}  // namespace sparsmith
