#include "emulator/device_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>

namespace sparsmith {
namespace {

constexpr std::uint64_t kAlignment = 256;
constexpr std::uint64_t kGuardBytes = 256;
constexpr std::uint64_t kPage = 4096;

std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Address space only: pages come when they are touched.
template <class T>
bool reserve_pages(std::uint64_t bytes, T*& out) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return false;
  madvise(pages, bytes, MADV_DONTDUMP);
  out = static_cast<T*>(pages);
  return true;
}

// Gives the whole pages within [from, from + bytes) back to the system; they read as 0 afterwards.
void drop_pages(void* from, std::uint64_t bytes) {
  const std::uint64_t first = round_up(reinterpret_cast<std::uint64_t>(from), kPage);
  const std::uint64_t last = (reinterpret_cast<std::uint64_t>(from) + bytes) / kPage * kPage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::reserve(std::uint64_t capacity) {
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory());
  memory->capacity_ = capacity;
  // Much address space lets freed addresses rest for long; where the system gives less, less has to do.
  std::uint64_t size = std::uint64_t{1} << 38;
  while (!memory->map_all(size).ok()) {
    memory->unmap_all();
    size /= 2;
    if (size < 2 * (capacity + kSharedBytes)) {
      return out_of_memory(
          fmt::format("the emulator cannot reserve address space for {} bytes of device memory and "
                      "their shadow: raise the limit (ulimit -v) or ask for less",
                      capacity));
    }
  }
  memory->next_ = reinterpret_cast<DeviceAddress>(memory->base_) + kSharedBytes + kGuardBytes;
  return memory;
}

Status DeviceMemory::map_all(std::uint64_t size) {
  size_ = size;
  const bool ok = reserve_pages(size, base_) && reserve_pages(size / 8 + kPage, addressable_) &&
                  reserve_pages(size / 8 + kPage, written_) && reserve_pages(size / 2 * sizeof(ShadowCell), cells_);
  return ok ? Status() : out_of_memory("no address space");
}

void DeviceMemory::unmap_all() {
  const auto unmap = [](auto*& pages, std::uint64_t bytes) {
    if (pages != nullptr) munmap(pages, bytes);
    pages = nullptr;
  };
  unmap(base_, size_);
  unmap(addressable_, size_ / 8 + kPage);
  unmap(written_, size_ / 8 + kPage);
  unmap(cells_, size_ / 2 * sizeof(ShadowCell));
}

DeviceMemory::~DeviceMemory() { unmap_all(); }

std::uint64_t DeviceMemory::offset_of(DeviceAddress address) const {
  return address - reinterpret_cast<DeviceAddress>(base_);
}

void DeviceMemory::set_bits(std::uint8_t* map, std::uint64_t offset, std::uint64_t bytes, bool value) {
  const std::uint64_t end = offset + bytes;
  const auto set_one = [&](std::uint64_t bit) {
    const auto mask = static_cast<std::uint8_t>(1U << (bit % 8));
    map[bit / 8] = static_cast<std::uint8_t>(value ? map[bit / 8] | mask : map[bit / 8] & ~mask);
  };
  while (offset < end && offset % 8 != 0) set_one(offset++);
  if (end - offset >= 8) {
    std::memset(map + offset / 8, value ? 0xFF : 0, (end - offset) / 8);
    offset += (end - offset) / 8 * 8;
  }
  while (offset < end) set_one(offset++);
}

DeviceAddress DeviceMemory::find_room(std::uint64_t bytes) {
  const DeviceAddress begin = reinterpret_cast<DeviceAddress>(base_) + kSharedBytes + kGuardBytes;
  const DeviceAddress end = reinterpret_cast<DeviceAddress>(base_) + size_ - kGuardBytes;
  if (bytes <= end - next_) {
    const DeviceAddress found = next_;
    next_ = round_up(next_ + bytes + kGuardBytes, kAlignment);
    return found;
  }
  // The range is used up once: forget what was freed, and take the first gap that is wide enough.
  std::erase_if(allocations_, [](const auto& entry) { return entry.second.freed; });
  DeviceAddress candidate = begin;
  for (const auto& [address, allocation] : allocations_) {
    if (candidate + bytes + kGuardBytes <= address) return candidate;
    candidate = round_up(address + allocation.bytes + kGuardBytes, kAlignment);
  }
  return candidate < end && bytes <= end - candidate ? candidate : 0;
}

Result<DeviceAddress> DeviceMemory::allocate(std::uint64_t bytes) {
  if (bytes > capacity_ - live_bytes_) {
    return out_of_memory(
        fmt::format("the emulated device has {} bytes of memory, of which {} are in use: {} more do not fit", capacity_,
                    live_bytes_, bytes));
  }
  const std::uint64_t room = bytes == 0 ? 1 : bytes;
  const DeviceAddress address = find_room(room);
  if (address == 0)
    return out_of_memory(fmt::format("no {} bytes of the emulated device's memory lie together", bytes));
  const std::uint64_t offset = offset_of(address);
  std::memset(base_ + offset, 0xFF, bytes);
  set_bits(addressable_, offset, bytes, true);
  allocations_[address] = {address, bytes, ++last_number_, false};
  live_bytes_ += bytes;
  return address;
}

Status DeviceMemory::free(DeviceAddress address) {
  if (address == 0) return {};
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.freed) {
    return invalid_argument(fmt::format("free of {:#x}, which is no live allocation of the emulator", address));
  }
  Allocation& allocation = found->second;
  const std::uint64_t offset = offset_of(address);
  set_bits(addressable_, offset, allocation.bytes, false);
  set_bits(written_, offset, allocation.bytes, false);
  drop_pages(base_ + offset, allocation.bytes);
  drop_pages(cells_ + offset / 2, allocation.bytes / 2 * sizeof(ShadowCell));
  live_bytes_ -= allocation.bytes;
  allocation.freed = true;
  return {};
}

std::optional<DeviceMemory::Allocation> DeviceMemory::allocation_before(DeviceAddress address) const {
  auto found = allocations_.upper_bound(address);
  if (found == allocations_.begin()) return std::nullopt;
  return (--found)->second;
}

Status DeviceMemory::check_host_range(const char* what, DeviceAddress address, std::uint64_t bytes) const {
  const std::optional<Allocation> allocation = allocation_before(address);
  if (allocation && !allocation->freed && address - allocation->address <= allocation->bytes &&
      bytes <= allocation->bytes - (address - allocation->address)) {
    return {};
  }
  return invalid_argument(
      fmt::format("{} of {} bytes at {:#x} is not within one live allocation of the emulator", what, bytes, address));
}

Status DeviceMemory::write(DeviceAddress to, std::span<const std::byte> from) {
  if (from.empty()) return {};
  SPARSMITH_RETURN_IF_ERROR(check_host_range("write", to, from.size()));
  std::memcpy(base_ + offset_of(to), from.data(), from.size());
  set_bits(written_, offset_of(to), from.size(), true);
  return {};
}

Status DeviceMemory::read(std::span<std::byte> to, DeviceAddress from) const {
  if (to.empty()) return {};
  SPARSMITH_RETURN_IF_ERROR(check_host_range("read", from, to.size()));
  std::memcpy(to.data(), base_ + offset_of(from), to.size());
  return {};
}

Status DeviceMemory::fill(DeviceAddress to, std::byte value, std::uint64_t bytes) {
  if (bytes == 0) return {};
  SPARSMITH_RETURN_IF_ERROR(check_host_range("fill", to, bytes));
  std::memset(base_ + offset_of(to), static_cast<int>(value), bytes);
  set_bits(written_, offset_of(to), bytes, true);
  return {};
}

Status DeviceMemory::copy(DeviceAddress to, DeviceAddress from, std::uint64_t bytes) {
  if (bytes == 0) return {};
  SPARSMITH_RETURN_IF_ERROR(check_host_range("copy", from, bytes));
  return write(to, {base_ + offset_of(from), bytes});
}

void DeviceMemory::open_shared(std::uint64_t bytes, int blocks) {
  for (int i = 0; i < blocks_open_; ++i) {
    const std::uint64_t first = static_cast<std::uint64_t>(i) * kBlockSharedBytes;
    set_bits(addressable_, first, shared_open_, false);
    set_bits(written_, first, shared_open_, false);
  }
  for (int i = 0; i < blocks; ++i)
    set_bits(addressable_, static_cast<std::uint64_t>(i) * kBlockSharedBytes, bytes, true);
  shared_open_ = bytes;
  blocks_open_ = blocks;
}

void DeviceMemory::clear_cells() { madvise(cells_, size_ / 2 * sizeof(ShadowCell), MADV_DONTNEED); }

}  // namespace sparsmith
