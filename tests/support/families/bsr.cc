// Mistakes that kernels of the bsr family may have, and their grids.
#include <algorithm>

#include "generator/families/bsr/bsr_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

Mutation::Matters bsr(bool (*holds)(const BsrConfig&, const KernelCase&)) {
  return [holds](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const KernelCase& each) {
      return each.matrix.nnz() > 200 && holds(BsrConfig(config), each);
    });
  };
}
bool any_weight(const BsrConfig&, const KernelCase&) { return true; }
bool listed(const BsrConfig& config, const KernelCase&) { return !config.all; }
bool loads_again(const BsrConfig& config, const KernelCase& each) {
  return config.all && each.matrix.cols > 32 * 2 * config.warps * config.ahead;
}
bool several_ahead(const BsrConfig& config, const KernelCase& each) {
  return config.ahead > 1 && config.all && each.matrix.cols > 32 * 2 * config.warps;
}
bool several_rows(const BsrConfig& config, const KernelCase& each) { return each.matrix.rows > config.rows(); }
bool several_tiles(const BsrConfig& config, const KernelCase& each) {
  return config.tiles > 1 && each.matrix.rows > 32 && each.matrix.nnz() > 2000;
}
bool token_major(const BsrConfig&, const KernelCase& each) {
  return each.problem.spec.layout == Layout::kTokenMajor && each.problem.tokens > 1;
}
bool infinity(const BsrConfig&, const KernelCase& each) { return meets_infinity(each); }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"no barrier before the sums are read", "sums.put(sums_of_warps);\n        block_barrier();",
       "sums.put(sums_of_warps);", bsr(any_weight)},
      {"no barrier before sums are written again", "block_barrier();  // the sums have been read", "",
       bsr(several_rows)},
      {"sums of the last warp are dropped", "warp < kWarps; ++warp", "warp < kWarps - 1; ++warp", bsr(loads_again)},
      {"the first blocks are multiplied again", "load_blocks(blocks, block_row, block + kAhead * kWarps, end, held);",
       "", bsr(loads_again)},
      {"one block ahead for all", "x[i][j] = input.fetch(first_token + 8 * j, held[i].first_column)",
       "x[i][j] = input.fetch(first_token + 8 * j, held[0].first_column)", bsr(several_ahead)},
      {"columns are those of another block", "load_cached(columns + block)", "load_cached(columns)", bsr(listed)},
      {"fragments are swapped", "x[i][j][2 * q], x[i][j][2 * q + 1]", "x[i][j][2 - 2 * q], x[i][j][3 - 2 * q]",
       bsr(any_weight)},
      {"registers are swapped", "{operand[0], operand[1], operand[2]", "{operand[0], operand[2], operand[1]",
       bsr(any_weight)},
      {"every tile is the first", "held[i].operands[r][q]", "held[i].operands[0][q]", bsr(several_tiles)},
      {"every token is the first", "lane_token < n ? lane_token : n - 1", "0", bsr(token_major)},
      {"Inf goes unseen", "if (sum[0] * 0.0F != 0.0F)", "if (false)", bsr(infinity)},
      {"nothing is taken for -0", "if (weight.bits == bsr::kNothing) continue;", "", bsr(infinity)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight&, std::int64_t n) {
  return {rows_of_grid(each.problem.spec.rows, BsrConfig(each.config).rows()),
          tokens_of_grid(n, 8 * each.config.at("token_tiles")), parts_of_grid(1)};
}

const Registration kRegistered("bsr", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
