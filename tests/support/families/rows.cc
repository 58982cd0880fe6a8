// Mistakes that kernels of the rows family may have, and their grids.
#include <algorithm>

#include "generator/families/rows/rows_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

Mutation::Matters rows(bool (*holds)(const RowsConfig&, const Cases&)) {
  return [holds](const Config& config, const Cases& cases) { return holds(RowsConfig(config), cases); };
}

bool always(const RowsConfig&, const Cases&) { return true; }
bool several_nonzeros_a_load(const RowsConfig& config, const Cases&) { return config.vector_width > 1; }
bool one_nonzero_a_load(const RowsConfig& config, const Cases&) { return config.vector_width == 1; }
bool shared_parts(const RowsConfig& config, const Cases&) { return config.shared_parts > 1; }
bool panel(const RowsConfig& config, const Cases&) { return config.input == RowsConfig::Input::kShared; }
bool token_major_panel(const RowsConfig& config, const Cases& cases) {
  return panel(config, cases) && cases.front().problem.spec.layout == Layout::kTokenMajor;
}
bool feature_major_panel(const RowsConfig& config, const Cases& cases) {
  return panel(config, cases) && cases.front().problem.spec.layout == Layout::kFeatureMajor;
}
bool several_groups(const RowsConfig& config, const Cases&) {
  return config.group_threads() < config.threads_per_block && config.partial_sums == PartialSums::kNone;
}
// Some block goes round for a second token tile, or a second set of rows, when there is one block only. (Where parts
// are added through shared memory, their barriers stand between two tiles as well.)
bool panel_twice(const RowsConfig& config, const Cases& cases) {
  const auto goes_round = [&](const KernelCase& each) {
    return each.problem.tokens > config.token_tile() && each.matrix.nnz() > 0;
  };
  return panel(config, cases) && !shared_parts(config, cases) && std::any_of(cases.begin(), cases.end(), goes_round);
}
bool shared_parts_twice(const RowsConfig& config, const Cases& cases) {
  const int rows_a_round = config.threads_per_block / config.group_threads() * config.rows_per_group;
  return shared_parts(config, cases) && std::any_of(cases.begin(), cases.end(), [&](const KernelCase& each) {
           return each.matrix.rows > rows_a_round;
         });
}

bool any_stores_infinity(const RowsConfig&, const Cases& cases) {
  return std::ranges::any_of(cases, [](const KernelCase& each) { return stores_infinity(each); });
}
bool relu_of_nan(const RowsConfig& config, const Cases& cases) {
  return cases.front().problem.spec.epilogue.activation == Activation::kRelu && any_stores_infinity(config, cases);
}
bool beta_is_zero(const RowsConfig&, const Cases& cases) {
  return std::ranges::any_of(cases, [](const KernelCase& each) {
    return each.problem.spec.epilogue.beta && each.inputs.beta == 0 && each.matrix.rows > 0;
  });
}

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"the first product of a load is dropped", "for (int e = 0; e < kVectorWidth; ++e) product(",
       "for (int e = 1; e < kVectorWidth; ++e) product(", rows(always)},
      {"two columns are swapped", "static_cast<u32>(fragment.columns[e])", "static_cast<u32>(fragment.columns[e ^ 1])",
       rows(several_nonzeros_a_load)},
      {"a column is off by one", "static_cast<u32>(fragment.columns[e])", "static_cast<u32>(fragment.columns[e] ^ 1)",
       rows(one_nonzero_a_load)},
      {"the load is one vector too far", "stream.load(begin[r] + at", "stream.load(begin[r] + kVectorWidth + at",
       rows(always)},
      {"the tail is omitted", "if (at + e < length) product", "if (false) product", rows(several_nonzeros_a_load)},
      {"the tail runs over", "if (at + e < length) product", "product", rows(several_nonzeros_a_load)},
      {"every other group leaves its rows to its neighbour", "const int first = base + group * kRows;",
       "const int first = base + (group | 1) * kRows;", rows(several_groups)},
      {"two groups store to one row", "output.store(target, first_token", "output.store(target & ~1U, first_token",
       rows(always)},
      {"no barrier after staging", "    block_barrier();\n  }", "  }", rows(panel)},
      {"no barrier before staging again", "block_barrier();  // nobody reads the last tile's panel any more", "",
       rows(panel_twice)},
      {"every thread stages everything", "for (int v = thread_index(); v < vectors", "for (int v = 0; v < vectors",
       rows(token_major_panel)},
      {"every thread stages everything", "for (int i = thread_index(); i < cols", "for (int i = 0; i < cols",
       rows(feature_major_panel)},
      {"no barrier before parts are added", "block_barrier();\n      if (part", "if (part", rows(shared_parts)},
      {"no barrier before parts are written again", "block_barrier();  // the last round's sums have been read", "",
       rows(shared_parts_twice)},
      {"Inf in X is dropped where W is stored", "values[r][t] = multiply_add(weight, x[t], values[r][t]);",
       "if (is_finite(x[t])) values[r][t] = multiply_add(weight, x[t], values[r][t]);", rows(any_stores_infinity)},
      {"relu makes 0 of NaN", "return v < 0.0F ? 0.0F : v;", "return v > 0.0F ? v : 0.0F;", rows(relu_of_nan)},
      {"old Y is read where beta is 0", "if (beta != 0.0F) value", "value", rows(beta_is_zero)},
      {"all parts write to one place", "shared[(part * kSums + i) * kOwners + lane] = sums",
       "shared[i * kOwners + lane] = sums", rows(shared_parts)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight& packed, std::int64_t n) {
  const RowsConfig config(each.config);
  const std::int64_t groups = config.threads_per_block / config.group_threads();
  AxisWork segments = rows_of_grid(packed.facts.at("segments"), groups * config.rows_per_group);
  if (config.blocks_per_sm > 0) segments.most = std::int64_t{config.blocks_per_sm} * each.problem.device.sm_count;
  return {segments, tokens_of_grid(n, config.token_lanes * config.tokens_per_thread)};
}

const Registration kRegistered("rows", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
