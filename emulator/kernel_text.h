// The form of a kernel text that a CPU compiler sees, and the symbols that the compiled text and the emulator share.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sparsmith {

// A header that the text may include: a header of emulator/device_twin/, by its path relative to the repository root. A
// 0 follows the header's text.
struct TwinHeader {
  std::string_view path;
  std::string_view text;
};
std::span<const TwinHeader> device_twins();

// `source`, followed by the function kernel_entry_symbol(), which calls `kernel`, and the array
// kernel_parameters_symbol() of its parameters' sizes. Lines of `source` keep their numbers.
std::string text_with_entry(const std::string& kernel, const std::string& source);

inline constexpr const char* kernel_entry_symbol() { return "sparsmith_emulator_entry"; }
inline constexpr const char* kernel_parameters_symbol() { return "sparsmith_emulator_parameter_bytes"; }

// A function that compiled kernel text calls: a function of device_twin/, a callback of -fsanitize=thread, or a
// function such as memcpy, which the compiler calls on its own. Compilers bind the symbol to this address.
struct EntryPoint {
  std::string symbol;
  void* address = nullptr;
  bool does_nothing = false;
};

// All entry points, in a fixed order.
std::span<const EntryPoint> entry_points();

}  // namespace sparsmith
