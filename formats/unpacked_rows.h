// The nonzeros of a packed weight on their way back into rows, as unpackers of all formats meet them.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

class UnpackedRows {
 public:
  // `described`: how many rows the arrays of `packed` can hold, so that memory is taken for no more than those.
  //   Error: kInvalidInput for a shape that is not a matrix's, for more rows than described, and for values that are
  //   not fp32, fp16 or bf16.
  static Result<UnpackedRows> create(const PackedWeight& packed, std::int64_t described);

  // `value`: the value's bits as stored. REQUIRES: row in [0, rows); columns may come in any order.
  void add(std::int64_t row, std::uint32_t column, std::uint32_t value) { rows_[row].push_back({column, value}); }

  // Sorts each row by columns. Error: kInvalidInput for what CsrMatrix::validate() refuses.
  Result<CsrMatrix> matrix() &&;

 private:
  struct Entry {
    std::uint32_t column;
    std::uint32_t value;
  };

  CsrMatrix matrix_;  // its shape and type, as yet
  std::vector<std::vector<Entry>> rows_;
};

}  // namespace sparsmith
