#include "matrix/bitmask_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/ceil_div.h"
#include "base/half.h"
#include "base/temporary_directory.h"
#include "matrix/model_analysis.h"
#include "matrix/model_file.h"
#include "tests/support/drawn_matrix.h"

namespace sparsmith {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};

struct Tensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;

  SafetensorsPart part(const std::string& name) const { return {name, dtype, shape, std::as_bytes(std::span(bytes))}; }
};

Tensor integers(const std::vector<std::int64_t>& values, std::vector<std::int64_t> shape) {
  return {"I64", std::move(shape), {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])}};
}

void append(std::string& bytes, float value, DataType type) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (type == DataType::kFloat16) bits = fp16_from_float(value);
  if (type == DataType::kBFloat16) bits = bf16_from_float(value);
  bytes.append(reinterpret_cast<const char*>(&bits), size_of(type));
}

// A weight, dense and as compressed-tensors 0.14 writes it.
struct Weight {
  Tensor dense;
  std::map<std::string, Tensor> parts;  // by "shape", ...
};

Weight weight_of(const std::vector<float>& elements, std::int64_t rows, std::int64_t cols, DataType type,
                 bool two_four) {
  const std::string dtype(safetensors_name(type));
  Weight weight{{dtype, {rows, cols}, ""}, {}};
  Tensor compressed{dtype, {}, ""};
  Tensor bitmask{"U8", {rows, ceil_div(cols, std::int64_t{8})}, ""};
  std::vector<std::int64_t> row_offsets;
  std::int64_t stored = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    row_offsets.push_back(stored);
    std::string bits(bitmask.shape[1], '\0');
    for (std::int64_t column = 0; column < cols; ++column) {
      const float element = elements[row * cols + column];
      append(weight.dense.bytes, element, type);
      if (element == 0 && !(two_four && std::signbit(element))) continue;
      append(compressed.bytes, element, type);
      bits[column / 8] = static_cast<char>(bits[column / 8] | 1 << column % 8);
      ++stored;
    }
    bitmask.bytes += bits;
  }
  compressed.shape = {stored};
  if (two_four) compressed.shape = {rows, cols / 2};
  weight.parts = {{"bitmask", bitmask}, {"compressed", compressed}};
  weight.parts["shape"] =
      integers({rows, cols}, two_four ? std::vector<std::int64_t>{2, 1} : std::vector<std::int64_t>{2});
  if (!two_four) weight.parts["row_offsets"] = integers(row_offsets, {rows});
  return weight;
}

// Of a 2:4 weight, two of each four elements are not 0, or are the -0 that weight_of() stores.
std::vector<float> draw_elements(test::Random& random, std::int64_t count, bool two_four) {
  std::vector<float> elements(count);
  for (float& element : elements) element = random() % 4 == 0 ? float_from_fp16(1 + random() % 0x7BFF) : 0.0F;
  for (std::int64_t group = 0; two_four && group < count; group += 4) {
    const std::size_t first = random() % 4;
    const std::size_t second = (first + 1 + random() % 3) % 4;
    for (std::size_t i = 0; i < 4; ++i) {
      float& element = elements[group + i];
      element = i != first && i != second ? 0.0F : random() % 8 == 0 ? -0.0F : 0.5F + static_cast<float>(random() % 8);
    }
  }
  return elements;
}

class BitmaskMatrixTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::map<std::string, Tensor>& tensors) const {
    std::vector<SafetensorsPart> parts;
    for (const auto& [tensor, contents] : tensors) parts.push_back(contents.part(tensor));
    const std::string path = directory_.file(name);
    EXPECT_TRUE(write_safetensors(path, parts, {}).ok());
    return path;
  }

  // The error of reading the weight, or of the file.
  std::string error_of(const Weight& weight) const {
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, tensor] : weight.parts) tensors["m." + name] = tensor;
    const auto file = ModelFile::open(write("wrong.safetensors", tensors));
    if (!file.ok()) return file.status().to_string();
    const auto index = file->find("m.weight");
    if (!index) return "no weight: " + file->skipped().at(0).name + ": " + file->skipped()[0].reason;
    const Status status = file->read(*index).status();
    EXPECT_EQ(status.to_string(), file->statistics(*index).status().to_string());
    return status.to_string();
  }

  TemporaryDirectory directory_;
};

TEST_F(BitmaskMatrixTest, IsTheSameWeightAsTheDenseTensor) {
  test::DrawnRandom random;
  for (int round = 0; round < 60; ++round) {
    const bool two_four = round % 2 == 1;
    const auto rows = static_cast<std::int64_t>(1 + random() % 40);
    const auto cols = static_cast<std::int64_t>(two_four ? 4 * (1 + random() % 30) : 1 + random() % 120);
    const Weight weight =
        weight_of(draw_elements(random, rows * cols, two_four), rows, cols, kTypes[round % 3], two_four);
    std::map<std::string, Tensor> tensors = {{"dense.weight", weight.dense}};
    for (const auto& [name, tensor] : weight.parts) tensors["a.0:b." + name] = tensor;
    const auto file = ModelFile::open(write("both.safetensors", tensors));
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    EXPECT_TRUE(file->skipped().empty());
    ASSERT_EQ(file->tensors().size(), 2U);
    const auto dense = file->find("dense.weight");
    const auto compressed = file->find("a.0:b.weight");
    ASSERT_TRUE(dense && compressed);
    EXPECT_EQ(file->tensors()[*compressed].shape, (std::vector<std::int64_t>{rows, cols}));
    EXPECT_EQ(file->tensors()[*compressed].data_type, kTypes[round % 3]);
    const auto expected = file->read(*dense);
    const auto matrix = file->read(*compressed);
    ASSERT_TRUE(expected.ok() && matrix.ok()) << matrix.status().to_string();
    EXPECT_TRUE(matrix->validate().ok()) << matrix->validate().to_string();
    EXPECT_EQ(matrix->data_type, kTypes[round % 3]);
    EXPECT_EQ(matrix->pattern_hash(), expected->pattern_hash());
    EXPECT_EQ(matrix->value_hash(), expected->value_hash());
    EXPECT_EQ(to_json(*file->statistics(*compressed), "w"), to_json(*file->statistics(*dense), "w"));
    const auto analysis = analyze_model(*file, {.min_sparsity = -1, .include = {"a.*.weight"}});
    ASSERT_TRUE(analysis.ok());
    EXPECT_EQ(analysis->weights.size(), 1U);
  }
}

TEST_F(BitmaskMatrixTest, ReadsFilesOfAnotherWriter) {
  for (const std::string name : {"sparse_bitmask", "sparse_24_bitmask"}) {
    SCOPED_TRACE(name);
    const auto file = ModelFile::open(SPARSMITH_MATRIX_TESTDATA "/" + name + ".safetensors");
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    const auto dense = file->find("reference.weight");
    const auto compressed = file->find("l.0.fc1.weight");
    ASSERT_TRUE(dense && compressed);
    EXPECT_EQ(file->read(*compressed)->pattern_hash(), file->read(*dense)->pattern_hash());
    EXPECT_EQ(file->read(*compressed)->value_hash(), file->read(*dense)->value_hash());
    EXPECT_GT(file->read(*compressed)->nnz(), 0);
  }
}

// What a weight with these elements says after a change of its parts.
const std::vector<float> kElements = {0, 1, 0, 0, 2, 0, 0, 0, 0, 3,   // bits 0x12, 0x02
                                      0, 0, 0, 0, 0, 0, 0, 4, 0, 0};  // bits 0x80, 0x00

TEST_F(BitmaskMatrixTest, ContradictionsAreErrors) {
  struct Case {
    std::function<void(std::map<std::string, Tensor>&)> damage;
    std::string message;
  };
  using Parts = std::map<std::string, Tensor>;
  const Case cases[] = {
      {[](Parts& p) { p["row_offsets"] = integers({0, 2}, {2}); }, "row 1: row_offsets says 2, and bitmask has 3 bits"},
      {[](Parts& p) { p["row_offsets"] = integers({-1, 3}, {2}); },
       "row 0: row_offsets says -1, and bitmask has 0 bits"},
      {[](Parts& p) { p["row_offsets"] = integers({0, 3, 4}, {3}); },
       "'m.row_offsets' is I64 [3]; of a weight of 2 x 10 it is I64 [2]"},
      {[](Parts& p) { p["row_offsets"].dtype = "F64"; }, "'m.row_offsets' is F64 [2]; of a weight of 2 x 10"},
      {[](Parts& p) { p["bitmask"].bytes[1] = 0x06; }, "row 0: a bit of bitmask is set behind the last of 10 columns"},
      {[](Parts& p) { p["bitmask"].bytes[3] = '\x80'; },
       "row 1: a bit of bitmask is set behind the last of 10 columns"},
      {[](Parts& p) { p["bitmask"].bytes[2] = '\xFF'; },
       "row 1: bitmask has more bits than compressed has elements, 4"},
      {[](Parts& p) { p["bitmask"].bytes[2] = 0; }, "bitmask has 3 bits in all, and compressed has 4 elements"},
      {[](Parts& p) { p["bitmask"] = {"U8", {4, 1}, std::string(4, '\0')}; },
       "'m.bitmask' is U8 [4, 1]; of a weight of 2 x 10 it is U8 [2, 2]"},
      {[](Parts& p) { p["bitmask"].dtype = "I8"; }, "'m.bitmask' is I8 [2, 2]"},
      {[](Parts& p) { p["compressed"].shape = {2, 2}; },
       "'m.compressed' has 2 dimensions; beside row_offsets it has 1"},
      {[](Parts& p) { p["compressed"] = {"F8_E4M3", {4}, "abcd"}; }, "no weight: m.weight: its type is F8_E4M3"},
      {[](Parts& p) { p["compressed"].bytes.replace(8, 4, "\0\0\x80\x7F", 4); },
       "the element in row 0, column 9 is inf; a weight must be finite"},
      {[](Parts& p) {
         p["shape"] = integers({2, 11}, {2});
         p["bitmask"].bytes[3] = 8;
       },
       "behind the last of 11 columns"},
      {[](Parts& p) { p["shape"] = integers({2, 17}, {2}); }, "'m.bitmask' is U8 [2, 2]; of a weight of 2 x 17"},
      {[](Parts& p) { p["shape"] = integers({-2, 10}, {2}); }, "'m.shape' says -2 x 10"},
      {[](Parts& p) { p["shape"] = integers({2, std::numeric_limits<std::int64_t>::max()}, {2}); },
       "of a weight of 2 x 9223372036854775807 it is U8 [2, 1152921504606846976]"},
      {[](Parts& p) { p["shape"] = integers({2, 10, 1}, {3}); },
       "'m.shape' is I64 [3]; the shape of a weight is I64 [2]"},
      {[](Parts& p) { p["shape"].dtype = "F64"; }, "'m.shape' is F64 [2]"},
      {[](Parts& p) { p["weight"] = {"F32", {1, 1}, "abcd"}; }, "'m.weight' comes twice"},
      {[](Parts& p) { p.erase("shape"); },
       "'m.shape' is missing: a weight of compressed-tensors has shape, bitmask and"},
      {[](Parts& p) { p.erase("bitmask"); }, "'m.bitmask' is missing"},
      {[](Parts& p) { p.erase("compressed"); }, "'m.compressed' is missing"},
      {[](Parts& p) { p.erase("row_offsets"); },
       "'m.row_offsets' is missing: only a 2:4 weight has none, and compressed"},
  };
  Weight sound = weight_of(kElements, 2, 10, DataType::kFloat32, false);
  ASSERT_EQ(error_of(sound), Status().to_string());
  for (const Case& each : cases) {
    Weight weight = sound;
    each.damage(weight.parts);
    EXPECT_THAT(error_of(weight), AllOf(HasSubstr(each.message), testing::Not(HasSubstr("INTERNAL"))));
  }
}

TEST_F(BitmaskMatrixTest, ATwoFourWeightHasTwoOfEachFour) {
  const std::vector<float> elements = {0, 1, 2, 0, 3, -0.0F, 0, 0, 4, 0, 0, 5};
  const Weight sound = weight_of(elements, 1, 12, DataType::kBFloat16, true);
  EXPECT_EQ(error_of(sound), Status().to_string());
  Weight weight = sound;
  weight.parts["bitmask"].bytes[0] = 0x26;
  EXPECT_THAT(error_of(weight), HasSubstr("row 0: bitmask has 1 of the four columns from 4 on; a 2:4 weight has two"));
  weight.parts["bitmask"].bytes[0] = 0x37;
  EXPECT_THAT(error_of(weight), HasSubstr("row 0: bitmask has 3 of the four columns from 0 on"));
  weight = sound;
  weight.parts["bitmask"].bytes[1] = 0x19;
  EXPECT_THAT(error_of(weight), HasSubstr("row 0: a bit of bitmask is set behind the last of 12 columns"));
  weight = sound;
  weight.parts["compressed"].shape = {2, 3};
  EXPECT_THAT(error_of(weight),
              HasSubstr("'m.compressed' is BF16 [2, 3]; of a 2:4 weight of 1 x 12 it is BF16 [1, 6]"));
  weight = sound;
  weight.parts["shape"] = integers({1, 10}, {2, 1});
  EXPECT_THAT(error_of(weight), HasSubstr("'m.shape' says 1 x 10; a 2:4 weight has a multiple of 4 columns"));
  weight.parts["shape"] = integers({1, 12}, {1, 2});
  EXPECT_THAT(error_of(weight), HasSubstr("'m.shape' is I64 [1, 2]"));
  weight = sound;
  weight.parts["row_offsets"] = integers({0}, {1});
  EXPECT_THAT(error_of(weight), HasSubstr("'m.compressed' has 2 dimensions; beside row_offsets it has 1"));
}

TEST_F(BitmaskMatrixTest, WeightsWithoutNonzerosOrElements) {
  EXPECT_EQ(error_of(weight_of(std::vector<float>(24), 3, 8, DataType::kFloat16, false)), Status().to_string());
  EXPECT_THAT(error_of(weight_of({}, 0, 8, DataType::kFloat32, false)), HasSubstr("m.weight: it has no elements"));
  EXPECT_THAT(error_of(weight_of({}, 8, 0, DataType::kFloat32, true)), HasSubstr("m.weight: it has no elements"));
}

TEST_F(BitmaskMatrixTest, ALoneTensorOfSuchANameIsNoWeight) {
  const Tensor vector{"F32", {1}, "abcd"};
  const Tensor matrix{"F32", {1, 1}, std::string(4, '\0')};
  const auto file = ModelFile::open(write("lone.safetensors", {{"a.shape", vector},
                                                               {"b.compressed", matrix},
                                                               {"c.bitmask", vector},
                                                               {"d.row_offsets", vector},
                                                               {"d.weight", matrix},
                                                               {"shape", vector}}));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  ASSERT_EQ(file->tensors().size(), 2U);
  EXPECT_TRUE(file->find("b.compressed") && file->find("d.weight"));
  EXPECT_EQ(file->skipped().size(), 4U);
}

// Each of four parts in each of two shards, as a model is split at any tensor.
TEST_F(BitmaskMatrixTest, PartsMayLieInTwoShards) {
  const Weight weight = weight_of(kElements, 2, 10, DataType::kFloat32, false);
  const std::string path = directory_.file("model.safetensors.index.json");
  const std::string names[] = {"shape", "row_offsets", "compressed", "bitmask"};
  for (unsigned places = 0; places < 16; ++places) {
    SCOPED_TRACE(places);
    std::map<std::string, Tensor> shards[2] = {{{"other.weight", weight.dense}}, {{"last.weight", weight.dense}}};
    std::string index = R"({"weight_map": {"other.weight": "0.safetensors", "last.weight": "1.safetensors")";
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned shard = places >> i & 1;
      shards[shard]["m." + names[i]] = weight.parts.at(names[i]);
      index += R"(, "m.)" + names[i] + R"(": ")" + std::to_string(shard) + ".safetensors\"";
    }
    write("0.safetensors", shards[0]);
    write("1.safetensors", shards[1]);
    ASSERT_TRUE(write_file_atomically(path, index + "}}").ok());
    const auto file = ModelFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    EXPECT_EQ(file->tensors().size(), 3U);
    const auto compressed = file->find("m.weight");
    const auto dense = file->find("other.weight");
    ASSERT_TRUE(compressed && dense);
    for (int again = 0; again < 2; ++again) {  // what was released is read from the file
      EXPECT_EQ(file->read(*compressed)->pattern_hash(), file->read(*dense)->pattern_hash());
      EXPECT_EQ(file->read(*compressed)->value_hash(), file->read(*dense)->value_hash());
      EXPECT_EQ(to_json(*file->statistics(*compressed), "w"), to_json(*file->statistics(*dense), "w"));
    }
  }
}

TEST_F(BitmaskMatrixTest, APartThatTheIndexLeavesOutIsMissing) {
  const Weight weight = weight_of(kElements, 2, 10, DataType::kFloat32, false);
  std::map<std::string, Tensor> parts;
  for (const auto& [name, tensor] : weight.parts) parts["m." + name] = tensor;
  write("a.safetensors", parts);
  const std::string path = directory_.file("model.safetensors.index.json");
  const std::string index = R"({"weight_map": {"m.shape": "a.safetensors", "m.row_offsets": "a.safetensors",
      "m.compressed": "a.safetensors"}})";
  ASSERT_TRUE(write_file_atomically(path, index).ok());
  EXPECT_THAT(ModelFile::open(path).status().message(), HasSubstr("'m.bitmask' is missing"));
}

// Rows by the hundreds, that several threads share; stored zeros, and faults in more than one row.
TEST_F(BitmaskMatrixTest, ThreadsShareTheRows) {
  test::DrawnRandom random;
  for (const bool two_four : {false, true}) {
    const std::int64_t rows = 700 + static_cast<std::int64_t>(random() % 100);
    const std::int64_t cols = 4 * static_cast<std::int64_t>(200 + random() % 700);
    Weight weight = weight_of(draw_elements(random, rows * cols, two_four), rows, cols, DataType::kFloat16, two_four);
    std::string& compressed = weight.parts["compressed"].bytes;
    for (int i = 0; i < 1000; ++i) compressed.replace(2 * (random() % (compressed.size() / 2)), 2, 2, '\0');
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, tensor] : weight.parts) tensors["m." + name] = tensor;
    const auto file = ModelFile::open(write("many.safetensors", tensors));
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    const auto matrix = file->read(0);
    ASSERT_TRUE(matrix.ok()) << matrix.status().to_string();
    EXPECT_TRUE(matrix->validate().ok()) << matrix->validate().to_string();
    EXPECT_LT(matrix->nnz(), static_cast<std::int64_t>(compressed.size() / 2));
    const std::string expected = to_json(compute_statistics(*matrix), "w");
    for (const int threads : {1, 3, 16}) EXPECT_EQ(to_json(*file->statistics(0, threads), "w"), expected);
    EXPECT_TRUE(std::ranges::none_of(matrix->values, [](float value) { return value == 0; }));

    Weight wrong = weight;
    for (const std::size_t element : {compressed.size() / 2 - 1, compressed.size() / 4, compressed.size() / 5})
      wrong.parts["compressed"].bytes.replace(2 * element, 2, "\0\x7C", 2);
    const std::string first = error_of(wrong);
    EXPECT_THAT(first, HasSubstr("is inf; a weight must be finite"));
    wrong.parts["compressed"].bytes.replace(2 * (compressed.size() / 5), 2, 2, '\0');
    EXPECT_NE(error_of(wrong), first) << "the first one in the order of the rows is named";
  }
}

TEST_F(BitmaskMatrixTest, MemoryIsLimited) {
  const Weight weight = weight_of(kElements, 2, 10, DataType::kFloat32, false);
  std::map<std::string, Tensor> parts;
  for (const auto& [name, tensor] : weight.parts) parts["m." + name] = tensor;
  const auto file = ModelFile::open(write("m.safetensors", parts), {.max_memory = 8 * (2 + 1 + 4) - 1});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->read(0).status().code(), StatusCode::kOutOfMemory);
}

}  // namespace
}  // namespace sparsmith
