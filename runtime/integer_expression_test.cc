#include "runtime/integer_expression.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

namespace sparsmith {
namespace {

std::int64_t value_of(std::string_view text, const IntegerVariables& variables = {}) {
  const auto expression = IntegerExpression::parse(text);
  EXPECT_TRUE(expression.ok()) << expression.status().to_string();
  const auto value = expression->evaluate(variables);
  EXPECT_TRUE(value.ok()) << value.status().to_string();
  return value.ok() ? *value : INT64_MIN;
}

TEST(IntegerExpression, FollowsPrecedenceAndAssociativity) {
  EXPECT_EQ(value_of("1 + 2 * 3"), 7);
  EXPECT_EQ(value_of("(1 + 2) * 3"), 9);
  EXPECT_EQ(value_of("10 - 4 - 3"), 3);
  EXPECT_EQ(value_of("100 / 7 / 2"), 7);
  EXPECT_EQ(value_of("7 * 9 % 5"), 3);
  EXPECT_EQ(value_of("ceil_div(n, 8) * 132", {.n = 9}), 264);
  EXPECT_EQ(value_of("min(n, 4) + max(ld.x, ld.y) - ld.residual",
                     {.n = 9, .strides = {{"x", 1}, {"y", 20}, {"residual", 3}}}),
            21);
  EXPECT_EQ(value_of("\t5 --5"), 10);
}

TEST(IntegerExpression, NamesStridesAndFacts) {
  const Facts facts = {{"segments", 6}, {"slots", 2}};
  EXPECT_EQ(value_of("fact.segments * ld.dy + fact.slots", {.strides = {{"x", 3}, {"dy", 5}}, .facts = &facts}), 32);
  // As tuned files before version 4 have them.
  EXPECT_EQ(value_of("ldx + 10 * ldy + 100 * ldr", {.strides = {{"residual", 3}, {"y", 2}, {"x", 1}}}), 321);
  const auto missing = [](const char* text, const IntegerVariables& variables) {
    return IntegerExpression::parse(text)->evaluate(variables).status();
  };
  EXPECT_EQ(missing("ld.z", {.strides = {{"x", 3}}}).message(), "expression \"ld.z\": z has no value");
  EXPECT_EQ(missing("n + fact.rows", {}).message(), "expression \"n + fact.rows\": rows has no value");
  EXPECT_EQ(missing("fact.rows", {.facts = &facts}).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(IntegerExpression::of("n + ld.x").uses_strides());
  EXPECT_FALSE(IntegerExpression::of("n + fact.ld").uses_strides());
}

TEST(IntegerExpression, TakesFactsOnceAndForAll) {
  const auto bound = IntegerExpression::of("fact.segments * n").with_facts({{"segments", 6}});
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(*bound->evaluate({.n = 7}), 42);
  EXPECT_EQ(IntegerExpression::of("fact.rows").with_facts({{"segments", 6}}).status().code(), StatusCode::kNotFound);
}

TEST(IntegerExpression, OfATextThatDoesNotParseEvaluatesToAnError) {
  EXPECT_EQ(IntegerExpression::of("n +").evaluate({}).status().code(), StatusCode::kInternal);
  EXPECT_EQ(*IntegerExpression::of("n + 1").evaluate({.n = 2}), 3);
}

TEST(IntegerExpression, DividesTowardsMinusInfinity) {
  EXPECT_EQ(value_of("-7 / 2"), -4);
  EXPECT_EQ(value_of("-7 % 2"), 1);
  EXPECT_EQ(value_of("7 % -2"), -1);
  EXPECT_EQ(value_of("7 / -1"), -7);
  EXPECT_EQ(value_of("7 % -1"), 0);
  EXPECT_EQ(value_of("ceil_div(-7, 2)"), -3);
  EXPECT_EQ(value_of("ceil_div(7, -1)"), -7);
  EXPECT_EQ(value_of("ceil_div(8, 2)"), 4);
}

TEST(IntegerExpression, ConstantsKeepTheirText) {
  EXPECT_EQ(IntegerExpression(-3).text(), "-3");
  EXPECT_EQ(value_of(IntegerExpression(INT64_MIN).text()), INT64_MIN);
  EXPECT_EQ(*IntegerExpression::parse("12"), IntegerExpression(12));
  EXPECT_EQ(*IntegerExpression().evaluate({}), 0);
}

TEST(IntegerExpression, RefusesWhatIsNoExpression) {
  for (const char* text : {"",         " ",
                           "1 +",      "+ 1",
                           "(1",       "1)",
                           "min(1)",   "min(1, 2, 3)",
                           "max 1, 2", "m",
                           "N",        "ldz",
                           "ld.",      "fact.",
                           "x.n",      "1 2",
                           "2n",       "1.5",
                           "-n",       "- -1",
                           "n & 1",    "9223372036854775808",
                           "ceil_div", "min()",
                           "\n1"}) {
    const auto expression = IntegerExpression::parse(text);
    ASSERT_FALSE(expression.ok()) << text;
    EXPECT_EQ(expression.status().code(), StatusCode::kInvalidInput);
    EXPECT_NE(expression.status().message().find("column"), std::string::npos) << expression.status().message();
  }
  EXPECT_FALSE(IntegerExpression::parse(std::string(1001, '1')).ok());
}

TEST(IntegerExpression, NestsToItsLimit) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '(') + "n" + std::string(static_cast<std::size_t>(depth), ')');
  };
  EXPECT_EQ(value_of(nested(64), {.n = 3}), 3);
  EXPECT_FALSE(IntegerExpression::parse(nested(65)).ok());
  std::string wide = "1";
  for (int i = 0; i < 64; ++i)
    wide = fmt::format("1+1*min(n,{})", wide);  // the most operands that can wait at each level
  EXPECT_EQ(value_of(wide, {.n = 1}), 2);
}

TEST(IntegerExpression, ReportsOverflowAndDivisionByZero) {
  for (const char* text : {"n + 1", "n * 2", "-2 - n", "1 / (n - n)", "1 % (n - n)", "ceil_div(1, n - n)",
                           "-9223372036854775808 / -1", "ceil_div(-9223372036854775808, -1)"}) {
    const auto value = IntegerExpression::parse(text)->evaluate({.n = INT64_MAX});
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_EQ(value.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(value.status().message().find(text), std::string::npos);
  }
  EXPECT_EQ(value_of("-9223372036854775808 % -1"), 0);
}

// The independent evaluator: a tree that writes itself as text and computes in 128 bits.
struct Drawn {
  std::string text;
  std::optional<__int128> value;  // none: an error on the way
};

std::optional<__int128> compute(int operation, __int128 a, __int128 b) {
  const auto fits = [](__int128 v) -> std::optional<__int128> {
    if (v < INT64_MIN || v > INT64_MAX) return std::nullopt;
    return v;
  };
  if (operation >= 5 && operation <= 7 && b == 0) return std::nullopt;
  const auto floor = [](__int128 p, __int128 q) { return p / q - (p % q != 0 && (p < 0) != (q < 0) ? 1 : 0); };
  switch (operation) {
    case 0: return fits(a + b);
    case 1: return fits(a - b);
    case 2: return fits(a * b);
    case 3: return std::min(a, b);
    case 4: return std::max(a, b);
    case 5: return fits(floor(a, b));
    case 6: return fits(a - floor(a, b) * b);
    default: return fits(-floor(-a, b));
  }
}

Drawn draw(std::mt19937_64& random, const IntegerVariables& variables, int depth) {
  if (depth == 0 || random() % 4 == 0) {
    if (random() % 2 == 0) {
      const std::int64_t constant =
          random() % 8 == 0 ? static_cast<std::int64_t>(random()) : static_cast<std::int64_t>(random() % 40) - 8;
      return {std::to_string(constant), constant};
    }
    switch (random() % 5) {
      case 0: return {"n", variables.n};
      case 1: return {"written", variables.written};
      case 2: return {"ld.x", *variables.strides.find("x")};
      case 3: return {"ld.y_2", *variables.strides.find("y_2")};
      default: return {"fact.rows", variables.facts->at("rows")};
    }
  }
  static constexpr const char* kForms[] = {"({}+{})",     "({} - {})", "({}*{})",   "min({},{})",
                                           "max({}, {})", "({}/{})",   "({} % {})", "ceil_div({}, {})"};
  const Drawn a = draw(random, variables, depth - 1);
  const Drawn b = draw(random, variables, depth - 1);
  const int operation = static_cast<int>(random() % 8);
  std::string text = kForms[operation];
  text.replace(text.find("{}"), 2, a.text);
  text.replace(text.rfind("{}"), 2, b.text);
  if (!a.value || !b.value) return {text, std::nullopt};
  return {text, compute(operation, *a.value, *b.value)};
}

TEST(IntegerExpression, AgreesWithAnIndependentEvaluator) {
  constexpr std::uint64_t kSeed = 20261;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  int errors = 0;
  int values = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto small = [&] { return static_cast<std::int64_t>(random() % 5000) - 10; };
    const Facts facts = {{"rows", small()}};
    const IntegerVariables variables{.n = small(), .strides = {{"x", small()}, {"y_2", small()}}, .facts = &facts};
    const Drawn drawn = draw(random, variables, 4);
    if (drawn.text.size() > 1000) continue;
    const auto expression = IntegerExpression::parse(drawn.text);
    ASSERT_TRUE(expression.ok()) << expression.status().to_string();
    const auto value = expression->evaluate(variables);
    ASSERT_EQ(value.ok(), drawn.value.has_value()) << drawn.text;
    if (value.ok()) {
      ASSERT_EQ(*value, static_cast<std::int64_t>(*drawn.value)) << drawn.text;
    }
    ++(value.ok() ? values : errors);
  }
  EXPECT_GT(values, 5'000);
  EXPECT_GT(errors, 500);
}

}  // namespace
}  // namespace sparsmith
