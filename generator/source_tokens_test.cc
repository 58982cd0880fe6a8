#include "generator/source_tokens.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace sparsmith {
namespace {

using Kind = SourceToken::Kind;
using testing::ElementsAre;

std::vector<std::string> texts(std::string_view source) {
  std::vector<std::string> result;
  for (const SourceToken& token : scan_source(source)) result.push_back(token.text);
  return result;
}

TEST(SourceTokens, CommentsAndBlanksAreNoTokens) {
  EXPECT_THAT(texts("a/* b */c // d\n\te"), ElementsAre("a", "c", "e"));
  EXPECT_THAT(texts("a /* unterminated"), ElementsAre("a"));
  EXPECT_THAT(texts("// only \\\n a comment\nb"), ElementsAre("b"));
}

TEST(SourceTokens, CommentMarksInsideLiteralsAreText) {
  EXPECT_THAT(texts(R"(x = "/* no */" + "// \" no"; y)"),
              ElementsAre("x", "=", R"("/* no */")", "+", R"("// \" no")", ";", "y"));
  EXPECT_THAT(texts("'\"' '\\'' '//'"), ElementsAre("'\"'", "'\\''", "'//'"));
}

TEST(SourceTokens, RawStringsEndAtTheirDelimiterOnly) {
  EXPECT_THAT(texts("R\"x(a \" )\" // \\\n )x\" b"), ElementsAre("R\"x(a \" )\" // \\\n )x\"", "b"));
  EXPECT_THAT(texts("u8R\"(a)\"_s c"), ElementsAre("u8R\"(a)\"_s", "c"));
  EXPECT_THAT(texts("R\"(never closed"), ElementsAre("R\"(never closed"));
}

TEST(SourceTokens, LiteralPrefixesAndSuffixesBelongToTheLiteral) {
  EXPECT_THAT(texts("u8\"a\" L'b' \"c\"_x name\"d\""), ElementsAre("u8\"a\"", "L'b'", "\"c\"_x", "name", "\"d\""));
}

TEST(SourceTokens, LineContinuationsJoin) {
  EXPECT_THAT(texts("iden\\\ntifier +\\\r\n+ \"st\\\nring\""), ElementsAre("identifier", "++", "\"string\""));
}

TEST(SourceTokens, NumbersWithSeparatorsAndExponents) {
  EXPECT_THAT(texts("1'000u+0x1p-3-.5e+1f 2.e3'x'"),
              ElementsAre("1'000u", "+", "0x1p-3", "-", ".5e+1f", "2.e3'x", "'"));
}

TEST(SourceTokens, PunctuatorsAreAsLongAsPossible) {
  EXPECT_THAT(texts("a+++b>>=c->*d<::e...<=>"),
              ElementsAre("a", "++", "+", "b", ">>=", "c", "->*", "d", "<", "::", "e", "...", "<=>"));
}

TEST(SourceTokens, DirectivesAreMarkedAndEndWithTheirLogicalLine) {
  const auto tokens = scan_source("#if A /* \n */ \\\n B\nx # y\n/* c */ #endif");
  std::vector<Kind> kinds;
  for (const SourceToken& token : tokens) kinds.push_back(token.kind);
  EXPECT_THAT(kinds, ElementsAre(Kind::kDirectiveBegin, Kind::kIdentifier, Kind::kIdentifier, Kind::kIdentifier,
                                 Kind::kDirectiveEnd, Kind::kIdentifier, Kind::kPunctuator, Kind::kIdentifier,
                                 Kind::kDirectiveBegin, Kind::kIdentifier, Kind::kDirectiveEnd));
}

TEST(SourceTokens, PlacesAreThoseOfTheSource) {
  const std::string_view source = "a\n/* \n\n */ b\\\nc R\"(\n\n)\" d";
  const auto tokens = scan_source(source);
  ASSERT_EQ(tokens.size(), 4U);
  EXPECT_EQ(tokens[0].line, 1);
  EXPECT_EQ(tokens[1].line, 4);
  EXPECT_EQ(tokens[1].text, "bc");
  EXPECT_EQ(source.substr(tokens[1].begin, tokens[1].end - tokens[1].begin), "b\\\nc");
  EXPECT_EQ(tokens[2].line, 5);
  EXPECT_EQ(tokens[3].line, 7);
}

TEST(SourceTokens, NormalizedSourceIgnoresLayout) {
  const std::string normalized = normalized_source("#define A 1\nint f(int a) { return a+1; }");
  EXPECT_EQ(normalized, normalized_source("// c\n  #  define A /* one */ 1\nint f ( int a )\n{\n  return a + 1;\n}\n"));
  EXPECT_EQ(normalized, normalized_source("#define \\\n A 1\nint f(int a) { return a+1; }"));
}

TEST(SourceTokens, NormalizedSourceTellsTokensApart) {
  EXPECT_NE(normalized_source("ab"), normalized_source("a b"));
  EXPECT_NE(normalized_source("a + +b"), normalized_source("a ++b"));
  EXPECT_NE(normalized_source("\"a b\""), normalized_source("\"a  b\""));
  EXPECT_NE(normalized_source("\"a // b\""), normalized_source("\"a\" // b\""));
  EXPECT_NE(normalized_source("#define F(x) x"), normalized_source("#define F (x) x"));
  EXPECT_NE(normalized_source("#define A b\n"), normalized_source("#define A\nb"));
  EXPECT_NE(normalized_source("R\"(\\\n)\""), normalized_source("R\"()\""));
}

// Drawn texts of the characters that a scanner trips over: tokens stay inside the source, in order, and move on.
TEST(SourceTokens, AnyTextIsScanned) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  using namespace std::string_view_literals;
  constexpr std::string_view kCharacters = "\\\n\r\"'R()#/*<> aL0.e+-u8_\0\xff"sv;
  for (int round = 0; round < 20000; ++round) {
    std::string source(random() % 24, ' ');
    for (char& c : source) c = kCharacters[random() % kCharacters.size()];
    std::size_t end = 0;
    for (const SourceToken& token : scan_source(source)) {
      ASSERT_GE(token.begin, end) << testing::PrintToString(source);
      ASSERT_GE(token.end, token.begin) << testing::PrintToString(source);
      ASSERT_LE(token.end, source.size()) << testing::PrintToString(source);
      ASSERT_EQ(token.text.empty(), token.kind == Kind::kDirectiveEnd) << testing::PrintToString(source);
      end = token.end;
    }
  }
}

}  // namespace
}  // namespace sparsmith
