#include "base/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sparsmith {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::string error_of(const std::string& text) {
  const auto parsed = parse_json(text);
  return parsed.ok() ? "no error" : parsed.status().message();
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(JsonTextTest, IsTheTreeOfTheLibrary) {
  for (const char* text : {"null", "[]", "{}", "-7", "18446744073709551615", "1.5e3", "\"a\\u00e9\"",
                           R"({"a":[1,[2,{"b":null}],true],"c":{"a":{},"d":[]},"e":"f"})"}) {
    const auto parsed = parse_json(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
    EXPECT_EQ(*parsed, json::parse(text));
  }
}

TEST(JsonTextTest, IntegersAreThoseThatFit) {
  EXPECT_EQ(json_integer(json(-7)), -7);
  EXPECT_EQ(json_integer(json::parse("9223372036854775807")), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(json_integer(json::parse("9223372036854775808")), std::nullopt);
  EXPECT_EQ(json_unsigned(json::parse("18446744073709551615")), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(json_unsigned(json(-1)), std::nullopt);
  for (const char* text : {"1.0", "2e101", "-1e999999", "1e-3", "\"1\"", "true", "null", "[1]"}) {
    const json value = json::parse(text, nullptr, false);
    EXPECT_EQ(json_integer(value), std::nullopt) << text;
    EXPECT_EQ(json_unsigned(value), std::nullopt) << text;
  }
  EXPECT_EQ(json_integer(json(4), 5, 9), std::nullopt);
  EXPECT_EQ(json_integer(json(5), 5, 9), 5);
  EXPECT_EQ(json_integer(json(9), 5, 9), 9);
  EXPECT_EQ(json_integer(json(10), 5, 9), std::nullopt);
}

TEST(JsonTextTest, SaysWhereItIsNoJson) {
  EXPECT_THAT(error_of("{\n\"a\": nothing}"), HasSubstr("line 2"));
  EXPECT_THAT(error_of("{\n\"a\": nothing}"), Not(HasSubstr("json.exception")));
  EXPECT_THAT(error_of(""), HasSubstr("parse error"));
  EXPECT_THAT(error_of("1 2"), HasSubstr("parse error"));
  EXPECT_THAT(error_of("1e999"), HasSubstr("overflow"));
  EXPECT_THAT(error_of("{\"a\":\"\xff\"}"), HasSubstr("UTF-8"));
}

TEST(JsonTextTest, RefusesAKeyThatComesTwice) {
  EXPECT_THAT(error_of(R"({"a":1,"b":{"a":1,"a":2}})"), HasSubstr("\"a\" comes twice"));
  EXPECT_THAT(error_of(R"([{"x":{"a":1,"\u0061":2}}])"), HasSubstr("\"a\" comes twice"));
  EXPECT_EQ(error_of(R"({"a":1,"b":{"a":1}})"), "no error");
}

TEST(JsonTextTest, HandsOutTheMembersOfAnObjectOneByOne) {
  std::vector<std::pair<std::string, json>> members;
  const auto take = [&](const std::string& name, const json& value) {
    members.emplace_back(name, value);
    return name == "bad" ? invalid_input("a bad member") : Status();
  };
  EXPECT_TRUE(parse_json_members(R"({"a":1,"b":{"c":[2,{}],"d":{}},"a":[]})", take).ok());
  EXPECT_EQ(members, (decltype(members){
                         {"a", 1}, {"b", {{"c", {2, json::object()}}, {"d", json::object()}}}, {"a", json::array()}}));
  EXPECT_TRUE(parse_json_members("{}", take).ok());
  EXPECT_EQ(parse_json_members(R"({"bad":null,"worse":})", take).message(), "a bad member");
  EXPECT_THAT(parse_json_members("[1]", take).message(), HasSubstr("no JSON object"));
  EXPECT_THAT(parse_json_members("1", take).message(), HasSubstr("no JSON object"));
  EXPECT_THAT(parse_json_members(R"({"a":{"b":1,"b":2}})", take).message(), HasSubstr("\"b\" comes twice"));
  // Memory counts for one member: all of these together would exceed it.
  const std::string list = "[0" + repeated(",0", 250'000) + "]";
  EXPECT_TRUE(
      parse_json_members(R"({"a":)" + list + R"(,"b":)" + list + R"(,"c":)" + list + R"(,"d":)" + list + "}", take)
          .ok());
  EXPECT_THAT(parse_json_members("{\"a\":[0" + repeated(",0", 2'000'000) + "]}", take).message(),
              HasSubstr("bytes of memory"));
}

TEST(JsonTextTest, BoundsDepthAndMemory) {
  EXPECT_EQ(error_of(repeated("[", 64) + repeated("]", 64)), "no error");
  EXPECT_THAT(error_of(repeated("[", 65) + repeated("]", 65)), HasSubstr("more than 64 levels"));
  EXPECT_THAT(error_of(repeated("{\"a\":", 1000000)), HasSubstr("more than 64 levels"));
  EXPECT_THAT(error_of("[0" + repeated(",0", 2000000) + "]"), HasSubstr("bytes of memory"));
  EXPECT_THAT(error_of("[[]" + repeated(",[]", 2000000) + "]"), HasSubstr("bytes of memory"));
  const std::string list = "[0" + repeated(",0", 1000) + "]";
  EXPECT_TRUE(parse_json(list, 60'000).ok());
  EXPECT_EQ(parse_json(list, 40'000).status().message(), "its values take more than 40000 bytes of memory");
  EXPECT_FALSE(parse_json("\"" + std::string(1000, 'x') + "\"", 1000).ok());
}

TEST(JsonTextTest, AnotherVersionOfTheSchemaIsRefused) {
  const auto check = [](const char* text) { return check_json_version(*parse_json(text)); };
  for (const char* text : {"{}", "[]", "1", R"({"schema_version": 1, "weights": []})"})
    EXPECT_TRUE(check(text).ok()) << text;
  for (const char* text : {R"({"schema_version": 2})", R"({"schema_version": "1"})", R"({"schema_version": 1.5})"}) {
    const Status status = check(text);
    EXPECT_EQ(status.code(), StatusCode::kInvalidInput) << text;
    EXPECT_THAT(status.message(), HasSubstr("this program reads version 1")) << text;
  }
}

}  // namespace
}  // namespace sparsmith
