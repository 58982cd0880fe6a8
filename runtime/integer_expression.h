// Integer formulas of a launch plan, for example "ceil_div(n, 8) * 132". They are parsed once. Each launch evaluates
// them without allocating.
//
// Grammar: + - * / (floor) % (sign of the divisor), parentheses, min(a, b), max(a, b), ceil_div(a, b), decimal
// integers, which a minus sign may precede, and the variables n (tokens), ld.NAME (elements from line to line of the
// operand NAME), fact.NAME (a fact of the packed weight) and written (1 where earlier kernels of the stream may write
// the packed weight, otherwise 0). Tuned files before version 4 have ldx, ldy and ldr for ld.x, ld.y and ld.residual.
// Values are 64-bit; division by zero and overflow are errors.
#pragma once

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
  std::int64_t written = 0;
  NamedValues<std::int64_t> strides{};  // by the names of operands
  const Facts* facts = nullptr;         // null: no facts
};

class IntegerExpression {
 public:
  IntegerExpression() : IntegerExpression(0) {}
  IntegerExpression(std::int64_t constant);  // NOLINT(google-explicit-constructor): plans mix constants and formulas

  // At most 1,000 characters; nesting at most 64 deep.
  static Result<IntegerExpression> parse(std::string_view text);

  // For a text of this program. A text that does not parse is a bug: evaluate() then returns the error.
  static IntegerExpression of(std::string_view text);

  // Error: kInvalidArgument, also when a variable has no value.
  Result<std::int64_t> evaluate(const IntegerVariables& variables) const;
  // The expression with the value of each fact, and that of `written`, in place of its name, so that evaluate() looks
  // nothing up. Error: kNotFound for a missing fact.
  Result<IntegerExpression> with_facts(const Facts& facts, std::int64_t written = 0) const;
  bool uses_strides() const;
  bool uses_written() const;
  const std::string& text() const { return text_; }
  bool operator==(const IntegerExpression& other) const { return text_ == other.text_; }

 private:
  enum class Code : std::uint8_t {
    kConstant,
    kTokens,
    kWritten,
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
