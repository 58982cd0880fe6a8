#include "runtime/tuned_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "base/temporary_directory.h"
#include "formats/csr.h"
#include "formats/packed_format.h"
#include "runtime/tuned_file_json.h"
#include "tests/support/tuned_sample.h"

namespace sparsmith {
namespace {

class TunedFileTest : public testing::Test {
 protected:
  std::string written() {
    const Status status = write_tuned_file(path_, sample_.contents());
    EXPECT_TRUE(status.ok()) << status.to_string();
    return *read_file(path_);
  }
  static Result<TunedFile> parse(const std::string& bytes) { return TunedFile::parse(std::as_bytes(std::span(bytes))); }

  TunedSample sample_;
  TemporaryDirectory directory_;
  std::string path_ = directory_.file("model.tuned.safetensors");
};

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) { return std::ranges::equal(a, b); }

TEST_F(TunedFileTest, EverythingSurvives) {
  written();
  const auto file = TunedFile::open(path_);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const TunedContents& in = sample_.contents();
  const TunedContents& out = file->contents();
  EXPECT_EQ(out.provenance.device_name, in.provenance.device_name);
  EXPECT_EQ(out.provenance.source_file, in.provenance.source_file);
  EXPECT_EQ(out.provenance.timing_policy, in.provenance.timing_policy);
  ASSERT_EQ(out.kernels.size(), in.kernels.size());
  for (std::size_t i = 0; i < in.kernels.size(); ++i) {
    EXPECT_EQ(out.kernels[i].name, in.kernels[i].name);
    EXPECT_EQ(out.kernels[i].source, in.kernels[i].source);
    EXPECT_EQ(out.kernels[i].closure_hash, in.kernels[i].closure_hash);
    EXPECT_EQ(out.kernels[i].max_shared_bytes, in.kernels[i].max_shared_bytes);
    ASSERT_EQ(out.kernels[i].binaries.size(), 2U);
    EXPECT_EQ(out.kernels[i].binaries[1].architecture, "sm_90");
    EXPECT_TRUE(equal(out.kernels[i].binaries[1].cubin, in.kernels[i].binaries[1].cubin));
  }
  ASSERT_EQ(out.weights.size(), in.weights.size());
  for (std::size_t i = 0; i < in.weights.size(); ++i) {
    const TunedWeight& a = in.weights[i];
    const TunedWeight& b = out.weights[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.rows, b.rows);
    EXPECT_EQ(a.cols, b.cols);
    EXPECT_EQ(a.type, b.type);
    EXPECT_EQ(a.nnz, b.nnz);
    EXPECT_EQ(a.pattern_hash + a.value_hash, b.pattern_hash + b.value_hash);
    EXPECT_EQ(a.members, b.members);
    EXPECT_EQ(a.packed_bytes(), b.packed_bytes());
    ASSERT_EQ(a.packings.size(), b.packings.size());
    EXPECT_EQ(a.packings[0].facts, b.packings[0].facts);
    ASSERT_EQ(a.packings[0].arrays.size(), b.packings[0].arrays.size());
    for (std::size_t j = 0; j < a.packings[0].arrays.size(); ++j) {
      EXPECT_EQ(a.packings[0].arrays[j].name, b.packings[0].arrays[j].name);
      EXPECT_EQ(a.packings[0].arrays[j].type, b.packings[0].arrays[j].type);
      EXPECT_TRUE(equal(a.packings[0].arrays[j].bytes, b.packings[0].arrays[j].bytes));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.packings[0].arrays[j].bytes.data()) %
                    size_of(a.packings[0].arrays[j].type),
                0U);
    }
    ASSERT_EQ(a.operators.size(), 1U);
    ASSERT_EQ(b.operators.size(), 1U);
    EXPECT_EQ(a.operators[0].spec, b.operators[0].spec);
    const std::vector<TunedChoice>& a_choices = a.operators[0].choices;
    const std::vector<TunedChoice>& b_choices = b.operators[0].choices;
    ASSERT_EQ(a_choices.size(), b_choices.size());
    for (std::size_t j = 0; j < a_choices.size(); ++j) {
      EXPECT_EQ(a_choices[j].tokens, b_choices[j].tokens);
      EXPECT_EQ(a_choices[j].packing, b_choices[j].packing);
      EXPECT_EQ(a_choices[j].plan, b_choices[j].plan);
      EXPECT_EQ(a_choices[j].evidence, b_choices[j].evidence);
      EXPECT_EQ(a_choices[j].median_us, b_choices[j].median_us);
      EXPECT_EQ(a_choices[j].dense_us, b_choices[j].dense_us);
      EXPECT_EQ(a_choices[j].config, b_choices[j].config);
      EXPECT_EQ(a_choices[j].reason, b_choices[j].reason);
    }
  }
}

// "q" and "k", a row each, are the group "fc/1".
void make_group(TunedContents& contents) { contents.weights[0].members = {{"q", 0, 1}, {"k", 1, 1}}; }

TEST_F(TunedFileTest, GroupsSurvive) {
  make_group(sample_.contents());
  written();
  const auto file = TunedFile::open(path_);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->contents().weights[0].members, sample_.contents().weights[0].members);
  EXPECT_TRUE(file->contents().weights[1].members.empty());
  EXPECT_EQ((*file->contents().find_weight("fc/1"))->name, "fc/1");
  const Status member = file->contents().find_weight("k").status();
  EXPECT_EQ(member.code(), StatusCode::kNotFound);
  EXPECT_THAT(member.message(), testing::HasSubstr("k is no weight of its own: it is rows 1 to 1 of group fc/1"));
  EXPECT_THAT(file->contents().find_weight("v").status().message(),
              testing::HasSubstr("there is no weight v; there are fc/1, fc2, fc3"));
}

// Rank 1 of 3: "fc/1", of 2 rows, is two units of four; "fc2", of 3 columns, is the second one of three.
void make_rank(TunedContents& contents) {
  contents.rank = 1;
  contents.ranks = 3;
  contents.weights[0].cut = {WeightCut::Dimension::kRows, {0, 1, 3, 4}, true};
  contents.weights[1].cut = {WeightCut::Dimension::kColumns, {0, 1, 2, 3}, false};
}

TEST_F(TunedFileTest, PartsOfRanksSurvive) {
  make_rank(sample_.contents());
  written();
  const auto file = TunedFile::open(path_);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->contents().rank, 1);
  EXPECT_EQ(file->contents().ranks, 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(file->contents().weights[i].cut, sample_.contents().weights[i].cut);
  std::string text = tuned_contents_to_json(sample_.contents());
  text.replace(text.find(R"("version":7)"), 11, R"("version":6)");
  const auto any_tensor = [](const std::string&, DataType, const std::string&) { return std::span<const std::byte>(); };
  EXPECT_THAT(tuned_contents_from_json(text, any_tensor).status().message(),
              testing::HasSubstr("stands in version 6 of the format"));
}

TEST_F(TunedFileTest, RefusesPartsOfOtherRanks) {
  const auto refuses = [&](const std::function<void(TunedContents&)>& change, const char* reason) {
    TunedSample sample;
    make_rank(sample.contents());
    ASSERT_TRUE(sample.contents().validate().ok());
    change(sample.contents());
    const Status status = sample.contents().validate();
    EXPECT_EQ(status.code(), StatusCode::kInvalidInput);
    EXPECT_THAT(status.message(), testing::HasSubstr(reason));
  };
  using Boundaries = std::vector<std::int64_t>;
  const auto cuts = [&](const Boundaries& boundaries, const char* reason) {
    refuses([&](TunedContents& c) { c.weights[0].cut->boundaries = boundaries; }, reason);
  };
  refuses([](TunedContents& c) { c.rank = 3; }, "it is for rank 3 of 3");
  refuses([](TunedContents& c) { c.rank = -1; }, "it is for rank -1 of 3");
  refuses([](TunedContents& c) { c.ranks = 0; }, "it is for rank 1 of 0");
  refuses([](TunedContents& c) { c.ranks = 2; }, "weight fc/1: a cut for 3 ranks in a file for 2");
  refuses([](TunedContents& c) { c.ranks = 1 << 20; }, "of 1048576");
  cuts({}, "boundaries of at least two parts");
  cuts({0, 1, 1, 4}, "do not ascend");
  cuts({1, 2, 3, 4}, "do not ascend");
  cuts({0, 4, 3, 5}, "do not ascend");
  cuts({0, 1, 2, INT64_MAX}, "do not ascend");
  cuts({0, 1, 2, 3, 4}, "a cut for 4 ranks");
  cuts({0, 1, 4, 5}, "2 rows are no part of 3 of 5 units");
  refuses([](TunedContents& c) { make_group(c); }, "1 rows are no part of 2 of 4 units");
  refuses(
      [](TunedContents& c) {
        make_group(c);
        c.weights[0].cut = {WeightCut::Dimension::kColumns, {0, 1, 2, 3}};
      },
      "a group is cut by columns");
  refuses([](TunedContents& c) { c.weights[1].operators[0].spec.epilogue.activation = Activation::kRelu; },
          "the epilogue relu of a weight that is cut by columns");
  refuses([](TunedContents& c) { c.weights[1].operators[0].spec.epilogue.residual = true; }, "the epilogue residual");
}

// A description as versions 1 to 3 have it: each weight with its one operator, and the kinds of choices.
std::string earlier(const std::string& description, int version) {
  auto json = nlohmann::ordered_json::parse(description);
  json["version"] = version;
  for (std::size_t i = 0; i < json["operators"].size(); ++i) {
    auto& weight = json["weights"][i];
    auto op = json["operators"][i];
    EXPECT_EQ(weight["name"], op["weight"]);
    for (auto& choice : op["choices"]) choice["kind"] = choice["packing"] == "dense" ? "dense" : "generated";
    op.erase("weight");
    op.erase("kind");
    weight.update(op);
  }
  json.erase("operators");
  return json.dump();
}

TEST_F(TunedFileTest, EarlierVersionsHaveOneOperatorAWeight) {
  const auto any_tensor = [](const std::string&, DataType, const std::string&) { return std::span<const std::byte>(); };
  const std::string good = tuned_contents_to_json(sample_.contents());
  const auto now = tuned_contents_from_json(good, any_tensor);
  const auto before = tuned_contents_from_json(earlier(good, 1), any_tensor);
  ASSERT_TRUE(now.ok()) << now.status().to_string();
  ASSERT_TRUE(before.ok()) << before.status().to_string();
  ASSERT_EQ(before->weights.size(), now->weights.size());
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(before->weights[i].operators.size(), 1U);
    EXPECT_EQ(before->weights[i].operators[0].spec, now->weights[i].operators[0].spec);
    EXPECT_EQ(before->weights[i].operators[0].choices[0].plan, now->weights[i].operators[0].choices[0].plan);
  }
  std::string kind = good;
  kind.replace(kind.find(R"({"tokens":1,)"), 12, R"({"tokens":1,"kind":"generated",)");
  EXPECT_THAT(tuned_contents_from_json(kind, any_tensor).status().message(),
              testing::HasSubstr("unknown key \"kind\""));
}

// A second operator, of the transposed weight, and a packing that values can be written into.
TEST_F(TunedFileTest, OperatorsAndWritersSurvive) {
  TunedWeight& weight = sample_.contents().weights[0];
  const PackedWeight transposed = pack(transposed_packing(CsrPacking().name()), sample_.matrix(), weight.type).value();
  weight.packings.push_back(view_of(transposed));
  TunedOperator second = weight.operators[0];
  second.spec.kind = OperatorKind::kSpmmTransposed;
  std::swap(second.spec.rows, second.spec.cols);
  for (TunedChoice& choice : second.choices) choice.packing = transposed.packing;
  weight.operators.push_back(second);
  for (TunedPacking& packing : weight.packings) packing.writers = {sample_.writer()};
  written();
  const auto file = TunedFile::open(path_);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const TunedWeight& read = file->contents().weights[0];
  ASSERT_EQ(read.operators.size(), 2U);
  EXPECT_EQ(read.op(OperatorKind::kSpmm)->spec, weight.operators[0].spec);
  EXPECT_EQ(read.op(OperatorKind::kSpmmTransposed)->spec, second.spec);
  EXPECT_EQ(read.op(OperatorKind::kSpmmTransposed)->choices[1].plan, second.choices[1].plan);
  EXPECT_EQ(file->contents().weights[1].op(OperatorKind::kSpmmTransposed), nullptr);
  for (const TunedPacking& packing : read.packings) {
    ASSERT_EQ(packing.writers.size(), 1U);
    EXPECT_EQ(packing.writers[0].source, DataType::kFloat32);
    EXPECT_EQ(packing.writers[0].plan, sample_.writer().plan);
  }
}

// They read places in another form.
TEST_F(TunedFileTest, WritersOfEarlierVersionsAreLeftOut) {
  sample_.contents().weights[0].packings[0].writers = {sample_.writer()};
  const auto any_tensor = [](const std::string&, DataType, const std::string&) { return std::span<const std::byte>(); };
  std::string text = tuned_contents_to_json(sample_.contents());
  EXPECT_EQ(tuned_contents_from_json(text, any_tensor)->weights[0].packings[0].writers.size(), 1U);
  const std::string version = R"("version":7)";
  text.replace(text.find(version), version.size(), R"("version":5)");
  const auto read = tuned_contents_from_json(text, any_tensor);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_TRUE(read->weights[0].packings[0].writers.empty());
  EXPECT_EQ(read->weights[0].operators.size(), 1U);
}

TEST_F(TunedFileTest, RefusesOperatorsAndWritersThatDoNotFit) {
  const auto refuses = [&](const std::function<void(TunedWeight&)>& change, const char* reason) {
    TunedSample sample;
    sample.contents().weights[0].packings[0].writers = {sample.writer()};
    ASSERT_TRUE(sample.contents().validate().ok());
    change(sample.contents().weights[0]);
    EXPECT_THAT(write_tuned_file(path_, sample.contents()).message(), testing::HasSubstr(reason));
  };
  using W = TunedWeight;
  refuses([](W& w) { w.operators.clear(); }, "no operator");
  refuses([](W& w) { w.operators.push_back(w.operators[0]); }, "spmm stands twice");
  refuses([](W& w) { w.operators[0].spec.cols = 4; }, "of a weight of 2 x 4");
  refuses([](W& w) { w.operators[0].spec.type = DataType::kFloat16; }, "in fp16");
  refuses(
      [](W& w) {
        w.operators[0].spec.kind = OperatorKind::kSpmmTransposed;
        std::swap(w.operators[0].spec.rows, w.operators[0].spec.cols);
      },
      "is not for spmm_transposed");
  const auto writer = [](auto change) { return [change](W& w) { change(w.packings[0].writers[0]); }; };
  refuses([](W& w) { w.packings[0].writers.push_back(w.packings[0].writers[0]); }, "a writer from fp32 stands twice");
  refuses(writer([](TunedWriter& w) { w.source = DataType::kBFloat16; }), "a writer from bf16");
  refuses(writer([](TunedWriter& w) { w.plan.steps[0].kind = PlanStep::Kind::kZero; }), "only launches");
  refuses(writer([](TunedWriter& w) { w.plan.steps[0].kernel = "other"; }), "no kernel other");
  refuses(writer([](TunedWriter& w) { w.plan.steps[0].arguments[0].name = "x"; }), "no operand x");
  refuses(writer([](TunedWriter& w) { w.plan.steps[0].arguments[1].name = "placed"; }), "no array placed");
  refuses(writer([](TunedWriter& w) { w.plan.steps[0].arguments.pop_back(); }), "arguments; its cubin takes");
  refuses(writer([](TunedWriter& w) { w.plan.steps[0].block[0] = 2048; }), "a block of 2048");
  refuses(writer([](TunedWriter& w) { w.plan.workspace_bytes = 16; }), "asks for workspace");
}

TEST_F(TunedFileTest, PrunersSurviveAndMustFit) {
  const auto refuses = [&](const std::function<void(TunedWeight&)>& change, const char* reason) {
    TunedSample sample;
    sample.make_prunable();
    ASSERT_TRUE(sample.contents().validate().ok());
    change(sample.contents().weights[0]);
    EXPECT_THAT(write_tuned_file(path_, sample.contents()).message(), testing::HasSubstr(reason));
  };
  using W = TunedWeight;
  const auto argument = [](W& w) -> PlanArgument& { return w.pruners[0].plan.steps[0].arguments[0]; };
  refuses([](W& w) { w.pruners.push_back(w.pruners[0]); }, "pruners: a writer from fp32 stands twice");
  refuses([](W& w) { w.pruners[0].source = DataType::kFloat16; }, "a writer from fp16");
  refuses([](W& w) { w.packings.pop_back(); }, "there is no packing two_four_transposed");
  refuses([&](W& w) { argument(w).name = "tiles"; }, "no array tiles");
  refuses([&](W& w) { argument(w).kind = PlanArgument::Kind::kOperand; }, "no operand two_four_transposed.tiles");
  refuses([](W& w) { w.pruners[0].plan.steps[0].kernel = "other"; }, "no kernel other");
  refuses([](W& w) { w.pruners[0].plan.steps[0].arguments.pop_back(); }, "pruner: kernel fake_fill: 2 arguments");
  refuses([](W& w) { w.pruners[0].plan.workspace_bytes = 16; }, "asks for workspace");
  sample_.make_prunable();
  ASSERT_TRUE(write_tuned_file(path_, sample_.contents()).ok());
  const auto file = TunedFile::open(path_, {.trusted = true});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  ASSERT_EQ(file->contents().weights[0].pruners.size(), 1U);
  EXPECT_EQ(file->contents().weights[0].pruners[0].source, DataType::kFloat32);
  EXPECT_EQ(file->contents().weights[0].pruners[0].plan, sample_.contents().weights[0].pruners[0].plan);
  EXPECT_TRUE(file->contents().weights[1].pruners.empty());
}

TEST_F(TunedFileTest, ChainsSurvive) {
  TunedWeight& weight = sample_.contents().weights[0];
  weight.type = weight.operators[0].spec.type = DataType::kFloat16;
  weight.operators[0].spec.accumulation = Accumulation::kFp16Chains;
  const std::string good = tuned_contents_to_json(sample_.contents());
  const auto read = [](std::string text, const std::string& from = "", const std::string& to = "") {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    return tuned_contents_from_json(
        text, [](const std::string&, DataType, const std::string&) { return std::span<const std::byte>(); });
  };
  const auto contents = read(good);
  ASSERT_TRUE(contents.ok()) << contents.status().to_string();
  EXPECT_EQ(contents->weights[0].operators[0].spec, weight.operators[0].spec);
  EXPECT_EQ(contents->weights[1].operators[0].spec.accumulation, Accumulation::kFp32);
  using testing::HasSubstr;
  EXPECT_THAT(read(earlier(good, 2)).status().message(), HasSubstr("fp16 chains in version 2"));
  EXPECT_EQ(read(earlier(good, 3))->weights[0].operators[0].spec, weight.operators[0].spec);
  EXPECT_THAT(read(good, "fp16_chains", "fp8").status().message(), HasSubstr("neither fp32 nor fp16_chains"));
  EXPECT_THAT(read(good, R"("type":"fp16")", R"("type":"bf16")")->validate().message(), HasSubstr("not for bf16 ones"));
}

TEST_F(TunedFileTest, DenseChoicesOfEarlierVersionsMultiplyFirst) {
  const auto any_tensor = [](const std::string&, DataType, const std::string&) { return std::span<const std::byte>(); };
  const std::string good = tuned_contents_to_json(sample_.contents());
  const std::string matmul = R"("steps":[{"kind":"matmul","array":"values"}])";
  const auto plan_of = [&](const std::string& steps) {
    std::string text = earlier(good, 3);
    EXPECT_NE(text.find(matmul), std::string::npos);
    text.replace(text.find(matmul), matmul.size(), steps);
    const auto contents = tuned_contents_from_json(text, any_tensor);
    EXPECT_TRUE(contents.ok()) << contents.status().to_string();
    return contents.ok() ? contents->weights[2].operators[0].choices[0].plan : LaunchPlan();
  };
  EXPECT_EQ(plan_of(R"("steps":[])").steps, std::vector{matmul_step("values", std::nullopt)});
  PlanStep zero;
  zero.kind = PlanStep::Kind::kZero;
  EXPECT_EQ(plan_of(R"("steps":[{"kind":"zero","offset":0,"bytes":0}])").steps,
            (std::vector{matmul_step("values", IntegerExpression(0)), zero}));
}

TEST_F(TunedFileTest, RefusesMalformedGroups) {
  make_group(sample_.contents());
  const std::string good = tuned_contents_to_json(sample_.contents());
  const auto any_tensor = [](const std::string&, DataType, const std::string&) { return std::span<const std::byte>(); };
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    const auto contents = tuned_contents_from_json(text, any_tensor);
    EXPECT_FALSE(contents.ok()) << to;
    return contents.status().message();
  };
  using testing::HasSubstr;
  ASSERT_TRUE(tuned_contents_from_json(good, any_tensor).ok());
  EXPECT_THAT(tuned_contents_from_json(earlier(good, 1), any_tensor).status().message(),
              HasSubstr("weights[0]: \"members\" make a group in version 1"));
  EXPECT_THAT(error(R"("version":7)", R"("version":8)"), HasSubstr("a later sparsmith"));
  const std::string q = R"({"name":"q","first_row":0,"rows":1})";
  const std::string members = R"("members":[)" + q + R"(,{"name":"k","first_row":1,"rows":1}])";
  EXPECT_THAT(error(members, R"("members":[])"), HasSubstr("a group without members"));
  EXPECT_THAT(error(members, R"("members":3)"), HasSubstr("\"members\" is not an array"));
  EXPECT_THAT(error(q, "7"), HasSubstr("members[0]: is not an object"));
  EXPECT_THAT(error(q, R"({"name":"q","rows":1})"), HasSubstr("weights[0].members[0]: \"first_row\" is missing"));
  EXPECT_THAT(error(q, R"({"name":"q","first_row":-1,"rows":1})"), HasSubstr("first_row"));
  EXPECT_THAT(error(q, R"({"name":"q","first_row":0,"rows":0})"), HasSubstr("rows"));
  EXPECT_THAT(error(q, R"({"name":"q","first_row":0,"rows":1,"cols":1})"), HasSubstr("unknown key"));
}

TEST_F(TunedFileTest, WritingIsRepeatable) { EXPECT_EQ(written(), written()); }

TEST_F(TunedFileTest, AnEmptyModelSurvives) {
  ASSERT_TRUE(write_tuned_file(path_, {}).ok());
  const auto file = TunedFile::open(path_);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_TRUE(file->contents().weights.empty());
}

TEST_F(TunedFileTest, EveryFlippedByteIsAnError) {
  const std::string whole = written();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char mask : {'\x01', '\x80'}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      const auto file = parse(damaged);
      ASSERT_FALSE(file.ok()) << "byte " << i << " of " << whole.size() << " xor " << static_cast<int>(mask);
      ASSERT_EQ(file.status().code(), StatusCode::kInvalidInput) << file.status().to_string();
    }
  }
}

TEST_F(TunedFileTest, EveryTruncationAndExtensionIsAnError) {
  const std::string whole = written();
  for (std::size_t size = 0; size < whole.size(); ++size) ASSERT_FALSE(parse(whole.substr(0, size)).ok()) << size;
  EXPECT_FALSE(parse(whole + '\0').ok());
}

TEST_F(TunedFileTest, DrawnDamageNeverCrashes) {
  constexpr std::uint64_t kSeed = 99;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const std::string whole = written();
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    for (std::uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % damaged.size();
      const std::size_t length = std::min<std::size_t>(1 + random() % 40, damaged.size() - at);
      if (random() % 3 == 0) {
        damaged.erase(at, length);
      } else if (random() % 2 == 0) {
        damaged.insert(at, damaged.substr(random() % damaged.size(), length));
      } else {
        for (std::size_t i = 0; i < length; ++i) damaged[at + i] = static_cast<char>(random());
      }
    }
    ASSERT_TRUE(damaged == whole || !parse(damaged).ok()) << "round " << round;
  }
}

TEST_F(TunedFileTest, ErrorsNameTheFileAndTheReason) {
  const auto message = [&] { return TunedFile::open(path_).status().message(); };
  EXPECT_EQ(TunedFile::open(path_).status().code(), StatusCode::kNotFound);
  std::string bytes = written();
  bytes.back() = static_cast<char>(bytes.back() ^ 1);  // the last tensor's last byte
  ASSERT_TRUE(write_file_atomically(path_, bytes).ok());
  EXPECT_THAT(message(), testing::HasSubstr(path_));
  EXPECT_THAT(message(), testing::HasSubstr("damaged"));
  ASSERT_TRUE(write_file_atomically(path_, std::string("\x02\0\0\0\0\0\0\0{}", 10)).ok());
  EXPECT_THAT(message(), testing::HasSubstr("no tuned one"));
}

TEST_F(TunedFileTest, RefusesToWriteWhatDoesNotAgree) {
  const auto refuses = [&](const std::function<void(TunedContents&)>& change, const char* reason) {
    TunedSample sample;
    change(sample.contents());
    const Status status = write_tuned_file(path_, sample.contents());
    EXPECT_EQ(status.code(), StatusCode::kInvalidInput) << reason;
    EXPECT_THAT(status.message(), testing::HasSubstr(reason));
    EXPECT_FALSE(std::filesystem::exists(path_));
  };
  refuses([](auto& c) { c.weights[1].name = "fc/1"; }, "stands twice");
  refuses([](auto& c) { c.weights[0].name = ""; }, "empty");
  refuses([](auto& c) { c.kernels[1].name = "fake_csr"; }, "stands twice");
  refuses([](auto& c) { c.kernels.pop_back(); }, "no kernel fake_fill");
  refuses([](auto& c) { c.kernels[0].binaries[0].architecture = "sm_90"; }, "no architecture");
  refuses([](auto& c) { c.kernels[0].binaries[0].architecture = "compute_80"; }, "no architecture");
  refuses([](auto& c) { c.kernels[0].max_shared_bytes = -1; }, "shared");
  refuses([](auto& c) { c.weights[0].packings[0].arrays.pop_back(); }, "no array values");
  refuses([](auto& c) { c.weights[0].packings[0].arrays[0].name = "values"; }, "stands twice");
  refuses([](auto& c) { c.weights[0].packings[0].arrays[0].bytes = c.weights[0].packings[0].arrays[0].bytes.first(3); },
          "whole number");
  refuses([](auto& c) { c.weights[0].operators[0].choices.clear(); }, "no choice");
  refuses([](auto& c) { c.weights[0].operators[0].choices[1].tokens = 1; }, "ascend");
  refuses([](auto& c) { c.weights[0].operators[0].choices[0].tokens = 0; }, "ascend");
  refuses([](auto& c) { c.weights[0].operators[0].choices[1].tokens = INT64_MAX; }, "a bucket of");
  refuses([](auto& c) { c.weights[0].operators[0].choices[0].packing = "bsr"; }, "no packing bsr");
  refuses([](auto& c) { c.weights[0].operators[0].choices[0].config = ""; }, "it has no config");
  refuses([](auto& c) { c.weights[2].operators[0].choices[0].plan.steps.clear(); }, "its plan has no step");
  refuses([](auto& c) { c.weights[2].operators[0].choices[0].plan.steps[0].array = "w"; }, "no array w of 2 x 3");
  refuses([](auto& c) { c.weights[0].operators[0].choices[0].plan.steps[0] = matmul_step("values", std::nullopt); },
          "of 2 x 3");
  refuses([](auto& c) { c.weights[2].operators[0].choices[0].plan.steps[0] = matmul_by_workspace(0); },
          "a weight of 2 x 3");
  refuses([](auto& c) { c.weights[0].operators[0].choices[0].median_us = std::nan(""); }, "times");
  refuses([](auto& c) { c.weights[0].operators[0].choices[0].dense_us = -1; }, "times");
  refuses([](auto& c) { c.weights[2].cols = 4; }, "of a weight of 2 x 3");
  refuses([](auto& c) { c.weights[0].rows = 0; }, "0 x 3");
  refuses([](auto& c) { c.weights[0].rows = INT64_MAX; }, "a weight of");
  refuses([](auto& c) { c.weights[0].type = DataType::kUint8; }, "no type");
  refuses([](auto& c) { c.weights[0].nnz = 7; }, "nonzeros");
  const auto refuses_members = [&](const std::vector<GroupMember>& members, const char* reason) {
    refuses([&](auto& c) { c.weights[0].members = members; }, reason);
  };
  refuses_members({{"q", 0, 2}, {"k", 1, 1}}, "member k begins in row 1, inside of member q");
  refuses_members({{"q", 1, 1}, {"k", 0, 1}}, "rows 0 to 0 belong to no member");
  refuses_members({{"q", -1, 1}, {"k", 0, 1}}, "member q begins in row -1");
  refuses_members({{"q", 0, 1}}, "rows 1 to 1 belong to no member");
  refuses_members({{"q", 0, 1}, {"k", 1, 2}}, "member k has 2 rows from row 1 on, the group 2");
  refuses_members({{"q", 0, INT64_MAX}, {"k", 1, 1}}, "member q has 9223372036854775807 rows");
  refuses_members({{"q", 0, 0}, {"k", 0, 2}}, "member q has 0 rows");
  refuses_members({{"q", 0, 1}, {"k", 1, 1}, {"v", 2, 1}}, "member v has 1 rows from row 2 on, the group 2");
  refuses_members({{"q", 0, 1}, {"q", 1, 1}}, "the member \"q\" stands twice");
  refuses_members({{"q", 0, 1}, {"fc/1", 1, 1}}, "the member \"fc/1\" stands twice");
  refuses_members({{"q", 0, 1}, {"fc2", 1, 1}}, "the weight \"fc2\" stands twice");
  refuses_members({{"", 0, 1}, {"k", 1, 1}}, "empty");
  refuses_members({{std::string(5000, 'q'), 0, 1}, {"k", 1, 1}}, "too long");
}

TEST(TunedKernel, ServesTheDevicesThatItsBinariesRunOn) {
  TunedKernel kernel;
  for (const char* architecture : {"sm_80", "sm_86", "sm_90", "sm_90a", "sm_100a"})
    kernel.binaries.push_back({architecture, {}});
  const auto served = [&kernel](int compute_capability) -> std::string {
    const TunedKernel::Binary* binary = kernel.binary_for(compute_capability);
    return binary == nullptr ? "none" : binary->architecture;
  };
  EXPECT_EQ(served(75), "none");
  EXPECT_EQ(served(80), "sm_80");
  EXPECT_EQ(served(86), "sm_86");
  EXPECT_EQ(served(89), "sm_86");
  EXPECT_EQ(served(90), "sm_90a");
  EXPECT_EQ(served(100), "sm_100a");
  EXPECT_EQ(served(103), "none");
  EXPECT_EQ(served(120), "none");
  kernel.binaries = {{"sm_90a", {}}};
  EXPECT_EQ(served(91), "none");
  // Compute capabilities have two to four digits.
  kernel.binaries = {{"sm_10", {}}, {"sm_9999", {}}, {"sm_10000", {}}};
  EXPECT_EQ(served(10), "sm_10");
  EXPECT_EQ(served(9999), "sm_9999");
  EXPECT_EQ(served(10'000), "none");
}

TEST(TunedWeight, TakesTheChoiceOfItsBucket) {
  TunedSample sample;
  const TunedOperator& op = sample.contents().weight("fc/1")->operators[0];
  EXPECT_EQ(op.choice_for(1).tokens, 1);
  EXPECT_EQ(op.choice_for(2).tokens, 8);
  EXPECT_EQ(op.choice_for(100).tokens, 8);
}

}  // namespace
}  // namespace sparsmith
