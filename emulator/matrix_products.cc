// Products of matrices by a warp's tensor cores, of ThreadBlock: its lanes meet, and bring their parts of the operands.
#include <fmt/format.h>

#include "emulator/thread_block.h"

namespace sparsmith {
namespace {

// Bits in fp16 or bfloat16.
template <std::size_t kCount>
std::array<float, kCount> floats_of(const std::array<std::uint16_t, kCount>& bits, bool bfloat16) {
  std::array<float, kCount> values;
  std::ranges::transform(bits, values.begin(), [&](std::uint16_t each) { return half_value(each, bfloat16); });
  return values;
}

std::uint16_t half_of(std::uint32_t word, std::size_t half) { return static_cast<std::uint16_t>(word >> (16 * half)); }

// Where lane `lane` holds the i-th of its sums.
template <std::size_t kRows, std::size_t kColumns>
float& sum_of(std::array<std::array<float, kColumns>, kRows>& sums, std::size_t lane, std::size_t i) {
  return sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

}  // namespace

// d += a b as mma.m16n8k16 lays it out: lane 4 g + t holds of a the rows g, g + 8 and of b and d what the twin says.
// Products are exact, sums are fp32 in the order of k; the hardware adds in an order of its own.
void ThreadBlock::add_matrix_product(const std::array<std::uint64_t, kWarp>& fragments) {
  constexpr std::size_t kRows = 16;
  constexpr std::size_t kColumns = 8;
  constexpr std::size_t kDepth = 16;
  const auto part = [&](std::size_t lane) { return reinterpret_cast<const MatrixFragments*>(fragments[lane]); };
  const bool bfloat16 = part(0)->bfloat16;
  std::array<std::uint16_t, kRows * kDepth> a_bits;
  std::array<std::uint16_t, kDepth * kColumns> b_bits;
  std::array<std::array<float, kColumns>, kRows> sums;
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    const MatrixFragments& own = *part(lane);
    if (own.bfloat16 != bfloat16) fail([&] { return "products of different types meet: " + describe_waiting(); });
    const std::size_t group = lane / 4;
    const std::size_t pair = lane % 4 * 2;
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t i = 0; i < 4; ++i)
        a_bits[(group + i % 2 * 8) * kDepth + pair + i / 2 * 8 + h] = half_of(own.a[i], h);
      for (std::size_t i = 0; i < 2; ++i) b_bits[(pair + i * 8 + h) * kColumns + group] = half_of(own.b[i], h);
    }
    for (std::size_t i = 0; i < 4; ++i) sum_of(sums, lane, i) = own.d[i];
  }
  const auto a = floats_of(a_bits, bfloat16);
  const auto b = floats_of(b_bits, bfloat16);
  for (std::size_t row = 0; row < kRows; ++row) {
    std::array<float, kColumns> of_row = sums[row];
    for (std::size_t k = 0; k < kDepth; ++k) {
      for (std::size_t column = 0; column < kColumns; ++column)
        of_row[column] += a[row * kDepth + k] * b[k * kColumns + column];
    }
    sums[row] = of_row;
  }
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) part(lane)->d[i] = sum_of(sums, lane, i);
  }
}

void ThreadBlock::multiply_matrices(float* d, const std::uint32_t* a, const std::uint32_t* b, bool bfloat16) {
  const MatrixFragments fragments{d, a, b, bfloat16};
  shuffle(ShuffleKind::kMatrices, reinterpret_cast<std::uint64_t>(&fragments), 0, ~std::uint32_t{0});
}

void ThreadBlock::multiply_sparse_matrices(float* d, const std::uint32_t* a, const std::uint32_t* b,
                                           std::uint32_t metadata, int pair, bool bfloat16) {
  const MatrixFragments fragments{d, a, b, bfloat16, metadata, pair};
  shuffle(ShuffleKind::kSparseMatrices, reinterpret_cast<std::uint64_t>(&fragments), 0, ~std::uint32_t{0});
}

std::array<ThreadBlock::SparseElement, 16> ThreadBlock::sparse_row(std::size_t row, const FragmentsOfA& a,
                                                                   const std::array<std::uint32_t, kWarp>& metadata,
                                                                   int pair, bool bfloat16) {
  std::array<SparseElement, 16> elements;
  const std::size_t quad = row % 8 * 4;
  for (std::size_t group = 0; group < 8; ++group) {
    const std::size_t source = quad + static_cast<std::size_t>(pair) * 2 + group / 4;
    const std::uint32_t places = metadata[source] >> (row / 8 * 16 + group % 4 * 4) & 0xFU;
    if ((places & 3U) >= places >> 2) {
      fail([&] {
        return fmt::format("the metadata of lane {} names elements {} and {} of a group: row {}, group {}", source,
                           places & 3U, places >> 2, row, group);
      });
    }
    const std::uint32_t values = a[quad + group % 4][row / 8 + group / 4 * 2];
    for (std::uint32_t e = 0; e < 2; ++e)
      elements[group * 2 + e] = {group * 4 + (places >> (2 * e) & 3U), half_value(values >> (16 * e), bfloat16)};
  }
  return elements;
}

// d += a b as mma.sp.m16n8k32 lays it out: tensor_cores.cuh says which lane holds what. Only what the metadata names is
// multiplied. Products are exact, sums are fp32 in the order of k; the hardware adds in an order of its own.
void ThreadBlock::add_sparse_product(const std::array<std::uint64_t, kWarp>& fragments) {
  constexpr std::size_t kColumns = 8;
  const auto part = [&](std::size_t lane) { return reinterpret_cast<const MatrixFragments*>(fragments[lane]); };
  const bool bfloat16 = part(0)->bfloat16;
  const int pair = part(0)->pair;
  std::array<std::array<float, kColumns>, 32> b;
  FragmentsOfA a;
  std::array<std::uint32_t, kWarp> metadata;
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    const MatrixFragments& own = *part(lane);
    if (own.bfloat16 != bfloat16 || own.pair != pair)
      fail([&] { return "sparse products of different kinds meet: " + describe_waiting(); });
    for (std::uint32_t i = 0; i < 8; ++i)
      b[lane % 4 * 2 + i / 2 * 8 + i % 2][lane / 4] = half_value(own.b[i / 2] >> (16 * (i % 2)), bfloat16);
    std::copy_n(own.a, 4, a[lane].begin());
    metadata[lane] = own.metadata;
  }
  std::array<std::array<float, kColumns>, 16> sums;
  for (std::size_t lane = 0; lane < kWarp; ++lane)
    for (std::size_t i = 0; i < 4; ++i) sum_of(sums, lane, i) = part(lane)->d[i];
  for (std::size_t row = 0; row < 16; ++row) {
    for (const auto& [k, value] : sparse_row(row, a, metadata, pair, bfloat16))
      for (std::size_t column = 0; column < kColumns; ++column) sums[row][column] += value * b[k][column];
  }
  for (std::size_t lane = 0; lane < kWarp; ++lane)
    for (std::size_t i = 0; i < 4; ++i) part(lane)->d[i] = sum_of(sums, lane, i);
}

}  // namespace sparsmith
