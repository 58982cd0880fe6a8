#include "matrix/synthesis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/half.h"
#include "matrix/random_values.h"
#include "matrix/text_fields.h"

namespace sparsmith {
namespace {

using Kind = SynthesisPattern::Kind;

constexpr std::int64_t kMaxElements = std::int64_t{1} << 33;  // each is drawn: minutes, and dense 16 GB in fp16

// Independent streams of one seed.
enum Stream : std::uint64_t { kRowWeights, kColumnWeights, kElements, kSurplus, kValues, kScattered };

std::vector<double> lognormal_weights(std::int64_t count, double sigma, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<double> weights(count);
  for (double& weight : weights) weight = portable_exp(sigma * random.normal());
  return weights;
}

std::vector<double> power_weights(std::int64_t count, double exponent, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<double> weights(count);
  for (std::int64_t i = 0; i < count; ++i)
    weights[i] = portable_exp(-exponent * portable_log(static_cast<double>(i + 1)));
  for (std::int64_t i = count - 1; i > 0; --i) std::swap(weights[i], weights[random.below(i + 1)]);
  return weights;
}

// The scale s at which the expected number of nonzeros, the sum over i, j of min(1, s * row[i] * column[j]), is
// `target`. Sorted columns with prefix sums make one evaluation cost M log K.
double solve_scale(const std::vector<double>& row, std::vector<double> column, double target) {
  std::sort(column.begin(), column.end());
  std::vector<double> prefix(column.size() + 1, 0.0);
  for (std::size_t i = 0; i < column.size(); ++i) prefix[i + 1] = prefix[i] + column[i];
  const auto expected = [&](double scale) {
    double sum = 0;
    for (const double weight : row) {
      const double chance = scale * weight;
      const auto below =
          static_cast<std::size_t>(std::lower_bound(column.begin(), column.end(), 1 / chance) - column.begin());
      sum += chance * prefix[below] + static_cast<double>(column.size() - below);
    }
    return sum;
  };
  // Without the min the sum would be s * sum(row) * sum(column): no smaller scale can do. At `high` every chance is
  // one.
  double low = target / (std::accumulate(row.begin(), row.end(), 0.0) * prefix.back());
  double high = std::max(2 * low, 2 / (column.front() * *std::min_element(row.begin(), row.end())));
  if (target >= static_cast<double>(row.size()) * static_cast<double>(column.size())) return high;
  while (high / low > 1 + 1e-7) {
    const double middle = std::sqrt(low * high);
    (expected(middle) < target ? low : high) = middle;
  }
  return high;
}

// Appends the columns of one row: column j is taken when its 32 random bits do not exceed `limits[j]`.
void draw_row(const std::vector<std::uint32_t>& limits, std::uint64_t seed, std::uint64_t first_counter,
              std::vector<std::uint32_t>& taken, CsrMatrix& matrix) {
  const std::size_t cols = limits.size();
  // Every index is written and the end moves only past those taken: no branch to mispredict.
  std::size_t count = 0;
  for (std::size_t j = 0; j < cols; j += 2) {
    const std::uint64_t bits = random_bits(seed, first_counter + j / 2);
    taken[count] = static_cast<std::uint32_t>(j);
    count += static_cast<std::uint32_t>(bits) <= limits[j] ? 1 : 0;
    if (j + 1 < cols) {
      taken[count] = static_cast<std::uint32_t>(j + 1);
      count += static_cast<std::uint32_t>(bits >> 32) <= limits[j + 1] ? 1 : 0;
    }
  }
  matrix.column_indices.insert(matrix.column_indices.end(), taken.begin(),
                               taken.begin() + static_cast<std::ptrdiff_t>(count));
  matrix.row_offsets.push_back(matrix.nnz());
}

// Draws each element by its chance scale * row[i] * column[j].
void draw_elements(const std::vector<double>& row, const std::vector<double>& column, double scale, std::uint64_t seed,
                   CsrMatrix& matrix) {
  matrix.row_offsets.assign(1, 0);
  matrix.column_indices.clear();
  std::vector<std::uint32_t> limits(matrix.cols);
  std::vector<std::uint32_t> taken(matrix.cols + 1);
  const auto pairs = static_cast<std::uint64_t>(matrix.cols + 1) / 2;
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    const double chance = scale * row[i] * 0x1p32;
    for (std::int64_t j = 0; j < matrix.cols; ++j) {
      limits[j] = static_cast<std::uint32_t>(std::min(chance * column[j], 4294967295.0));
    }
    draw_row(limits, seed, static_cast<std::uint64_t>(i) * pairs, taken, matrix);
  }
}

// Removes `surplus` nonzeros, every choice of them alike, so that exactly the wanted number is left.
void remove_surplus(CsrMatrix& matrix, std::int64_t surplus, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<bool> removed(matrix.nnz());
  for (std::int64_t i = matrix.nnz() - surplus; i < matrix.nnz(); ++i) {
    // Floyd's sampling (Bentley and Floyd, CACM 1987): one draw for each element of the sample.
    const auto candidate = static_cast<std::int64_t>(random.below(i + 1));
    removed[removed[candidate] ? i : candidate] = true;
  }
  std::int64_t kept = 0;
  std::int64_t read = 0;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (; read < matrix.row_offsets[row + 1]; ++read) {
      if (!removed[read]) matrix.column_indices[kept++] = matrix.column_indices[read];
    }
    matrix.row_offsets[row + 1] = kept;
  }
  matrix.column_indices.resize(kept);
}

void draw_weighted(const SynthesisSpec& spec, std::int64_t target, CsrMatrix& matrix) {
  std::vector<double> row(spec.rows, 1.0);
  std::vector<double> column(spec.cols, 1.0);
  if (spec.pattern.kind == Kind::kLognormal) {
    row = lognormal_weights(spec.rows, spec.pattern.parameter, substream(spec.seed, kRowWeights));
    column = lognormal_weights(spec.cols, spec.pattern.parameter, substream(spec.seed, kColumnWeights));
  } else if (spec.pattern.kind == Kind::kPower) {
    row = power_weights(spec.rows, spec.pattern.parameter, substream(spec.seed, kRowWeights));
  }
  // A few more than wanted, so that a surplus is there to remove: four standard deviations, more if that fails.
  double margin = 4 * std::sqrt(static_cast<double>(target)) + 4;
  for (std::uint64_t attempt = 0;; ++attempt, margin *= 2) {
    const double scale = solve_scale(row, column, static_cast<double>(target) + margin);
    matrix.column_indices.reserve(static_cast<double>(target) + 2 * margin);
    draw_elements(row, column, scale, substream(substream(spec.seed, kElements), attempt), matrix);
    if (matrix.nnz() >= target) break;
  }
  remove_surplus(matrix, matrix.nnz() - target, substream(spec.seed, kSurplus));
}

// Takes `wanted` of `total` numbers in ascending order, every choice alike (Knuth's algorithm S).
class SelectionSampler {
 public:
  SelectionSampler(std::int64_t total, std::int64_t wanted, std::uint64_t seed)
      : left_(total), wanted_(wanted), random_(seed) {}
  bool take_next() {
    const bool take = static_cast<std::int64_t>(random_.below(left_)) < wanted_;
    --left_;
    wanted_ -= take ? 1 : 0;
    return take;
  }

 private:
  std::int64_t left_;
  std::int64_t wanted_;
  RandomStream random_;
};

void draw_blocks(const SynthesisSpec& spec, CsrMatrix& matrix) {
  const auto height = static_cast<std::int64_t>(spec.pattern.parameter);
  const auto width = static_cast<std::int64_t>(spec.pattern.block_columns);
  const std::int64_t block_rows = (spec.rows + height - 1) / height;
  const std::int64_t block_cols = (spec.cols + width - 1) / width;
  const std::int64_t blocks = block_rows * block_cols;
  SelectionSampler sampler(blocks, std::llround((1 - spec.sparsity) * static_cast<double>(blocks)),
                           substream(spec.seed, kElements));
  std::vector<std::uint32_t> columns;
  for (std::int64_t band = 0; band < block_rows; ++band) {
    columns.clear();
    for (std::int64_t block = 0; block < block_cols; ++block) {
      if (!sampler.take_next()) continue;
      for (std::int64_t j = block * width; j < std::min((block + 1) * width, spec.cols); ++j)
        columns.push_back(static_cast<std::uint32_t>(j));
    }
    for (std::int64_t i = band * height; i < std::min((band + 1) * height, spec.rows); ++i) {
      matrix.column_indices.insert(matrix.column_indices.end(), columns.begin(), columns.end());
      matrix.row_offsets.push_back(matrix.nnz());
    }
  }
}

// Each group of four offers two slots; the taken slots of a group become as many distinct columns of it.
Status draw_two_four(const SynthesisSpec& spec, std::int64_t target, CsrMatrix& matrix) {
  const std::int64_t full_groups = spec.cols / 4;
  const std::int64_t tail = spec.cols % 4;
  const std::int64_t slots = spec.rows * (full_groups * 2 + std::min<std::int64_t>(tail, 2));
  if (target > slots) {
    return invalid_argument(fmt::format(
        "2:4 leaves at most {} of {} x {} elements, a sparsity of {:.4f} or more; {} was asked for", slots, spec.rows,
        spec.cols, 1 - static_cast<double>(slots) / (static_cast<double>(spec.rows) * static_cast<double>(spec.cols)),
        spec.sparsity));
  }
  SelectionSampler sampler(slots, target, substream(spec.seed, kElements));
  RandomStream places(substream(spec.seed, kColumnWeights));
  for (std::int64_t row = 0; row < spec.rows; ++row) {
    for (std::int64_t begin = 0; begin < spec.cols; begin += 4) {
      const std::int64_t width = std::min<std::int64_t>(4, spec.cols - begin);
      int count = 0;
      for (std::int64_t slot = 0; slot < std::min<std::int64_t>(width, 2); ++slot) count += sampler.take_next() ? 1 : 0;
      if (count == 0) continue;
      std::array<std::uint64_t, 2> taken = {places.below(width)};
      if (count == 2) taken[1] = (taken[0] + 1 + places.below(width - 1)) % static_cast<std::uint64_t>(width);
      if (count == 2 && taken[1] < taken[0]) std::swap(taken[0], taken[1]);
      for (int i = 0; i < count; ++i) matrix.column_indices.push_back(static_cast<std::uint32_t>(begin + taken[i]));
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return {};
}

// Two elements of every row and of every column of a 4 x 4 tile, bit 4 r + c for row r and column c: one of the 90
// patterns, each with the same chance.
unsigned draw_tile(RandomStream& random) {
  for (;;) {
    unsigned pattern = 0;
    for (int row = 0; row < 4; ++row) {
      const std::uint64_t first = random.below(4);
      pattern |= (1U << first | 1U << (first + 1 + random.below(3)) % 4) << (4 * row);
    }
    bool legal = true;
    for (int column = 0; column < 4; ++column) legal &= std::popcount(pattern & 0x1111U << column) == 2;
    if (legal) return pattern;
  }
}

// Each aligned 4 x 4 tile offers eight slots, two in every row and in every column.
Status draw_transposable(const SynthesisSpec& spec, std::int64_t target, CsrMatrix& matrix) {
  const std::int64_t slots = spec.rows * spec.cols / 2;
  if (spec.rows % 4 != 0 || spec.cols % 4 != 0 || target > slots)
    return invalid_argument(
        fmt::format("2:4-transposable wants rows and columns that are multiples of 4, and a sparsity of 0.5 or more; "
                    "{} x {} and {} were asked for",
                    spec.rows, spec.cols, spec.sparsity));
  SelectionSampler sampler(slots, target, substream(spec.seed, kElements));
  RandomStream places(substream(spec.seed, kColumnWeights));
  std::array<std::vector<std::uint32_t>, 4> band;
  for (std::int64_t row = 0; row < spec.rows; row += 4) {
    for (std::vector<std::uint32_t>& columns : band) columns.clear();
    for (std::int64_t begin = 0; begin < spec.cols; begin += 4) {
      const unsigned pattern = draw_tile(places);
      for (std::size_t i = 0; i < 16; ++i)
        if ((pattern >> i & 1U) != 0 && sampler.take_next())
          band[i / 4].push_back(static_cast<std::uint32_t>(begin) + static_cast<std::uint32_t>(i % 4));
    }
    for (const std::vector<std::uint32_t>& columns : band) {
      matrix.column_indices.insert(matrix.column_indices.end(), columns.begin(), columns.end());
      matrix.row_offsets.push_back(matrix.nnz());
    }
  }
  return {};
}

// Adds the elements of SynthesisPattern::scattered.
void scatter_elements(const SynthesisSpec& spec, SparsityPattern& pattern) {
  const std::int64_t target =
      std::llround(spec.pattern.scattered * static_cast<double>(spec.rows) * static_cast<double>(spec.cols));
  if (target == 0) return;
  SynthesisSpec uniform = spec;
  uniform.pattern = {};
  uniform.seed = substream(spec.seed, kScattered);
  CsrMatrix scattered{{spec.rows, spec.cols}, spec.data_type};
  draw_weighted(uniform, target, scattered);
  std::vector<std::uint32_t> columns;
  std::vector<std::int64_t> row_offsets{0};
  const auto row_of = [](const SparsityPattern& of, std::int64_t row) {
    return std::span(of.column_indices).subspan(of.row_offsets[row], of.row_length(row));
  };
  for (std::int64_t row = 0; row < spec.rows; ++row) {
    std::ranges::set_union(row_of(pattern, row), row_of(scattered, row), std::back_inserter(columns));
    row_offsets.push_back(std::ssize(columns));
  }
  pattern.column_indices = std::move(columns);
  pattern.row_offsets = std::move(row_offsets);
}

std::optional<double> number_within(std::string_view text, double low, double high) {
  const std::optional<double> value = parse_number<double>(text);
  return value && *value >= low && *value <= high ? value : std::nullopt;
}

// A pattern without what is scattered; nothing for an unknown one.
std::optional<SynthesisPattern> plain_pattern(std::string_view text) {
  const auto with_parameter = [&](std::string_view prefix, double low, double high) -> std::optional<double> {
    if (!text.starts_with(prefix)) return std::nullopt;
    return number_within(text.substr(prefix.size()), low, high);
  };
  if (text == "uniform") return SynthesisPattern{Kind::kUniform, 0};
  if (text == "2:4") return SynthesisPattern{Kind::kTwoFour, 0};
  if (text == "2:4-transposable") return SynthesisPattern{Kind::kTransposable, 0};
  if (const auto sigma = with_parameter("lognormal:", 0, 3)) return SynthesisPattern{Kind::kLognormal, *sigma};
  if (const auto exponent = with_parameter("power:", 0, 8)) return SynthesisPattern{Kind::kPower, *exponent};
  if (!text.starts_with("block:")) return std::nullopt;
  const std::size_t cross = text.find('x');
  const auto side = [&](std::string_view number) -> std::optional<double> {
    const auto value = parse_number<std::int64_t>(number);
    return value && *value >= 1 && *value <= 256 ? std::optional<double>(*value) : std::nullopt;
  };
  const auto height = side(text.substr(6, cross == std::string_view::npos ? cross : cross - 6));
  const auto width = cross == std::string_view::npos ? height : side(text.substr(cross + 1));
  if (!height || !width) return std::nullopt;
  return SynthesisPattern{Kind::kBlock, *height, *width};
}

}  // namespace

Result<SynthesisPattern> parse_synthesis_pattern(std::string_view text) {
  constexpr std::string_view kScattered = "+uniform:";
  const std::size_t plus = text.find(kScattered);
  std::optional<SynthesisPattern> pattern = plain_pattern(text.substr(0, plus));
  if (pattern && plus != std::string_view::npos) {
    const std::optional<double> share = number_within(text.substr(plus + kScattered.size()), 0, 1);
    if (share) pattern->scattered = *share;
    if (!share) pattern.reset();
  }
  if (pattern) return *pattern;
  return invalid_argument(
      fmt::format("unknown pattern '{}'; expected uniform, lognormal:S (S in [0, 3]), power:A (A in [0, 8]), "
                  "block:B or block:RxC (1 to 256 rows and columns), 2:4 or 2:4-transposable, and behind it +uniform:P "
                  "(P in [0, 1]) "
                  "for a share P of scattered elements",
                  text));
}

Status parse_shape(std::string_view text, SynthesisSpec& spec) {
  const std::size_t cross = text.find('x');
  const auto rows = parse_number<std::int64_t>(text.substr(0, cross));
  const auto cols = cross == std::string_view::npos ? std::nullopt : parse_number<std::int64_t>(text.substr(cross + 1));
  if (!rows || !cols)
    return invalid_argument(fmt::format("the shape '{}' is not of the form MxK, as in 4096x1024", text));
  spec.rows = *rows;
  spec.cols = *cols;
  return {};
}

Result<CsrMatrix> synthesize(const SynthesisSpec& spec) {
  if (spec.rows < 1 || spec.cols < 1 || spec.rows > kMaxMatrixDimension || spec.cols > kMaxMatrixDimension) {
    return invalid_argument(fmt::format("a drawn weight has 1 to {} rows and columns, not {} x {}", kMaxMatrixDimension,
                                        spec.rows, spec.cols));
  }
  if (!(spec.sparsity >= 0 && spec.sparsity <= 1))
    return invalid_argument(fmt::format("the sparsity {} is outside of [0, 1]", spec.sparsity));
  if (spec.data_type != DataType::kFloat32 && spec.data_type != DataType::kFloat16 &&
      spec.data_type != DataType::kBFloat16) {
    return invalid_argument(fmt::format("weights are fp32, fp16 or bf16, not {}", short_name(spec.data_type)));
  }
  if (spec.rows > kMaxElements / spec.cols) {
    return invalid_argument(fmt::format("{} x {} exceeds the {} elements that a drawn weight may have", spec.rows,
                                        spec.cols, kMaxElements));
  }
  CsrMatrix matrix{{spec.rows, spec.cols}, spec.data_type};
  matrix.row_offsets.reserve(spec.rows + 1);
  const std::int64_t target =
      std::llround((1 - spec.sparsity) * static_cast<double>(spec.rows) * static_cast<double>(spec.cols));
  if (target == 0)
    matrix.row_offsets.assign(spec.rows + 1, 0);
  else if (spec.pattern.kind == Kind::kBlock)
    draw_blocks(spec, matrix);
  else if (spec.pattern.kind == Kind::kTwoFour)
    SPARSMITH_RETURN_IF_ERROR(draw_two_four(spec, target, matrix));
  else if (spec.pattern.kind == Kind::kTransposable)
    SPARSMITH_RETURN_IF_ERROR(draw_transposable(spec, target, matrix));
  else
    draw_weighted(spec, target, matrix);
  scatter_elements(spec, matrix);
  draw_values(matrix, substream(spec.seed, kValues));
  return matrix;
}

std::string dense_bytes(const CsrMatrix& matrix) {
  const std::size_t size = size_of(matrix.data_type);
  std::string bytes(static_cast<std::size_t>(matrix.rows) * static_cast<std::size_t>(matrix.cols) * size, '\0');
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    char* const begin = bytes.data() + static_cast<std::size_t>(row) * static_cast<std::size_t>(matrix.cols) * size;
    for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
      const float value = matrix.values[i];
      const std::uint16_t half =
          matrix.data_type == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
      const void* const source = size == 2 ? static_cast<const void*>(&half) : &value;
      std::memcpy(begin + matrix.column_indices[i] * size, source, size);
    }
  }
  return bytes;
}

}  // namespace sparsmith
