// What readers take of memory on files that were made to take much: at most 64 MB and four times the file (inflated, of
// recorded spaces) and what is read from it. Each file is read in a process of its own.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/temporary_directory.h"
#include "history/recording.h"
#include "history/suite.h"
#include "matrix/model_file.h"
#include "matrix/safetensors.h"
#include "search/record/recorded_space.h"
#include "tools/report/report_input.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kMegabyte = 1'000'000;
#ifdef __SANITIZE_ADDRESS__
constexpr bool kCounts = false;  // its shadow is memory, too
#else
constexpr bool kCounts = true;
#endif

// Of this process, in bytes: "VmRSS:", its memory, or "VmHWM:", the most that it had.
std::int64_t memory(const std::string& which) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(which)) return std::stoll(line.substr(which.size())) * 1024;
  }
  return 0;
}

std::string repeated(const std::string& text, std::int64_t bytes) {
  std::string all;
  all.reserve(bytes + text.size());
  while (static_cast<std::int64_t>(all.size()) < bytes) all += text;
  return all;
}

std::int64_t csr_bytes(const CsrMatrix& matrix) { return 8 * (matrix.rows + 1 + matrix.nnz()); }

class ReaderMemoryTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = directory_.file(name);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  // `read` returns the bytes of its output, besides those of the file; -1: the file was refused.
  static void expect_bounded(const std::string& path, bool refused, const std::function<std::int64_t()>& read) {
    int results[2];
    ASSERT_EQ(pipe(results), 0);
    const pid_t child = fork();
    if (child == 0) {
      malloc_trim(0);
      std::ofstream("/proc/self/clear_refs") << "5";  // from here on, the most
      const std::int64_t before = memory("VmRSS:");
      const std::int64_t output = read();
      const std::int64_t numbers[] = {output, memory("VmHWM:") - before};
      const bool told = ::write(results[1], numbers, sizeof(numbers)) == sizeof(numbers);
      _exit(told ? 0 : 1);
    }
    close(results[1]);
    std::int64_t numbers[2] = {};
    EXPECT_EQ(::read(results[0], numbers, sizeof(numbers)), static_cast<ssize_t>(sizeof(numbers))) << path;
    close(results[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << path << ": the reader died";
    EXPECT_EQ(numbers[0] < 0, refused) << path;
    const auto file = static_cast<std::int64_t>(std::filesystem::file_size(path));
    if (kCounts) {
      EXPECT_LE(numbers[1], 64 * kMegabyte + 4 * (file + std::max<std::int64_t>(numbers[0], 0))) << path;
    }
  }

  // given: elements in the file, of which some may be given twice.
  static void expect_model(const std::string& path, bool refused, std::int64_t max_memory = 0, std::int64_t given = 0) {
    expect_bounded(path, refused, [&]() -> std::int64_t {
      const auto model = ModelFile::open(path, {.max_memory = max_memory});
      if (!model.ok()) return -1;
      if (model->format() == "safetensors") return 0;
      const auto matrix = model->read(0);
      if (!matrix.ok()) return -1;
      return std::max(2 * csr_bytes(*matrix), 8 * given);  // the model's, and this copy
    });
  }

  static std::string safetensors(const std::string& header) {
    const std::uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + header;
  }

  TemporaryDirectory directory_;
};

TEST_F(ReaderMemoryTest, TextMatrices) {
  const std::string banner = "%%MatrixMarket matrix coordinate real general\n";
  const std::string huge = write("huge.mtx", banner + "67108864 67108864 1\n1 1 1\n");
  expect_model(huge, false);
  expect_model(huge, true, 100 * kMegabyte);
  expect_model(write("pattern.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n9 9 2500000\n" +
                                        repeated("9 1\n", 10 * kMegabyte)),
               false, 0, 2 * 2'500'000);
  expect_model(
      write("array.mtx", "%%MatrixMarket matrix array real symmetric\n2500 2500\n" + repeated("1\n", 2500 * 2501)),
      false);
  expect_model(write("entries.mtx", banner + "9 9 9000000000000\n" + repeated("1 1 1\n", kMegabyte)), true);
  expect_model(write("empty.smtx", "4000000,5,0\n" + repeated("0 ", 8 * kMegabyte + 2)), false);
  expect_model(write("rows.smtx", "67108864,67108864,4503599627370496\n0"), true);
}

// A header of version 1.0, padded.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + data;
}

std::string integers(const std::vector<std::int64_t>& values) {
  std::string bytes(8 * values.size(), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string deflated(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string result(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

// An .npz of deflated members.
std::string npz(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string file;
  std::string directory;
  for (const auto& [name, bytes] : members) {
    const std::string packed = deflated(bytes);
    const auto crc = static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
    const std::string full = name + ".npy";
    std::string common;
    for (const int field : {20, 0, 8, 0, 0}) put(common, static_cast<std::uint16_t>(field));
    put(common, crc);
    put(common, static_cast<std::uint32_t>(packed.size()));
    put(common, static_cast<std::uint32_t>(bytes.size()));
    put(common, static_cast<std::uint16_t>(full.size()));
    put(common, std::uint16_t{0});
    put(directory, std::uint32_t{0x02014B50});
    put(directory, std::uint16_t{20});
    directory += common + std::string(10, '\0');
    put(directory, static_cast<std::uint32_t>(file.size()));
    directory += full;
    put(file, std::uint32_t{0x04034B50});
    file += common + full + packed;
  }
  const auto offset = static_cast<std::uint32_t>(file.size());
  file += directory;
  put(file, std::uint32_t{0x06054B50});
  put(file, std::uint32_t{0});
  put(file, static_cast<std::uint16_t>(members.size()));
  put(file, static_cast<std::uint16_t>(members.size()));
  put(file, static_cast<std::uint32_t>(directory.size()));
  put(file, offset);
  put(file, std::uint16_t{0});
  return file;
}

TEST_F(ReaderMemoryTest, Arrays) {
  const auto sparse = [](const char* format, std::int64_t rows, std::int64_t cols,
                         std::vector<std::pair<std::string, std::string>> members) {
    members.insert(members.begin(),
                   {{"format", npy("|S3", "", format)}, {"shape", npy("<i8", "2", integers({rows, cols}))}});
    return npz(members);
  };
  const std::int64_t most = std::int64_t{1} << 26;
  const std::string one = npy("<i8", "1", integers({0}));
  const std::string huge = sparse("coo", most, most, {{"data", one}, {"row", one}, {"col", one}});
  EXPECT_LT(huge.size(), 1500U);
  expect_model(write("huge.npz", huge), false);
  expect_model(write("huge2.npz", huge), true, 100 * kMegabyte);
  // Arrays that are large only when they are inflated: they belong to a small matrix, or are none.
  const std::int64_t large = 120 * kMegabyte;
  const std::string zeros = npy("|i1", std::to_string(large), std::string(large, '\0'));
  expect_model(write("data.npz", sparse("csr", 1, 1, {{"data", zeros}, {"indices", one}, {"indptr", one}})), true,
               100 * kMegabyte);
  expect_model(write("format.npz", npz({{"format", zeros}, {"shape", one}})), true);
  expect_model(write("flat.npy", npy("<f8", std::to_string(most) + ", 0", "")), false);
  expect_model(write("flat2.npy", npy("<f8", std::to_string(most) + ", 0", "")), true, 100 * kMegabyte);
  expect_model(write("bytes.npy", npy("|i1", "4000, 5000", std::string(20 * kMegabyte, '\1'))), false);
}

TEST_F(ReaderMemoryTest, SafetensorsHeaders) {
  const std::int64_t bytes = 30 * kMegabyte;
  expect_model(write("nested.safetensors", safetensors("{\"a\":" + repeated("[", bytes))), true);
  expect_model(write("objects.safetensors", safetensors(repeated("{\"a\":", bytes))), true);
  expect_model(
      write("shape.safetensors", safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1" + repeated(",1", bytes) + "]}}")),
      true);
  expect_model(write("name.safetensors", safetensors("{\"" + repeated("n", bytes) + "\":1}")), true);
  std::string texts = "{\"__metadata__\":{";
  for (int i = 0; i < 2'000'000; ++i) texts += "\"" + std::to_string(i) + "\":\"\",";
  expect_model(write("metadata.safetensors", safetensors(texts + "\"\":\"\"}}")), true);
  const auto tensors = [](int count, const std::string& part = "") {
    std::string header = "{";
    for (int i = 0; i < count; ++i) {
      header += (i == 0 ? "\"" : ",\"") + std::to_string(i) + part +
                "\":{\"dtype\":\"F4\",\"shape\":[0],\"data_offsets\":[0,0]}";
    }
    return safetensors(header + "}");
  };
  expect_model(write("tensors.safetensors", tensors(1 << 18)), false);
  expect_model(write("parts.safetensors", tensors(1 << 18, ".shape")), false);
  expect_model(write("more.safetensors", tensors((1 << 18) + 1)), true);
  std::string keys = "{\"a\":{\"0\":0";
  for (int i = 0; i < 1'000'000; ++i) keys += ",\"" + std::to_string(i + 1) + "\":0";
  expect_model(write("keys.safetensors", safetensors(keys + "}}")), true);
  std::string index = "{\"weight_map\":{\"\":\"\"";
  for (int i = 0; i < 2'000'000; ++i) index += ",\"" + std::to_string(i) + "\":\"a\"";
  expect_model(write("many.safetensors.index.json", index + "}}"), true);
}

TEST_F(ReaderMemoryTest, JsonOfResultsAndSuites) {
  const std::string numbers = "{\"weights\":[0" + repeated(",0", 20 * kMegabyte) + "]}";
  const std::string lists = "{\"weights\":[[]" + repeated(",[]", 20 * kMegabyte) + "]}";
  const std::string nested = repeated("[", 20 * kMegabyte);
  for (const auto& [name, text] : {std::pair("numbers", &numbers), {"lists", &lists}, {"nested", &nested}}) {
    const std::string path = write(std::string(name) + ".json", *text);
    const auto read = [&](const auto& parse) {
      expect_bounded(path, true, [&]() -> std::int64_t {
        const auto file = MappedFile::open(path);
        return file.ok() && parse(file->text()) ? 0 : -1;
      });
    };
    read([](std::string_view json) { return parse_bench_json(json).ok(); });
    read([](std::string_view json) { return parse_google_benchmark(json).ok(); });
    read([](std::string_view json) { return parse_suite(json).ok(); });
    read([](std::string_view json) {
      tools::ReportInputs inputs;
      return tools::add_report_json(json, "x.json", inputs).ok();
    });
  }
}

TEST_F(ReaderMemoryTest, RecordedSpaces) {
  const auto compressed = [&](const char* name, const std::string& piece, int pieces) {
    const std::string path = directory_.file(name);
    const gzFile file = gzopen(path.c_str(), "wb");
    for (int i = 0; i < pieces; ++i) gzwrite(file, piece.data(), static_cast<unsigned>(piece.size()));
    gzclose(file);
    return path;
  };
  const auto expect_spaces = [](const std::string& path, bool refused, std::int64_t max_bytes) {
    expect_bounded(path, refused, [&]() -> std::int64_t { return read_spaces(path, max_bytes).ok() ? 0 : -1; });
  };
  const std::string megabyte(kMegabyte, ' ');
  expect_spaces(compressed("line.gz", megabyte, 100), true, kNoMemoryLimit);
  expect_spaces(compressed("array.gz", "[" + repeated("0,", kMegabyte), 100), true, kNoMemoryLimit);
  expect_spaces(compressed("lines.gz", repeated("\n", kMegabyte), 100), false, kNoMemoryLimit);
  expect_spaces(compressed("limit.gz", repeated("\n", kMegabyte), 100), true, 10 * kMegabyte);
}

}  // namespace
}  // namespace sparsmith
