// snippetc over a small tree: what it writes, and that each rule finds what breaks it, at its line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/file.h"
#include "generator/source_closure.h"
#include "snippetc/catalogue_build.h"
#include "snippetc/catalogue_text.h"
#include "snippetc/source_tree.h"

namespace sparsmith::snippetc {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

const std::string kTestData = SNIPPETC_TEST_DATA;

// The tree of testdata with the real contract.cuh, device.cuh and device/.
SourceTree test_tree() {
  static const SourceTree whole = SourceTree::read(SPARSMITH_SOURCE_DIR).value();
  SourceTree tree = SourceTree::read(kTestData + "/tree").value();
  for (const auto& [path, text] : whole.files()) {
    if (path == "snippets/contract.cuh" || path == "snippets/device.cuh" || is_of_device(path)) tree.put(path, text);
  }
  return tree;
}

class Mutation : public testing::Test {
 protected:
  // Replaces the first `from` in a header.
  void replace(const std::string& path, const std::string& from, const std::string& to) {
    std::string text(tree_.find(path).value());
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << path << " holds no " << from;
    tree_.put(path, text.replace(at, from.size(), to));
  }

  std::vector<std::string> findings() {
    Findings found;
    EXPECT_TRUE(build_catalogue(tree_, found).empty() || found.empty());
    std::vector<std::string> texts;
    for (const Finding& finding : found) texts.push_back(finding.text());
    return texts;
  }

  SourceTree tree_ = test_tree();
};

std::string without_hashes(const std::string& text) {
  return std::regex_replace(text, std::regex("[0-9a-f]{32}"), "<hash>");
}

TEST(Snippetc, WritesTheCatalogue) {
  Findings findings;
  const auto snippets = build_catalogue(test_tree(), findings);
  for (const Finding& finding : findings) ADD_FAILURE() << finding.text();
  EXPECT_EQ(without_hashes(data_text(snippets)), read_file(kTestData + "/catalogue_data.golden").value());
  EXPECT_EQ(page_text(snippets), read_file(kTestData + "/snippets.golden").value());
}

TEST(Snippetc, AnEmptyTreeHasAnEmptyCatalogue) {
  Findings findings;
  EXPECT_TRUE(build_catalogue(SourceTree(), findings).empty());
  EXPECT_TRUE(findings.empty());
  EXPECT_THAT(data_text({}), testing::HasSubstr("std::array<Snippet, 0> kSnippets"));
}

TEST(Snippetc, ARootWithoutSnippetsIsAnError) {
  const Status status = SourceTree::read(kTestData + "/nowhere").status();
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), testing::HasSubstr("nowhere/snippets: cannot read the folder"));
}

TEST_F(Mutation, HashChangesWithTheClosureAlone) {
  const auto hashes = [this] {
    Findings findings;
    std::map<std::string, std::string> result;
    for (const auto& snippet : build_catalogue(tree_, findings)) result[snippet.facts.name] = snippet.closure_hash;
    EXPECT_TRUE(findings.empty());
    return result;
  };
  const auto before = hashes();
  replace("formats/window_layout.h", "// Where a window", "// Another comment");
  EXPECT_EQ(hashes(), before);
  replace("formats/window_layout.h", "16", "32");
  const auto after = hashes();
  EXPECT_NE(after.at("Window"), before.at("Window"));
  EXPECT_NE(after.at("CopyKernel"), before.at("CopyKernel"));
  EXPECT_EQ(after.at("Store"), before.at("Store"));
  EXPECT_EQ(after.at("PairwiseSum"), before.at("PairwiseSum"));
}

// ---- one test a rule ----

TEST_F(Mutation, MissingRole) {
  replace("snippets/epilog/store.cuh", "SPARSMITH_ROLE(epilog)", "");
  EXPECT_THAT(findings(), ElementsAre(StartsWith("snippets/epilog/store.cuh:10: Store has no role: write "
                                                 "SPARSMITH_ROLE(epilog) in it")));
}

TEST_F(Mutation, UnknownRole) {
  replace("snippets/epilog/store.cuh", "SPARSMITH_ROLE(epilog)", "SPARSMITH_ROLE(epilogue)");
  EXPECT_THAT(findings(), ElementsAre("snippets/epilog/store.cuh:11: Store has the unknown role epilogue: it is one of "
                                      "prolog, reduction, epilog, kernel"));
}

TEST_F(Mutation, RoleOfAnotherFolder) {
  replace("snippets/epilog/store.cuh", "SPARSMITH_ROLE(epilog)", "SPARSMITH_ROLE(prolog)");
  EXPECT_THAT(findings(),
              ElementsAre("snippets/epilog/store.cuh:11: Store has role prolog, but stands in the folder of "
                          "role epilog"));
}

TEST_F(Mutation, RoleOutsideOfRoleFolders) {
  tree_.put("snippets/stray.cuh", std::string(tree_.find("snippets/epilog/store.cuh").value()));
  replace("snippets/stray.cuh", "struct Store", "struct Stray");
  EXPECT_THAT(findings(), ElementsAre("snippets/stray.cuh:11: Stray has role epilog, but stands in no role folder"));
}

TEST_F(Mutation, AblationsMayHaveAnyRole) {
  tree_.put("snippets/ablation/other.cuh", std::string(tree_.find("snippets/epilog/store.cuh").value()));
  replace("snippets/ablation/other.cuh", "struct Store", "struct Other");
  EXPECT_THAT(findings(), testing::IsEmpty());
}

TEST_F(Mutation, NoComment) {
  replace("snippets/epilog/store.cuh", "// Stores one value.", "");
  EXPECT_THAT(findings(), ElementsAre(StartsWith("snippets/epilog/store.cuh:10: Store has no comment")));
}

TEST_F(Mutation, NoCommentOfItsOwnInASharedHeader) {
  replace("snippets/reduction/sums.cuh", "// Adds nothing.", "");
  EXPECT_THAT(findings(), ElementsAre(StartsWith("snippets/reduction/sums.cuh:35: NoSum has no comment")));
}

TEST_F(Mutation, TunedNameIsNoParameter) {
  replace("snippets/prolog/window.cuh", "SPARSMITH_TUNE(kWidth_,", "SPARSMITH_TUNE(kWidth,");
  EXPECT_THAT(findings(),
              ElementsAre("snippets/prolog/window.cuh:19: SPARSMITH_TUNE names kWidth, which is no template "
                          "parameter of Window"));
}

TEST_F(Mutation, TunedNameIsAType) {
  replace("snippets/prolog/window.cuh", "SPARSMITH_TUNE(kWidth_,", "SPARSMITH_TUNE(Value,");
  EXPECT_THAT(findings(), ElementsAre("snippets/prolog/window.cuh:19: SPARSMITH_TUNE names Value of Window, which is a "
                                      "type: values are tuned"));
}

TEST_F(Mutation, TunedValuesOutOfOrder) {
  replace("snippets/prolog/window.cuh", "1, 2, 4, 8", "1, 4, 2, 8");
  EXPECT_THAT(findings(),
              ElementsAre("snippets/prolog/window.cuh:19: the values of kWidth_ are not in ascending order, "
                          "each once"));
}

TEST_F(Mutation, TunedValueTwice) {
  replace("snippets/prolog/window.cuh", "1, 2, 4, 8", "1, 2, 2, 8");
  EXPECT_THAT(findings(), ElementsAre(StartsWith("snippets/prolog/window.cuh:19: the values of kWidth_ are not")));
}

TEST_F(Mutation, TunedValueIsNoInteger) {
  replace("snippets/prolog/window.cuh", "1, 2, 4, 8", "1, 2.5");
  EXPECT_THAT(findings(), ElementsAre(StartsWith("snippets/prolog/window.cuh:19: a value of kWidth_ is no integer")));
}

TEST_F(Mutation, TunedValueDependsOnAParameter) {
  replace("snippets/prolog/window.cuh", "1, 2, 4, 8", "1, sizeof(Value)");
  EXPECT_THAT(findings(), ElementsAre(StartsWith("snippets/prolog/window.cuh:19: a value of kWidth_ is no integer")));
}

TEST_F(Mutation, TunedTwice) {
  replace("snippets/prolog/window.cuh", "SPARSMITH_TUNE(kWidth_, 1, 2, 4, 8)",
          "SPARSMITH_TUNE(kWidth_, 1, 2)\n  SPARSMITH_TUNE(kWidth_, 4)");
  EXPECT_THAT(findings(), ElementsAre(StartsWith("snippets/prolog/window.cuh:20: class member cannot be redeclared")));
}

TEST_F(Mutation, ConstraintWithoutReason) {
  replace("snippets/prolog/window.cuh", ",\n                \"a window is at most \\\"one\\\" load\"", "");
  EXPECT_THAT(findings(),
              ElementsAre(StartsWith("snippets/prolog/window.cuh:20: static_assert(kWidth_ * sizeof(Value) <= "
                                     "window::kAlignment) gives no reason")));
}

TEST_F(Mutation, NameTwice) {
  replace("snippets/epilog/store.cuh", "struct Store", "struct NoSum");
  replace("snippets/kernels/copy.cuh", "#include \"snippets/epilog/store.cuh\"\n", "");
  EXPECT_THAT(findings(), ElementsAre("snippets/reduction/sums.cuh:35: there is another snippet NoSum, at "
                                      "snippets/epilog/store.cuh:10"));
}

TEST_F(Mutation, MachineWord) {
  for (const char* use :
       {"__syncwarp();", "asm(\"\");", "__builtin_trap();", "atomicFoo(to, value);", "(void)threadIdx.x;"}) {
    tree_ = test_tree();
    replace("snippets/epilog/store.cuh", "*to = ", std::string("\n") + use + " *to = ");
    const std::vector<std::string> found = findings();
    EXPECT_THAT(found, testing::Contains(StartsWith("snippets/epilog/store.cuh:13: names "))) << use;
    EXPECT_THAT(found, testing::Each(StartsWith("snippets/epilog/store.cuh:13: "))) << use;
  }
}

TEST_F(Mutation, MachineWordInALayoutHeader) {
  replace("formats/window_layout.h", "constexpr int", "__device__ constexpr int");
  EXPECT_THAT(findings(),
              ElementsAre(StartsWith("formats/window_layout.h:6: names __device__: only snippets/device/")));
}

TEST_F(Mutation, CudaFunction) {
  for (const char* use :
       {"(void)expf(value);", "(void)fminf(value, 1.0F);", "memcpy(to, &value, 4);", "(void)__expf(value);"}) {
    tree_ = test_tree();
    replace("snippets/epilog/store.cuh", "*to = ", std::string("\n") + use + " *to = ");
    EXPECT_THAT(findings(), ElementsAre(StartsWith("snippets/epilog/store.cuh:13: names "))) << use;
  }
}

TEST_F(Mutation, WordsInCommentsAndStringsAreText) {
  replace("snippets/epilog/store.cuh", "// Stores one value.", "// Stores one value, without __syncthreads() or asm.");
  EXPECT_THAT(findings(), ElementsAre());
}

TEST_F(Mutation, SystemHeader) {
  replace("snippets/epilog/store.cuh", "#include \"snippets/contract.cuh\"", "#include <cuda_fp16.h>");
  EXPECT_THAT(findings(), ElementsAre(StartsWith("snippets/epilog/store.cuh:4: includes <cuda_fp16.h>")));
}

TEST_F(Mutation, HeaderOutsideOfTheTree) {
  replace("snippets/epilog/store.cuh", "snippets/contract.cuh", "matrix/csr_matrix.h");
  EXPECT_THAT(findings(),
              ElementsAre(StartsWith("snippets/epilog/store.cuh:4: includes matrix/csr_matrix.h, which is neither")));
}

TEST_F(Mutation, ConditionalInclude) {
  replace("snippets/epilog/store.cuh", "#include \"snippets/contract.cuh\"",
          "#if 1\n#include \"snippets/contract.cuh\"\n#endif");
  EXPECT_THAT(findings(),
              ElementsAre(StartsWith("snippets/epilog/store.cuh:5: includes snippets/contract.cuh inside #if")));
}

TEST_F(Mutation, EmulatorsTwinOutsideOfDevice) {
  replace("snippets/epilog/store.cuh", "snippets/contract.cuh", "emulator/device_twin/types.h");
  EXPECT_THAT(findings(), ElementsAre(StartsWith("snippets/epilog/store.cuh:4: includes emulator/device_twin/types.h: "
                                                 "of the emulator's, headers of snippets/device/ include each its "
                                                 "twin")));
}

TEST_F(Mutation, TwinOfAnother) {
  replace("snippets/device/threads.cuh", "emulator/device_twin/threads.h", "emulator/device_twin/types.h");
  EXPECT_THAT(findings(),
              ElementsAre(StartsWith("snippets/device/threads.cuh:7: includes emulator/device_twin/types.h: ")));
}

// It includes what names the machine, and names nothing of it.
TEST_F(Mutation, MachineWordInDeviceHeader) {
  tree_.put("snippets/device.cuh",
            std::string(tree_.find("snippets/device.cuh").value()) + "inline int lane = __lane;\n");
  EXPECT_THAT(findings(), testing::Contains(testing::HasSubstr("names __lane: only snippets/device/ does")));
}

TEST_F(Mutation, CircleOfIncludes) {
  replace("snippets/epilog/store.cuh", "snippets/contract.cuh", "snippets/kernels/copy.cuh");
  EXPECT_THAT(findings(),
              ElementsAre("snippets/epilog/store.cuh:4: includes snippets/kernels/copy.cuh, which includes it "
                          "in turn",
                          "snippets/kernels/copy.cuh:6: includes snippets/epilog/store.cuh, which includes it "
                          "in turn"));
}

TEST_F(Mutation, HeaderThatDoesNotCompile) {
  replace("snippets/epilog/store.cuh", "(value);", "(valeu);");
  EXPECT_THAT(findings(), ElementsAre(StartsWith("snippets/epilog/store.cuh:12: use of undeclared identifier "
                                                 "'valeu'")));
}

TEST_F(Mutation, HeaderThatNeedsAnother) {
  replace("snippets/kernels/copy.cuh", "#include \"snippets/device.cuh\"\n", "");
  replace("snippets/epilog/store.cuh", "#include \"snippets/device.cuh\"\n", "");
  EXPECT_THAT(findings(), testing::Contains(StartsWith("snippets/epilog/store.cuh:11: unknown type name")));
}

}  // namespace
}  // namespace sparsmith::snippetc
