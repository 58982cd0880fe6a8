#include "runtime/integer_expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <utility>

namespace sparsmith {
namespace {

constexpr std::size_t kMaxCharacters = 1000;
constexpr int kMaxNesting = 64;
// Each level of nesting has at most three waiting operands ("a + b * min(c, ..."). So a formula with the maximum
// nesting needs 3 * (64 + 1) + 1 places.
constexpr std::size_t kMaxStack = 256;

constexpr std::string_view kStridePrefix = "ld.";
constexpr std::string_view kFactPrefix = "fact.";

// The operand of a stride's name in tuned files before version 4; empty for other names.
std::string_view operand_of_old_stride(std::string_view word) {
  if (word == "ldx") return "x";
  if (word == "ldy") return "y";
  return word == "ldr" ? "residual" : "";
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

}  // namespace

// Recursive descent with one function for each precedence level. Emits postfix code.
class IntegerExpression::Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  // Into the program and the names of `expression`.
  Status parse(IntegerExpression& expression) {
    SPARSMITH_RETURN_IF_ERROR(sum());
    skip_blanks();
    if (position_ != text_.size()) return error("expected an operator or the end");
    expression.program_ = std::move(program_);
    expression.names_ = std::move(names_);
    return {};
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

  Status sum() { return chain(&Parser::product, {{'+', Code::kAdd}, {'-', Code::kSubtract}}); }
  Status product() {
    return chain(&Parser::operand, {{'*', Code::kMultiply}, {'/', Code::kDivide}, {'%', Code::kModulo}});
  }

  // Parts with operators of one level between them.
  Status chain(Status (Parser::*part)(), std::initializer_list<std::pair<char, Code>> operators) {
    SPARSMITH_RETURN_IF_ERROR((this->*part)());
    for (;;) {
      const auto* const found = std::ranges::find_if(operators, [&](const auto& each) { return take(each.first); });
      if (found == operators.end()) return {};
      SPARSMITH_RETURN_IF_ERROR((this->*part)());
      emit(found->second);
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
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]) || text_[end] == '.')) ++end;
    const std::string_view word = text_.substr(position_, end - position_);
    if (emit_variable(word)) {
      position_ = end;
      return {};
    }
    static constexpr std::pair<std::string_view, Code> kFunctions[] = {
        {"min", Code::kMin}, {"max", Code::kMax}, {"ceil_div", Code::kCeilDiv}};
    const auto* const function = std::ranges::find(kFunctions, word, &std::pair<std::string_view, Code>::first);
    if (function == std::end(kFunctions))
      return error("neither a variable (n, ld.NAME, fact.NAME, written) nor a function (min, max, ceil_div)");
    position_ = end;
    if (!take('(')) return error("expected (");
    SPARSMITH_RETURN_IF_ERROR(nested(&Parser::two_arguments));
    if (!take(')')) return error("expected )");
    emit(function->second);
    return {};
  }

  bool emit_variable(std::string_view word) {
    if (word == "n" || word == "written") {
      emit(word == "n" ? Code::kTokens : Code::kWritten);
      return true;
    }
    const std::string_view old = operand_of_old_stride(word);
    if (!old.empty()) {
      emit_named(Code::kStride, old);
    } else if (word.starts_with(kStridePrefix) && word.size() > kStridePrefix.size()) {
      emit_named(Code::kStride, word.substr(kStridePrefix.size()));
    } else if (word.starts_with(kFactPrefix) && word.size() > kFactPrefix.size()) {
      emit_named(Code::kFact, word.substr(kFactPrefix.size()));
    } else {
      return false;
    }
    return true;
  }

  void emit_named(Code code, std::string_view name) {
    emit(code, static_cast<std::int64_t>(names_.size()));
    names_.emplace_back(name);
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
  std::vector<std::string> names_;
};

IntegerExpression::IntegerExpression(std::int64_t constant)
    : text_(std::to_string(constant)), program_{{Code::kConstant, constant}} {}

Result<IntegerExpression> IntegerExpression::parse(std::string_view text) {
  if (text.size() > kMaxCharacters) {
    return invalid_input(
        fmt::format("an expression of {} characters; at most {} are taken", text.size(), kMaxCharacters));
  }
  IntegerExpression expression;
  SPARSMITH_RETURN_IF_ERROR(Parser(text).parse(expression));
  expression.text_ = text;
  return expression;
}

IntegerExpression IntegerExpression::of(std::string_view text) {
  Result<IntegerExpression> parsed = parse(text);
  if (parsed.ok()) return *std::move(parsed);
  IntegerExpression broken;
  broken.text_ = text;
  broken.program_.clear();
  return broken;
}

Result<IntegerExpression> IntegerExpression::with_facts(const Facts& facts, std::int64_t written) const {
  IntegerExpression expression = *this;
  for (Instruction& instruction : expression.program_) {
    if (instruction.code == Code::kWritten) instruction = {Code::kConstant, written};
    if (instruction.code != Code::kFact) continue;
    const auto found = facts.find(names_[instruction.operand]);
    if (found == facts.end()) {
      return not_found(
          fmt::format("expression \"{}\": the packed weight has no fact {}", text_, names_[instruction.operand]));
    }
    instruction = {Code::kConstant, found->second};
  }
  return expression;
}

bool IntegerExpression::uses_strides() const {
  return std::ranges::any_of(program_, [](const Instruction& each) { return each.code == Code::kStride; });
}

bool IntegerExpression::uses_written() const {
  return std::ranges::any_of(program_, [](const Instruction& each) { return each.code == Code::kWritten; });
}

// The value of an instruction that takes nothing from the stack; null: it has no value.
const std::int64_t* IntegerExpression::value_of(const Instruction& instruction,
                                                const IntegerVariables& variables) const {
  switch (instruction.code) {
    case Code::kConstant: return &instruction.operand;
    case Code::kTokens: return &variables.n;
    case Code::kWritten: return &variables.written;
    case Code::kStride: return variables.strides.find(names_[instruction.operand]);
    default: break;
  }
  if (variables.facts == nullptr) return nullptr;
  const auto found = variables.facts->find(names_[instruction.operand]);
  return found == variables.facts->end() ? nullptr : &found->second;
}

Result<std::int64_t> IntegerExpression::evaluate(const IntegerVariables& variables) const {
  std::array<std::int64_t, kMaxStack> stack;
  std::size_t size = 0;
  if (program_.empty()) return internal_error(fmt::format("expression \"{}\" does not parse", text_));
  for (const Instruction& instruction : program_) {
    if (instruction.code <= Code::kFact) {
      if (size == kMaxStack) return internal_error(fmt::format("expression \"{}\" needs too deep a stack", text_));
      const std::int64_t* value = value_of(instruction, variables);
      if (value == nullptr) {
        return invalid_argument(fmt::format("expression \"{}\": {} has no value", text_, names_[instruction.operand]));
      }
      stack[size++] = *value;
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
      default: {
        if (b == 0) return invalid_argument(fmt::format("expression \"{}\" divides by zero", text_));
        // -1 is the one divisor for which the processor's division may trap.
        const std::int64_t remainder = b == -1 ? 0 : a % b;
        const bool is_below = remainder != 0 && (remainder < 0) != (b < 0);  // the quotient is rounded up
        if (instruction.code == Code::kModulo) {
          a = is_below ? remainder + b : remainder;
          break;
        }
        if (b == -1) {
          overflow = __builtin_sub_overflow(std::int64_t{0}, a, &a);
        } else {
          a = a / b - (is_below ? 1 : 0) + (instruction.code == Code::kCeilDiv && remainder != 0 ? 1 : 0);
        }
      }
    }
    if (overflow) return invalid_argument(fmt::format("expression \"{}\" exceeds 64 bits", text_));
  }
  return stack[0];
}

}  // namespace sparsmith
