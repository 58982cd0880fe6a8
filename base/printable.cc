#include "base/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace sparsmith {
namespace {

// One character at the beginning of a text: its bytes and its number. 0 bytes: no UTF-8.
struct Character {
  std::size_t bytes = 0;
  std::uint32_t code = 0;
};

Character first_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {1, lead};
  const std::size_t bytes = lead >= 0xF0 && lead < 0xF5 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
  if (bytes == 0 || lead >= 0xF5 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0U) != 0x80) return {};
    code = code << 6U | (next & 0x3FU);
  }
  const bool too_long = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  if (too_long || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {bytes, code};
}

bool is_shown(std::uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029;
  const bool direction =
      code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return !control && !direction;
}

std::string escaped(std::string_view text, bool lines) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto [bytes, code] = first_of(text);
    const std::size_t taken = bytes == 0 ? 1 : bytes;
    if (bytes == 0) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (is_shown(code) || (lines && (code == '\n' || code == '\t'))) {
      result += text.substr(0, taken);
    } else {
      result += code < 0x80 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
    }
    text.remove_prefix(taken);
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, /*lines=*/false); }
std::string printable_lines(std::string_view text) { return escaped(text, /*lines=*/true); }

}  // namespace sparsmith
