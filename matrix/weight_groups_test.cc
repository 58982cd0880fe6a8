#include "matrix/weight_groups.h"

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

TEST(GroupPatternTest, ReadsNameAndMembers) {
  const Result<GroupPattern> pattern = parse_group_pattern("qkv:*.q_proj.weight,*.k_proj.weight,*.v_proj.weight");
  ASSERT_TRUE(pattern.ok()) << pattern.status().to_string();
  EXPECT_EQ(pattern->name, "qkv");
  EXPECT_THAT(pattern->members, ElementsAre("*.q_proj.weight", "*.k_proj.weight", "*.v_proj.weight"));
  EXPECT_EQ(pattern->text(), "qkv:*.q_proj.weight,*.k_proj.weight,*.v_proj.weight");
  EXPECT_THAT(parse_group_pattern("a:b:c,d")->members, ElementsAre("b:c", "d"));
}

TEST(GroupPatternTest, SaysWhatIsWrong) {
  const auto error = [](const std::string& text) {
    const Result<GroupPattern> pattern = parse_group_pattern(text);
    EXPECT_EQ(pattern.status().code(), StatusCode::kInvalidArgument) << text;
    return pattern.status().message();
  };
  EXPECT_THAT(error(""), HasSubstr("is expected"));
  EXPECT_THAT(error("*.q,*.k"), AllOf(HasSubstr("'*.q,*.k'"), HasSubstr("is expected")));
  EXPECT_THAT(error(":a,b"), HasSubstr("its name is empty"));
  EXPECT_THAT(error("qkv:"), HasSubstr("at least two members"));
  EXPECT_THAT(error("qkv:a"), HasSubstr("at least two members"));
  EXPECT_THAT(error("qkv:a,"), HasSubstr("a member has no name"));
  EXPECT_THAT(error("qkv:a,b,a"), HasSubstr("the member a stands twice"));
  EXPECT_THAT(error("qkv:*.a,b"), HasSubstr("either every member holds a *"));
  EXPECT_THAT(error("qkv:*.*.a,*.b"), HasSubstr("*.*.a holds more than one *"));
  EXPECT_THAT(error("qkv.*:a,b"), HasSubstr("stands for nothing"));
  EXPECT_THAT(error("*qkv.*:*.a,*.b"), HasSubstr("stands for nothing"));
}

class WeightGroupsTest : public testing::Test {
 protected:
  // Tensors of `rows` x `cols` with as many nonzeros as said.
  void add(const std::string& name, std::int64_t rows, std::int64_t cols, std::int64_t nnz = 1,
           const std::string& type = "F32") {
    const std::size_t size = type == "F32" ? 4 : 2;
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows * cols) * size);
    for (std::size_t i = 0; i < static_cast<std::size_t>(nnz); ++i) bytes[i * size + size - 1] = std::byte{0x3C};
    data_.push_back(std::move(bytes));
    parts_.push_back({name, type, {rows, cols}, data_.back()});
  }
  void add_vector(const std::string& name) {
    data_.emplace_back(8);
    parts_.push_back({name, "F32", {2}, data_.back()});
  }
  ModelFile model() {
    const std::string path = directory_.file("model.safetensors");
    EXPECT_TRUE(write_safetensors(path, parts_, {}).ok());
    return *ModelFile::open(path);
  }
  // "name = member + member", in the order found.
  std::vector<std::string> found(const std::vector<std::string>& patterns, GroupSearch search = {}) {
    const ModelFile file = model();
    for (const std::string& pattern : patterns) search.patterns.push_back(*parse_group_pattern(pattern));
    const Result<std::vector<WeightGroup>> groups = find_groups(file, search);
    if (!groups.ok()) {
      EXPECT_EQ(groups.status().code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(groups.status().message(), HasSubstr("model.safetensors"));
      return {groups.status().message()};
    }
    std::vector<std::string> texts;
    for (const WeightGroup& group : *groups) {
      std::string text = group.name;
      for (const std::size_t index : group.members)
        text += (index == group.members.front() ? " = " : " + ") + file.tensors()[index].name;
      texts.push_back(text);
    }
    return texts;
  }
  void add_layers() {
    for (const char* layer : {"model.layers.0", "model.layers.10"}) {
      for (const char* part : {"k", "q", "v"}) add(std::string(layer) + ".self_attn." + part + "_proj.weight", 2, 4);
      for (const char* part : {"up", "gate"}) add(std::string(layer) + ".mlp." + part + "_proj.weight", 3, 4);
      add(std::string(layer) + ".mlp.down_proj.weight", 4, 3);
    }
  }

  TemporaryDirectory directory_;
  std::list<std::vector<std::byte>> data_;
  std::vector<SafetensorsPart> parts_;
};

TEST_F(WeightGroupsTest, FindsOneGroupALayerInTheOrderOfTheMembers) {
  add_layers();
  const std::string first = "model.layers.0.self_attn.";
  const std::string second = "model.layers.10.self_attn.";
  const auto all = ElementsAre(
      first + "qkv = " + first + "q_proj.weight + " + first + "k_proj.weight + " + first + "v_proj.weight",
      second + "qkv = " + second + "q_proj.weight + " + second + "k_proj.weight + " + second + "v_proj.weight");
  EXPECT_THAT(found({"qkv:*.q_proj.weight,*.k_proj.weight,*.v_proj.weight"}), all);
  // However the pattern is written, the name is the same.
  EXPECT_THAT(found({"qkv:*q_proj.weight,*k_proj.weight,*v_proj.weight"}), all);
  EXPECT_THAT(found({"qkv:model.layers.*.self_attn.q_proj.weight,model.layers.*.self_attn.k_proj.weight,"
                     "model.layers.*.self_attn.v_proj.weight"}),
              all);
  EXPECT_THAT(found({"gate_up:*.gate_proj.weight,*.up_proj.weight"}),
              ElementsAre(HasSubstr("model.layers.0.mlp.gate_up = model.layers.0.mlp.gate_proj.weight + "),
                          HasSubstr("model.layers.10.mlp.gate_up = ")));
  EXPECT_EQ(found({"qkv:*.q_proj.weight,*.k_proj.weight", "gate_up:*.gate_proj.weight,*.up_proj.weight"}).size(), 4U);
}

TEST_F(WeightGroupsTest, NamesGroups) {
  for (const char* name : {"a.q", "a.k", "b.q", "b.k", "q.0.w", "k.0.w", "q.1.w", "k.1.w"}) add(name, 1, 2);
  EXPECT_THAT(found({"qk:a.q,a.k"}), ElementsAre("qk = a.q + a.k"));
  EXPECT_THAT(found({"all:a.q,b.q"}), ElementsAre("all = a.q + b.q"));
  EXPECT_THAT(found({"qk:*.q,*.k"}), ElementsAre("a.qk = a.q + a.k", "b.qk = b.q + b.k"));
  EXPECT_THAT(found({"layer_*:*.q,*.k"}), ElementsAre("layer_a = a.q + a.k", "layer_b = b.q + b.k"));
  EXPECT_THAT(found({"qk.*:q.*.w,k.*.w"}), ElementsAre("qk.0 = q.0.w + k.0.w", "qk.1 = q.1.w + k.1.w"));
  EXPECT_THAT(found({"qk:q.*.w,k.*.w"}), ElementsAre(HasSubstr("group qk: another group has that name")));
  EXPECT_THAT(found({"k:*.q,*.k"}), ElementsAre(HasSubstr("group a.k: a tensor of the file has that name")));
}

TEST_F(WeightGroupsTest, SaysWhichMemberIsMissing) {
  add_layers();
  add("model.layers.11.self_attn.q_proj.weight", 2, 4);
  add_vector("model.layers.11.self_attn.k_proj.weight");
  EXPECT_THAT(found({"qk:*.q_proj.weight,*.k_proj.weight"}),
              ElementsAre(AllOf(HasSubstr("group 'qk:*.q_proj.weight,*.k_proj.weight': there is "
                                          "model.layers.11.self_attn.q_proj.weight, but no "
                                          "model.layers.11.self_attn.k_proj.weight"),
                                HasSubstr("it has 1 dimension"))));
  EXPECT_THAT(found({"qv:*.q_proj.weight,*.v_proj.weight"}),
              ElementsAre(HasSubstr("no model.layers.11.self_attn.v_proj.weight to go with it")));
  EXPECT_THAT(found({"qkv:q.weight,k.weight"}), ElementsAre(HasSubstr("no weight is called as any of its members is")));
  GroupSearch search;
  search.left_out = [](const std::string& name) {
    return name == "model.layers.0.self_attn.k_proj.weight" || name.starts_with("model.layers.11") ? "left out" : "";
  };
  EXPECT_THAT(found({"qk:*.q_proj.weight,*.k_proj.weight"}, search),
              ElementsAre(HasSubstr("no model.layers.0.self_attn.k_proj.weight to go with it: left out")));
  EXPECT_EQ(found({"qv:*.q_proj.weight,*.v_proj.weight"}, search).size(), 2U) << "layer 11 is left out as a whole";
}

TEST_F(WeightGroupsTest, MembersShareInputAndType) {
  add("q", 2, 4);
  add("k", 2, 3);
  add("v", 1, 4, 1, "F16");
  add("o", 3, 4);
  EXPECT_THAT(found({"g:q,k"}), ElementsAre(HasSubstr("q takes 4 features and k takes 3")));
  EXPECT_THAT(found({"g:q,o"}), ElementsAre("g = q + o"));
  EXPECT_THAT(found({"g:q,v"}), ElementsAre(AllOf(HasSubstr("q is F32 and v is F16"), HasSubstr("--dtype"))));
  EXPECT_THAT(found({"g:q,v"}, {.converted = true}), ElementsAre("g = q + v"));
  EXPECT_THAT(found({"g:q,k"}, {.transposed = true}), ElementsAre("g = q + k"));
  EXPECT_THAT(found({"g:q,o"}, {.transposed = true}), ElementsAre(HasSubstr("q takes 2 features and o takes 3")));
}

TEST_F(WeightGroupsTest, ATensorIsInOneGroup) {
  for (const char* name : {"q", "k", "v", "aa"}) add(name, 1, 2);
  EXPECT_THAT(found({"a:q,k", "b:v,k"}), ElementsAre(HasSubstr("group b: k is in group a already")));
  EXPECT_THAT(found({"a:q,k", "a:v,aa"}), ElementsAre(HasSubstr("another group has that name")));
  EXPECT_THAT(found({"twice:*a,a*"}), ElementsAre(HasSubstr("(this one)")));
}

TEST_F(WeightGroupsTest, AGroupIsTakenByTheZerosOfAllItsMembers) {
  add("a.q", 1, 10, 9);  // 10 %
  add("a.k", 9, 10, 9);  // 90 %: together 82 %
  add("b.q", 1, 10, 1);
  add("b.k", 9, 10, 89);  // together 10 %
  add("c", 1, 10, 1);
  const ModelFile file = model();
  SelectionOptions options;
  options.groups = {*parse_group_pattern("qk:*.q,*.k")};
  const auto names = [&](const ModelAnalysis& analysis) {
    std::vector<std::string> taken;
    for (const AnalyzedWeight& weight : analysis.weights) taken.push_back(file.tensors()[weight.index].name);
    return taken;
  };
  const Result<ModelAnalysis> analysis = analyze_model(file, options);
  ASSERT_TRUE(analysis.ok()) << analysis.status().to_string();
  EXPECT_THAT(names(*analysis), testing::UnorderedElementsAre("a.q", "a.k", "c"));
  ASSERT_EQ(analysis->groups.size(), 1U);
  EXPECT_EQ(analysis->groups[0].name, "a.qk");
  ASSERT_EQ(analysis->skipped.size(), 2U);
  for (const SkippedTensor& tensor : analysis->skipped)
    EXPECT_THAT(tensor.reason, HasSubstr("10.0 % of group b.qk is zero"));

  options.exclude = {"b.*"};
  options.min_sparsity = 0.85;
  EXPECT_THAT(names(*analyze_model(file, options)), ElementsAre("c"));
  options.exclude = {"*.k"};
  EXPECT_THAT(analyze_model(file, options).status().message(), HasSubstr("an --exclude pattern matches it"));
}

}  // namespace
}  // namespace sparsmith
