#include "search/rank_parts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>

#include "base/temporary_directory.h"
#include "matrix/safetensors.h"
#include "matrix/synthesis.h"

namespace sparsmith {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RankPartsTest : public testing::Test {
 protected:
  void add(const std::string& name, std::int64_t rows, std::int64_t cols) {
    const CsrMatrix matrix = synthesize({.rows = rows, .cols = cols, .sparsity = 0.8, .seed = ++seed_}).value();
    matrices_[name] = matrix;
    data_.push_back(dense_bytes(matrix));
    parts_.push_back({name, "F32", {rows, cols}, std::as_bytes(std::span(data_.back()))});
  }
  // The weights of the file, cut; groups are made of all their members.
  Result<RankParts> cut(const std::vector<std::string>& splits, const std::string& group, int ranks,
                        const Epilogue& epilogue = {}) {
    const std::string path = directory_.file("m.safetensors");
    EXPECT_TRUE(write_safetensors(path, parts_, {}).ok());
    model_.emplace(*ModelFile::open(path));
    SelectionOptions options{.ranks = ranks};
    for (const std::string& text : splits) options.splits.push_back(*parse_split_pattern(text));
    if (!group.empty()) options.groups.push_back(*parse_group_pattern(group));
    SPARSMITH_ASSIGN_OR_RETURN(const ModelAnalysis analysis, analyze_model(*model_, options));
    weights_.clear();
    std::vector<bool> grouped(model_->tensors().size());
    for (const WeightGroup& each : analysis.groups) {
      WeightInput& input = weights_.emplace_back(WeightInput{each.name, {}});
      for (const std::size_t index : each.members) {
        input.members.push_back({model_->tensors()[index].name, {}});
        grouped[index] = true;
      }
    }
    for (std::size_t i = 0; i < grouped.size(); ++i)
      if (!grouped[i]) weights_.push_back({model_->tensors()[i].name, [this, i] { return model_->read(i); }});
    return cut_for_ranks(*model_, analysis, ranks, epilogue, weights_);
  }
  void add_mlp() {
    add("0.gate.w", 24, 10);
    add("0.up.w", 24, 10);
    add("0.down.w", 10, 24);
    add("head.w", 14, 10);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const WeightInput& weight : weights_) all.push_back(weight.name);
    return all;
  }

  TemporaryDirectory directory_;
  std::map<std::string, CsrMatrix> matrices_;
  std::list<std::string> data_;
  std::vector<SafetensorsPart> parts_;
  std::optional<ModelFile> model_;
  std::vector<WeightInput> weights_;
  std::uint64_t seed_ = 0;
};

const char* const kMlp = "mlp/6:rows=*.gate.w,rows=*.up.w,columns=*.down.w";

TEST_F(RankPartsTest, PartsOfAllRanksAreTheWeights) {
  add_mlp();
  const auto parts = cut({kMlp}, "gate_up:*.gate.w,*.up.w", 2);
  ASSERT_TRUE(parts.ok()) << parts.status().to_string();
  EXPECT_THAT(names(), ElementsAre("0.gate_up [rank 0 of 2]", "0.gate_up [rank 1 of 2]", "0.down.w [rank 0 of 2]",
                                   "0.down.w [rank 1 of 2]", "head.w"));
  const TuneOptions options;
  std::vector<CsrMatrix> read;
  std::vector<std::vector<GroupMember>> members(weights_.size());
  for (std::size_t i = 0; i < weights_.size(); ++i)
    read.push_back(read_weight(weights_[i], options, members[i]).value());
  EXPECT_EQ(read[4].pattern_hash(), matrices_["head.w"].pattern_hash());
  const WeightCut& cut = parts->parts.at("0.gate_up [rank 1 of 2]").cut;
  EXPECT_EQ(cut, parts->parts.at("0.gate_up [rank 0 of 2]").cut);
  EXPECT_EQ(cut.boundaries, parts->parts.at("0.down.w [rank 0 of 2]").cut.boundaries);
  EXPECT_EQ(parts->parts.at("0.down.w [rank 1 of 2]").weight, "0.down.w");
  CsrMatrix down = transposed(read[2]);
  ASSERT_TRUE(append_rows(down, transposed(read[3])).ok());
  EXPECT_EQ(transposed(down).pattern_hash(), matrices_["0.down.w"].pattern_hash());
  EXPECT_EQ(weights_[3].statistics->nnz, read[3].nnz());
  EXPECT_EQ(weights_[3].statistics->cols, cut.units_of(1) * 4);
  // The gate's rows of both ranks, then those of up.
  for (const int rank : {0, 1}) {
    EXPECT_THAT(members[rank], ElementsAre(GroupMember{"0.gate.w", 0, cut.units_of(rank) * 4},
                                           GroupMember{"0.up.w", cut.units_of(rank) * 4, cut.units_of(rank) * 4}));
  }
  const WeightCut halves{WeightCut::Dimension::kRows, {0, 1, 2}};
  CsrMatrix gate = part_of(read[0], halves, 0).value();
  ASSERT_TRUE(append_rows(gate, part_of(read[1], halves, 0).value()).ok());
  EXPECT_EQ(gate.values, matrices_["0.gate.w"].values);
  CsrMatrix up = part_of(read[0], halves, 1).value();
  ASSERT_TRUE(append_rows(up, part_of(read[1], halves, 1).value()).ok());
  EXPECT_EQ(up.values, matrices_["0.up.w"].values);
}

TEST_F(RankPartsTest, RefusesEpiloguesThatPartsCannotHave) {
  add_mlp();
  Epilogue epilogue{.activation = Activation::kSilu};
  EXPECT_THAT(cut({kMlp}, "", 2, epilogue).status().message(),
              HasSubstr("--epilogue silu: split 0.mlp cuts 0.down.w by columns"));
  EXPECT_TRUE(cut({"up:rows=*.gate.w,rows=*.up.w"}, "", 2, epilogue).ok());
  EXPECT_TRUE(cut({kMlp}, "", 2, {.bias = true}).ok());
  epilogue.gated = true;
  EXPECT_THAT(cut({"up:rows=*.up.w"}, "", 2, epilogue).status().message(),
              HasSubstr("split 0.up.up cuts 0.up.w through its gates"));
  EXPECT_TRUE(cut({"up:rows=*.gate.w,rows=*.up.w"}, "g:*.gate.w,*.up.w", 2, epilogue).ok());
}

// A weight whose plan launches a kernel.
TunedWeight launching(const std::string& name, const std::string& kernel) {
  TunedWeight weight;
  weight.name = name;
  LaunchPlan& plan = weight.operators.emplace_back().choices.emplace_back().plan;
  plan.steps.emplace_back().kernel = kernel;
  return weight;
}

TEST(RankContentsTest, FilesHoldCompleteSplitsAlone) {
  const WeightCut cut{WeightCut::Dimension::kRows, {0, 1, 2}};
  RankParts parts{.ranks = 2, .sets = {{"mlp", 3}}};  // two of them are a group
  TunedContents contents;
  for (const char* weight : {"gate_up", "down"}) {
    for (const int rank : {0, 1}) {
      const std::string name = fmt::format("{} [rank {} of 2]", weight, rank);
      parts.parts[name] = {weight, rank, 0, cut};
      contents.weights.push_back(launching(name, fmt::format("k{}", rank)));
      if (*weight == 'g') contents.weights.back().members = {{"gate", 0, 2}, {"up", 2, 2}};
    }
  }
  contents.weights.push_back(launching("head", "k2"));
  for (const char* kernel : {"k0", "k1", "k2"}) contents.kernels.emplace_back().name = kernel;
  const auto names = [&](int rank) {
    const TunedContents own = contents_of_rank(contents, parts, rank);
    EXPECT_EQ(own.rank, rank);
    EXPECT_EQ(own.ranks, 2);
    std::vector<std::string> all;
    for (const TunedWeight& weight : own.weights) {
      all.push_back(weight.name);
      EXPECT_EQ(weight.cut.has_value(), weight.name != "head");
    }
    for (const TunedKernel& kernel : own.kernels) all.push_back(kernel.name);
    return all;
  };
  EXPECT_TRUE(incomplete_splits(contents, parts).empty());
  EXPECT_THAT(names(0), ElementsAre("gate_up", "down", "head", "k0", "k2"));
  EXPECT_THAT(names(1), ElementsAre("gate_up", "down", "head", "k1", "k2"));
  contents.weights.erase(contents.weights.begin() + 3);
  EXPECT_THAT(incomplete_splits(contents, parts), ElementsAre("mlp"));
  EXPECT_THAT(names(0), ElementsAre("head", "k2"));
}

TEST(RankPathTest, TheRankStandsBeforeTheExtension) {
  EXPECT_EQ(path_of_rank("a.b/m.tuned.safetensors", 3), "a.b/m.rank3.tuned.safetensors");
  EXPECT_EQ(path_of_rank("m.st", 0), "m.rank0.st");
  EXPECT_EQ(path_of_rank("a.b/m", 0), "a.b/m.rank0");
  EXPECT_EQ(path_of_rank(".m", 12), ".m.rank12");
}

}  // namespace
}  // namespace sparsmith
