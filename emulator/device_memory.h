// The emulated device's memory: one reserved range of addresses, with a shadow. The shadow says of every byte whether
// it may be touched and whether it was ever written, and of every two bytes which threads touched them last
// (access_checker.h).
//
// Layout of the range: the shared memory of the blocks of a cluster (kSharedBytes, kBlockSharedBytes for each), then
// global memory. Between allocations are guard bytes that no access may touch. A device address is the address in this
// process, so that kernels use it as it is.
//
// Addresses are reused only when the range is used up, so that accesses to freed memory are found.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "runtime/executor.h"
#include "sparsmith/status.h"

namespace sparsmith {

// The last readers and the last writers of two bytes, packed by AccessChecker.
struct ShadowCell {
  std::uint64_t write = 0;
  std::uint64_t read = 0;
};

class DeviceMemory {
 public:
  static constexpr std::uint64_t kBlockSharedBytes = std::uint64_t{1} << 18;
  static constexpr int kMostBlocks = 16;  // of a cluster
  static constexpr std::uint64_t kSharedBytes = kMostBlocks * kBlockSharedBytes;

  struct Allocation {
    DeviceAddress address = 0;
    std::uint64_t bytes = 0;
    int number = 0;  // counts from 1
    bool freed = false;
  };

  // At most `capacity` bytes are handed out at a time.
  static Result<std::unique_ptr<DeviceMemory>> reserve(std::uint64_t capacity);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // As in Executor.
  Result<DeviceAddress> allocate(std::uint64_t bytes);
  Status free(DeviceAddress address);
  Status write(DeviceAddress to, std::span<const std::byte> from);
  Status read(std::span<std::byte> to, DeviceAddress from) const;
  Status fill(DeviceAddress to, std::byte value, std::uint64_t bytes);
  // Copied bytes count as written.
  Status copy(DeviceAddress to, DeviceAddress from, std::uint64_t bytes);

  // The first `bytes` of the shared memory of each of `blocks` blocks may be touched and are unwritten. The rest may
  // not be touched.
  void open_shared(std::uint64_t bytes, int blocks);

  // The allocation, alive or freed, that holds `address`; otherwise the nearest one before it.
  std::optional<Allocation> allocation_before(DeviceAddress address) const;

  // Sets the bits of bytes [offset, offset + bytes) of the range; bit k of a map is bit k % 8 of its byte k / 8.
  static void set_bits(std::uint8_t* map, std::uint64_t offset, std::uint64_t bytes, bool value);

  std::byte* base() const { return base_; }
  std::uint64_t size() const { return size_; }
  std::uint8_t* addressable() const { return addressable_; }
  std::uint8_t* written() const { return written_; }
  ShadowCell* cells() const { return cells_; }  // cell i is for bytes 2i and 2i + 1
  // Clears the records of all cells.
  void clear_cells();

 private:
  DeviceMemory() = default;
  Status map_all(std::uint64_t size);
  void unmap_all();
  // An address with room for `bytes`, or 0.
  DeviceAddress find_room(std::uint64_t bytes);
  Status check_host_range(const char* what, DeviceAddress address, std::uint64_t bytes) const;
  std::uint64_t offset_of(DeviceAddress address) const;

  std::byte* base_ = nullptr;
  std::uint8_t* addressable_ = nullptr;
  std::uint8_t* written_ = nullptr;
  ShadowCell* cells_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t capacity_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t shared_open_ = 0;  // bytes of each block
  int blocks_open_ = 0;
  DeviceAddress next_ = 0;
  int last_number_ = 0;
  std::map<DeviceAddress, Allocation> allocations_;
};

}  // namespace sparsmith
