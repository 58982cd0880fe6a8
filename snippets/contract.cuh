// What a snippet states about itself, where the compiler can check it.
//
//   template <int kLanes> struct ShuffleReduction {
//     SPARSMITH_ROLE(reduction)                       // prolog, reduction, epilog or kernel
//     SPARSMITH_TUNE(kLanes, 1, 2, 4, 8, 16, 32)      // the values that this template parameter may take
//     static_assert(kLanes <= 32, "a shuffle stays inside a warp");
//
// A value outside the list fails to compile, under NVRTC as well. The snippet compiler reads the same lines
// as annotations. (An attribute on a template parameter itself would be dropped silently by clang; so the
// annotation sits on a member and names the parameter.)
#pragma once

namespace sparsmith {

// Whether kValue is among kValues. No function, which NVRTC would take for one of the host.
template <class T, T kValue, T... kValues>
constexpr bool one_of = ((kValue == kValues) || ...);

}  // namespace sparsmith

#ifdef SPARSMITH_CATALOGUE
#define SPARSMITH_ROLE(role) [[clang::annotate("sparsmith.role", #role)]] static void sparsmith_role();
#define SPARSMITH_TUNE(parameter, ...) \
  [[clang::annotate("sparsmith.tune", #parameter, __VA_ARGS__)]] static void sparsmith_tune_##parameter();
#else
#define SPARSMITH_ROLE(role)
#define SPARSMITH_TUNE(parameter, ...)                                            \
  static_assert(::sparsmith::one_of<decltype(parameter), parameter, __VA_ARGS__>, \
                #parameter " is one of " #__VA_ARGS__);
#endif
