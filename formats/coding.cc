#include "formats/coding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"

namespace sparsmith {
namespace {

// A value is code * 2^(scale - kBias): an exponent as E8M0 has it, and six bits behind the point of a code.
constexpr std::int64_t kGroup = 32;
constexpr int kBias = 127 + 6;
constexpr int kMostCode = 127;

// The scales whose codes are all values of the type, and finite.
struct ScaleRange {
  int least;
  int most;
};
ScaleRange scales_of(DataType type) {
  switch (type) {
    case DataType::kFloat16: return {kBias - 24, kBias + 9};
    default: return {7, 254};  // kernels make a normal number of the scale
  }
}

// Of a group of values.
int scale_of(std::span<const float> values, ScaleRange range) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  if (!std::isfinite(most)) return 0;  // which no packer writes
  return most == 0 ? range.least : std::clamp(std::ilogb(most) + 127, range.least, range.most);
}

// Of a weight that holds nothing.
std::vector<std::byte> least_scales(const SparsityPattern& pattern, ScaleRange range) {
  return std::vector<std::byte>(pattern.rows * ceil_div(pattern.cols, kGroup), static_cast<std::byte>(range.least));
}

// Calls visit(values, place of their scale) for each group with nonzeros.
template <class Visit>
void each_group(CsrMatrix& matrix, const Visit& visit) {
  const std::int64_t groups = ceil_div(matrix.cols, kGroup);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const std::int64_t row_end = matrix.row_offsets[row + 1];
    for (std::int64_t begin = matrix.row_offsets[row]; begin < row_end;) {
      const std::int64_t group = matrix.column_indices[begin] / kGroup;
      std::int64_t end = begin;
      while (end < row_end && matrix.column_indices[end] / kGroup == group) ++end;
      visit(std::span(matrix.values).subspan(begin, end - begin), static_cast<std::size_t>(row * groups + group));
      begin = end;
    }
  }
}

CodedWeight encode_mxint8(const CsrMatrix& matrix, DataType type) {
  const ScaleRange range = scales_of(type);
  CodedWeight coded{matrix, least_scales(matrix, range)};
  each_group(coded.codes, [&](std::span<float> values, std::size_t place) {
    const int scale = scale_of(values, range);
    for (float& value : values)
      value = std::clamp<float>(std::nearbyint(std::ldexp(value, kBias - scale)), -kMostCode, kMostCode) + 0.0F;
    coded.scales[place] = static_cast<std::byte>(scale);
  });
  return coded;
}

Result<CsrMatrix> decode_mxint8(CsrMatrix codes, std::span<const std::byte> scales, DataType type) {
  const ScaleRange range = scales_of(type);
  std::vector<std::byte> expected = least_scales(codes, range);
  each_group(codes, [&](std::span<float> values, std::size_t place) {
    const int exponent = std::to_integer<int>(scales[place]) - kBias;
    for (float& value : values) value = std::ldexp(value, exponent);
    expected[place] = static_cast<std::byte>(scale_of(values, range));
  });
  const auto wrong = std::ranges::mismatch(scales, expected);
  if (wrong.in1 != scales.end())
    return invalid_input(fmt::format("scale {} is {}, where packers write {}", wrong.in1 - scales.begin(),
                                     std::to_integer<int>(*wrong.in1), std::to_integer<int>(*wrong.in2)));
  codes.data_type = type;
  return codes;
}

}  // namespace

std::int64_t Coding::scales_of_row(std::int64_t cols) const { return ceil_div(cols, group); }

std::span<const Coding> codings() {
  static constexpr Coding kCodings[] = {
      {"mxint8", DataType::kInt8, DataType::kUint8, kGroup, encode_mxint8, decode_mxint8},
  };
  return kCodings;
}

const Coding* coding_of(std::string_view packing) {
  const std::string_view last = packing.substr(packing.rfind('_') + 1);
  const auto found = std::ranges::find(codings(), last, &Coding::name);
  return found == codings().end() ? nullptr : &*found;
}

std::string_view without_coding(std::string_view packing) {
  const Coding* const coding = coding_of(packing);
  return coding == nullptr ? packing : packing.substr(0, packing.size() - coding->name.size() - 1);
}

}  // namespace sparsmith
