#include "runtime/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sparsmith {
namespace {

using testing::HasSubstr;

constexpr std::size_t kRoom = std::size_t{1} << 20;

std::string error(const std::string& text, std::size_t room = kRoom) {
  const auto json = parse_json(text, room);
  return json.ok() ? "" : json.status().message();
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(ParseJson, ReadsATree) {
  const auto json = parse_json(R"({"b":[1,-2,2.5,"x",null,true],"a":{"b":18446744073709551615}})", kRoom);
  ASSERT_TRUE(json.ok()) << json.status().to_string();
  EXPECT_EQ(json->dump(), R"({"b":[1,-2,2.5,"x",null,true],"a":{"b":18446744073709551615}})");
}

TEST(ParseJson, SaysWhereATextIsNoJson) {
  EXPECT_EQ(error(R"({"a":1,})"), "it is not valid JSON at byte 8");
  EXPECT_THAT(error(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(error("1e999"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error("{\"a\":\"\xff\"}"), HasSubstr("not valid JSON"));
}

TEST(ParseJson, BoundsDepthAndWidthAndSize) {
  EXPECT_EQ(error(repeated("[", kMaxJsonDepth) + repeated("]", kMaxJsonDepth)), "");
  EXPECT_THAT(error(repeated("[", kMaxJsonDepth + 1) + repeated("]", kMaxJsonDepth + 1)), HasSubstr("nested deeper"));
  EXPECT_THAT(error(repeated("[", 1'000'000)), HasSubstr("nested deeper"));
  EXPECT_THAT(error(repeated(R"({"a":)", 1'000'000)), HasSubstr("nested deeper"));
  const auto object = [](std::size_t keys) {
    std::string text = "{";
    for (std::size_t i = 0; i < keys; ++i) text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
    return text + "}";
  };
  EXPECT_EQ(error(object(kMaxJsonKeys)), "");
  EXPECT_THAT(error(object(kMaxJsonKeys + 1)), HasSubstr("over 256 keys"));
  const std::string wide = "[0" + repeated(",0", 100'000) + "]";
  EXPECT_EQ(error(wide, 10 * kRoom), "");
  EXPECT_THAT(error(wide), HasSubstr("more values"));
  EXPECT_THAT(error("\"" + std::string(2 * kRoom, 'x') + "\""), HasSubstr("more values"));
}

TEST(ParseJson, RefusesKeysThatStandTwice) {
  EXPECT_THAT(error(R"({"a":1,"b":2,"a":1})"), HasSubstr("the key \"a\" stands twice"));
  EXPECT_THAT(error(R"([{"x":{"a":1,"\u0061":2}}])"), HasSubstr("stands twice"));
  EXPECT_EQ(error(R"([{"a":1},{"a":{"a":2}}])"), "");
}

}  // namespace
}  // namespace sparsmith
