// Vectors of very many numbers: new elements have no value yet, so that memory is first touched by those who fill it,
// several threads perhaps, and the system may give it in large pages.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace sparsmith {

template <class T>
struct LargeAllocator : std::allocator<T> {
  template <class Other>
  struct rebind {
    using other = LargeAllocator<Other>;
  };
  LargeAllocator() = default;
  template <class Other>
  explicit LargeAllocator(const LargeAllocator<Other>& /*other*/) noexcept {}

  T* allocate(std::size_t count) {
    constexpr std::size_t kPage = std::size_t{2} << 20;
    if (count > std::size_t(-1) / sizeof(T) - kPage) throw std::bad_array_new_length();
    const std::size_t bytes = count * sizeof(T);
    const bool large = bytes >= 4 * kPage;
    void* const made = large ? std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage) : std::malloc(bytes);
    if (made == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (large) madvise(made, bytes, MADV_HUGEPAGE);  // else pages are small
#endif
    return static_cast<T*>(made);
  }
  void deallocate(T* made, std::size_t /*count*/) noexcept { std::free(made); }

  template <class Element>
  void construct(Element* at) noexcept {
    ::new (static_cast<void*>(at)) Element;
  }
  template <class Element, class... Arguments>
  void construct(Element* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) Element(std::forward<Arguments>(arguments)...);
  }
};

template <class T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace sparsmith
