#include "formats/packed_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/parallel_for.h"
#include "matrix/text_fields.h"

namespace sparsmith {

PackedParts::PackedParts(const PackedView& view, int version) : view_(view) {
  require(view.cols > 0 || view.rows == 0, "rows without columns");
  require(view.packer_version == version,
          fmt::format("version {} of its packer is another's: tune again", view.packer_version));
}

void PackedParts::require(bool holds, std::string_view reason) {
  if (!holds && status_.ok()) status_ = invalid_input(std::string(reason));
}

std::int64_t PackedParts::fact(std::string_view name, std::int64_t least, std::int64_t most) {
  ++facts_;
  const std::int64_t* value = nullptr;
  if (view_.facts != nullptr) {
    const auto found = view_.facts->find(std::string(name));
    if (found != view_.facts->end()) value = &found->second;
  }
  if (value == nullptr) {
    require(false, fmt::format("fact {} is missing", name));
    return least;
  }
  require(*value >= least && *value <= most, fmt::format("fact {} is {}, not in [{}, {}]", name, *value, least, most));
  return std::clamp(*value, least, std::max(least, most));
}

std::span<const std::byte> PackedParts::bytes_of(std::string_view name, DataType type, std::size_t size,
                                                 std::int64_t count) {
  asked_.push_back(name);
  const auto found = std::ranges::find(view_.arrays, name, &PackedArrayView::name);
  if (found == view_.arrays.end() || found->type != type || found->bytes.size() % size != 0) {
    require(false, fmt::format("array {} is missing, or not of whole elements of type {}", name, short_name(type)));
    return {};
  }
  const auto held = static_cast<std::int64_t>(found->bytes.size() / size);
  if (count >= 0 && held != count) {
    require(false, fmt::format("array {} has {} elements, not {}", name, held, count));
    return {};
  }
  return found->bytes;
}

Status PackedParts::status() {
  const std::size_t facts = view_.facts == nullptr ? 0 : view_.facts->size();
  require(facts == facts_, fmt::format("{} facts, not {}", facts, facts_));
  require(view_.arrays.size() == asked_.size(), fmt::format("{} arrays, not {}", view_.arrays.size(), asked_.size()));
  return status_;
}

int worthwhile_threads(const PackedView& packed, int threads) {
  constexpr std::size_t kSmall = std::size_t{1} << 18;
  std::size_t bytes = 0;
  for (const PackedArrayView& array : packed.arrays) bytes += array.bytes.size();
  return bytes < kSmall ? 1 : threads;
}

Status check_ranges(std::int64_t count, std::int64_t grain, int threads,
                    const std::function<Status(std::int64_t, std::int64_t)>& check) {
  std::mutex mutex;
  std::int64_t first = count;  // of a range with an error
  Status status;
  parallel_for(
      count, grain,
      [&](std::int64_t begin, std::int64_t end) {
        {
          const std::lock_guard lock(mutex);
          if (first < begin) return;
        }
        Status of_range = check(begin, end);
        if (of_range.ok()) return;
        const std::lock_guard lock(mutex);
        if (begin >= first) return;
        first = begin;
        status = std::move(of_range);
      },
      threads);
  return status;
}

std::int64_t number_of(std::string_view part, std::string_view prefix) {
  return part.starts_with(prefix) ? parse_number<std::int32_t>(part.substr(prefix.size())).value_or(-1) : -1;
}

bool all_zero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes.front() == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace sparsmith
