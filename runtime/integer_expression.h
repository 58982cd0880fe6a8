// Integer formulas of a launch plan, such as "ceil_div(n, 8) * 132", parsed once and evaluated per launch
// without allocating.
//
// Grammar: + - * / (floor) % (sign of the divisor), parentheses, min(a, b), max(a, b), ceil_div(a, b), decimal
// integers, which a minus sign may precede, and the variables n (tokens), ld.NAME (elements from line to line of the
// operand NAME) and fact.NAME (a fact of the packed weight). Tuned files before version 4 say ldx, ldy and ldr for
// ld.x, ld.y and ld.residual. Values are 64-bit; division by zero and overflow are errors.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/packed_weight.h"
#include "sparsmith/named_values.h"
#include "sparsmith/status.h"

namespace sparsmith {

struct IntegerVariables {
  std::int64_t n = 1;
  NamedValues<std::int64_t> strides{};  // by the names of operands
  const Facts* facts = nullptr;         // null: there are none
};

class IntegerExpression {
 public:
  IntegerExpression() : IntegerExpression(0) {}
  IntegerExpression(std::int64_t constant);  // NOLINT(google-explicit-constructor): plans mix constants and formulas

  // At most 1,000 characters; nesting at most 64 deep.
  static Result<IntegerExpression> parse(std::string_view text);

  // Of a text of this program's own. One that does not parse is a bug: evaluate() then says so.
  static IntegerExpression of(std::string_view text);

  // Error: kInvalidArgument, also where a variable has no value.
  Result<std::int64_t> evaluate(const IntegerVariables& variables) const;
  // With each fact's value in its place: nothing is looked up in evaluate(). Error: kNotFound for one that is not
  // there.
  Result<IntegerExpression> with_facts(const Facts& facts) const;
  bool uses_strides() const;
  const std::string& text() const { return text_; }
  bool operator==(const IntegerExpression& other) const { return text_ == other.text_; }

 private:
  enum class Code : std::uint8_t {
    kConstant,
    kTokens,
    kStride,
    kFact,
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
    std::int64_t operand;  // the constant, or the index of the name
  };
  class Parser;

  const std::int64_t* value_of(const Instruction& instruction, const IntegerVariables& variables) const;

  std::string text_;
  std::vector<Instruction> program_;  // postfix; empty: the text does not parse
  std::vector<std::string> names_;    // of operands and facts
};

}  // namespace sparsmith
