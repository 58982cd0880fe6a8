// The statistics of 160 real pruned layers against figures computed independently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/temporary_directory.h"
#include "matrix/model_file.h"

namespace sparsmith {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(std::string line) {
  if (line.ends_with('\r')) line.pop_back();
  std::vector<std::string> fields;
  std::stringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
  return fields;
}

// The matrices unpacked in a directory that goes away with the object.
class Unpacked {
 public:
  explicit Unpacked(const fs::path& archive) {
    const std::string command = "tar xf '" + archive.string() + "' -C '" + directory_.path() + "'";
    ok_ = std::system(command.c_str()) == 0;  // no library of ours unpacks xz
  }
  bool ok() const { return ok_; }
  fs::path operator/(const std::string& path) const { return directory_.file(path); }

 private:
  TemporaryDirectory directory_;
  bool ok_ = false;
};

TEST(DlmcStatisticsTest, EqualTheOracle) {
  const char* data = getenv("SPARSMITH_TEST_DATA");
  const fs::path root = data == nullptr ? "" : data;
  if (data == nullptr || !fs::exists(root / "dlmc_core.tar.xz")) {
    GTEST_SKIP() << "SPARSMITH_TEST_DATA names no directory with dlmc_core.tar.xz";
  }
  const Unpacked unpacked(root / "dlmc_core.tar.xz");
  ASSERT_TRUE(unpacked.ok()) << "tar cannot unpack dlmc_core.tar.xz";

  std::ifstream csv(root / "dlmc_core_stats.csv");
  std::string line;
  ASSERT_TRUE(std::getline(csv, line));
  const std::vector<std::string> keys = split(line);
  int matrices = 0;
  while (std::getline(csv, line)) {
    const std::vector<std::string> expected = split(line);
    ASSERT_EQ(expected.size(), keys.size());
    SCOPED_TRACE(expected[0]);
    const Result<ModelFile> file = ModelFile::open((unpacked / ("dlmc/" + expected[0])).string());
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    const Result<SparsityStatistics> statistics = file->statistics(0);
    ASSERT_TRUE(statistics.ok()) << statistics.status().to_string();
    const auto json = nlohmann::json::parse(to_json(*statistics, "layer"));
    for (std::size_t i = 1; i < keys.size(); ++i) {
      ASSERT_TRUE(json.contains(keys[i])) << keys[i];
      EXPECT_NEAR(json[keys[i]].get<double>(), std::stod(expected[i]), 0.5000001e-5) << keys[i];
    }
    ++matrices;
  }
  EXPECT_EQ(matrices, 160);
}

}  // namespace
}  // namespace sparsmith
