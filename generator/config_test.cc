#include "generator/config.h"

#include <gtest/gtest.h>

#include <random>

namespace sparsmith {
namespace {

TEST(ConfigTest, TextIsReadBack) {
  const Config config{"rows", {{"unroll", 4}, {"split_length", -3}}};
  EXPECT_EQ(config.text(), "rows split_length=-3 unroll=4");
  EXPECT_EQ(*Config::parse(config.text()), config);
  EXPECT_EQ(*Config::parse("rows"), (Config{"rows", {}}));
}

TEST(ConfigTest, SaysWhatIsWrong) {
  for (const char* text : {"", " a=1", "a=1", "rows a", "rows a=", "rows =1", "rows a=1x", "rows a=1  b=2",
                           "rows a=1 a=2", "rows a=99999999999999999999", "rows a=1 "})
    EXPECT_EQ(Config::parse(text).status().code(), StatusCode::kInvalidInput) << '"' << text << '"';
}

TEST(ConfigTest, SurvivesAnyText) {
  std::mt19937_64 random(1);
  const std::string alphabet("ab1=- \0\xFF", 8);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (std::uint64_t i = random() % 20; i > 0; --i) text += alphabet[random() % alphabet.size()];
    const auto parsed = Config::parse(text);
    if (parsed.ok()) {
      EXPECT_EQ(*Config::parse(parsed->text()), *parsed);
    }
  }
}

}  // namespace
}  // namespace sparsmith
