// Mistakes that the last kernel of hybrids may have, and its grid. The structured kernels are those of their families.
#include <algorithm>

#include "formats/csr_layout.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

constexpr std::int64_t kRows = 32;  // of a tile of the kernel,
constexpr std::int64_t kTokens = 64;

std::int64_t rest_nonzeros(const PackedCase& each) {
  std::int64_t nonzeros = 0;
  for (const csr::Segment& segment : each.packed.array("rest_segments")->as<csr::Segment>()) nonzeros += segment.length;
  return nonzeros;
}
// Some weight of a large rest, whose products show: X varies, and no sums of a single row, which relu may hide.
Mutation::Matters rest(bool (*holds)(const PackedCase&)) {
  return [holds](const Config&, const Cases& cases) {
    return std::ranges::any_of(cases, [&](const PackedCase& each) {
      return rest_nonzeros(each) > 60 && each.matrix.rows > 8 && each.problem.tokens > 3 &&
             each.inputs.kind == InputKind::kVaried && holds(each);
    });
  };
}

bool any_rest(const PackedCase&) { return true; }
bool several_rows(const PackedCase& each) { return each.matrix.rows > kRows + 8; }
bool several_tokens(const PackedCase& each) { return each.problem.tokens > kTokens + 8; }
// Some row whose entries end inside of a load, which would go on with another row's.
bool ends_inside_of_a_load(const PackedCase& each) {
  return std::ranges::any_of(each.packed.array("rest_segments")->as<csr::Segment>(),
                             [](const csr::Segment& segment) { return segment.length % 4 != 0; });
}
bool unaligned_rows(const PackedCase& each) { return each.matrix.rows % 4 != 0; }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"the rest is left out", "values[i] += of_rest", "values[i] += 0.0F * of_rest", rest(any_rest)},
      {"the sums are left out", "values[i] += of_rest", "values[i] = of_rest", rest(any_rest)},
      {"every row has the first one's rest", "load_cached(segments + first_row + row)",
       "load_cached(segments + first_row)", rest(any_rest)},
      {"rows behind the first tile have its rest", "load_cached(segments + first_row + row)",
       "load_cached(segments + row)", rest(several_rows)},
      {"X is that of the first tile of tokens", "* ldt + first_token + token;", "* ldt + token;", rest(several_tokens)},
      {"lanes have the first tokens", "* ldt + first_token + token;", "* ldt + first_token;",
       rest([](const PackedCase& each) { return each.problem.tokens > 9; })},
      {"padding is read", "load_coherent_if(at + e < segment.length,", "load_coherent_if(true,",
       [](const Config&, const Cases& cases) {
         return std::ranges::any_of(cases, [](const PackedCase& each) {
           return meets_infinity(each) && rest_nonzeros(each) > 60 && ends_inside_of_a_load(each);
         });
       }},
      {"sums pass before all are there", "block_barrier();\n      finish", "finish", rest(any_rest)},
      {"sums are overwritten before all are read", "of_rest);\n      block_barrier();\n    }", "of_rest);\n    }",
       rest([](const PackedCase& each) { return several_rows(each) && several_tokens(each); })},
      {"a small grid does not go round", "tile += grid_size_x()", "tile += tiles", rest(several_rows)},
      {"sums of another token", "static_cast<i64>(token) * rows + row;", "static_cast<i64>(token ^ 1) * rows + row;",
       rest(any_rest)},
      {"sums that are not aligned are loaded as vectors", "rows % 4 == 0 && row + kRun <= rows", "row + kRun <= rows",
       rest(unaligned_rows)},
      {"rows behind the last are loaded", "if (row + i < rows) values", "values",
       rest([](const PackedCase& each) { return unaligned_rows(each) && each.matrix.rows % 8 != 0; })},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight&, std::int64_t n) {
  const std::int64_t tiles = rows_of_grid(each.problem.spec.rows, kRows).blocks() * tokens_of_grid(n, kTokens).blocks();
  return {{.axis = 0, .work = tiles}};
}

const Registration kRegistered[] = {{"bsr_wgmma_rest", {mutations, grid}},
                                    {"bsr_strips_rest", {mutations, grid}},
                                    {"two_four_wgmma_rest", {mutations, grid}}};

}  // namespace
}  // namespace sparsmith::test
