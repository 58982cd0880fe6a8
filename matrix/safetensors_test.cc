#include "matrix/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <ctime>

#include "base/file.h"
#include "base/temporary_directory.h"

namespace sparsmith {
namespace {

using testing::HasSubstr;

std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, 'x');
}

std::string error_of(const std::string& file) {
  const auto header = parse_safetensors_header(std::as_bytes(std::span(file)));
  return header.ok() ? "no error" : header.status().message();
}

std::string error_of_tensor(const std::string& description) {
  return error_of(file_of("{\"w\":" + description + "}", 8));
}

TEST(SafetensorsTest, WritesAndReadsBack) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.safetensors");
  const std::string a = "0123456789abcdef";
  const std::string b = "xy";
  const std::vector<SafetensorsPart> parts = {{"a", "F32", {2, 2}, std::as_bytes(std::span(a))},
                                              {"b", "U8", {2}, std::as_bytes(std::span(b))},
                                              {"none", "F16", {0, 7}, {}}};
  ASSERT_TRUE(write_safetensors(path, parts, {{"format", "pt"}}).ok());
  const Result<std::string> file = read_file(path);
  ASSERT_TRUE(file.ok());
  const auto header = parse_safetensors_header(std::as_bytes(std::span(*file)));
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  EXPECT_EQ(header->metadata.at("format"), "pt");
  ASSERT_EQ(header->tensors.size(), 3);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[0].begin % 8, 0);
  EXPECT_EQ(header->tensors[0].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(file->substr(header->tensors[0].begin, 16), a);
  EXPECT_EQ(header->tensors[1].dtype, "U8");
  EXPECT_EQ(file->substr(header->tensors[1].begin, 2), b);
}

TEST(SafetensorsTest, DoesNotWriteTwoTensorsOfOneName) {
  const std::vector<SafetensorsPart> parts = {{"a", "U8", {0}, {}}, {"a", "U8", {0}, {}}};
  EXPECT_EQ(write_safetensors(TemporaryDirectory().file("never.safetensors"), parts, {}).code(),
            StatusCode::kInvalidArgument);
}

TEST(SafetensorsTest, RefusesDamagedHeaders) {
  EXPECT_THAT(error_of(""), HasSubstr("too few"));
  EXPECT_THAT(error_of(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10)), HasSubstr("the header claims"));
  for (const char length : {3, 10, 17, 18})  // as if the length itself, or more, belonged to the header
    EXPECT_THAT(error_of(length + std::string(7, '\0') + "{}"), HasSubstr("in a file of 10 "));
  EXPECT_THAT(error_of(file_of("{\"w\":", 0)), HasSubstr("the header: parse error"));
  EXPECT_THAT(error_of(file_of("[]", 0)), HasSubstr("no JSON object"));
  EXPECT_THAT(error_of(file_of("{}", 0)), HasSubstr("no error"));
  EXPECT_THAT(error_of(file_of("{}", 1)), HasSubstr("the last 1 bytes belong to no tensor"));
  EXPECT_THAT(error_of(file_of("{\"__metadata__\":{\"a\":1}}", 0)), HasSubstr("the value of 'a' must be a string"));
  EXPECT_THAT(error_of(file_of("{\"__metadata__\":{},\"__metadata__\":{}}", 0)),
              HasSubstr("names '__metadata__' twice"));
  EXPECT_THAT(error_of(file_of("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0)), HasSubstr("\"a\" comes twice"));
  EXPECT_THAT(error_of(file_of("{\"__metadata__\":[]}", 0)), HasSubstr("'__metadata__' must be an object"));
  EXPECT_THAT(error_of(file_of(std::string(200000, '['), 0)), HasSubstr("no JSON object"));
}

// Neither a deep header, nor one of many small parts, makes a large tree.
TEST(SafetensorsTest, BoundsWhatAHeaderHolds) {
  const auto described = [](const std::string& more) {
    return error_of_tensor(R"({"dtype":"F32","shape":[1,2],"data_offsets":[0,8],"more":)" + more + "}");
  };
  EXPECT_THAT(described(R"([[{"a":[1,null,"b",false,-1,0.5]}]])"), HasSubstr("no error"));
  EXPECT_THAT(described(std::string(200000, '[')), HasSubstr("more than 64 levels"));
  EXPECT_THAT(described("1,\"more\":2"), HasSubstr("\"more\" comes twice"));
  EXPECT_THAT(described("1,\"dtype\":\"F16\""), HasSubstr("\"dtype\" comes twice"));
  EXPECT_THAT(error_of(file_of("{\"" + std::string(65537, 'n') + "\":1}", 0)), HasSubstr("a name of 65537 bytes"));
  std::string keys = "1";
  for (int i = 0; i < 500'000; ++i) keys += ",\"k" + std::to_string(i) + "\":1";
  EXPECT_THAT(described(keys), HasSubstr("bytes of memory"));
  std::string shape = "2";
  for (int i = 0; i < 64; ++i) shape += ",1";
  EXPECT_THAT(error_of_tensor(R"({"dtype":"F32","shape":[)" + shape + R"(],"data_offsets":[0,8]})"),
              HasSubstr("more than 64 dimensions"));
}

// A quadratic parser takes minutes; this one a tenth of a second.
TEST(SafetensorsTest, ReadsManyTensorsInLinearTime) {
  std::vector<SafetensorsPart> parts;
  for (int i = 0; i < 100000; ++i)
    parts.push_back({"model.layers." + std::to_string(i) + ".weight", "F32", {0, 64}, {}});
  const auto header = safetensors_header_bytes(parts, {});
  ASSERT_TRUE(header.ok());
  const std::clock_t begin = std::clock();
  const auto read = parse_safetensors_header(std::as_bytes(std::span(*header)));
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->tensors.size(), parts.size());
  EXPECT_LT(seconds, 2);
}

TEST(SafetensorsTest, RefusesDamagedTensorsByName) {
  const std::string good = R"({"dtype":"F32","shape":[1,2],"data_offsets":[0,8]})";
  EXPECT_THAT(error_of_tensor(good), HasSubstr("no error"));
  EXPECT_THAT(error_of_tensor("7"), HasSubstr("tensor 'w': is not an object"));
  EXPECT_THAT(error_of_tensor(R"({"dtype":"F32","shape":[1,2]})"),
              HasSubstr("tensor 'w': \"data_offsets\" is missing"));
  EXPECT_THAT(error_of_tensor(R"({"dtype":3,"shape":[1,2],"data_offsets":[0,8]})"),
              HasSubstr("\"dtype\" is not a string"));
  EXPECT_THAT(error_of_tensor(R"({"dtype":"F32","shape":[-1,2],"data_offsets":[0,8]})"),
              HasSubstr("\"shape\" holds what is not an integer from 0"));
  EXPECT_THAT(error_of_tensor(R"({"dtype":"F32","shape":[1,2],"data_offsets":[0,9]})"),
              HasSubstr("leave the 8 bytes of data"));
  EXPECT_THAT(error_of_tensor(R"({"dtype":"F32","shape":[1,2],"data_offsets":[8,0]})"),
              HasSubstr("leave the 8 bytes of data"));
  EXPECT_THAT(error_of_tensor(R"({"dtype":"F32","shape":[1,3],"data_offsets":[0,8]})"), HasSubstr("takes 12"));
  EXPECT_THAT(error_of_tensor(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
              HasSubstr("overflows"));
  EXPECT_THAT(error_of_tensor(R"({"dtype":"F32","shape":[4294967296,1073741824],"data_offsets":[0,8]})"),
              HasSubstr("overflows"));
  EXPECT_THAT(error_of_tensor(R"({"dtype":"ODD","shape":[1,3],"data_offsets":[0,8]})"), HasSubstr("no error"));
  EXPECT_THAT(error_of(file_of("{\"w\":" + good + ",\"w\":" + good + "}", 8)), HasSubstr("names 'w' twice"));
}

TEST(SafetensorsTest, RefusesOverlapsAndHoles) {
  const auto two = [](int begin, int end) {
    return error_of(file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[)" +
                                std::to_string(end - begin) + R"(],"data_offsets":[)" + std::to_string(begin) + "," +
                                std::to_string(end) + "]}}",
                            8));
  };
  EXPECT_THAT(two(4, 8), HasSubstr("no error"));
  EXPECT_THAT(two(3, 8), HasSubstr("tensor 'b': its bytes overlap"));
  EXPECT_THAT(two(5, 8), HasSubstr("tensor 'b': 1 bytes before it"));
}

}  // namespace
}  // namespace sparsmith
