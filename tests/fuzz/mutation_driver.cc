// Runs a fuzz target without a fuzzer: on each seed file, on every cut of it, and on mutations of it that are the same
// in every run. What this finds breaks the build; a fuzzer with coverage (SPARSMITH_FUZZ) looks deeper.
//   usage: fuzz_<format> MUTATIONS SEED...      files, and folders of files
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// Of targets that alter their inputs themselves.
extern "C" __attribute__((weak)) std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                                                     std::size_t max_size, unsigned seed);

namespace {

void run(const std::string& input) {
  // A heap block of exactly the input's size, so that an address sanitizer sees a read past its end.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

// One of the changes that break parsers: bytes, cuts, repeated parts, and numbers at the edge of their range.
void mutate(std::string& input, std::mt19937_64& random) {
  static const std::vector<std::string> kTokens = {
      "0", "-1", "1", "4294967296", "9223372036854775807",      "18446744073709551616", "1e999", "nan", " ", "\n", "%",
      ",", "[",  "{", "\"",         std::string("\0\0\0\0", 4), "\xff\xff\xff\xff"};
  const auto position = [&] { return static_cast<std::size_t>(random() % (input.size() + 1)); };
  const std::size_t at = position();
  switch (random() % 6) {
    case 0:
      if (at < input.size()) input[at] = static_cast<char>(random());
      break;
    case 1:
      if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << random() % 8));
      break;
    case 2: input.erase(at, random() % 9); break;
    case 3: input.insert(at, kTokens[random() % kTokens.size()]); break;
    case 4: {
      const std::string& token = kTokens[random() % kTokens.size()];
      input.replace(at, std::min(token.size(), input.size() - at), token);
      break;
    }
    default: input.insert(position(), input.substr(at, random() % 17)); break;
  }
}

// As the target would have it, where it says how.
std::string mutated(const std::string& seed, std::mt19937_64& random) {
  std::string input = seed;
  if (LLVMFuzzerCustomMutator == nullptr) {
    for (std::uint64_t change = 0; change <= random() % 4; ++change) mutate(input, random);
    return input;
  }
  input.resize(2 * seed.size() + 4096);
  input.resize(LLVMFuzzerCustomMutator(reinterpret_cast<std::uint8_t*>(input.data()), seed.size(), input.size(),
                                       static_cast<unsigned>(random())));
  return input;
}

// An allocation out of proportion to the input fails, instead of taking the machine down.
void limit_memory() {
#ifndef __SANITIZE_ADDRESS__  // which reserves terabytes
  constexpr rlim_t kMost = rlim_t{1} << 30;
  const rlimit limit{kMost, kMost};
  setrlimit(RLIMIT_AS, &limit);
#endif
}

// The files that are named, or lie in a folder that is, in the order of their names.
std::vector<std::string> seed_files(int count, char** names) {
  std::vector<std::string> files;
  for (int i = 0; i < count; ++i) {
    if (!std::filesystem::is_directory(names[i])) {
      files.emplace_back(names[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(names[i])) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size) {
  static std::mt19937_64 random(2);
  std::string input(reinterpret_cast<const char*>(data), size);
  for (std::uint64_t change = 0; change <= random() % 4; ++change) mutate(input, random);
  input.resize(std::min(input.size(), max_size));
  std::copy(input.begin(), input.end(), data);
  return input.size();
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s MUTATIONS SEED...\n", argv[0]);
    return 2;
  }
  limit_memory();
  const int mutations = std::atoi(argv[1]);
  std::mt19937_64 random(1);
  int inputs = 0;
  for (const std::string& file : seed_files(argc - 2, argv + 2)) {
    const sparsmith::Result<std::string> seed = sparsmith::read_file(file);
    if (!seed.ok()) {
      std::fprintf(stderr, "%s\n", seed.status().to_string().c_str());
      return 1;
    }
    run(*seed);
    for (std::size_t size = 0; size < std::min<std::size_t>(seed->size(), 2000); ++size, ++inputs)
      run(seed->substr(0, size));
    for (int mutation = 0; mutation < mutations; ++mutation, ++inputs) {
      run(mutated(*seed, random));
    }
  }
  std::printf("%d inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
}
