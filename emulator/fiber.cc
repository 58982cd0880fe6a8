#include "emulator/fiber.h"

#include <fmt/format.h>
#include <sys/mman.h>

namespace sparsmith {

Result<std::unique_ptr<FiberStacks>> FiberStacks::create(int count) {
  const std::size_t each = kStackBytes + kGuardBytes;
  void* pages = mmap(nullptr, each * static_cast<std::size_t>(count), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (pages == MAP_FAILED) return out_of_memory(fmt::format("no memory for the stacks of {} emulated threads", count));
  std::unique_ptr<FiberStacks> stacks(new FiberStacks(static_cast<std::byte*>(pages), count));
  for (int i = 0; i < count; ++i) {
    if (mprotect(stacks->bottom(i) - kGuardBytes, kGuardBytes, PROT_NONE) != 0) {
      return out_of_memory("no guard page for the stack of an emulated thread");
    }
  }
  return stacks;
}

FiberStacks::~FiberStacks() { munmap(pages_, (kStackBytes + kGuardBytes) * static_cast<std::size_t>(count_)); }

}  // namespace sparsmith
