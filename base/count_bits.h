// Bits that are set, without a call: std::popcount is one where the compiler may not use the instruction.
#pragma once

#include <cstdint>
#include <span>

namespace sparsmith {

inline std::int64_t count_bits(std::uint64_t word) {
  word -= (word >> 1) & 0x5555555555555555;                                 // in two bits each
  word = (word & 0x3333333333333333) + ((word >> 2) & 0x3333333333333333);  // in four
  word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0F;                         // in eight
  return static_cast<std::int64_t>((word * 0x0101010101010101) >> 56);
}

inline std::int64_t count_bits(std::span<const std::uint64_t> words) {
  std::int64_t bits = 0;
  for (const std::uint64_t word : words) bits += count_bits(word);
  return bits;
}

}  // namespace sparsmith
