// What check_packed() costs: GB of packed bytes a second, by format. Run it after changes to the readers. Figures are
// of CPU time, which depends little on what else the machine does, and of time.
//   packed_check_benchmark [ROWS]      weights are ROWS x ROWS (8192), fp16, of 50, 80, 90 and 99 % zeros
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <ctime>

#include "formats/packed_format.h"
#include "matrix/synthesis.h"
#include "tests/support/drawn_packings.h"

namespace sparsmith {
namespace {

// Of this process, all threads.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}
double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The best of some runs.
double best_seconds(const PackedWeight& packed, const PackedClaim& claim, PackedCheck depth, int threads,
                    double (*now)()) {
  double best = 1e9;
  for (int run = 0; run < 7; ++run) {
    const double start = now();
    const Status status = test::check_packed(packed, claim, depth, threads);
    best = std::min(best, now() - start);
    if (!status.ok()) fmt::print("{}\n", status.to_string());
  }
  return best;
}

void measure(const CsrMatrix& matrix, const Result<PackedWeight>& packed) {
  if (!packed.ok()) return;  // slots whose rows are too long, and the like
  const PackedClaim claim = test::claim_of(matrix);
  const double gigabytes = static_cast<double>(packed->bytes()) / 1e9;
  fmt::print("{:>5.1f} % {:44} {:7.1f} MB ", matrix.sparsity() * 100, packed->packing, gigabytes * 1e3);
  for (const PackedCheck depth : {PackedCheck::kBounds, PackedCheck::kContents}) {
    fmt::print("   {:7.2f}", gigabytes / best_seconds(*packed, claim, depth, 1, cpu_seconds));
    for (const int threads : {1, 2})
      fmt::print(" {:7.2f}", gigabytes / best_seconds(*packed, claim, depth, threads, seconds));
  }
  fmt::print("\n");
  std::fflush(stdout);
}

CsrMatrix draw(std::int64_t rows, double sparsity, const char* pattern) {
  SynthesisSpec spec{.rows = rows, .cols = rows, .sparsity = sparsity, .data_type = DataType::kFloat16, .seed = 1};
  spec.pattern = parse_synthesis_pattern(pattern).value();
  return synthesize(spec).value();
}

void run(std::int64_t rows) {
  fmt::print("{:59} bounds, contents: GB / CPU s; GB/s of 1, 2 threads\n", "");
  constexpr DataType kType = DataType::kFloat16;
  measure(draw(rows, 0.5, "2:4"), pack_two_four(draw(rows, 0.5, "2:4"), kType));
  for (const double sparsity : {0.5, 0.8, 0.9, 0.99}) {
    const CsrMatrix matrix = draw(rows, sparsity, "uniform");
    measure(matrix, *pack("dense", matrix, kType));
    measure(matrix, pack_csr(matrix, {.index_bytes = 2, .alignment = 8}, kType));
    measure(matrix, pack_csr(matrix,
                             {.index_bytes = 2,
                              .alignment = 4,
                              .order = RowOrder::kSorted,
                              .split_length = 256,
                              .partials = PartialSums::kTwoPass},
                             kType));
    for (const SlotColumns columns : test::kAllSlotColumns)
      measure(matrix, pack_slots(matrix, {columns, slot_vector_widths(columns).back(), 1, 132}, kType));
    measure(matrix, pack_bitmap(matrix, {1, 8, true}, kType));
    measure(matrix, pack_bitmap(matrix, {4, 4, false}, kType));
    measure(matrix, pack_bsr(matrix, {2, false}, kType));
    measure(matrix, pack_scatter(matrix, {ScatterEntry::kByte, 64, 12}, kType));
    measure(matrix, pack_scatter(matrix, {ScatterEntry::kWord, 64, 0}, kType));
    measure(matrix, pack_panel(matrix, {.row_parts = 132, .warps = 16, .row_store = panel::RowStore::kDirect}, kType));
    measure(matrix, pack_panel(matrix, {.row_parts = 132, .warps = 16, .order = panel::LaneOrder::kTensor}, kType));
    measure(matrix, pack_panel(matrix, {.row_parts = 132, .warps = 16, .token_lanes = 4}, kType));
  }
}

}  // namespace
}  // namespace sparsmith

int main(int argc, char** argv) {
  sparsmith::run(argc > 1 ? std::atoll(argv[1]) : 8192);
  return 0;
}
