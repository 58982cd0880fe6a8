// Products of sparse tensor cores, of ThreadBlock: a warp's lanes meet, and bring their parts of the operands.
#include <fmt/format.h>

#include "base/half.h"
#include "emulator/thread_block.h"

namespace sparsmith {
namespace {

float value_of(std::uint32_t word, std::uint32_t half, bool bfloat16) {
  const auto bits = static_cast<std::uint16_t>(word >> (16 * half));
  return bfloat16 ? float_from_bf16(bits) : float_from_fp16(bits);
}

}  // namespace

void ThreadBlock::multiply_sparse_matrices(const SparseFragments& fragments, int line) {
  shuffle(ShuffleKind::kSparseMatrices, reinterpret_cast<std::uint64_t>(&fragments), 0, ~std::uint32_t{0}, line);
}

// d += a b as mma.sp.m16n8k32 lays it out: tensor_cores.cuh says which lane holds what. Only what the metadata names is
// multiplied. Products are exact, sums are fp32 in the order of k; the hardware adds in an order of its own.
void ThreadBlock::add_sparse_product(const std::array<std::uint64_t, kWarp>& fragments) {
  constexpr std::size_t kColumns = 8;
  const auto part = [&](std::size_t lane) { return reinterpret_cast<const SparseFragments*>(fragments[lane]); };
  const bool bfloat16 = part(0)->bfloat16;
  const int pair = part(0)->pair;
  std::array<std::array<float, kColumns>, 32> b;
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    const SparseFragments& own = *part(lane);
    if (own.bfloat16 != bfloat16 || own.pair != pair)
      fail([&] { return "sparse products of different kinds meet: " + describe_waiting(); });
    for (std::uint32_t i = 0; i < 8; ++i)
      b[lane % 4 * 2 + i / 2 * 8 + i % 2][lane / 4] = value_of(own.b[i / 2], i % 2, bfloat16);
  }
  std::array<std::array<float, kColumns>, 16> sums;
  const auto sum_of = [&](std::size_t lane, std::size_t i) -> float& {
    return sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  };
  for (std::size_t lane = 0; lane < kWarp; ++lane)
    for (std::size_t i = 0; i < 4; ++i) sum_of(lane, i) = part(lane)->d[i];
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t group = 0; group < 8; ++group) {
      const std::size_t quad = row % 8 * 4;
      const std::size_t source = quad + static_cast<std::size_t>(pair) * 2 + group / 4;
      const std::uint32_t places = part(source)->metadata >> (row / 8 * 16 + group % 4 * 4) & 0xFU;
      if ((places & 3U) >= places >> 2) {
        fail([&] {
          return fmt::format("the metadata of lane {} names elements {} and {} of a group: row {}, group {}", source,
                             places & 3U, places >> 2, row, group);
        });
      }
      const std::uint32_t values = part(quad + group % 4)->a[row / 8 + group / 4 * 2];
      for (std::uint32_t e = 0; e < 2; ++e) {
        const float value = value_of(values, e, bfloat16);
        const auto& other = b[group * 4 + (places >> (2 * e) & 3U)];
        for (std::size_t column = 0; column < kColumns; ++column) sums[row][column] += value * other[column];
      }
    }
  }
  for (std::size_t lane = 0; lane < kWarp; ++lane)
    for (std::size_t i = 0; i < 4; ++i) part(lane)->d[i] = sum_of(lane, i);
}

}  // namespace sparsmith
