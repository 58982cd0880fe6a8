// The one hash of the project: 128-bit XXH3, written as 32 hexadecimal digits. Not cryptographic: it tells
// contents apart and finds damage; it does not defend against a forger.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sparsmith {

std::string hash_bytes(std::span<const std::byte> bytes);
std::string hash_text(std::string_view text);
std::uint64_t hash64(std::string_view text);

}  // namespace sparsmith
