#include "matrix/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>

#include "base/temporary_directory.h"
#include "matrix/model_analysis.h"
#include "matrix/safetensors.h"
#include "matrix/smtx.h"

namespace sparsmith {
namespace {

using testing::HasSubstr;

class ModelFileTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = directory_.file(name);
    EXPECT_TRUE(write_file_atomically(path, text).ok());
    return path;
  }
  std::string write(const std::string& name, std::span<const SafetensorsPart> parts) const {
    const std::string path = directory_.file(name);
    EXPECT_TRUE(write_safetensors(path, parts, {}).ok());
    return path;
  }

  TemporaryDirectory directory_;
};

SafetensorsPart part(const std::string& name, const std::vector<float>& values, std::vector<std::int64_t> shape) {
  return {name, "F32", std::move(shape), std::as_bytes(std::span(values))};
}

TEST_F(ModelFileTest, ReadsTensorsOfAnotherWriter) {
  const Result<ModelFile> file = ModelFile::open(std::string(SPARSMITH_MATRIX_TESTDATA) + "/four_tensors.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->format(), "safetensors");
  const auto w = file->find("w");
  const auto conv = file->find("conv");
  ASSERT_TRUE(w && conv);
  EXPECT_FALSE(file->find("bias"));
  EXPECT_EQ(file->read(*w)->values, (std::vector<float>{1.5, -2, 0.25, 3, -4, 5}));
  EXPECT_EQ(file->tensors()[*conv].shape, (std::vector<std::int64_t>{4, 2, 3, 1}));
  EXPECT_EQ(file->tensors()[*conv].cols, 6);
  EXPECT_EQ(file->tensors()[*conv].data_type, DataType::kFloat16);
  EXPECT_EQ(file->read(*conv)->pattern_hash(), file->read(*w)->pattern_hash());
  std::vector<std::string> reasons;
  for (const SkippedTensor& tensor : file->skipped()) reasons.push_back(tensor.name + ": " + tensor.reason);
  EXPECT_THAT(reasons, testing::UnorderedElementsAre(HasSubstr("bias: it has 1 dimension;"),
                                                     HasSubstr("ids: its type is I64;")));
}

TEST_F(ModelFileTest, KnowsFormatsByContent) {
  const std::string smtx = "2, 4, 3\n0 2 3\n0 3 1\n";
  EXPECT_EQ(ModelFile::open(write("a.smtx", smtx))->format(), "smtx");
  EXPECT_EQ(ModelFile::open(write("noname", smtx))->format(), "smtx");
  EXPECT_EQ(ModelFile::open(write("b", "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2\n"))->format(),
            "mtx");
  const std::vector<float> zeros(4);
  const std::vector<SafetensorsPart> parts = {part("w", zeros, {2, 2})};
  EXPECT_EQ(ModelFile::open(write("c", parts))->format(), "safetensors");
  for (const char* name : {"csc.npz", "c_order_f4.npy"}) {
    const Result<ModelFile> file =
        ModelFile::open(write("d", *read_file(std::string(SPARSMITH_MATRIX_TESTDATA) + "/" + name)));
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    EXPECT_THAT(name, HasSubstr(file->format()));
  }
}

TEST_F(ModelFileTest, ErrorsNameTheFile) {
  EXPECT_EQ(ModelFile::open(directory_.file("missing.smtx")).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(ModelFile::open(write("e.smtx", "2, x")).status().message(),
              HasSubstr("e.smtx: line 1: 'x' is no number"));
  EXPECT_THAT(ModelFile::open(write("f.bin", "what is this")).status().message(), HasSubstr("f.bin: unknown format"));
  EXPECT_THAT(ModelFile::open(write("f.bin", "\x80\x02}q")).status().message(), HasSubstr("pickles are not read"));
  EXPECT_THAT(ModelFile::open(write("f.pt", "PK\3\4")).status().message(), HasSubstr("pickles are not read"));
  EXPECT_FALSE(ModelFile::open(write("empty.safetensors", std::string())).ok());
  EXPECT_FALSE(ModelFile::open(write("empty", std::string())).ok());
}

TEST_F(ModelFileTest, NamesTheTensorThatIsNotFinite) {
  std::vector<float> values(6);
  values[4] = NAN;
  const std::vector<SafetensorsPart> parts = {part("layers.0.weight", values, {2, 3})};
  const Result<ModelFile> file = ModelFile::open(write("g.safetensors", parts));
  ASSERT_TRUE(file.ok());
  const char* const expected = "g.safetensors: tensor 'layers.0.weight': the element in row 1, column 1 is nan";
  EXPECT_THAT(file->read(0).status().message(), HasSubstr(expected));
  EXPECT_THAT(file->statistics(0).status().message(), HasSubstr(expected));
  EXPECT_EQ(file->read(0).status().code(), StatusCode::kInvalidInput);
}

TEST_F(ModelFileTest, ReadsShards) {
  const std::vector<float> a = {1, 0, 0, 2};
  const std::vector<float> b = {0, 3};
  write("s1.safetensors", std::vector<SafetensorsPart>{part("a", a, {2, 2}), part("b", a, {2, 2})});
  write("s2.safetensors", std::vector<SafetensorsPart>{part("b", b, {1, 2}), part("stray", b, {2, 1})});
  const std::string index =
      write("model.safetensors.index.json",
            R"({"metadata":{"total_size":1},"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}})");
  const Result<ModelFile> file = ModelFile::open(index);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  ASSERT_EQ(file->tensors().size(), 2);
  EXPECT_EQ(file->read(*file->find("a"))->values, (std::vector<float>{1, 2}));
  EXPECT_EQ(file->read(*file->find("b"))->values, (std::vector<float>{3}));
  ASSERT_EQ(file->skipped().size(), 2);
  EXPECT_EQ(file->skipped()[0].reason, "shard s1.safetensors holds it, but the index does not say so");
  EXPECT_EQ(file->skipped()[0].name, "b");
  EXPECT_EQ(file->skipped()[1].name, "stray");
}

TEST_F(ModelFileTest, RefusesBadShardIndexes) {
  const std::vector<float> a = {1, 0, 0, 2};
  write("s1.safetensors", std::vector<SafetensorsPart>{part("a", a, {2, 2})});
  const auto error = [&](const std::string& map) {
    return ModelFile::open(write("i.json", R"({"weight_map":)" + map + "}")).status().message();
  };
  EXPECT_THAT(error("[]"), HasSubstr("no index of safetensors shards"));
  EXPECT_THAT(error(R"({"a":1})"), HasSubstr("must be a string"));
  for (const char* shard : {"../s1.safetensors", "..", ""})
    EXPECT_THAT(error(R"({"a":")" + std::string(shard) + R"("})"), HasSubstr("must be a file beside the index"))
        << shard;
  EXPECT_THAT(error(R"({"a":"s9.safetensors"})"), HasSubstr("s9.safetensors"));
  EXPECT_THAT(error(R"({"b":"s1.safetensors"})"),
              HasSubstr("tensor 'b': the index places it in shard s1.safetensors, which lacks it"));
}

TEST_F(ModelFileTest, SelectsBySparsityAndName) {
  const std::vector<float> dense = {1, 2, 3, 0};
  const std::vector<float> sparse = {1, 0, 0, 0};
  const std::vector<SafetensorsPart> parts = {part("l.0.w", sparse, {2, 2}), part("l.1.w", dense, {2, 2}),
                                              part("head", sparse, {2, 2}), part("bias", dense, {4})};
  const Result<ModelFile> file = ModelFile::open(write("m.safetensors", parts));
  ASSERT_TRUE(file.ok());
  const auto taken = [&](const SelectionOptions& options) {
    std::vector<std::string> names;
    const Result<ModelAnalysis> analysis = analyze_model(*file, options);
    EXPECT_TRUE(analysis.ok());
    for (const AnalyzedWeight& weight : analysis->weights) names.push_back(file->tensors()[weight.index].name);
    EXPECT_EQ(names.size() + analysis->skipped.size(), parts.size());
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(taken({}), (Names{"l.0.w", "head"}));
  EXPECT_EQ(taken({.min_sparsity = 0.2}), (Names{"l.0.w", "l.1.w", "head"}));
  EXPECT_EQ(taken({.min_sparsity = 0.75}), Names{});  // above, not at
  EXPECT_EQ(taken({.include = {"l.*"}}), Names{"l.0.w"});
  EXPECT_EQ(taken({.exclude = {"l.?.w"}}), Names{"head"});
  const Result<ModelAnalysis> analysis = analyze_model(*file, {});
  EXPECT_THAT(analysis->skipped.back().reason,
              HasSubstr("25.0 % of it is zero; fewer zeros than --min-sparsity asks (30.0 %)"));
}

TEST_F(ModelFileTest, TheOnlyMatrixOfAFileIsAlwaysTaken) {
  const Result<ModelFile> file = ModelFile::open(write("full.smtx", "1, 2, 2\n0 2\n0 1\n"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(analyze_model(*file, {})->weights.size(), 1);
}

TEST_F(ModelFileTest, ReadsAPrunedNetwork) {
  const char* data = getenv("SPARSMITH_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "SPARSMITH_TEST_DATA names no directory with squeezenet_pruned.safetensors";
  const Result<ModelFile> file = ModelFile::open(std::string(data) + "/squeezenet_pruned.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->tensors().size(), 26);
  for (std::size_t i = 0; i < file->tensors().size(); ++i) {
    const Result<CsrMatrix> matrix = file->read(i);
    ASSERT_TRUE(matrix.ok()) << matrix.status().to_string();
    EXPECT_TRUE(matrix->validate().ok());
    EXPECT_EQ(to_json(*file->statistics(i), "w"), to_json(compute_statistics(*matrix), "w"));
  }
}

}  // namespace
}  // namespace sparsmith
