// What ThreadBlock says of a fault: who, where, what, and in whose way.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "emulator/thread_block.h"

namespace sparsmith {
namespace {

const char* noun(AccessKind kind) {
  static constexpr const char* kNouns[] = {"read", "write", "atomic addition"};
  return kNouns[static_cast<std::size_t>(kind)];
}

// "0-31, 40": rising numbers, runs drawn together.
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += end - i > 1 ? fmt::format("{}-{}", numbers[i], numbers[end - 1]) : std::to_string(numbers[i]);
    i = end;
  }
  return text;
}

}  // namespace

std::string ThreadBlock::block_name(const std::array<std::int64_t, 3>& coordinates) const {
  return fmt::format("({}, {}, {})", coordinates[0], coordinates[1], coordinates[2]);
}

std::string ThreadBlock::thread_name(int thread) const {
  if (blocks_.size() == 1) return fmt::format("thread {} of the same block", thread);
  return fmt::format("thread {} of block {}", index_of(thread), block_name(coordinates(rank_of(thread))));
}

std::string ThreadBlock::describe_address(std::uint64_t address, std::uint32_t bytes) const {
  const std::uint64_t offset = address - reinterpret_cast<std::uint64_t>(memory_.base());
  if (offset < DeviceMemory::kSharedBytes) {
    const auto rank = static_cast<int>(offset / DeviceMemory::kBlockSharedBytes);
    const bool other = rank != this->rank() && rank < static_cast<int>(blocks_.size());
    return fmt::format("shared memory + {} (the launch has {} bytes){}", offset % DeviceMemory::kBlockSharedBytes,
                       launch_->shared_bytes, other ? " of block " + block_name(coordinates(rank)) : "");
  }
  if (offset >= memory_.size()) {
    return address == 0 ? "a null pointer" : fmt::format("{:#x}, which is no device memory", address);
  }
  const std::optional<DeviceMemory::Allocation> allocation = memory_.allocation_before(address);
  if (!allocation) return fmt::format("{:#x}, before the first allocation", address);
  std::string name = fmt::format("allocation {}", allocation->number);
  for (const KernelLaunch::Name& known : launch_->names) {
    if (known.address >= allocation->address &&
        known.address - allocation->address < std::max<std::uint64_t>(allocation->bytes, 1)) {
      name = fmt::format("{} ({})", known.name, name);
      break;
    }
  }
  const std::uint64_t within = address - allocation->address;
  std::string text = fmt::format("{} + {}, of {} bytes", name, within, allocation->bytes);
  if (allocation->freed) text += ", freed";
  if (within >= allocation->bytes) {
    text += fmt::format(": {} bytes past its end", within - allocation->bytes);
  } else if (within + bytes > allocation->bytes) {
    text += ": reaches past its end";
  }
  return text;
}

std::string ThreadBlock::describe_other(const Violation& violation) const {
  if (violation.kind == Violation::Kind::kRace)
    return fmt::format("a {} by {}", noun(violation.other_access), thread_name(violation.other_thread));
  const std::string thread =
      violation.other_thread >= 0 ? fmt::format("thread {}", index_of(violation.other_thread)) : "a thread";
  const auto next = std::ranges::upper_bound(begun_, violation.other_phase, {}, &Begun::first_phase);
  const auto& first = std::prev(next)->first_block;
  if (blocks_.size() == 1 || violation.other_thread < 0)
    return fmt::format("a {} by {} of {} {}", noun(violation.other_access), thread,
                       blocks_.size() == 1 ? "block" : "the cluster at block", block_name(first));
  return fmt::format("a {} by {} of block {}", noun(violation.other_access), thread,
                     block_name(coordinates(rank_of(violation.other_thread), first)));
}

// Empty where no asynchronous copy is on its way there.
std::string ThreadBlock::describe_pending_copy(std::uint64_t address, std::uint32_t bytes) const {
  const auto meets = [&](const PendingCopy& copy) {
    const auto to = reinterpret_cast<std::uint64_t>(copy.to);
    return address < to + static_cast<std::uint64_t>(copy.bytes) && to < address + bytes;
  };
  const auto describe = [](const char* kind, int thread, int line) {
    return fmt::format(" where the {} copy that thread {} began in line {} has not landed: nobody waited for it", kind,
                       thread, line);
  };
  for (const auto& [at, barrier] : bulk_barriers_) {
    for (std::size_t i = 0; i < barrier.copies.size(); ++i)
      if (meets(barrier.copies[i])) return describe("bulk", index_of(barrier.starts[i].thread), barrier.copies[i].line);
  }
  for (const auto& [at, barrier] : arrival_barriers_) {
    for (const PendingCopy& copy : barrier.copies)
      if (meets(copy)) return fmt::format(" where the copy that began in line {} has not landed", copy.line);
  }
  for (int i = 0; i < thread_numbers(); ++i) {
    for (const PendingCopy& copy : thread_of(i).copies) {
      if (meets(copy)) return describe("asynchronous", index_of(i), copy.line);
    }
  }
  return {};
}

std::string ThreadBlock::describe(const Violation& violation) const {
  std::string access = fmt::format("{} of {} bytes at {}", noun(violation.access), violation.bytes,
                                   describe_address(violation.address, violation.bytes));
  switch (violation.kind) {
    case Violation::Kind::kOutOfBounds: {
      const std::string pending = describe_pending_copy(violation.address, violation.bytes);
      return pending.empty() ? "out of bounds: " + access : access + pending;
    }
    case Violation::Kind::kUnwritten: return fmt::format("{}, which was never written", access);
    case Violation::Kind::kRace: return fmt::format("race: {}, unordered with {}", access, describe_other(violation));
    case Violation::Kind::kBlockRace:
      return fmt::format("race between blocks: {}, unordered with {}", access, describe_other(violation));
    case Violation::Kind::kNotWaited:
      return fmt::format("{}, before it has waited for the kernels before it, which may still use that", access);
    case Violation::Kind::kLimit: return "exceeds the limit of memory accesses of one launch: does a loop end?";
  }
  return access;
}

void ThreadBlock::on_violation(void* context, const Violation& violation) {
  auto* block = static_cast<ThreadBlock*>(context);
  block->called_in(0);
  block->fail([&] { return block->describe(violation); });
}

// "threads 0-31 wait at the block barrier in line 12; threads 32-63 wait in line 20 to shuffle with mask 0xffffffff"
std::string ThreadBlock::describe_waiting() const {
  static const std::map<Wait, const char*> kWaits = {
      {Wait::kBlockBarrier, "wait at the block barrier in line {}"},
      {Wait::kClusterBarrier, "wait at the cluster's barrier in line {}"},
      {Wait::kWarpgroupBarrier, "wait at the warpgroup's barrier in line {}"},
      {Wait::kWarpBarrier, "wait at the warp barrier in line {} with mask {:#010x}"},
      {Wait::kShuffle, "wait at the shuffle in line {} with mask {:#010x}"},
      {Wait::kBulkCopy, "wait in line {} for a bulk copy that nobody starts"},
      {Wait::kArrivals, "wait in line {} for arrivals that do not come"}};
  std::map<std::string, std::vector<int>> groups;
  for (int i = 0; i < thread_numbers(); ++i) {
    const Thread& thread = thread_of(i);
    const auto what = kWaits.find(thread.wait);
    if (what == kWaits.end()) continue;
    const std::string block = blocks_.size() == 1 ? "" : "of block " + block_name(coordinates(rank_of(i))) + " ";
    groups[block + fmt::format(fmt::runtime(what->second), thread.line, thread.mask)].push_back(index_of(i));
  }
  std::string text;
  for (const auto& [what, members] : groups)
    text += fmt::format("{}threads {} {}", text.empty() ? "" : "; ", ranges(members), what);
  return text;
}

}  // namespace sparsmith
