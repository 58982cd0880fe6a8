// New values for drawn packed weights, written by the plans of their packings.
#pragma once

#include <functional>
#include <string_view>

#include "tests/support/kernel_cases.h"

namespace sparsmith::test {

// Runs the plan and waits. The plan and the addresses of a case stay the same.
using RunPlan = std::function<Status(const LaunchPlan& plan, const LaunchBindings& bindings)>;

// A weight in a packing of 16-bit or fp32 values.
struct ValueWriterCase {
  CsrMatrix matrix;
  PackedWeight packed;
  DataType source = DataType::kFloat32;  // of the new values
  int updates = 10;
  bool small_grid =
      false;  // one block writes all, as each block of a grid writes several shares of a very large weight
};

ValueWriterCase draw_value_writer_case(Random& random, std::string_view format);

// Puts the weight on the device and writes new values into it, zeros among them, `updates` times: each time the arrays
// must be those of packing anew.
//   run: null: the executor. Error: which array differs, and where.
Status run_value_writer_case(ValueWriterCase test_case, Random& random, Executor& executor, const ImageOf& image_of,
                             const RunPlan& run = nullptr);

// A dense weight that is pruned 2:4 into its packing and that of its transpose.
struct PrunerCase {
  std::int64_t rows = 4;
  std::int64_t cols = 4;
  DataType type = DataType::kFloat16;
  DataType source = DataType::kFloat16;  // of the dense weight
  int updates = 2;
  bool small_grid = false;
};

PrunerCase draw_pruner_case(Random& random);

// Prunes drawn weights, with ties and zeros of both signs: each time the arrays must be those of packing what
// prune_two_four() keeps. As run_value_writer_case().
Status run_pruner_case(const PrunerCase& test_case, Random& random, Executor& executor, const ImageOf& image_of,
                       const RunPlan& run = nullptr);

}  // namespace sparsmith::test
