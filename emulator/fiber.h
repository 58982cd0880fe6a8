// Stacks of fibers, and the switch between them.
//
// A fiber is abandoned by never switching to it again: nothing is unwound. Emulated threads need this, and their state
// is trivially destructible. Boost's own fiber class does not offer it, so this file uses Boost's lower layer.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <memory>

#include "sparsmith/status.h"

#if defined(__SANITIZE_ADDRESS__)
#define SPARSMITH_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPARSMITH_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef SPARSMITH_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace sparsmith {

// `count` stacks in one mapping, each with a guard page below it.
class FiberStacks {
 public:
  static constexpr std::size_t kStackBytes = 64 * 1024;

  static Result<std::unique_ptr<FiberStacks>> create(int count);
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  int count() const { return count_; }
  std::byte* bottom(int i) const {
    return pages_ + static_cast<std::size_t>(i) * (kStackBytes + kGuardBytes) + kGuardBytes;
  }
  // The start of stack i (stacks grow down). Stacks start at different offsets in a page; otherwise the tops of all
  // stacks would share a few sets of the first-level cache.
  std::byte* top(int i) const { return bottom(i) + kStackBytes - static_cast<std::size_t>(i % 16) * 256; }

 private:
  static constexpr std::size_t kGuardBytes = 4096;
  FiberStacks(std::byte* pages, int count) : pages_(pages), count_(count) {}

  std::byte* pages_;
  int count_;
};

// A context to switch to and back from. The first fiber stands for the thread that starts the others.
class Fiber {
 public:
  using Body = void (*)(boost::context::detail::transfer_t);

  // Makes this a fiber that runs `body` on the given stack after the first switch to it. `body` must first call
  // arrived() with its argument, and must never return.
  void prepare(std::byte* bottom, std::byte* top, Body body) {
    bottom_ = bottom;
    bytes_ = static_cast<std::size_t>(top - bottom);
    context_ = boost::context::detail::make_fcontext(top, bytes_, body);
#ifdef SPARSMITH_ADDRESS_SANITIZER
    fake_stack_ = nullptr;
    // An abandoned fiber has left its frames on the stack, and the sanitizer's marks around their variables.
    __asan_unpoison_memory_region(bottom_, bytes_);
#endif
  }

  // Switches from `this`, which runs, to `to`. Returns after a switch back. `forever`: there is no switch back.
  void switch_to(Fiber& to, bool forever = false) {
#ifdef SPARSMITH_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(forever ? nullptr : &fake_stack_, to.bottom_, to.bytes_);
#else
    (void)forever;
#endif
    arrived(boost::context::detail::jump_fcontext(to.context_, this), this);
  }

  // The first call on a fiber after a switch to it: notes where the other fiber stopped.
  static void arrived(boost::context::detail::transfer_t from, Fiber* self) {
    auto* other = static_cast<Fiber*>(from.data);
    other->context_ = from.fctx;
#ifdef SPARSMITH_ADDRESS_SANITIZER
    const void* bottom = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(self == nullptr ? nullptr : self->fake_stack_, &bottom, &bytes);
    if (other->bottom_ == nullptr) {  // the thread's own stack, which only the sanitizer knows
      other->bottom_ = static_cast<const std::byte*>(bottom);
      other->bytes_ = bytes;
    }
#else
    (void)self;
#endif
  }

 private:
  boost::context::detail::fcontext_t context_ = nullptr;
  const std::byte* bottom_ = nullptr;
  std::size_t bytes_ = 0;
#ifdef SPARSMITH_ADDRESS_SANITIZER
  void* fake_stack_ = nullptr;
#endif
};

}  // namespace sparsmith
