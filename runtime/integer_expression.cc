#include "runtime/integer_expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace sparsmith {
namespace {

constexpr std::size_t kMaxCharacters = 1000;
constexpr int kMaxNesting = 64;
// Each level of nesting leaves at most three operands waiting ("a + b * min(c, ..."), so that a formula of the
// greatest nesting needs 3 * (64 + 1) + 1 of these.
constexpr std::size_t kMaxStack = 256;

constexpr std::array<std::string_view, 4> kVariableNames = {"n", "ldx", "ldy", "ldr"};

std::int64_t variable(const IntegerVariables& variables, std::int64_t index) {
  switch (index) {
    case 0: return variables.n;
    case 1: return variables.ldx;
    case 2: return variables.ldy;
    default: return variables.ldr;
  }
}

// Quotient rounded towards minus infinity. REQUIRES: b is not 0, and a / b does not overflow.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

}  // namespace

// Recursive descent, one function a precedence level; emits postfix as it goes.
class IntegerExpression::Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::vector<Instruction>> parse() {
    SPARSMITH_RETURN_IF_ERROR(sum());
    skip_blanks();
    if (position_ != text_.size()) return error("expected an operator or the end");
    return std::move(program_);
  }

 private:
  Status error(std::string_view reason) const {
    return invalid_input(fmt::format("expression \"{}\", column {}: {}", text_, position_ + 1, reason));
  }

  void skip_blanks() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t')) ++position_;
  }

  // Consumes `c` if it comes next.
  bool take(char c) {
    skip_blanks();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  void emit(Code code, std::int64_t operand = 0) { program_.push_back({code, operand}); }

  Status sum() {
    SPARSMITH_RETURN_IF_ERROR(product());
    for (;;) {
      Code code{};
      if (take('+')) {
        code = Code::kAdd;
      } else if (take('-')) {
        code = Code::kSubtract;
      } else {
        return {};
      }
      SPARSMITH_RETURN_IF_ERROR(product());
      emit(code);
    }
  }

  Status product() {
    SPARSMITH_RETURN_IF_ERROR(operand());
    for (;;) {
      Code code{};
      if (take('*')) {
        code = Code::kMultiply;
      } else if (take('/')) {
        code = Code::kDivide;
      } else if (take('%')) {
        code = Code::kModulo;
      } else {
        return {};
      }
      SPARSMITH_RETURN_IF_ERROR(operand());
      emit(code);
    }
  }

  Status operand() {
    if (take('-')) return number(true);
    if (take('(')) {
      SPARSMITH_RETURN_IF_ERROR(nested(&Parser::sum));
      return take(')') ? Status() : error("expected )");
    }
    skip_blanks();
    if (position_ >= text_.size()) return error("expected a number, a variable or (");
    if (is_digit(text_[position_])) return number(false);
    if (is_letter(text_[position_])) return name();
    return error("expected a number, a variable or (");
  }

  Status nested(Status (Parser::*inner)()) {
    if (++depth_ > kMaxNesting) return error(fmt::format("nested deeper than {}", kMaxNesting));
    SPARSMITH_RETURN_IF_ERROR((this->*inner)());
    --depth_;
    return {};
  }

  Status number(bool negative) {
    skip_blanks();
    std::size_t end = position_;
    while (end < text_.size() && is_digit(text_[end])) ++end;
    if (end == position_) return error("a minus sign stands before a number only");
    std::string digits(negative ? 1 : 0, '-');
    digits.append(text_.substr(position_, end - position_));
    std::int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) {
      return error("a number beyond 64 bits");
    }
    position_ = end;
    emit(Code::kConstant, value);
    return {};
  }

  Status name() {
    std::size_t end = position_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    const std::string_view word = text_.substr(position_, end - position_);
    if (const auto* found = std::find(kVariableNames.begin(), kVariableNames.end(), word);
        found != kVariableNames.end()) {
      position_ = end;
      emit(Code::kVariable, found - kVariableNames.begin());
      return {};
    }
    Code code{};
    if (word == "min") {
      code = Code::kMin;
    } else if (word == "max") {
      code = Code::kMax;
    } else if (word == "ceil_div") {
      code = Code::kCeilDiv;
    } else {
      return error("neither a variable (n, ldx, ldy, ldr) nor a function (min, max, ceil_div)");
    }
    position_ = end;
    if (!take('(')) return error("expected (");
    SPARSMITH_RETURN_IF_ERROR(nested(&Parser::two_arguments));
    if (!take(')')) return error("expected )");
    emit(code);
    return {};
  }

  Status two_arguments() {
    SPARSMITH_RETURN_IF_ERROR(sum());
    if (!take(',')) return error("expected a comma");
    return sum();
  }

  std::string_view text_;
  std::size_t position_ = 0;
  int depth_ = 0;
  std::vector<Instruction> program_;
};

IntegerExpression::IntegerExpression(std::int64_t constant)
    : text_(std::to_string(constant)), program_{{Code::kConstant, constant}} {}

Result<IntegerExpression> IntegerExpression::parse(std::string_view text) {
  if (text.size() > kMaxCharacters) {
    return invalid_input(
        fmt::format("an expression of {} characters; at most {} are taken", text.size(), kMaxCharacters));
  }
  IntegerExpression expression;
  SPARSMITH_ASSIGN_OR_RETURN(expression.program_, Parser(text).parse());
  expression.text_ = text;
  return expression;
}

Result<std::int64_t> IntegerExpression::evaluate(const IntegerVariables& variables) const {
  std::array<std::int64_t, kMaxStack> stack;
  std::size_t size = 0;
  for (const Instruction& instruction : program_) {
    if (instruction.code == Code::kConstant || instruction.code == Code::kVariable) {
      if (size == kMaxStack) return internal_error(fmt::format("expression \"{}\" needs too deep a stack", text_));
      stack[size++] =
          instruction.code == Code::kConstant ? instruction.operand : variable(variables, instruction.operand);
      continue;
    }
    const std::int64_t b = stack[--size];
    std::int64_t& a = stack[size - 1];
    bool overflow = false;
    switch (instruction.code) {
      case Code::kAdd: overflow = __builtin_add_overflow(a, b, &a); break;
      case Code::kSubtract: overflow = __builtin_sub_overflow(a, b, &a); break;
      case Code::kMultiply: overflow = __builtin_mul_overflow(a, b, &a); break;
      case Code::kMin: a = std::min(a, b); break;
      case Code::kMax: a = std::max(a, b); break;
      default:
        if (b == 0) return invalid_argument(fmt::format("expression \"{}\" divides by zero", text_));
        if (b == -1) {  // the one divisor for which the processor's division may trap
          if (instruction.code == Code::kModulo) {
            a = 0;
          } else {
            overflow = __builtin_sub_overflow(std::int64_t{0}, a, &a);
          }
        } else if (instruction.code == Code::kDivide) {
          a = floor_divide(a, b);
        } else if (instruction.code == Code::kModulo) {
          const std::int64_t remainder = a % b;
          a = remainder != 0 && ((remainder < 0) != (b < 0)) ? remainder + b : remainder;
        } else {
          a = floor_divide(a, b) + (a % b != 0 ? 1 : 0);
        }
    }
    if (overflow) return invalid_argument(fmt::format("expression \"{}\" exceeds 64 bits", text_));
  }
  return stack[0];
}

}  // namespace sparsmith
