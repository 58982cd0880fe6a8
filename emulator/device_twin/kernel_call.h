// How the emulator calls a kernel: the arguments come as an array of addresses.
#pragma once

namespace sparsmith_emulator {

template <class... Types>
struct Parameters {
  static constexpr int count = sizeof...(Types);
  // Bytes of each parameter, then a 0.
  static constexpr int bytes[count + 1] = {static_cast<int>(sizeof(Types))..., 0};
};
template <class... Types>
constexpr Parameters<Types...> parameters_of(void (*)(Types...)) {
  return {};
}

#define SPARSMITH_UNCHECKED __attribute__((no_sanitize("thread")))
template <class... Types, class... Loaded>
SPARSMITH_UNCHECKED inline void call(void (*kernel)(Types...), const void* const*, Parameters<>, Loaded... loaded) {
  kernel(loaded...);
}
template <class Kernel, class First, class... Rest, class... Loaded>
SPARSMITH_UNCHECKED inline void call(Kernel kernel, const void* const* next, Parameters<First, Rest...>,
                                     Loaded... loaded) {
  call(kernel, next + 1, Parameters<Rest...>{}, loaded..., *static_cast<const First*>(*next));
}

}  // namespace sparsmith_emulator
