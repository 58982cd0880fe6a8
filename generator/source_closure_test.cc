#include "generator/source_closure.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace sparsmith {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A lookup in a few headers that live in the test.
struct Headers {
  std::map<std::string, std::string, std::less<>> texts;

  HeaderLookup lookup() const {
    return [this](std::string_view path) -> std::optional<std::string_view> {
      const auto found = texts.find(path);
      if (found == texts.end()) return std::nullopt;
      return found->second;
    };
  }
};

const Headers kDiamond = {{
    {"a.cuh", "// A.\n#pragma once\n\n#include \"b.cuh\"  // why\n#include \"c.cuh\"\n\nstruct A {};\n"},
    {"b.cuh", "#pragma once\n#include \"d.cuh\"\nstruct B {};\n"},
    {"c.cuh", "#pragma once\n#include \"d.cuh\"\nstruct C {};\n"},
    {"d.cuh", "#pragma once\nstruct D {};\n"},
}};

TEST(SourceClosure, HoldsEachHeaderOnceBehindWhatItNeeds) {
  const std::vector<std::string> roots = {"a.cuh", "c.cuh"};
  const auto order = include_closure(roots, kDiamond.lookup());
  ASSERT_TRUE(order.ok()) << order.status().to_string();
  EXPECT_THAT(*order, ElementsAre("d.cuh", "b.cuh", "c.cuh", "a.cuh"));
}

TEST(SourceClosure, TextDropsWhatItReplaces) {
  const std::vector<std::string> roots = {"a.cuh"};
  const auto text = closure_text(roots, kDiamond.lookup());
  ASSERT_TRUE(text.ok()) << text.status().to_string();
  EXPECT_EQ(*text,
            "// ---- d.cuh\n\nstruct D {};\n\n// ---- b.cuh\n\nstruct B {};\n\n"
            "// ---- c.cuh\n\nstruct C {};\n\n// ---- a.cuh\n\n// A.\n\nstruct A {};\n");
  const Headers others = {{{"a.cuh", "#define N 1\n#pragma once\n#pragma unroll\n#include \"d.cuh\"\nint a;\n"},
                           {"d.cuh", "#pragma once\nint d;\n"}}};
  const auto with_others = closure_text(roots, others.lookup());
  ASSERT_TRUE(with_others.ok()) << with_others.status().to_string();
  EXPECT_EQ(*with_others, "// ---- d.cuh\n\nint d;\n\n// ---- a.cuh\n\n#define N 1\n#pragma unroll\nint a;\n");
}

TEST(SourceClosure, EachHeadersPartHasItsHash) {
  const std::vector<std::string> roots = {"a.cuh"};
  const std::string text = closure_text(roots, kDiamond.lookup()).value();
  const auto hashes =
      header_hashes("// the kernel k\n\n" + text + "\n// ---- a heading ----\n// ---- this kernel\n\nint k;\n");
  ASSERT_EQ(hashes.size(), 5U);
  EXPECT_EQ(hashes.at("b.cuh"), closure_hash("struct B {};"));
  EXPECT_EQ(hashes.at("this kernel"), closure_hash("int k;"));
  EXPECT_EQ(header_hashes(text).at("d.cuh"), hashes.at("d.cuh"));
  EXPECT_TRUE(header_hashes("int k;").empty());
}

TEST(SourceClosure, TheEmulatorsTwinStays) {
  const Headers headers = {{{"d.cuh", "#ifdef E\n#include \"emulator/device_twin/d.h\"\n#else\nint x;\n#endif\n"}}};
  const std::vector<std::string> roots = {"d.cuh"};
  const auto text = closure_text(roots, headers.lookup());
  ASSERT_TRUE(text.ok()) << text.status().to_string();
  EXPECT_EQ(*text, "// ---- d.cuh\n\n" + headers.texts.at("d.cuh"));
}

TEST(SourceClosure, MissingHeaderNamesTheLineThatWantsIt) {
  const Headers headers = {{{"a.cuh", "\n#include \"gone.cuh\"\n"}}};
  const std::vector<std::string> roots = {"a.cuh"};
  const auto text = closure_text(roots, headers.lookup());
  EXPECT_EQ(text.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(text.status().message(), "a.cuh:2: there is no header gone.cuh");
  const Headers macro = {{{"a.cuh", "#include HEADER(x)\nint a;\n"}}};
  EXPECT_EQ(closure_text(roots, macro.lookup()).status().message(), "a.cuh:1: there is no header HEADER(x)");
}

TEST(SourceClosure, CirclesAreRefused) {
  const Headers headers = {{{"a.cuh", "#include \"b.cuh\"\n"}, {"b.cuh", "#include \"a.cuh\"\n"}}};
  const std::vector<std::string> roots = {"a.cuh"};
  const auto text = closure_text(roots, headers.lookup());
  EXPECT_EQ(text.status().code(), StatusCode::kInvalidInput);
  EXPECT_THAT(text.status().message(),
              HasSubstr("b.cuh:1: headers include each other in a circle: a.cuh -> b.cuh -> a.cuh"));
}

TEST(SourceClosure, SystemAndConditionalIncludesAreRefused) {
  const std::vector<std::string> roots = {"a.cuh"};
  const Headers angled = {{{"a.cuh", "#include <cuda_fp16.h>\n"}}};
  EXPECT_THAT(closure_text(roots, angled.lookup()).status().message(), HasSubstr("a.cuh:1: includes <cuda_fp16.h>"));
  const Headers conditional = {{{"a.cuh", "#ifdef X\n#include \"b.cuh\"\n#endif\n"}, {"b.cuh", ""}}};
  EXPECT_THAT(closure_text(roots, conditional.lookup()).status().message(),
              HasSubstr("a.cuh:2: b.cuh is included inside #if"));
}

TEST(SourceClosure, IncludesInCommentsAndStringsAreNone) {
  EXPECT_TRUE(include_lines("// #include \"a\"\n/*\n#include \"b\"\n*/ x = \"\\\n#include c\";").empty());
}

}  // namespace
}  // namespace sparsmith
