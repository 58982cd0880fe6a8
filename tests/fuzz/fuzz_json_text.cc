// Any text: a tree only where the JSON library makes the same tree; shown, no character of it moves a cursor.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json_text.h"
#include "base/printable.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string shown = sparsmith::printable(text);
  if (std::ranges::any_of(shown, [](unsigned char c) { return c < 0x20 || c == 0x7F; })) std::abort();
  if (sparsmith::printable(shown) != shown) std::abort();
  const auto parsed = sparsmith::parse_json(text);
  if (parsed.ok() && *parsed != nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false)) std::abort();
  return 0;
}
