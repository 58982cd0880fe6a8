// Warpgroups of ThreadBlock: barriers of four warps, and their asynchronous products (wgmma).
//
// A product is computed when its warp waits for it: only then is shared memory read, so that who writes there before,
// without a barrier behind the wait, is seen as a race. Until then the sums are NaN.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/ceil_div.h"
#include "emulator/thread_block.h"

namespace sparsmith {
namespace {

constexpr int kTurnedLines = 16;  // of an operand: the elements that meet

// Of a line of operand a, which is turned.
constexpr std::uint32_t turned_line(std::uint32_t a_box_bytes) { return a_box_bytes == 0 ? 128 : 64; }

}  // namespace

void ThreadBlock::warpgroup_barrier(int warpgroup) {
  if (warpgroup != thread_index() / kWarpgroup)
    fail([&] { return fmt::format("comes to the barrier of warpgroup {}, which is not its own", warpgroup); });
  warpgroup = current_ / kWarpgroup;  // of the cluster
  running().wait = Wait::kWarpgroupBarrier;
  WarpgroupMeeting& meeting = at_warpgroup_barrier_[static_cast<std::size_t>(warpgroup)];
  if (++meeting.arrived == kWarpgroup) release_warpgroup_barrier(warpgroup);
  wait_for_turn();
}

bool ThreadBlock::warpgroup_all(int warpgroup, bool value) {
  WarpgroupMeeting& meeting = at_warpgroup_barrier_[static_cast<std::size_t>(current_ / kWarpgroup)];
  meeting.votes += value ? 1 : 0;
  warpgroup_barrier(warpgroup);
  return meeting.all;
}

void ThreadBlock::release_warpgroup_barrier(int warpgroup) {
  const int first = warpgroup * kWarpgroup;
  const int line = thread_of(first).line;
  for (int i = first; i < first + kWarpgroup; ++i) {
    if (thread_of(i).line != line) fail([&] { return "divergence at a warpgroup's barrier: " + describe_waiting(); });
  }
  const std::uint64_t started = warp_of(first / kWarp).products_started;
  for (int warp = first / kWarp; warp < (first + kWarpgroup) / kWarp; ++warp) {
    if (warp_of(warp).products_started != started)
      fail([] { return "not all warps of a warpgroup have started the same products"; });
  }
  WarpgroupMeeting& meeting = at_warpgroup_barrier_[static_cast<std::size_t>(warpgroup)];
  meeting = {.all = meeting.votes == kWarpgroup};
  checker_.begin_warpgroup_phase(warpgroup);
  for (int i = first; i < first + kWarpgroup; ++i) make_ready(i);
}

void ThreadBlock::warpgroup_begin() { running_warp().products_begun |= 1U << current_ % kWarp; }

void ThreadBlock::warpgroup_multiply(float* d, const std::uint32_t* a, std::uint32_t a_at, std::uint32_t b_at,
                                     int columns, int line_bytes, bool bfloat16, std::uint32_t metadata, int pair) {
  const WarpgroupOperands operands{d, a, a_at, b_at, columns, line_bytes, bfloat16, metadata, pair, 0};
  shuffle(ShuffleKind::kStartProduct, reinterpret_cast<std::uint64_t>(&operands), 0, ~std::uint32_t{0});
}

void ThreadBlock::warpgroup_multiply_turned(float* d, std::uint32_t a_at, std::uint32_t a_box_bytes, std::uint32_t b_at,
                                            int columns, int line_bytes, std::uint32_t box_bytes, bool bfloat16) {
  const auto line = static_cast<std::uint32_t>(line_bytes);
  const std::uint32_t in_line = b_at % line;  // columns may be the last ones of lines
  if (a_at % (8 * turned_line(a_box_bytes)) != 0 || a_box_bytes % (8 * turned_line(a_box_bytes)) != 0 ||
      (b_at - in_line) % (line * 8) != 0 || (in_line != 0 && in_line + static_cast<std::uint32_t>(columns) * 2 != line))
    fail([] { return "starts a warpgroup's product whose turned operands do not begin at a multiple of eight lines"; });
  const WarpgroupOperands operands{d,        nullptr, a_at, b_at,      columns,    line_bytes,
                                   bfloat16, 0,       -1,   box_bytes, a_box_bytes};
  shuffle(ShuffleKind::kStartProduct, reinterpret_cast<std::uint64_t>(&operands), 0, ~std::uint32_t{0});
}

void ThreadBlock::warpgroup_commit() {
  if (current_ % kWarp != 0) return;  // no lane is further than others by a product or a wait
  Warp& warp = running_warp();
  warp.products_committed.push_back(warp.products.size());
}

void ThreadBlock::warpgroup_wait(int in_flight) {
  shuffle(ShuffleKind::kAwaitProducts, 0, in_flight, ~std::uint32_t{0});
}

// Whether tensor cores see `rows` rows of an operand at `at`, by what the threads of the warpgroup from `first` on
// wrote before its last barrier, and what was handed to the running one.
void ThreadBlock::check_is_shown(int first, std::uint32_t at, int rows, int line_bytes) {
  const auto line = static_cast<std::uint32_t>(line_bytes);
  const std::byte* const begin = shared_memory() + at / line * line;
  const auto bytes = static_cast<std::uint64_t>(rows) * line;
  for (int i = first; i < first + kWarpgroup; ++i) {
    if (!checker_.unfenced_at_barrier(i, begin, bytes)) continue;
    fail([&] {
      return fmt::format(
          "starts a warpgroup's product, which need not see what thread {} wrote to shared memory before the barrier: "
          "it "
          "did not say that tensor cores would read it",
          index_of(i));
    });
  }
  if (!checker_.unfenced_at_arrival(begin, bytes)) return;
  fail([] {
    return "starts a warpgroup's product, which need not see what threads wrote to shared memory that arrived at a "
           "barrier: they did not say that tensor cores would read it";
  });
}

void ThreadBlock::check_operands_are_shown(int first, const WarpgroupOperands& operands) {
  if (operands.box_bytes == 0) {
    check_is_shown(first, operands.b_at, operands.columns, operands.line_bytes);
    if (operands.a == nullptr) check_is_shown(first, operands.a_at, 64, operands.line_bytes);
    return;
  }
  const std::uint32_t a_line = turned_line(operands.a_box_bytes);
  check_is_shown(first, operands.a_at, kTurnedLines, static_cast<int>(a_line));
  if (operands.a_box_bytes != 0)
    check_is_shown(first, operands.a_at + operands.a_box_bytes, kTurnedLines, static_cast<int>(a_line));
  const int box_columns = operands.line_bytes / 2;
  for (int box = 0; box < ceil_div(operands.columns, box_columns); ++box)
    check_is_shown(first, operands.b_at + static_cast<std::uint32_t>(box) * operands.box_bytes, kTurnedLines,
                   operands.line_bytes);
}

// Called by the warp's last lane, for all of them.
void ThreadBlock::start_product(int warp_number, const std::array<std::uint64_t, kWarp>& operands) {
  Warp& warp = warp_of(warp_number);
  if (warp.products_begun != ~std::uint32_t{0})
    fail([] { return "starts a warpgroup's product that has not been begun"; });
  const int first = warp_number * kWarp / kWarpgroup * kWarpgroup;
  check_operands_are_shown(first, *reinterpret_cast<const WarpgroupOperands*>(operands[0]));
  ++warp.products_started;
  WarpgroupProduct product;
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    const auto* brought = reinterpret_cast<const WarpgroupOperands*>(operands[lane]);
    if (lane == 0) product.operands = *brought;
    const WarpgroupOperands& same = product.operands;
    if (brought->b_at != same.b_at || brought->a_at != same.a_at || brought->columns != same.columns ||
        brought->line_bytes != same.line_bytes || brought->bfloat16 != same.bfloat16 || brought->pair != same.pair ||
        brought->box_bytes != same.box_bytes || brought->a_box_bytes != same.a_box_bytes)
      fail([] { return "lanes start different products of a warpgroup"; });
    product.d[lane] = brought->d;
    if (brought->a != nullptr) std::copy_n(brought->a, 4, product.a[lane].begin());
    product.metadata[lane] = brought->metadata;
  }
  const bool first_of_sums = std::none_of(warp.products.begin(), warp.products.end(),
                                          [&](const WarpgroupProduct& other) { return other.d[0] == product.d[0]; });
  if (first_of_sums) hide_sums(product);
  warp.products.push_back(std::move(product));
}

// What is in the registers of a product's sums becomes NaN until it is shown again.
void ThreadBlock::hide_sums(WarpgroupProduct& product) {
  const auto count = static_cast<std::size_t>(product.operands.columns / 2);
  for (float* const d : product.d) {
    product.sums.insert(product.sums.end(), d, d + count);
    std::fill_n(d, count, std::numeric_limits<float>::quiet_NaN());
  }
}

void ThreadBlock::show_sums(const WarpgroupProduct& product) {
  const std::size_t count = product.sums.size() / kWarp;
  for (std::size_t lane = 0; lane < kWarp && count > 0; ++lane)
    std::copy_n(product.sums.data() + lane * count, count, product.d[lane]);
}

// The same for those that have been committed, but for the last `in_flight` times.
void ThreadBlock::complete_products(int warp_number, std::size_t in_flight) {
  Warp& warp = warp_of(warp_number);
  if (warp.products_committed.size() <= in_flight) return;
  const auto last = warp.products_committed.end() - 1 - static_cast<std::ptrdiff_t>(in_flight);
  const std::size_t ended = *last;
  for (std::size_t i = 0; i < ended; ++i) {
    show_sums(warp.products[i]);
    add_product(warp_number, warp.products[i]);
  }
  warp.products.erase(warp.products.begin(), warp.products.begin() + static_cast<std::ptrdiff_t>(ended));
  warp.products_committed.erase(warp.products_committed.begin(), last + 1);
  for (std::size_t& committed : warp.products_committed) committed -= ended;
  for (std::size_t i = 0; i < warp.products.size(); ++i) {
    const auto before = warp.products.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::none_of(warp.products.begin(), before, [&](const auto& other) { return other.d[0] == before->d[0]; }) &&
        before->sums.empty())
      hide_sums(*before);
  }
  if (warp.products.empty()) warp.products_begun = 0;
  checker_.warp_met(warp_number, ~std::uint32_t{0});  // what was read for them has been
}

// The swizzle goes by the address: for lines of 128 bytes, bits 4 to 6 are changed by bits 7 to 9; for lines of 64
// bytes bits 4 and 5 by bits 7 and 8.
const std::byte* ThreadBlock::swizzled(std::uint64_t place, std::uint64_t line_bytes) const {
  return shared_memory() + (place ^ (place >> 7 & (line_bytes / 16 - 1)) << 4);
}

ThreadBlock::OperandRow ThreadBlock::operand_row(std::uint32_t at, std::size_t row, const WarpgroupOperands& operands) {
  const auto line = static_cast<std::uint64_t>(operands.line_bytes);
  OperandRow values;
  const std::size_t chunks = operands.pair < 0 ? 2 : 4;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const std::byte* const from = swizzled(at + row * line + chunk * 16, line);
    checker_.access<AccessKind::kRead, 16>(from);
    std::array<std::uint16_t, 8> bits;
    std::memcpy(bits.data(), from, sizeof(bits));
    for (std::size_t k = 0; k < 8; ++k) values[chunk * 8 + k] = half_value(bits[k], operands.bfloat16);
  }
  return values;
}

std::vector<ThreadBlock::OperandRow> ThreadBlock::turned_rows(std::uint32_t at, std::size_t first, std::size_t count,
                                                              int line_bytes, std::uint32_t box_bytes, bool bfloat16) {
  const auto line = static_cast<std::uint64_t>(line_bytes);
  std::vector<OperandRow> rows(count);
  for (std::size_t k = 0; k < kTurnedLines; ++k) {
    for (std::size_t row = 0; row < count; row += 8) {
      const std::uint64_t byte = (first + row) * 2;
      const std::byte* const from = swizzled(at + byte / line * box_bytes + k * line + byte % line, line);
      checker_.access<AccessKind::kRead, 16>(from);
      std::array<std::uint16_t, 8> bits;
      std::memcpy(bits.data(), from, sizeof(bits));
      for (std::size_t e = 0; e < 8; ++e) rows[row + e][k] = half_value(bits[e], bfloat16);
    }
  }
  return rows;
}

// d += a b, in fp32 in the order of k; the hardware adds in an order of its own.
void ThreadBlock::add_product(int warp, const WarpgroupProduct& product) {
  const WarpgroupOperands& operands = product.operands;
  const bool turned = operands.box_bytes != 0;
  const auto first = static_cast<std::size_t>(warp % (kWarpgroup / kWarp)) * 16;
  std::vector<OperandRow> turned_a;
  std::vector<OperandRow> turned_b;
  if (turned) {
    turned_a = turned_rows(operands.a_at, first, 16, static_cast<int>(turned_line(operands.a_box_bytes)),
                           operands.a_box_bytes, operands.bfloat16);
    turned_b = turned_rows(operands.b_at, 0, static_cast<std::size_t>(operands.columns), operands.line_bytes,
                           operands.box_bytes, operands.bfloat16);
  }
  std::array<std::array<SparseElement, 16>, 16> a;
  for (std::size_t row = 0; row < 16; ++row) {
    if (operands.pair >= 0) {
      a[row] = sparse_row(row, product.a, product.metadata, operands.pair, operands.bfloat16);
    } else if (operands.a == nullptr) {
      const OperandRow values = turned ? turned_a[row] : operand_row(operands.a_at, first + row, operands);
      for (std::size_t k = 0; k < 16; ++k) a[row][k] = {k, values[k]};
    } else {
      for (std::size_t k = 0; k < 16; ++k) {
        const std::uint32_t word = product.a[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2];
        a[row][k] = {k, half_value(word >> (16 * (k % 2)), operands.bfloat16)};
      }
    }
  }
  for (std::size_t column = 0; column < static_cast<std::size_t>(operands.columns); ++column) {
    const OperandRow b = turned ? turned_b[column] : operand_row(operands.b_at, column, operands);
    for (std::size_t row = 0; row < 16; ++row) {
      float& sum = product.d[row % 8 * 4 + column % 8 / 2][column / 8 * 4 + row / 8 * 2 + column % 2];
      for (const auto& [k, value] : a[row]) sum += value * b[k];
    }
  }
}

void ThreadBlock::check_products_are_complete() {
  for (const Warp& warp : warps_) {
    if (!warp.products.empty())
      fail([] { return "the block ends before a warpgroup's product is complete: nobody waited for it"; });
  }
}

}  // namespace sparsmith
