#include "matrix/dense_matrix.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/count_bits.h"
#include "base/half.h"
#include "matrix/csr_memory.h"

namespace sparsmith {
namespace {

template <class Bits>
Bits load(const std::byte* data) {
  Bits bits;
  std::memcpy(&bits, data, sizeof(Bits));
  return bits;
}

// How an element type spells zero and not-a-number: `kMagnitude` drops the sign, and a number whose bits of
// `kExponent` are all set is not finite.
struct Fp32 {
  using Bits = std::uint32_t;
  static constexpr Bits kMagnitude = 0x7FFFFFFF;
  static constexpr Bits kExponent = 0x7F800000;
  static float value(Bits bits) { return std::bit_cast<float>(bits); }
};
struct Fp16 {
  using Bits = std::uint16_t;
  static constexpr Bits kMagnitude = 0x7FFF;
  static constexpr Bits kExponent = 0x7C00;
  static float value(Bits bits) { return float_from_fp16(bits); }
};
struct Bf16 {
  using Bits = std::uint16_t;
  static constexpr Bits kMagnitude = 0x7FFF;
  static constexpr Bits kExponent = 0x7F80;
  static float value(Bits bits) { return float_from_bf16(bits); }
};

// body(Element()) with the element type.
template <class Body>
auto with_element(DataType type, const Body& body) {
  if (type == DataType::kFloat16) return body(Fp16());
  if (type == DataType::kBFloat16) return body(Bf16());
  return body(Fp32());
}

#ifdef __SSE2__

// Sixteen elements: a bit for each that is not zero; not_finite collects lanes of infinities and NaNs.
template <class Element>
std::uint32_t sixteen(const std::byte* data, __m128i& not_finite) {
  const __m128i zero = _mm_setzero_si128();
  const auto* vectors = reinterpret_cast<const __m128i*>(data);
  __m128i zeros;  // a byte an element
  if constexpr (sizeof(typename Element::Bits) == 2) {
    const __m128i magnitude = _mm_set1_epi16(static_cast<short>(Element::kMagnitude));
    const __m128i exponent = _mm_set1_epi16(static_cast<short>(Element::kExponent));
    const __m128i a = _mm_loadu_si128(vectors);
    const __m128i b = _mm_loadu_si128(vectors + 1);
    not_finite = _mm_or_si128(not_finite, _mm_cmpeq_epi16(_mm_and_si128(a, exponent), exponent));
    not_finite = _mm_or_si128(not_finite, _mm_cmpeq_epi16(_mm_and_si128(b, exponent), exponent));
    zeros = _mm_packs_epi16(_mm_cmpeq_epi16(_mm_and_si128(a, magnitude), zero),
                            _mm_cmpeq_epi16(_mm_and_si128(b, magnitude), zero));
  } else {
    const __m128i magnitude = _mm_set1_epi32(static_cast<int>(Element::kMagnitude));
    const __m128i exponent = _mm_set1_epi32(static_cast<int>(Element::kExponent));
    __m128i is_zero[4];
    for (int i = 0; i < 4; ++i) {
      const __m128i v = _mm_loadu_si128(vectors + i);
      not_finite = _mm_or_si128(not_finite, _mm_cmpeq_epi32(_mm_and_si128(v, exponent), exponent));
      is_zero[i] = _mm_cmpeq_epi32(_mm_and_si128(v, magnitude), zero);
    }
    zeros = _mm_packs_epi16(_mm_packs_epi32(is_zero[0], is_zero[1]), _mm_packs_epi32(is_zero[2], is_zero[3]));
  }
  return static_cast<std::uint32_t>(_mm_movemask_epi8(zeros)) ^ 0xFFFFU;
}

#endif

template <class Element>
bool mask_of_row(const std::byte* data, std::int64_t cols, std::uint64_t* mask) {
  using Bits = typename Element::Bits;
  std::int64_t column = 0;
  bool finite = true;
#ifdef __SSE2__
  __m128i not_finite = _mm_setzero_si128();
  for (; column + 64 <= cols; column += 64) {
    const std::byte* at = data + column * sizeof(Bits);
    std::uint64_t word = 0;
    for (int part = 0; part < 4; ++part) {
      word |= static_cast<std::uint64_t>(sixteen<Element>(at + part * 16 * sizeof(Bits), not_finite)) << (16 * part);
    }
    mask[column / 64] = word;
  }
  finite = _mm_movemask_epi8(not_finite) == 0;
#endif
  for (; column < cols; column += 64) {
    std::uint64_t word = 0;
    for (std::int64_t bit = 0; bit < 64 && column + bit < cols; ++bit) {
      const Bits bits = load<Bits>(data + (column + bit) * sizeof(Bits));
      word |= static_cast<std::uint64_t>((bits & Element::kMagnitude) != 0) << bit;
      finite = finite && (bits & Element::kExponent) != Element::kExponent;
    }
    mask[column / 64] = word;
  }
  return finite;
}

// The columns of a row that the mask names, and what stands there.
template <class Element>
void take_nonzeros(const std::byte* data, std::span<const std::uint64_t> mask, std::uint32_t* columns, float* values) {
  using Bits = typename Element::Bits;
  std::ptrdiff_t count = 0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    for (std::uint64_t word = mask[i]; word != 0; word &= word - 1) {
      const std::size_t column = i * 64 + static_cast<std::size_t>(std::countr_zero(word));
      columns[count] = static_cast<std::uint32_t>(column);
      values[count] = Element::value(load<Bits>(data + column * sizeof(Bits)));
      ++count;
    }
  }
}

}  // namespace

float DenseMatrix::element(std::int64_t row, std::int64_t column) const {
  const std::byte* at =
      data + static_cast<std::size_t>(row) * row_bytes() + static_cast<std::size_t>(column) * size_of(data_type);
  return with_element(data_type, [at](auto element) {
    using Element = decltype(element);
    return Element::value(load<typename Element::Bits>(at));
  });
}

bool nonzero_mask(const DenseMatrix& matrix, std::int64_t row, std::uint64_t* mask) {
  const std::byte* data = matrix.data + static_cast<std::size_t>(row) * matrix.row_bytes();
  return with_element(matrix.data_type,
                      [&](auto element) { return mask_of_row<decltype(element)>(data, matrix.cols, mask); });
}

void read_row(const DenseMatrix& matrix, std::int64_t row, float* elements) {
  const std::byte* data = matrix.data + static_cast<std::size_t>(row) * matrix.row_bytes();
  with_element(matrix.data_type, [&](auto element) {
    using Element = decltype(element);
    for (std::int64_t column = 0; column < matrix.cols; ++column)
      elements[column] = Element::value(load<typename Element::Bits>(data + column * sizeof(typename Element::Bits)));
  });
}

Status not_finite_error(const DenseMatrix& matrix, std::int64_t row) {
  for (std::int64_t column = 0; column < matrix.cols; ++column) {
    const float value = matrix.element(row, column);
    if (!std::isfinite(value)) {
      return invalid_input(
          fmt::format("the element in row {}, column {} is {}; a weight must be finite", row, column, value));
    }
  }
  return internal_error("a row was called not finite and is");
}

Result<CsrMatrix> csr_from_dense(const DenseMatrix& matrix, std::int64_t max_bytes) {
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(matrix.rows, matrix.cols));
  CsrMatrix csr{{matrix.rows, matrix.cols}, matrix.data_type};
  SPARSMITH_RETURN_IF_ERROR(check_csr_memory(matrix.rows, 0, max_bytes));
  csr.row_offsets.assign(matrix.rows + 1, 0);
  std::vector<std::uint64_t> mask((matrix.cols + 63) / 64);
  // A first pass counts, so that the second fills memory of exactly the right size.
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    if (!nonzero_mask(matrix, row, mask.data())) return not_finite_error(matrix, row);
    std::int64_t length = 0;
    for (const std::uint64_t word : mask) length += count_bits(word);
    csr.row_offsets[row + 1] = csr.row_offsets[row] + length;
  }
  SPARSMITH_RETURN_IF_ERROR(check_csr_memory(matrix.rows, csr.row_offsets.back(), max_bytes));
  csr.column_indices.resize(csr.row_offsets.back());
  csr.values.resize(csr.row_offsets.back());
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    nonzero_mask(matrix, row, mask.data());
    const std::byte* data = matrix.data + static_cast<std::size_t>(row) * matrix.row_bytes();
    const std::int64_t first = csr.row_offsets[row];
    with_element(matrix.data_type, [&](auto element) {
      take_nonzeros<decltype(element)>(data, mask, csr.column_indices.data() + first, csr.values.data() + first);
    });
  }
  return csr;
}

}  // namespace sparsmith
