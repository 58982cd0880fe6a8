// Random weights for samples, tests and benchmarks, with zero patterns that are as uneven as in real pruned layers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "matrix/csr_matrix.h"

namespace sparsmith {

// The distribution of zeros.
//   uniform       the same chance for every element
//   lognormal:S   rows and columns carry weights e^(S z), z normal; an element's chance is their product. The row CoV
//                 exceeds the binomial one by sqrt(e^(S^2) - 1), about S: real layers have 0.1 to 1.
//   power:A       row lengths fall as rank^-A, in drawn order; columns are uniform
//   block:B       whole B x B blocks, at drawn places; block:RxC: of R rows and C columns
//   2:4           at most two nonzeros in each aligned group of four columns; exactly two at sparsity 0.5
//   2:4-transposable   the same in columns, too: of each aligned 4 x 4 tile at most two elements a row and a column
// Behind each of them, "+uniform:P" adds a share P of all elements at drawn places: "block:32+uniform:0.001".
struct SynthesisPattern {
  enum class Kind { kUniform, kLognormal, kPower, kBlock, kTwoFour, kTransposable };
  Kind kind = Kind::kUniform;
  double parameter = 0;      // S, A, B or R
  double block_columns = 0;  // B or C
  double scattered = 0;      // P
};

// Error: kInvalidArgument for an unknown pattern or a parameter out of range (S in [0, 3], A in [0, 8], B, R and C in
// [1, 256], P in [0, 1]).
Result<SynthesisPattern> parse_synthesis_pattern(std::string_view text);

struct SynthesisSpec {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  double sparsity = 0.9;  // share of zeros, in [0, 1]
  SynthesisPattern pattern{};
  DataType data_type = DataType::kFloat32;  // fp32, fp16 or bf16
  std::uint64_t seed = 0;
};

// Parses "4096x1024", rows first. Error: kInvalidArgument.
Status parse_shape(std::string_view text, SynthesisSpec& spec);

// Draws a weight. The number of nonzeros is exactly round((1 - sparsity) M K); for blocks the number of blocks is
// exact. Scattered elements come on top; they may meet others. Values come from draw_values(). The same spec gives the
// same weight on every machine.
//   Errors: kInvalidArgument for a shape or sparsity out of range, 2:4 below sparsity 0.5, or transposable 2:4 of other
//   than multiples of 4.
Result<CsrMatrix> synthesize(const SynthesisSpec& spec);

// The elements of `matrix`, row-major, in its data type, for a safetensors file.
std::string dense_bytes(const CsrMatrix& matrix);

}  // namespace sparsmith
