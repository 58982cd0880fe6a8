// Mistakes that kernels of the cooperative family may have, and their grids.
#include <algorithm>

#include "base/ceil_div.h"
#include "generator/families/cooperative/cooperative_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// Some weight of several hundred nonzeros.
Mutation::Matters cooperative(bool (*holds)(const CooperativeConfig&, const PackedCase&)) {
  return [holds](const Config&, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const PackedCase& each) {
      return each.matrix.nnz() > 300 && holds(CooperativeConfig(each.config), each);
    });
  };
}

bool any_tiles(const CooperativeConfig&, const PackedCase&) { return true; }
// Another X shows in the sums: not those of a single row, which relu may hide.
bool shows(const PackedCase& each) {
  return each.inputs.kind == InputKind::kVaried && each.problem.tokens > 3 && each.matrix.nnz() > each.matrix.cols;
}
bool fills_stages_again(const CooperativeConfig& config, const PackedCase& each) {
  return each.matrix.cols > 2 * 64 * config.stages;
}
// A block has several outputs, and the warps that fill its first stage an odd number of tiles of each.
bool several_outputs(const CooperativeConfig& config, const PackedCase& each) {
  const std::int64_t stages = ceil_div(each.matrix.cols, std::int64_t{64});
  const std::int64_t outputs = ceil_div(each.matrix.rows, std::int64_t{64 * config.panel_tiles()}) *
                               ceil_div(each.problem.tokens, std::int64_t{config.token_tile});
  return config.column_parts == 1 && stages % 4 == 2 && outputs > each.problem.device.sm_count / 2;
}
bool aligned_input(const CooperativeConfig&, const PackedCase& each) {
  return each.inputs.padding % 8 == 0 && each.matrix.cols % 8 == 0;
}
// Some outputs leave as halves: all tokens of a tile, of rows that are aligned.
bool stores_whole(const CooperativeConfig& config, const PackedCase& each) {
  const Epilogue& epilogue = each.problem.spec.epilogue;
  return config.column_parts == 1 && !epilogue.beta && !epilogue.residual && each.inputs.padding % 8 == 0 &&
         each.matrix.rows % 8 == 0 && each.matrix.rows > 32 && each.problem.tokens >= config.token_tile;
}
bool meets_infinity_in_some(const CooperativeConfig&, const PackedCase& each) { return meets_infinity(each); }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"tiles are multiplied before they are full", "await(work.tile_full(stage.number, row), stage.parity);", "",
       cooperative(any_tiles)},
      {"X is multiplied before it is there", "await(work.input_full(stage.number), stage.parity);", "",
       cooperative(any_tiles)},
      {"tensor cores need not see what they multiply",
       "tensor_reads_follow();\n    warp_barrier();\n    if (lane() == 0) arrive(full)",
       "warp_barrier();\n    if (lane() == 0) arrive(full)", cooperative(any_tiles)},
      {"a tile is handed over before all lanes have stored",
       "tensor_reads_follow();\n    warp_barrier();\n    if (lane() == 0) arrive(full)",
       "tensor_reads_follow();\n    if (lane() == 0) arrive(full)", cooperative(any_tiles)},
      {"a stage is filled while it is multiplied", "await(work.empty(stage.number), stage.parity ^ 1U);", "",
       cooperative(fills_stages_again)},
      {"stages are given back before products end", "warpgroup_multiply_wait<1>();", "",
       cooperative(fills_stages_again)},
      {"stages are given back to one block", "for (int b = 0; b < kBlocks; ++b)", "for (int b = 0; b < 1; ++b)",
       cooperative(fills_stages_again)},
      {"stages have one phase", "number -= kStages;\n    parity ^= 1U;", "number -= kStages;",
       cooperative(fills_stages_again)},
      {"products are not awaited", "warpgroup_multiply_wait();\n      if (last >= 0)", "if (last >= 0)",
       cooperative(any_tiles)},
      {"products are not begun", "warpgroup_multiply_begin();\n          sums", "sums", cooperative(any_tiles)},
      {"a tile is not cleared", "scatter::clear_tile<kWholeTiles>(weight, tile, base, stored[b]);", ";",
       cooperative(fills_stages_again)},
      {"tiles are not zeroed before the first entries",
       "scatter::zero_tile(work.tile_at(producer / kRowTiles + 2 * s, row));", "",
       cooperative([](const CooperativeConfig& config, const PackedCase&) { return config.whole_tiles == 0; })},
      {"a tile is cleared by the entries of another stage", "const int skipped = kWholeTiles ? 0 : stage.number / 2;",
       "const int skipped = 0;", cooperative([](const CooperativeConfig& config, const PackedCase& each) {
         return config.whole_tiles == 0 && several_outputs(config, each);
       })},
      {"boxes come to one block", "((1U << kBlocks) - 1) << Work::first_rank()", "1U << cluster_rank()",
       cooperative([](const CooperativeConfig& config, const PackedCase& each) {
         return config.column_parts == 1 && aligned_input(config, each);
       })},
      {"boxes come to the block of the other columns", "<< Work::first_rank()", "<< Work::number()",
       cooperative([](const CooperativeConfig& config, const PackedCase& each) {
         return config.column_parts > 1 && each.matrix.cols > 64 && aligned_input(config, each);
       })},
      {"sums are left in stages before all have read them", "if constexpr (kParts > 1) block_barrier();", "",
       cooperative([](const CooperativeConfig& config, const PackedCase&) { return config.column_parts > 1; })},
      {"boxes of other tokens", "column, first_token + first, full", "column, first_token, full",
       cooperative([](const CooperativeConfig& config, const PackedCase& each) {
         return config.column_parts == 1 && aligned_input(config, each) &&
                each.problem.tokens > config.token_tile / 2 + 3 && shows(each);
       })},
      {"chunks of X are not where they are looked for", "(u * 4 + lane_index() % 4) ^ (token * kChunks / 8 % kChunks)",
       "u * 4 + lane_index() % 4", cooperative([](const CooperativeConfig& config, const PackedCase& each) {
         return !aligned_input(config, each) && shows(each);
       })},
      {"X is read before it may be", "wait_for_previous();\n        waits", "waits",
       cooperative([](const CooperativeConfig&, const PackedCase& each) { return each.programmatic; })},
      {"warps take one place of outputs", "{work.shared + kSumsAt + place.warp * kWarpSumBytes,",
       "{work.shared + kSumsAt,", cooperative([](const CooperativeConfig& config, const PackedCase& each) {
         return config.column_parts == 1 && each.matrix.rows > 16;
       })},
      {"outputs are read before lanes have put them there", "words);\n      }\n      meet();", "words);\n      }",
       cooperative(stores_whole)},
      {"outputs are read before they are there", "warp_barrier();\n    if (whole)", "if (whole)",
       cooperative([](const CooperativeConfig& config, const PackedCase&) { return config.column_parts == 1; })},
      {"Inf goes unseen", "if (!there || warpgroup_all(warp / 4, sums.finite()))", "if (true)",
       cooperative(meets_infinity_in_some)},
      {"a tile of nonzeros is not cleared", "scatter::zero_tile(dense);", "", cooperative(meets_infinity_in_some)},
      {"Inf in X is dropped where W is stored", "if (w[r] != 0.0F) sum", "if (w[r] != 0.0F && is_finite(x)) sum",
       cooperative([](const CooperativeConfig&, const PackedCase& each) { return stores_infinity(each); })},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight&, std::int64_t n) {
  const CooperativeConfig config(each.config);
  const AxisWork rows = rows_of_grid(each.problem.spec.rows, config.panel_tiles() * 64);
  const std::int64_t outputs = rows.blocks() * tokens_of_grid(n, config.token_tile).blocks();
  if (config.column_parts > 1) return {rows_of_grid(outputs, 1), parts_of_grid(config.column_parts)};
  return {{.axis = 0, .work = outputs, .factor = 2, .most = std::max(2, each.problem.device.sm_count / 2 * 2)},
          parts_of_grid(1)};
}

const Registration kRegistered("cooperative", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
