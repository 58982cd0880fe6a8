// Any bytes, read as a whole file and, since a hash guards what is inside of one, as the description in it as well:
// what is taken is valid, and every view in it lies in what was given. A file that loads is run on the fake driver,
// which checks every address and size that it is given. Files are altered as a forger would, with hashes repaired.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string_view>

#include "runtime/tuned_file.h"
#include "runtime/tuned_file_json.h"
#include "tests/fuzz/tuned_file_mutator.h"
#include "tests/support/checked_run.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace sparsmith {

// One half of the time as a forger would; otherwise any bytes.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::mt19937_64 random(seed);
  const auto any = [&] { return LLVMFuzzerMutate(data, size, max_size); };
  auto parts = fuzz::take_apart({reinterpret_cast<const char*>(data), size});
  if (!parts || random() % 8 == 0) return any();
  const bool changed = random() % 2 == 0 ? fuzz::alter_contents(*parts, random) : fuzz::alter_anything(*parts, random);
  if (!changed) return any();
  if (random() % 4 != 0) fuzz::repair_weights(*parts);
  const std::string file = fuzz::put_together(*std::move(parts));
  if (file.empty() || file.size() > max_size) return any();
  std::copy(file.begin(), file.end(), data);
  return file.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const auto file = TunedFile::parse(bytes);
  if (file.ok()) {
    if (!file->contents().validate().ok()) std::abort();
    const test::CheckedRun run = test::run_checked(file->contents(), /*run_kernels=*/false);
    if (!run.violation.empty()) {
      std::fprintf(stderr, "%s\n", run.violation.c_str());
      std::abort();
    }
  }

  const auto any_tensor = [&bytes](const std::string& name, DataType type,
                                   const std::string&) -> Result<std::span<const std::byte>> {
    return bytes.first(std::min(bytes.size(), name.size()) / size_of(type) * size_of(type));
  };
  const auto contents = tuned_contents_from_json({reinterpret_cast<const char*>(data), size}, any_tensor);
  if (!contents.ok() || !contents->validate().ok()) return 0;
  for (const TunedWeight& weight : contents->weights) {
    if (weight.packed_bytes() < 0) std::abort();
    for (const TunedOperator& op : weight.operators)
      if (op.choice_for(3).tokens < 1) std::abort();
    std::int64_t next = 0;  // members share out all rows
    for (const GroupMember& member : weight.members) {
      if (member.first_row != next || member.rows < 1) std::abort();
      if (contents->find_weight(member.name).ok()) std::abort();
      next += member.rows;
    }
    if (next != 0 && next != weight.rows) std::abort();
    if (weight.cut && (weight.cut->ranks() != contents->ranks || weight.cut->units_of(contents->rank) < 1))
      std::abort();
  }
  for (const TunedKernel& kernel : contents->kernels) {
    if (const auto* binary = kernel.binary_for(90); binary != nullptr && binary->architecture.empty()) std::abort();
  }
  return 0;
}

}  // namespace sparsmith
