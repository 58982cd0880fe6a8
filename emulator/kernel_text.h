// What a kernel text becomes before a CPU compiler sees it, and the names through which both sides meet.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sparsmith {

// What the text may include: a header of emulator/device_twin/ by its path relative to the repository root. A 0 follows
// the header's text.
struct TwinHeader {
  std::string_view path;
  std::string_view text;
};
std::span<const TwinHeader> device_twins();

// `source` with, behind it, the function kernel_entry_symbol() that calls `kernel` and the array
// kernel_parameters_symbol() of its parameters' sizes. Lines of `source` keep their numbers.
std::string text_with_entry(const std::string& kernel, const std::string& source);

inline constexpr const char* kernel_entry_symbol() { return "sparsmith_emulator_entry"; }
inline constexpr const char* kernel_parameters_symbol() { return "sparsmith_emulator_parameter_bytes"; }

}  // namespace sparsmith
