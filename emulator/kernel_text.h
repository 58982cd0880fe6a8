// What a kernel text becomes before a CPU compiler sees it, and the names through which both sides meet.
#pragma once

#include <string>
#include <string_view>

namespace sparsmith {

// Contents of emulator/device_twin.h, which the text includes. A 0 follows them.
std::string_view device_twin_text();

// `source` with, behind it, the function kernel_entry_symbol() that calls `kernel` and the array
// kernel_parameters_symbol() of its parameters' sizes. Lines of `source` keep their numbers.
std::string text_with_entry(const std::string& kernel, const std::string& source);

inline constexpr const char* kernel_entry_symbol() { return "sparsmith_emulator_entry"; }
inline constexpr const char* kernel_parameters_symbol() { return "sparsmith_emulator_parameter_bytes"; }

}  // namespace sparsmith
