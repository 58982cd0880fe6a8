// Any text: parsing gives an expression or an error, and what is parsed evaluates, or says why not, and parses again to
// the same value.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/integer_expression.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto expression = sparsmith::IntegerExpression::parse({reinterpret_cast<const char*>(data), size});
  if (!expression.ok()) return 0;
  const sparsmith::Facts facts = {{"segments", 9}};
  const sparsmith::IntegerVariables variables{
      .n = 7, .strides = {{"x", 4096}, {"y", INT64_MAX}, {"residual", -1}}, .facts = &facts};
  const auto value = expression->evaluate(variables);
  const auto again = sparsmith::IntegerExpression::parse(expression->text());
  if (!again.ok()) std::abort();
  const auto same = again->evaluate(variables);
  const auto folded = expression->with_facts(facts);
  if (folded.ok() && folded->evaluate({.n = 7, .strides = variables.strides}).ok() != value.ok()) std::abort();
  if (same.ok() != value.ok() || (value.ok() && *same != *value)) std::abort();
  return 0;
}
