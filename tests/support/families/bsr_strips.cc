// Mistakes that kernels of the bsr_strips family may have, and their grids.
#include <algorithm>

#include "base/ceil_div.h"
#include "generator/families/bsr_strips/bsr_strips_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// Some weight of several hundred nonzeros.
Mutation::Matters steps(bool (*holds)(const BsrStripsConfig&, const PackedCase&)) {
  return [holds](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const PackedCase& each) {
      return each.matrix.nnz() > 300 && holds(BsrStripsConfig(config), each);
    });
  };
}

// Another X shows in the sums: not those of a single row, which relu may hide.
bool shows(const PackedCase& each) {
  return each.inputs.kind == InputKind::kVaried && each.problem.tokens > 3 && each.matrix.nnz() > each.matrix.cols;
}
bool any_steps(const BsrStripsConfig&, const PackedCase& each) { return shows(each); }
bool aligned_input(const PackedCase& each) { return each.inputs.padding % 8 == 0 && each.matrix.cols % 8 == 0; }
bool fills_stages_again(const BsrStripsConfig& config, const PackedCase& each) {
  return shows(each) &&
         ceil_div(each.packed.facts.at("strips"), std::int64_t{config.column_parts}) > config.stages() + 2;
}
bool several_strips(const BsrStripsConfig&, const PackedCase& each) {
  return shows(each) && each.packed.facts.at("strips") > 2;
}
bool several_panels(const BsrStripsConfig&, const PackedCase& each) {
  return shows(each) && each.packed.facts.at("panels") > 2;
}
// More steps of a panel than are asked for at once.
bool long_panels(const BsrStripsConfig&, const PackedCase& each) {
  return shows(each) && each.packed.facts.at("steps") > 12 * each.packed.facts.at("panels");
}
bool longer_panels(const BsrStripsConfig& config, const PackedCase& each) {
  return shows(each) && each.packed.facts.at("steps") > 40 * config.column_parts * each.packed.facts.at("panels");
}
bool several_outputs(const BsrStripsConfig& config, const PackedCase& each) {
  return shows(each) && config.column_parts == 1 &&
         ceil_div(each.packed.facts.at("panels"), std::int64_t{config.warps()}) *
                 ceil_div(each.problem.tokens, std::int64_t{config.token_tile}) >
             each.problem.device.sm_count;
}
bool cluster_of_parts(const BsrStripsConfig& config, const PackedCase& each) {
  return shows(each) && config.column_parts > 1 && each.packed.facts.at("strips") >= 4;
}
bool meets_infinity_in_some(const BsrStripsConfig&, const PackedCase& each) { return meets_infinity(each); }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"columns are read before they are there",
       "if (!there) await(work.full(stage.number), stage.parity);\n      there = true;", "there = true;",
       steps(any_steps)},
      {"a stage is filled while it is read", "await(work.empty(stage.number), stage.parity ^ 1U);", "",
       steps(fills_stages_again)},
      {"stages are given back before all lanes have read", "warp_barrier();  // all lanes have read it", "",
       steps(fills_stages_again)},
      {"stages have one phase", "number -= kStages;\n    parity ^= 1U;", "number -= kStages;",
       steps(fills_stages_again)},
      {"all steps are of the first strip",
       "while (strip < static_cast<int>(word >> bsr_strips::kStripShift)) leave_strip();",
       "while (false) leave_strip();", steps(several_strips)},
      {"operands are read before they are there", "async_wait<kAhead - 1>();", "", steps(any_steps)},
      {"all steps have the operands of the first", "place = (place + kStepBytes) % kBytes;", "", steps(long_panels)},
      {"a step's copy takes the place of the next step", "ask(0);", "ask(1);", steps(long_panels)},
      {"words are those of the first 32 steps", "words = more_words;", "", steps(longer_panels)},
      {"both chunks are the first", "lane() / 8 % 2 * bsr_strips::kChunkBits", "0", steps(any_steps)},
      {"chunks of other columns", "((chunk ^ line) & 7U) * 16", "(chunk & 7U) * 16", steps(any_steps)},
      {"chunks are of the first 64 columns", "(chunk >> 3 & 1U) * kBoxBytes", "0",
       steps([](auto& config, auto& each) { return any_steps(config, each) && each.matrix.cols > 100; })},
      {"both tiles have the first one's operands", "place + r * 512));", "place));",
       steps([](auto& config, auto& each) { return config.tiles > 1 && several_panels(config, each); })},
      {"tokens of eight stand for the next eight", "(lane() / 16 * 8 + lane() % 8) * kLineBytes",
       "lane() % 8 * kLineBytes",
       steps([](auto& config, auto& each) { return any_steps(config, each) && each.problem.tokens > 12; })},
      {"boxes of other tokens", "first_column + b * kBoxColumns, first_token, work.full(stage)",
       "first_column + b * kBoxColumns, 0, work.full(stage)", steps([](auto& config, auto& each) {
         return aligned_input(each) && each.problem.tokens > config.token_tile + 3 && shows(each);
       })},
      {"boxes come to the block of the other columns", "1U << cluster_rank());\n      }", "1U);\n      }",
       steps([](auto& config, auto& each) { return cluster_of_parts(config, each) && aligned_input(each); })},
      {"X is read before it may be", "wait_for_previous();  // X may be read", "",
       steps([](auto&, auto& each) { return each.programmatic && aligned_input(each) && shows(each); })},
      {"sums go on from other outputs", "for (int r = 0; r < kTiles; ++r) sums[r].clear();",
       "for (int r = 0; r < kTiles; ++r) if (index == block_index_x()) sums[r].clear();", steps(several_outputs)},
      {"panels stand in the order of rows", "load_cached(order + place)", "place", steps([](auto& config, auto& each) {
         return several_panels(config, each) && each.packed.array("panels")->template as<std::uint32_t>()[0] != 0;
       })},
      {"warps take one place of outputs", "kWarpsAt + place.warp * kWarpBytes,\n               output",
       "kWarpsAt,\n               output",
       steps([](auto& config, auto& each) { return config.column_parts == 1 && several_panels(config, each); })},
      {"sums are left in stages before all have read them", "if constexpr (kParts > 1) block_barrier();", "",
       steps([](auto& config, auto& each) { return cluster_of_parts(config, each) && several_panels(config, each); })},
      {"parts of the columns do the same strips", "part * kPartQuarters, (part + 1) * kPartQuarters",
       "0, kPartQuarters", steps(cluster_of_parts)},
      {"rows of an output begin with the first panel", "const int place = first_place + thread_index() / kTiles;",
       "const int place = thread_index() / kTiles;", steps([](auto& config, auto& each) {
         return cluster_of_parts(config, each) && each.matrix.rows > config.rows + 4;
       })},
      {"Inf goes unseen", "if (sums[r].finite())", "if (true)", steps(meets_infinity_in_some)},
      {"nothing is taken for -0", "if (w[r].bits != nothing) sum", "sum", steps(meets_infinity_in_some)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight& packed, std::int64_t n) {
  const BsrStripsConfig config(each.config);
  const std::int64_t outputs =
      rows_of_grid(packed.facts.at("panels"), config.warps()).blocks() * tokens_of_grid(n, config.token_tile).blocks();
  return {{.axis = 0, .work = outputs, .most = std::max(1, each.problem.device.sm_count / config.column_parts)},
          parts_of_grid(config.column_parts)};
}

const Registration kRegistered("bsr_strips", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
