// Mistakes that kernels of the sampled family may have, and their grids.
#include <algorithm>

#include "generator/families/sampled/sampled_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// Matters where `shows` holds for some weight that has nonzeros.
Mutation::Matters sampled(bool (*shows)(const SampledConfig&, const KernelCase&)) {
  return [shows](const Config& config, const Cases& cases) {
    return std::ranges::any_of(cases, [&](const KernelCase& each) {
      return each.matrix.nnz() > 0 && each.inputs.kind != InputKind::kZeros && shows(SampledConfig(config), each);
    });
  };
}

bool always(const SampledConfig&, const KernelCase&) { return true; }
bool several_in_a_row(const SampledConfig&, const KernelCase& each) { return each.matrix.nnz() > 2 * each.matrix.rows; }
bool shared_tokens(const SampledConfig& config, const KernelCase& each) {
  return config.token_lanes > 1 && each.problem.tokens > config.tokens_per_thread;
}
bool several_tiles(const SampledConfig& config, const KernelCase& each) {
  return each.problem.tokens > std::int64_t{config.token_lanes} * config.tokens_per_thread;
}
bool more_rows_than_groups(const SampledConfig& config, const KernelCase& each) {
  const std::int64_t groups = config.threads_per_block / config.group_threads();
  return each.matrix.row_offsets[std::min(groups, each.matrix.rows)] < each.matrix.nnz();
}
bool a_row_ends_inside(const SampledConfig& config, const KernelCase& each) {
  const std::int64_t round = std::int64_t{config.column_lanes} * config.nonzeros_per_thread;
  for (std::int64_t row = 0; row < each.matrix.rows; ++row)
    if (each.matrix.row_length(row) % round != 0 && config.group_threads() == 32) return true;
  return false;
}
bool beta_is_zero(const SampledConfig&, const KernelCase& each) {
  return each.problem.spec.epilogue.beta && each.inputs.beta == 0;
}
bool infinity(const SampledConfig&, const KernelCase& each) { return stores_infinity(each); }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"two outputs are swapped", "output.store(segment.first + nonzero,",
       "output.store((segment.first + nonzero) ^ 1U,", sampled(several_in_a_row)},
      {"an output has its neighbour's column", "columns + (nonzero < length ? nonzero : at)",
       "columns + (at == 0 ? length - 1 : at - 1)", sampled(several_in_a_row)},
      {"the next row's gradient is taken", "dy.load(static_cast<u32>(row), gradient);",
       "dy.load(static_cast<u32>(row ^ 1), gradient);", sampled(always)},
      {"lanes keep their sums", "Shuffle::combine(sums);", "", sampled(shared_tokens)},
      {"the last lane's tile of tokens is the first one's", "dy.begin_tile(first, token_lane, n);",
       "dy.begin_tile(first, 0, n);", sampled(shared_tokens)},
      {"tokens behind the first tile are left out", "for (int first = 0; first < n; first += kTokenLanes * kTokens)",
       "for (int first = 0; first < kTokens && first < n; first += kTokenLanes * kTokens)", sampled(several_tiles)},
      {"a small grid does not go round", "base += grid_size_x() * kGroups", "base += rows",
       sampled(more_rows_than_groups)},
      {"the end of a row is left out", "warp_any(first < segment.length)",
       "warp_any(first + kColumnLanes * kNonzeros <= segment.length)", sampled(a_row_ends_inside)},
      {"old values are read where beta is 0", "if (beta != 0.0F) value", "value", sampled(beta_is_zero)},
      {"Inf in X is dropped where W is stored", "values[r][t] = multiply_add(weight, x[t], values[r][t]);",
       "if (is_finite(x[t])) values[r][t] = multiply_add(weight, x[t], values[r][t]);", sampled(infinity)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight&, std::int64_t) {
  const SampledConfig config(each.config);
  return {rows_of_grid(each.problem.spec.rows, config.threads_per_block / config.group_threads())};
}

const Registration kRegistered("sampled", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
