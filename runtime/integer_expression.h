// Integer formulas of a launch plan, such as "ceil_div(n, 8) * 132", parsed once and evaluated per launch
// without allocating.
//
// Grammar: + - * / (floor) % (sign of the divisor), parentheses, min(a, b), max(a, b), ceil_div(a, b), decimal
// integers, which a minus sign may precede, and the variables n (tokens), ldx, ldy, ldr (leading dimensions of X, Y and
// the residual, in elements). Values are 64-bit; division by zero and overflow are errors.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

struct IntegerVariables {
  std::int64_t n = 1;
  std::int64_t ldx = 0;
  std::int64_t ldy = 0;
  std::int64_t ldr = 0;
};

class IntegerExpression {
 public:
  IntegerExpression() : IntegerExpression(0) {}
  IntegerExpression(std::int64_t constant);  // NOLINT(google-explicit-constructor): plans mix constants and formulas

  // At most 1,000 characters; nesting at most 64 deep.
  static Result<IntegerExpression> parse(std::string_view text);

  Result<std::int64_t> evaluate(const IntegerVariables& variables) const;
  const std::string& text() const { return text_; }
  bool operator==(const IntegerExpression& other) const { return text_ == other.text_; }

 private:
  enum class Code : std::uint8_t {
    kConstant,
    kVariable,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kModulo,
    kMin,
    kMax,
    kCeilDiv
  };
  struct Instruction {
    Code code;
    std::int64_t operand;  // the constant, or the index of the variable
  };
  class Parser;

  std::string text_;
  std::vector<Instruction> program_;  // postfix
};

}  // namespace sparsmith
