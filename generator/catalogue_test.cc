#include "generator/catalogue.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "generator/source_tokens.h"

namespace sparsmith {
namespace {

using testing::HasSubstr;
using testing::Not;

// The checked-in statements were made from the headers that are in this program.
TEST(Catalogue, StatementsAreThoseOfTheHeaders) {
  for (const Snippet& snippet : catalogue().snippets()) {
    SCOPED_TRACE(snippet.name);
    const std::vector<std::string> root = {std::string(snippet.header)};
    const auto source = catalogue().closure_source(root);
    ASSERT_TRUE(source.ok()) << source.status().to_string();
    EXPECT_EQ(closure_hash(*source), snippet.closure_hash)
        << "generator/catalogue_data.inc is older than the snippets: build the target update_catalogue";
  }
}

// A snippet that the catalogue does not know shows here.
TEST(Catalogue, HoldsEverySnippetOfTheHeaders) {
  for (const SnippetHeader& header : catalogue().headers()) {
    if (header.path == "snippets/contract.cuh") continue;  // defines the macro
    const auto tokens = scan_source(header.text);
    const auto stated = std::ranges::count(tokens, "SPARSMITH_ROLE", &SourceToken::text);
    const auto known = std::ranges::count(catalogue().snippets(), header.path, &Snippet::header);
    EXPECT_EQ(known, stated) << header.path << ": build the target update_catalogue";
  }
}

TEST(Catalogue, IsSorted) {
  EXPECT_TRUE(std::ranges::is_sorted(catalogue().snippets(), {}, &Snippet::name));
  EXPECT_TRUE(std::ranges::is_sorted(catalogue().headers(), {}, &SnippetHeader::path));
}

TEST(Catalogue, DeviceHeaderIsAllOfThemAndKeepsTheEmulatorsTwins) {
  const std::vector<std::string> root = {"snippets/device.cuh"};
  const auto source = catalogue().closure_source(root);
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  EXPECT_THAT(*source, Not(HasSubstr("#pragma once")));
  const std::string folder = "snippets/device/";
  int headers = 0;
  for (const SnippetHeader& header : catalogue().headers()) {
    if (!header.path.starts_with(folder)) continue;
    const std::string name(header.path.substr(folder.size(), header.path.find('.') - folder.size()));
    EXPECT_THAT(*source, HasSubstr(fmt::format(
                             "#ifdef SPARSMITH_EMULATOR\n#include \"emulator/device_twin/{}.h\"\n#else\n", name)));
    ++headers;
  }
  EXPECT_GT(headers, 1);
}

// However it is launched: what says so stands in the plan, which every kernel has to be right for.
TEST(Catalogue, EveryKernelIsRightForProgrammaticLaunches) {
  for (const Snippet& snippet : catalogue().snippets()) {
    if (snippet.role != SnippetRole::kKernel) continue;
    const SnippetHeader* header = catalogue().find_header(snippet.header);
    ASSERT_NE(header, nullptr);
    EXPECT_THAT(std::string(header->text), HasSubstr("launch_dependents();")) << snippet.header;
    EXPECT_THAT(std::string(header->text), HasSubstr("wait_for_previous();")) << snippet.header;
  }
}

// The compiler believes of asm without effects that it may run in vain: it moves a load out of a loop, in front of the
// condition that keeps it inside of its array.
TEST(Catalogue, LoadsAreVolatile) {
  int loads = 0;
  for (const Snippet& snippet : catalogue().snippets()) {
    const std::vector<std::string> root = {std::string(snippet.header)};
    const auto source = catalogue().closure_source(root);
    ASSERT_TRUE(source.ok()) << source.status().to_string();
    for (const char* load : {"\"ld.", "\"ldmatrix", "\"@p ld."}) {
      for (std::size_t at = source->find(load); at != std::string::npos; at = source->find(load, at + 1)) {
        const std::size_t statement = source->rfind("asm", at);
        ASSERT_NE(statement, std::string::npos);
        EXPECT_TRUE(source->substr(statement).starts_with("asm volatile(")) << source->substr(statement, 80);
        ++loads;
      }
    }
  }
  EXPECT_GT(loads, 0);
}

TEST(Catalogue, LooksUpValues) {
  static constexpr std::array<std::int64_t, 2> kValues = {1, 2};
  static constexpr std::array<TunedParameter, 1> kTuned = {TunedParameter{"kLanes_", kValues}};
  static constexpr std::array<Snippet, 1> kSnippets = {
      Snippet{"Shuffle", SnippetRole::kReduction, "x.cuh", kTuned, ""}};
  const Catalogue small(kSnippets, {});
  for (const std::string_view name : {"kLanes_", "kLanes"}) {
    const auto values = small.values_of("Shuffle", name);
    ASSERT_TRUE(values.ok());
    EXPECT_THAT(*values, testing::ElementsAre(1, 2));
  }
  EXPECT_THAT(small.values_of("Shuffle", "T").status().message(), HasSubstr("has no SPARSMITH_TUNE line of T"));
  EXPECT_THAT(small.values_of("Gone", "kLanes").status().message(), HasSubstr("has no snippet Gone"));
}

TEST(Catalogue, EveryHeaderHasAClosure) {
  EXPECT_FALSE(catalogue().headers().empty());
  for (const SnippetHeader& header : catalogue().headers()) {
    const std::vector<std::string> root = {std::string(header.path)};
    const auto source = catalogue().closure_source(root);
    EXPECT_TRUE(source.ok()) << source.status().to_string();
  }
}

// ---- properties of the hash, over the real headers ----

// The source laid out anew: comments and blanks between any two tokens, as far as they may stand there.
std::string with_other_layout(std::string_view source, std::mt19937& random) {
  static constexpr std::array<std::string_view, 5> kAnywhere = {" ", "\t ", " /* x */", " \\\n ", " /* \" ' // */ "};
  static constexpr std::array<std::string_view, 2> kOutsideDirectives = {"\n\n", " // it's\n"};
  std::string result;
  bool in_directive = false;
  const auto tokens = scan_source(source);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const SourceToken& token = tokens[i];
    const bool begins = token.kind == SourceToken::Kind::kDirectiveBegin;
    if (begins && !in_directive) result += '\n';
    const bool touches = in_directive && token.text == "(" && !token.after_blank;
    if (!touches && token.kind != SourceToken::Kind::kDirectiveEnd) {
      const bool anywhere = in_directive || begins || random() % 2 == 0;
      result +=
          anywhere ? kAnywhere[random() % kAnywhere.size()] : kOutsideDirectives[random() % kOutsideDirectives.size()];
    }
    result += token.text;
    if (begins) in_directive = true;
    if (token.kind == SourceToken::Kind::kDirectiveEnd) {
      in_directive = false;
      result += '\n';
    }
  }
  return result;
}

TEST(ClosureHash, CommentsAndBlanksDoNotChangeIt) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (const SnippetHeader& header : catalogue().headers()) {
    for (int round = 0; round < 3; ++round) {
      const std::string other = with_other_layout(header.text, random);
      ASSERT_EQ(closure_hash(other), closure_hash(header.text)) << header.path << "\n" << other;
    }
  }
}

TEST(ClosureHash, AnyTokenChangesIt) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (const SnippetHeader& header : catalogue().headers()) {
    const std::string before = closure_hash(header.text);
    const auto tokens = scan_source(header.text);
    for (int round = 0; round < 20 && !tokens.empty(); ++round) {
      const SourceToken& token = tokens[random() % tokens.size()];
      if (token.kind == SourceToken::Kind::kDirectiveEnd) continue;
      const std::string prefix(header.text.substr(0, token.begin));
      const std::string suffix(header.text.substr(token.end));
      EXPECT_NE(closure_hash(prefix + " " + suffix), before)
          << header.path << ":" << token.line << " without " << token.text;
      EXPECT_NE(closure_hash(prefix + token.text + " x " + suffix), before) << header.path << ":" << token.line;
    }
  }
}

}  // namespace
}  // namespace sparsmith
