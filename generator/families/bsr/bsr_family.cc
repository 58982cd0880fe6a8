#include "generator/families/bsr/bsr_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

std::vector<Parameter> parameters() {
  return {
      {"tiles", "r", tuned("BsrBlocks", "kTiles"),
       "16-row tiles of a block: use of an X operand against blocks and zeros"},
      {"token_tiles", "j", tuned("FragmentSums", "kTokenTiles"),
       "8-token tiles of a thread block: use of W's operands against thread blocks"},
      {"warps", "w", tuned("BsrKernel", "kWarps"),
       "warps that share out a row: loads side by side against sums to add"},
      {"ahead", "a", tuned("BsrKernel", "kAhead"),
       "blocks that a warp loads together: loads side by side against registers"},
      {"all", "s", {0, 1}, "which blocks are stored", {"listed", "all"}},
  };
}

std::vector<Rule> legal_rules() {
  return legal({
      {{"tiles"}, "tensor cores take 16-bit values", [](auto& in) { return size_of(in.spec.type) == 2; }},
      {{"tiles", "token_tiles", "warps"},
       "the warps' sums exceed the shared memory of a block",
       [](auto& in) {
         const std::int64_t sums = in["warps"] * 8 * in["token_tiles"] * (16 * in["tiles"] + 4) * 4;
         return sums <= in.device.shared_bytes_per_block;
       }},
  });
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"all"},
       "every block is stored where few would be left out, and only there",
       [](auto& in) { return (in["all"] != 0) == (in.statistics.block_touched[2] > 0.7); }},
      {{"token_tiles"},
       "a token tile no larger than the tokens",
       [](auto& in) { return in["token_tiles"] <= ceil_div(in.problem.tokens, 8); }},
      {{"tiles"},
       "a block no higher than the weight",
       [](auto& in) { return in["tiles"] <= ceil_div(in.spec.rows, 16); }},
      {{"warps"},
       "a block of the weight for each warp",
       [](auto& in) { return in["warps"] == 4 || in["warps"] <= ceil_div(in.spec.cols, 32); }},
      {{"warps", "ahead"},
       "no more blocks ahead than a warp has",
       [](auto& in) { return in["ahead"] == 1 || in["warps"] * in["ahead"] < 2 * ceil_div(in.spec.cols, 32); }},
      {{"tiles", "token_tiles", "warps", "ahead"},
       "sums, operands and blocks ahead fit the registers of a thread",
       [](auto& in) {
         Config config = in.config;
         config.values.try_emplace("all", 1);
         const BsrConfig bsr(config);
         return bsr.registers() <= std::min(240, 65536 / bsr.threads());
       }},
  };
}

KernelText bsr_text(const BsrConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  KernelText text;
  text.name = fmt::format("bsr_{}_r{}_j{}_w{}_a{}_{}", spec_tag(spec), config.tiles, config.token_tiles, config.warps,
                          config.ahead, config.all ? "all" : "listed");
  text.summary = fmt::format("Y = W X for {} weights in blocks of {} x 32, by tensor cores: {} tokens a block",
                             short_name(spec.type), config.rows(), config.tokens());
  text.threads = config.threads();
  text.headers = {"snippets/prolog/bsr_blocks.cuh", "snippets/prolog/fragment_input.cuh",
                  "snippets/reduction/fragment_sums.cuh", "snippets/kernels/bsr.cuh"};
  text.lines = {
      stored_type(spec.type),
      input_type(spec),
      output_type(spec),
      {fmt::format("constexpr int kWarps = {}", config.warps), "of a block: they share out K"},
      {fmt::format("using Blocks = BsrBlocks<Stored, {}, {}>", config.tiles, boolean(config.all)),
       "16-row tiles of a block; every block is stored"},
      {fmt::format("using Input = FragmentInput<InputType, {}>", token_major(spec)), "X as operands; token-major"},
      {fmt::format("using Sums = FragmentSums<InputType, {}, {}, kWarps>", config.tiles, config.token_tiles),
       "16-row tiles, 8-token tiles"},
  };
  add_output(spec, text);
  text.lines.push_back({fmt::format("using Kernel = BsrKernel<Blocks, Input, Sums, Output, kWarps, {}>", config.ahead),
                        "blocks loaded together"});
  add_shared_bytes(config.shared_bytes(), "Sums::kSharedBytes", text);
  text.parameters = {{"const Stored*", "values", packed_array("blocks")},
                     {"const u32*", "row_blocks", packed_array("row_blocks")},
                     {"const u32*", "block_columns", packed_array("block_columns")},
                     {"int", "row_width", integer("fact.block_columns")},
                     {"int", "rows", integer(spec.rows)},
                     {"int", "block_rows", integer("fact.block_rows")}};
  add_input_parameters(spec, text);
  add_output_parameters(text);
  text.body = std::string(kMakeOutput) +
              "const Blocks blocks{values, row_blocks, block_columns, row_width};\n"
              "const Input input(x, ldx, cols, n);\n"
              "Kernel::run(blocks, input, output, rows, block_rows, n, reinterpret_cast<float*>(shared_memory()));";
  return text;
}

Result<PlannedKernels> bsr_kernels(const Config& values, const Problem& problem, const PackedWeight& /*packed*/) {
  const BsrConfig config(values);
  PlannedKernels kernels;
  kernels.launch(bsr_text(config, problem)).grid = {formula("max(fact.block_rows, 1)"), token_blocks(config.tokens()),
                                                    1};
  return kernels;
}

// The cost model of the bsr family: an order among configs, in microseconds, without running anything.
//
// After its launch a block of threads waits for its first blocks of W, then for X, again for each further round of
// loads, and adds up its warps' sums; where thread blocks come in several waves, a part of that once a wave. Beside it
// a multiprocessor loads operands of X and multiplies, and the packed weight comes from HBM. Fitted to
// spaces that an H200 recorded (docs/results/search.md).

constexpr double kLaunchUs = 1.3;
constexpr double kFirstLoadsUs = 0.54;
constexpr double kNextLoadsUs = 0.33;
constexpr double kSumOfWarpUs = 0.02;     // where a thread adds up one output
constexpr double kFurtherWave = 0.44;     // of the above, that the wave before does not hide
constexpr double kMultiplyUs = 0.66e-3;   // a fragment of W by 8 tokens, on a multiprocessor
constexpr double kOperandUs = 2.0e-3;     // 32 columns of 8 tokens of X
constexpr double kElementWiseX = 2.9;     // times that, where they do not come as vectors: an estimate
constexpr double kL2BytesPerUs = 11.4e6;  // with L1
constexpr double kHbmShare = 1.1;         // reading, of what a copy reaches
constexpr double kTogether = 1.2;         // over the sum of the parts, by spaces recorded after these were fitted
constexpr double kListUs = 0.5;           // where a row's blocks begin, and their columns: an estimate

double predicted_bsr_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const BsrConfig config(values);
  const DeviceRates device(problem.device);
  const double sms = device.sms;
  const double block_rows = std::ceil(static_cast<double>(problem.spec.rows) / config.rows());
  const double token_tiles = std::ceil(static_cast<double>(problem.tokens) / config.tokens());
  // Of 16 x 16 or 32 x 32 elements, the nearest that are counted.
  const double touched = config.all ? 1 : statistics.block_touched[config.tiles == 1 ? 2 : 3];
  const double row_blocks = std::ceil(static_cast<double>(problem.spec.cols) / 32) * touched;
  const double block_bytes = config.rows() * 64.0;

  const double thread_blocks = std::max(1.0, block_rows * token_tiles);
  const double by_registers = std::floor(65536.0 / (config.registers() * config.threads()));
  const double resident = std::clamp(by_registers, 1.0, std::floor(2048.0 / config.threads()));
  const double waves = std::ceil(thread_blocks / (sms * resident));
  const double of_sm = std::ceil(thread_blocks / sms);  // thread blocks of the busiest multiprocessor
  const double side_by_side = std::min(resident, of_sm);
  const double busy = std::min(1.0, thread_blocks / sms);

  const double rounds = std::max(1.0, std::ceil(row_blocks / (config.warps * config.ahead)));
  const double outputs = std::ceil(config.rows() * config.tokens() / static_cast<double>(config.threads()));
  const double chain_us = kFirstLoadsUs + (rounds - 1) * kNextLoadsUs +
                          outputs * config.warps * kSumOfWarpUs * side_by_side + (config.all ? 0 : kListUs);
  const bool by_vectors = problem.spec.layout == Layout::kTokenMajor && problem.spec.cols % 8 == 0;
  const double operand_us = kOperandUs * (by_vectors ? 1 : kElementWiseX);
  const double work_us = of_sm * row_blocks * config.token_tiles * (2 * config.tiles * kMultiplyUs + operand_us) +
                         block_rows * row_blocks * token_tiles * (config.tokens() * 64.0 + block_bytes) /
                             (kL2BytesPerUs * l2_speed(problem.device) * busy);
  const double hbm_us = block_rows * row_blocks * block_bytes / (kHbmShare * device.hbm);
  return kTogether * (kLaunchUs + launch_delay_us(problem.device) + chain_us +
                      std::max(hbm_us, work_us + kFurtherWave * chain_us * (waves - 1)));
}

}  // namespace

const Family& bsr_family() {
  static const Family kFamily = {
      .name = "bsr",
      .multiplied_share = 1,
      .parameters = parameters(),
      .rules = joined({legal_rules(), worthwhile_rules()}),
      .packing_of_rows = packing_name<BsrConfig>,
      .kernels = bsr_kernels,
      .predict = predicted_bsr_us,
  };
  return kFamily;
}

}  // namespace sparsmith
