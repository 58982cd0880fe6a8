// Mistakes that kernels of the bitmap family may have.
#include <algorithm>

#include "generator/bitmap_family.h"
#include "tests/mutations.h"

namespace sparsmith::test {
namespace {

Mutation::Matters bitmap(bool (*holds)(const BitmapConfig&, const KernelCase&)) {
  return [holds](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const KernelCase& each) {
      return each.matrix.nnz() > 200 && holds(BitmapConfig(config), each);
    });
  };
}
bool any_weight(const BitmapConfig&, const KernelCase&) { return true; }
bool scanned(const BitmapConfig& config, const KernelCase&) { return !config.stored_offsets; }
bool strips_go_round(const BitmapConfig& config, const KernelCase& each) {
  return each.matrix.cols > 64 * 5 * config.warps;
}
bool several_row_tiles(const BitmapConfig& config, const KernelCase& each) { return each.matrix.rows > config.rows(); }
bool bitmap_meets_infinity(const BitmapConfig&, const KernelCase& each) { return meets_infinity(each); }

}  // namespace

const std::vector<Mutation>& bitmap_mutations() {
  static const std::vector<Mutation> all = {
      {"no barrier before a slot is copied over", "    warp_barrier();\n    copy_next(slot);", "    copy_next(slot);",
       bitmap(strips_go_round)},
      {"no barrier after a strip has landed", "    warp_barrier();\n    return slots", "    return slots",
       bitmap(any_weight)},
      {"strips are not awaited", "case 2: async_wait<1>()", "case 2: async_wait<2>()", bitmap(any_weight)},
      {"no barrier before sums take the ring's place", "block_barrier();  // the ring has been read", "",
       bitmap(several_row_tiles)},
      {"no barrier before sums are written again", "block_barrier();  // the sums have been read", "",
       bitmap(several_row_tiles)},
      {"sums of the last warp are dropped", "warp < kWarps; ++warp", "warp < kWarps - 1; ++warp", bitmap(any_weight)},
      {"the scan forgets a step", "distance = 1; distance < bitmap::kLanes", "distance = 1; distance < 16",
       bitmap(scanned)},
      {"two registers are swapped", "a[1] = permute_bytes(v2, v3", "a[1] = permute_bytes(v4, v5", bitmap(any_weight)},
      {"halves are swapped", "a[3] = permute_bytes(v6, v7", "a[3] = permute_bytes(v7, v6", bitmap(any_weight)},
      {"Inf goes unseen", "if (warp_any(!is_finite(x)))", "if (false)", bitmap(bitmap_meets_infinity)},
  };
  return all;
}

}  // namespace sparsmith::test
