// Any bytes, read as a whole file and, since a hash guards what is inside of one, as the description in it as well:
// what is taken is valid, and every view in it lies in what was given.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "runtime/tuned_file.h"
#include "runtime/tuned_file_json.h"

namespace sparsmith {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const auto file = TunedFile::parse(bytes);
  if (file.ok() && !file->contents().validate().ok()) std::abort();

  const auto any_tensor = [&bytes](const std::string& name, DataType type,
                                   const std::string&) -> Result<std::span<const std::byte>> {
    return bytes.first(std::min(bytes.size(), name.size()) / size_of(type) * size_of(type));
  };
  const auto contents = tuned_contents_from_json({reinterpret_cast<const char*>(data), size}, any_tensor);
  if (!contents.ok() || !contents->validate().ok()) return 0;
  for (const TunedWeight& weight : contents->weights) {
    if (weight.choice_for(3).tokens < 1 || weight.packed_bytes() < 0) std::abort();
    std::int64_t next = 0;  // members share out all rows
    for (const GroupMember& member : weight.members) {
      if (member.first_row != next || member.rows < 1) std::abort();
      if (contents->find_weight(member.name).ok()) std::abort();
      next += member.rows;
    }
    if (next != 0 && next != weight.spec.rows) std::abort();
  }
  for (const TunedKernel& kernel : contents->kernels) {
    if (const auto* binary = kernel.binary_for(90); binary != nullptr && binary->architecture.empty()) std::abort();
  }
  return 0;
}

}  // namespace sparsmith
