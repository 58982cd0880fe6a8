// Any text: parsing gives an expression or an error, and what is parsed evaluates, or says why not, and parses again to
// the same value.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/integer_expression.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto expression = sparsmith::IntegerExpression::parse({reinterpret_cast<const char*>(data), size});
  if (!expression.ok()) return 0;
  const sparsmith::IntegerVariables variables{.n = 7, .ldx = 4096, .ldy = INT64_MAX, .ldr = -1};
  const auto value = expression->evaluate(variables);
  const auto again = sparsmith::IntegerExpression::parse(expression->text());
  if (!again.ok()) std::abort();
  const auto same = again->evaluate(variables);
  if (same.ok() != value.ok() || (value.ok() && *same != *value)) std::abort();
  return 0;
}
