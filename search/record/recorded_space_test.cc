#include "search/record/recorded_space.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/temporary_directory.h"
#include "tests/support/synthetic_space.h"

namespace sparsmith {
namespace {

RecordedSpace sample_space() {
  RecordedSpace space = SyntheticSpace{.seed = 3, .candidates = 20, .failures = 0}.draw();
  space.row_cov = 0.25;
  space.row_length_histogram = {0, 5, 1019};
  space.device_class = "sm_90 132 SMs";
  space.memory_bandwidth = 4.1e12;
  space.recorded_at = "2026-01-02T03:04:05Z";
  space.seed = ~0ULL;
  RecordedCandidate& candidate = space.candidates.front();
  candidate.kernels = {"rows_b128", "second_pass"};
  candidate.final_us = {1.5F, 1.25F};
  candidate.seconds = {0.125, 0.25, 0.5, 1};
  candidate.warm = true;
  candidate.copies = 13;
  return space;
}

TEST(RecordedSpaceTest, WhatIsWrittenIsReadAgain) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("spaces.jsonl.gz");
  RecordedSpace space = sample_space();
  space.candidates[1].status = MeasurementStatus::kWrong;
  space.candidates[1].reason = "y[0][0] = 1, expected 0";
  RecordedSpace other = space;
  other.tokens = 64;
  ASSERT_TRUE(append_space(path, space).ok());
  ASSERT_TRUE(append_space(path, other).ok());  // a second gzip member
  const auto read = read_spaces(path);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ(read->at(1).tokens, 64);
  EXPECT_EQ(to_json_lines(read->at(0)), to_json_lines(space));
  EXPECT_EQ(read->at(0).candidates.front().kernels, space.candidates.front().kernels);
  EXPECT_EQ(read->at(0).candidates[1].reason, space.candidates[1].reason);
  EXPECT_EQ(read->at(0).seed, ~0ULL);
}

TEST(RecordedSpaceTest, DamageIsAnErrorThatSaysWhere) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("spaces.jsonl.gz");
  ASSERT_TRUE(append_space(path, sample_space()).ok());
  std::string bytes;
  {
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::ofstream(path, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  EXPECT_EQ(read_spaces(path).status().code(), StatusCode::kInvalidInput);
  std::ofstream(path, std::ios::binary) << bytes.replace(bytes.size() / 2, 1, "\x55");
  EXPECT_EQ(read_spaces(path).status().code(), StatusCode::kInvalidInput);
  EXPECT_EQ(read_spaces(directory.file("none")).status().code(), StatusCode::kIoError);

  const std::string text = to_json_lines(sample_space());
  const auto expect_bad = [](const std::string& lines, const std::string& what) {
    const auto spaces = parse_spaces(lines);
    ASSERT_FALSE(spaces.ok()) << lines;
    EXPECT_NE(spaces.status().message().find(what), std::string::npos) << spaces.status().message();
  };
  expect_bad("{\"candidate\":{}}\n", "line 1 is no record of a space: a candidate before its space");
  expect_bad(text + "{\"space\":{\"version\":2}}\n", "line 22 is no record of a space: version 2");
  expect_bad(text + "[]\n", "neither a space nor a candidate");
  expect_bad(text + "{\"candidate\":{\"config\":\"\"}}\n", "line 22");
  expect_bad("what\n", "line 1");
}

TEST(RecordedSpaceTest, RunsAreJoined) {
  const RecordedSpace first = sample_space();
  RecordedSpace second = first;
  second.considered = first.considered + 1;
  second.candidates.erase(second.candidates.begin() + 5, second.candidates.end());
  RecordedCandidate more = first.candidates[7];
  more.config.values["p0"] = 99;
  second.candidates.push_back(more);
  second.candidates[1].status = MeasurementStatus::kCrashed;
  RecordedSpace other = first;
  other.tokens = 1;
  const auto joined = join_spaces({first, other, second});
  ASSERT_EQ(joined.size(), 2U);
  const RecordedSpace& whole = joined[0];
  EXPECT_EQ(whole.candidates.size(), first.candidates.size() + 1);
  EXPECT_EQ(whole.considered, first.considered + 1);
  EXPECT_EQ(whole.candidates[0].samples_us.size(), 2 * first.candidates[0].samples_us.size());
  EXPECT_EQ(whole.candidates[0].final_us.size(), 4U);
  EXPECT_EQ(whole.candidates[1].status, MeasurementStatus::kCrashed);
  EXPECT_EQ(joined[1].candidates.size(), first.candidates.size());
}

TEST(RecordedSpaceTest, T4HasWhatItsSchemaRequires) {
  const RecordedSpace space = sample_space();
  const auto t4 = nlohmann::json::parse(to_t4(space));
  EXPECT_EQ(t4.at("schema_version"), "1.0.0");
  ASSERT_EQ(t4.at("results").size(), space.candidates.size());
  const std::set<std::string> words = {"timeout", "compile", "runtime", "correctness", "constraints", "correct"};
  for (const auto& result : t4["results"]) {
    EXPECT_TRUE(result.at("configuration").is_object());
    EXPECT_TRUE(result.at("objectives").is_array());
    EXPECT_TRUE(result.at("correctness").is_number());
    EXPECT_TRUE(words.contains(result.at("invalidity")));
    const auto& times = result.at("times");
    EXPECT_TRUE(times.at("runtimes").is_array());
    for (const char* name : {"compilation_time", "framework", "search_algorithm", "validation"})
      EXPECT_TRUE(times.at(name).is_number()) << name;
    for (const auto& measurement : result.at("measurements")) {
      EXPECT_TRUE(measurement.at("name").is_string());
      EXPECT_TRUE(measurement.at("unit").is_string());
      EXPECT_TRUE(measurement.at("value").is_number() || measurement["value"].is_string());
    }
  }
  EXPECT_EQ(t4["results"][0]["times"]["compilation_time"], 250);
}

}  // namespace
}  // namespace sparsmith
