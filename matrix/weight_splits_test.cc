#include "matrix/weight_splits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>

#include "base/temporary_directory.h"
#include "matrix/model_analysis.h"
#include "matrix/safetensors.h"

namespace sparsmith {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Dimension = WeightCut::Dimension;

TEST(SplitPatternTest, ReadsNameUnitsAndMembers) {
  const auto pattern = parse_split_pattern("attention/8:rows=*.q.weight,columns=*.o.weight");
  ASSERT_TRUE(pattern.ok()) << pattern.status().to_string();
  EXPECT_EQ(pattern->weights.name, "attention");
  EXPECT_EQ(pattern->units, 8);
  EXPECT_THAT(pattern->weights.members, ElementsAre("*.q.weight", "*.o.weight"));
  EXPECT_THAT(pattern->dimensions, ElementsAre(Dimension::kRows, Dimension::kColumns));
  EXPECT_EQ(pattern->text(), "attention/8:rows=*.q.weight,columns=*.o.weight");
  EXPECT_EQ(parse_split_pattern("head:rows=lm_head.weight")->text(), "head:rows=lm_head.weight");
  EXPECT_THAT(parse_split_pattern("a:rows=b=c")->weights.members, ElementsAre("b=c"));
}

TEST(SplitPatternTest, SaysWhatIsWrong) {
  const auto error = [](const std::string& text) {
    const auto pattern = parse_split_pattern(text);
    EXPECT_EQ(pattern.status().code(), StatusCode::kInvalidArgument) << text;
    return pattern.status().message();
  };
  EXPECT_THAT(error("rows=*.q"), AllOf(HasSubstr("'rows=*.q'"), HasSubstr("is expected")));
  EXPECT_THAT(error(":rows=a"), HasSubstr("its name is empty"));
  EXPECT_THAT(error("a:"), HasSubstr("neither rows= nor columns="));
  EXPECT_THAT(error("a:rows"), HasSubstr("neither rows= nor columns="));
  EXPECT_THAT(error("a:lines=b"), HasSubstr("neither rows= nor columns="));
  EXPECT_THAT(error("a:rows="), HasSubstr("a member has no name"));
  EXPECT_THAT(error("a:rows=b,columns=b"), HasSubstr("the member b stands twice"));
  EXPECT_THAT(error("a:rows=*.b,columns=c"), HasSubstr("either every member holds a *"));
  for (const char* units : {"", "0", "1", "-4", "8x", "99999999999999999999"})
    EXPECT_THAT(error(std::string("a/") + units + ":rows=b"), HasSubstr("a number of units"));
}

class WeightSplitsTest : public testing::Test {
 protected:
  // A tensor of fp32 with that many nonzeros.
  void add(const std::string& name, std::int64_t rows, std::int64_t cols, std::int64_t nnz = 1) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows * cols) * 4);
    for (std::size_t i = 0; i < static_cast<std::size_t>(nnz); ++i) bytes[i * 4 + 3] = std::byte{0x3C};
    data_.push_back(std::move(bytes));
    parts_.push_back({name, "F32", {rows, cols}, data_.back()});
  }
  ModelFile model() {
    const std::string path = directory_.file("model.safetensors");
    EXPECT_TRUE(write_safetensors(path, parts_, {}).ok());
    return *ModelFile::open(path);
  }
  Result<ModelAnalysis> analysis(const std::vector<std::string>& splits, int ranks = 2,
                                 const std::vector<std::string>& groups = {}) {
    SelectionOptions options{.ranks = ranks};
    for (const std::string& text : splits) options.splits.push_back(*parse_split_pattern(text));
    for (const std::string& text : groups) options.groups.push_back(*parse_group_pattern(text));
    return analyze_model(model(), options);
  }
  std::string error(const std::vector<std::string>& splits, int ranks = 2,
                    const std::vector<std::string>& groups = {}) {
    const auto found = analysis(splits, ranks, groups);
    EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
    return found.status().message();
  }
  void add_layers() {
    for (const char* layer : {"layers.0.", "layers.1."}) {
      add(std::string(layer) + "q.weight", 16, 8);
      for (const char* name : {"k.weight", "v.weight"}) add(std::string(layer) + name, 4, 8);
      add(std::string(layer) + "o.weight", 8, 16);
    }
  }

  TemporaryDirectory directory_;
  std::list<std::vector<std::byte>> data_;
  std::vector<SafetensorsPart> parts_;
};

const char* const kAttention = "attention/4:rows=*.q.weight,rows=*.k.weight,rows=*.v.weight,columns=*.o.weight";

TEST_F(WeightSplitsTest, FindsOneSetALayer) {
  add_layers();
  add("lm_head.weight", 96, 8);
  const auto found = analysis({kAttention, "head:rows=lm_head.weight"}, 2, {"qkv:*.q.weight,*.k.weight,*.v.weight"});
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  ASSERT_EQ(found->splits.size(), 3U);
  EXPECT_EQ(found->splits[1].name, "layers.1.attention");
  EXPECT_EQ(found->splits[1].members.size(), 4U);
  EXPECT_EQ(found->splits[1].units, 4);
  EXPECT_FALSE(found->splits[1].whole());
  EXPECT_EQ(found->splits[2].units, 3);  // of 32 features
  EXPECT_TRUE(found->splits[2].whole());
  EXPECT_EQ(found->groups.size(), 2U);
  EXPECT_EQ(found->weights.size(), 9U);
}

TEST_F(WeightSplitsTest, SetsAreSelectedAsAWhole) {
  add("a.up.weight", 8, 8, 64);  // dense, and yet the set has enough zeros
  add("a.down.weight", 8, 8, 8);
  add("b.up.weight", 8, 8, 8);
  add("b.down.weight", 8, 8, 8);
  add("c.up.weight", 8, 8, 64);
  add("c.down.weight", 8, 8, 40);
  const auto found = analysis({"mlp:rows=*.up.weight,columns=*.down.weight"});
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->weights.size(), 4U);
  ASSERT_EQ(found->splits.size(), 2U);
  EXPECT_EQ(found->splits[1].name, "b.mlp");
  ASSERT_EQ(found->skipped.size(), 2U);
  EXPECT_THAT(found->skipped[0].reason, HasSubstr("18.8 % of split c.mlp is zero"));
}

// A run of some weights cuts them as a run of all does.
TEST_F(WeightSplitsTest, OneMemberIsSelectedAsTheSetIs) {
  add("a.up.weight", 8, 8, 64);
  add("a.down.weight", 8, 8, 8);
  add("b.up.weight", 8, 8, 64);
  add("b.down.weight", 8, 8, 40);
  SelectionOptions options{.splits = {*parse_split_pattern("mlp:rows=*.up.weight,columns=*.down.weight")}, .ranks = 2};
  for (const char* only : {"a.up.weight", "a.down.weight", "b.down.weight"}) {
    options.only = {only};
    const auto found = analyze_model(model(), options);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    const bool taken = *only == 'a';
    ASSERT_EQ(found->weights.size(), taken ? 1U : 0U) << only;
    ASSERT_EQ(found->splits.size(), taken ? 1U : 0U) << only;
    if (taken) EXPECT_EQ(found->splits[0].members.size(), 2U);
  }
}

TEST_F(WeightSplitsTest, SaysWhatDoesNotFit) {
  add_layers();
  EXPECT_THAT(error({"a:rows=*.x"}), HasSubstr("split 'a:rows=*.x': no weight is called"));
  EXPECT_THAT(error({"a:rows=*.q.weight,columns=*.x"}),
              HasSubstr("there is layers.0.q.weight, but no layers.0.x to go with it"));
  EXPECT_THAT(error({kAttention}, 8), HasSubstr("split layers.0.attention: 4 units are too few for 8 ranks"));
  EXPECT_THAT(error({"a/3:rows=*.q.weight"}), HasSubstr("16 rows of layers.0.q.weight do not divide into 3 units"));
  EXPECT_THAT(error({"a:rows=*.q.weight,rows=*.k.weight"}), HasSubstr("are not cut alike: give the number of units"));
  EXPECT_THAT(error({kAttention, "b/2:rows=*.q.weight"}), HasSubstr("is in split layers.0.attention already"));
  EXPECT_THAT(error({"b/2:rows=*.q.weight"}, 2, {"qk:*.q.weight,*.k.weight"}),
              HasSubstr("group layers.0.qk: split layers.0.q.b cuts 1 of its 2 members"));
  EXPECT_THAT(error({"b/2:columns=*.q.weight,columns=*.k.weight"}, 2, {"qk:*.q.weight,*.k.weight"}),
              HasSubstr("is cut by columns in split layers.0.b"));
}

}  // namespace
}  // namespace sparsmith
