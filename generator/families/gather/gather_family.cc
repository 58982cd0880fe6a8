#include "generator/families/gather/gather_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "formats/panel_words.h"
#include "generator/catalogue.h"
#include "generator/device_speed.h"
#include "generator/families/panel/panel_family.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kMostSlots = 4096;

// Slots whose sums fit in shared memory.
std::int64_t slots_that_fit(const GatherConfig& config, const Problem& problem) {
  const std::int64_t sums_bytes = config.tile_tokens(problem.spec.type) * 4;
  return std::min(problem.device.shared_bytes_per_block / sums_bytes / 64 * 64, kMostSlots);
}

std::vector<Parameter> parameters() {
  return {
      {"token_lanes", "n", tuned("GatheredRows", "kTeamLanes"),
       "lanes that share an entry: bytes of a row of X against reach of L1"},
      {"segment_lanes", "t", tuned("GatheredProducts", "kLanes"),
       "teams of a segment: balance of few rows against sums to combine"},
      {"segment_length", "l", {32, 128, 512}, "longer rows are cut: balance against sums to combine"},
      {"threads_per_block", "b", tuned("GatherKernel", "kThreads"),
       "warps that hide latency against registers of each"},
      {"row_parts",
       "r",
       {1, 2, 4, 8, 16, 33, 66, 132, 264, 528},
       "blocks that share out the rows: balance against reuse of L1"},
      {"sweep_columns",
       "s",
       {0, 512, 1024, 2048},
       "all warps on the same columns: rows of X that L1 still holds against sums added more often"},
      {"depth", "d", {2, 4}, "steps in flight a warp: latency hiding against registers"},
      {"ahead", "a", tuned("GatherKernel", "kAhead"),
       "rows of X asked for a step early: latency hiding against registers"},
  };
}

std::vector<Rule> legal_rules() {
  return legal({
      {{"token_lanes", "segment_lanes"},
       "the teams of a segment lie in one warp",
       [](auto& in) { return in["token_lanes"] * in["segment_lanes"] <= panel::kWarpLanes; }},
      {{"depth", "ahead"},
       "rows that are asked for ahead need four steps under way",
       [](auto& in) { return in["ahead"] == 0 || in["depth"] >= 4; }},
      {{},
       "the sums exceed the shared memory of a block",
       [](auto& in) {
         const GatherConfig config(in.config);
         return slots_that_fit(config, in.problem) >= least_slots(config.packing(in.problem));
       }},
  });
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"token_lanes"},
       "rows of X are gathered for the sake of several tokens",
       [](auto& in) { return in.problem.tokens > 1; }},
      {{"token_lanes"},
       "half of the token lanes have tokens",
       [](auto& in) {
         const std::int64_t lane_tokens = 16 / static_cast<std::int64_t>(size_of(in.spec.type));
         return in["token_lanes"] == 1 || in["token_lanes"] * lane_tokens < 2 * in.problem.tokens;
       }},
      {{"token_lanes"},
       "more than 16 bytes of a row where there are more",
       [](auto& in) {
         const std::int64_t lane_tokens = 16 / static_cast<std::int64_t>(size_of(in.spec.type));
         return in["token_lanes"] > 1 || in.problem.tokens <= 2 * lane_tokens;
       }},
      {{"token_lanes", "segment_lanes", "segment_length"},
       "a segment long enough for its lanes",
       [](auto& in) {
         return in["segment_length"] >= 8 * in["segment_lanes"] &&
                (in["segment_lanes"] == 1 || static_cast<double>(in["segment_lanes"]) <= in.statistics.row_mean);
       }},
      {{"threads_per_block", "ahead"},
       "rows asked for ahead take more registers than 1,024 threads have",
       [](auto& in) { return in["ahead"] == 0 || in["threads_per_block"] < 1024 || size_of(in.spec.type) == 4; }},
      {{"segment_length"},
       "rows of usual length are not cut, and segments no longer than the longest row",
       [](auto& in) {
         const auto length = static_cast<double>(in["segment_length"]);
         return (length >= in.statistics.row_mean || length >= 512) &&
                (length <= 4 * static_cast<double>(in.statistics.row_max) || length <= 32);
       }},
      {{"sweep_columns"},
       "several blocks of columns, with several nonzeros of a row in each",
       [](auto& in) {
         const auto columns = static_cast<double>(in["sweep_columns"]);
         const auto cols = static_cast<double>(in.spec.cols);
         return columns == 0 || (2 * columns <= cols && in.statistics.row_mean * columns >= 4 * cols);
       }},
      {{"threads_per_block", "row_parts", "sweep_columns"},
       "a sweep has several rows for each warp, and warps enough in a block",
       [](auto& in) {
         return in["sweep_columns"] == 0 ||
                (in["threads_per_block"] >= 512 && in.spec.rows >= in["row_parts"] * in["threads_per_block"] / 8);
       }},
      {{"row_parts"},
       "a part of several rows",
       [](auto& in) { return in["row_parts"] <= 8 || in["row_parts"] * 4 <= in.spec.rows; }},
      {{"token_lanes", "threads_per_block", "row_parts"},
       "threads for every multiprocessor that has rows, and no more blocks than run in four waves",
       [](auto& in) {
         const Problem& problem = in.problem;
         const std::int64_t tile = GatherConfig(in.config).tile_tokens(problem.spec.type);
         const std::int64_t blocks = in["row_parts"] * ((problem.tokens + tile - 1) / tile);
         const std::int64_t threads = blocks * in["threads_per_block"];
         const std::int64_t sms = std::max(problem.device.sm_count, 1);
         const bool few_rows = in["row_parts"] * 12 > problem.spec.rows;
         return (few_rows || (2 * blocks >= sms && threads >= sms * 256)) &&
                threads <= 4 * sms * problem.device.max_threads_per_sm;
       }},
  };
}

KernelText gather_text(const GatherConfig& config, const OperatorSpec& spec) {
  const bool wide = panel::step_words(spec.type, config.token_lanes, spec.cols).form == panel::EntryForm::kWords;
  KernelText text;
  text.name =
      fmt::format("gather_{}_n{}_t{}_d{}_a{}{}{}{}_b{}", spec_tag(spec), config.token_lanes, config.segment_lanes,
                  config.depth, config.ahead, wide ? "_w" : "", config.sweep_columns > 0 ? "_s" : "",
                  spec.accumulation == Accumulation::kFp16Chains ? "_c" : "", config.threads_per_block);
  text.summary = fmt::format("Y = W X for {} weights in tasks, rows of {} tokens of X gathered through L1 and L2",
                             short_name(spec.type), config.tile_tokens(spec.type));
  text.threads = config.threads_per_block;
  // Left to itself, the compiler spills for the sake of more blocks.
  const int threads_per_sm = config.ahead == 1 && size_of(spec.type) == 2 ? 512 : 1024;
  if (text.threads <= threads_per_sm) text.min_blocks_per_sm = threads_per_sm / text.threads;
  text.headers = {"snippets/prolog/panel_stream.cuh", "snippets/prolog/gathered_rows.cuh",
                  "snippets/reduction/gathered_products.cuh", "snippets/kernels/gather.cuh"};
  text.lines = {
      input_type(spec),
      output_type(spec),
      {fmt::format("using Stream = PanelStream<panel::Step, {}, kThreads / 32, {}>", config.depth, config.token_lanes),
       "steps loaded ahead, warps, lanes of a team"},
      {fmt::format("using Input = GatheredRows<InputType, {}, {}, {}>", config.token_lanes, boolean(wide),
                   token_major(spec)),
       "lanes of a team, a word for each column, X turned by a launch before"},
      {fmt::format("using Products = GatheredProducts<Input, {}, {}, {}>", config.segment_lanes,
                   boolean(config.sweep_columns > 0), row_products_type(spec)),
       "teams a segment, sums added to those of earlier columns"},
  };
  add_output(spec, text);
  text.lines.push_back({fmt::format("using Kernel = GatherKernel<Stream, Input, Products, Output, {}, {}, kThreads>",
                                    token_major(spec), config.ahead),
                        "Y token-major, steps whose rows are asked for ahead"});
  const bool relaid = spec.layout == Layout::kTokenMajor;
  const std::string row_bytes = fmt::format("({}) * {}", relaid ? kRelayoutStride : "ld.x", size_of(spec.type));
  add_panel_parameters(text);
  text.parameters.insert(text.parameters.end(), {{"int", "cols", integer(spec.cols)},
                                                 {"const InputType*", "x", relaid ? workspace() : operand("x")},
                                                 {"u32", "x_row_bytes", integer(row_bytes)},
                                                 {"int", "x_tokens", integer(relaid ? kRelayoutStride : "n")},
                                                 {"int", "n", integer("n")}});
  add_output_parameters(text);
  text.body =
      "const panel::Weight weight{entries, shares, task_slots, parts, row_slots, part_count, share_steps, "
      "cols};\n" +
      std::string(kMakeOutput) + "Kernel::run(weight, x, x_row_bytes, x_tokens, output, n, shared_memory());";
  return text;
}

Result<PlannedKernels> gather_kernels(const Config& values, const Problem& problem, const PackedWeight& /*packed*/) {
  const GatherConfig config(values);
  const OperatorSpec& spec = problem.spec;
  PlannedKernels kernels;
  if (spec.layout == Layout::kTokenMajor) {
    kernels.plan.workspace_bytes = IntegerExpression::of(relayout_bytes(spec));
    add_relayout(spec, kernels);
  }
  const std::int64_t tokens = config.tile_tokens(spec.type);
  PlanStep& step = kernels.launch(gather_text(config, spec));
  step.grid = {formula("fact.parts"), token_blocks(tokens), 1};
  step.shared_bytes = formula("fact.slots * {}", tokens * 4);
  return kernels;
}

// The cost model of the gather family: an order among configs, in microseconds, without running anything.
//
// After its first load from HBM a block is bound by these together, the slowest above all:
//   lines    L1 looks up one 128-byte line a clock: one for each entry of a team
//   L2       bytes of X that L1 does not hold
//   issue    instructions for an entry of each lane, over the four schedulers
//   stream   the packed weight: from HBM once, from L2 for every further tile of tokens
//   chain    a step's gathers wait for L2, less where all of them are asked for together, and the next step for them
// The constants are fitted to spaces that an H200 recorded (docs/results/search.md).

constexpr double kLaunchUs = 2.3;
constexpr double kFirstLoadUs = 0.95;  // from the start of a block to its first entries
constexpr double kFinishUs = 0.76;     // barrier, sums of rows, stores
constexpr double kL1LatencyUs = 0.054;
constexpr double kL2LatencyUs = 0.62;  // more
constexpr double kL2BytesPerUs = 10.5e6;
constexpr double kIssued = 0.78;        // instructions a cycle of a scheduler, at best
constexpr double kAheadShare = 0.6;     // of a chain, where gathers are a step ahead
constexpr double kTogetherShare = 0.7;  // where all of a step are asked for together
constexpr double kHalfInstructions = 25.0;
constexpr double kChainInstructions = 18.0;
constexpr double kFp32Instructions = 12.0;
constexpr double kLineBytes = 128;
constexpr double kL1Bytes = 250 * 1024;  // with shared memory

// The tasks that a packing makes of the rows.
struct Tasks {
  double pieces = 0;   // of rows, in the whole weight
  double puts = 0;     // sums of a segment that go to shared memory
  double stored = 0;   // entries, padding counted
  double balance = 1;  // steps of the longest share over those of the average
};

Tasks tasks_of(const GatherConfig& config, const SparsityStatistics& statistics, std::int64_t cols, int step) {
  const double nnz = static_cast<double>(statistics.nnz);
  const double warps = config.threads_per_block / 32.0;
  const double segments = 32.0 / (config.token_lanes * config.segment_lanes);
  const double mean = std::max(statistics.row_mean, 1.0);
  const double length = std::min(mean, static_cast<double>(config.segment_length));
  const double a_step = static_cast<double>(config.segment_lanes) * step;
  Tasks tasks;
  tasks.pieces = static_cast<double>(statistics.rows) * mean / length;
  const double of_part = std::max(1.0, tasks.pieces / config.row_parts);
  if (config.sweep_columns == 0) {
    // A task ends with a whole step; and its segments differ in length, the more the fewer rows a part has.
    tasks.stored = nnz * (1.02 + (a_step - 1) / 2 / length + 0.06 * std::sqrt(segments / of_part));
    tasks.puts = tasks.pieces + segments * warps * config.row_parts;
  } else {
    // The same for what a piece has in a block of columns, of which a warp has only its own to choose from.
    const double blocks = static_cast<double>(cols) / config.sweep_columns;
    const double choice = segments * warps / of_part;
    tasks.stored = nnz * (1 + (a_step - 1) / 2 * blocks / length + 0.9 * choice / (1 + 0.5 * choice));
    tasks.puts = tasks.pieces * std::min(blocks, length);
    tasks.balance = 1 + 0.9 * warps / of_part;
  }
  return tasks;
}

// Where a launch's blocks run.
struct Grid {
  double tiles = 1;  // of tokens
  double blocks = 1;
  double busy = 1;       // multiprocessors
  double imbalance = 1;  // entries of the busiest multiprocessor over those of the average
  double waves = 1;
  double resident = 1;      // blocks on a multiprocessor
  double shared_bytes = 0;  // of a block
};

Grid grid_of(const GatherConfig& config, const Problem& problem, const Tasks& tasks) {
  const double tile = static_cast<double>(config.tile_tokens(problem.spec.type));
  const double sms = std::max(problem.device.sm_count, 1);
  const double warps = config.threads_per_block / 32.0;
  const double segments = 32.0 / (config.token_lanes * config.segment_lanes);
  Grid grid;
  grid.tiles = std::ceil(static_cast<double>(problem.tokens) / tile);
  grid.blocks = grid.tiles * config.row_parts;
  grid.busy = std::min(sms, grid.blocks);
  const double per_sm = grid.blocks / grid.busy;
  grid.imbalance = std::ceil(per_sm) / per_sm;
  grid.shared_bytes =
      (tasks.pieces / config.row_parts + (config.sweep_columns == 0 ? warps * segments : 0.0)) * tile * 4;
  // As ptxas says for sm_90.
  const bool fp32 = problem.spec.type == DataType::kFloat32;
  const double registers = (fp32 ? 46 : 56) + 2 * config.depth + (fp32 ? 14 : 34) * config.ahead;
  const double most =
      std::min({static_cast<double>(problem.device.max_threads_per_sm) / config.threads_per_block,
                std::floor(65536 / (registers * config.threads_per_block)),
                std::floor(static_cast<double>(problem.device.shared_bytes_per_sm) / grid.shared_bytes)});
  grid.resident = std::clamp(most, 1.0, std::ceil(per_sm));
  grid.waves = std::ceil(grid.blocks / (grid.busy * grid.resident));
  return grid;
}

// The share of gathers that L1 does not hold.
double misses(const GatherConfig& config, const Problem& problem, const Grid& grid, double nnz) {
  const double sms = std::max(problem.device.sm_count, 1);
  const double row_bytes = static_cast<double>(size_of(problem.spec.type)) * static_cast<double>(problem.tokens);
  const double asked = std::min(16.0 * config.token_lanes, row_bytes);
  // L1 keeps whole lines, of which a narrow tile uses a part.
  const double kept = std::min(kLineBytes, std::max(asked, row_bytes));
  const double cols = std::max(1.0, static_cast<double>(problem.spec.cols));
  const double entries = nnz / std::min<double>(config.row_parts, sms);  // of a tile on one multiprocessor
  const double tiles_at_once = std::max(1.0, grid.resident * sms / std::max<double>(config.row_parts, sms));
  const double room = std::max(0.0, kL1Bytes - grid.resident * grid.shared_bytes) / tiles_at_once;
  const double distinct = cols * (1 - std::exp(-entries / cols));
  const double again = 1 - distinct / std::max(1.0, entries);
  const double window = config.sweep_columns == 0 ? distinct : std::min(distinct, 1.1 * config.sweep_columns);
  return 1 - again * std::min(1.0, room / (window * kept));
}

// Bytes that L2 sends for a gather that L1 does not hold: sectors of 32, unless rows of X are shorter.
double missed_bytes(const GatherConfig& config, const Problem& problem) {
  const double row_bytes = static_cast<double>(size_of(problem.spec.type)) * static_cast<double>(problem.tokens);
  return std::min(row_bytes, std::max(32.0, 16.0 * config.token_lanes));
}

double predicted_gather_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics) {
  const GatherConfig config(values);
  const OperatorSpec& spec = problem.spec;
  const bool fp32 = spec.type == DataType::kFloat32;
  const double element = static_cast<double>(size_of(spec.type));
  const auto [sms, most_mhz, hbm] = DeviceRates(problem.device);
  const double clock_mhz = most_mhz * 0.9;
  const double l2 = kL2BytesPerUs * l2_speed(problem.device);
  const double warps = config.threads_per_block / 32.0;
  const int step = panel::step_words(spec.type, config.token_lanes, spec.cols).entries();
  const Tasks tasks = tasks_of(config, statistics, spec.cols, step);
  const Grid grid = grid_of(config, problem, tasks);

  // Of the busiest multiprocessor; a lane without an entry takes instructions, but asks for nothing. A row is one
  // block's.
  const double nnz = static_cast<double>(statistics.nnz);
  const double mean_share = grid.tiles / grid.busy * grid.imbalance;
  const double longest_row = static_cast<double>(statistics.row_max) / std::max(nnz, 1.0);
  const double share = std::max(mean_share, longest_row);
  const double lines_us = nnz * share / clock_mhz;
  const double missed = misses(config, problem, grid, nnz);
  const double l2_us = nnz * mean_share * grid.busy * missed * missed_bytes(config, problem) / l2;
  const bool chains = spec.accumulation == Accumulation::kFp16Chains;
  const double instructions = (fp32     ? kFp32Instructions
                               : chains ? kChainInstructions
                                        : kHalfInstructions) +
                              12.0 / step;
  const double shuffled = (fp32 ? 4.0 : 8.0) * 4 * (1 - 1.0 / config.segment_lanes);
  const double put = config.segment_lanes * ((config.sweep_columns == 0 ? 20.0 : 28.0) + shuffled);
  const double issue_us = (tasks.stored * tasks.balance * instructions + tasks.puts * put) * share *
                          config.token_lanes / 32 / (4 * kIssued) / clock_mhz;
  const double weight_bytes = tasks.stored * tasks.balance * 16 / step;
  const double stream_us =
      (weight_bytes / (0.9 * hbm) + weight_bytes * (grid.tiles - 1) / l2) * std::max(1.0, 0.6 * sms / grid.busy);
  const double step_gathers = 32.0 / config.token_lanes * step;
  const double of_a_part = std::max(1.0 / config.row_parts, longest_row);
  const double steps = std::ceil(tasks.stored * tasks.balance * of_a_part / warps / step_gathers);
  const double latency_us = kL1LatencyUs + kL2LatencyUs * (1 - std::pow(1 - missed, step_gathers));
  const bool asked_together = step > 2 && config.token_lanes >= 4;  // as GatherKernel does
  const double waited = config.ahead == 1 ? kAheadShare : asked_together ? kTogetherShare : 1.0;
  const double chain_us = grid.waves * steps * latency_us * waited;

  const double y_bytes = static_cast<double>(spec.rows) * static_cast<double>(problem.tokens) * element;
  double total = kLaunchUs + launch_delay_us(problem.device) + kFirstLoadUs +
                 together({lines_us, l2_us, issue_us, stream_us, chain_us}, 4) + grid.waves * kFinishUs + y_bytes / l2;
  if (spec.layout == Layout::kTokenMajor) {
    // Stores of one element a lane, half a line or a line of Y at a time.
    constexpr double kStoredPerUs = 1.6e6;
    total += relayout_us(problem) + static_cast<double>(spec.rows) * static_cast<double>(problem.tokens) / kStoredPerUs;
  }
  return total;
}

}  // namespace

std::int64_t GatherConfig::tile_tokens(DataType type) const {
  return std::int64_t{token_lanes} * 16 / static_cast<std::int64_t>(size_of(type));
}

PanelPacking GatherConfig::packing(const Problem& problem) const {
  return {.row_parts = row_parts,
          .warps = threads_per_block / panel::kWarpLanes,
          .segment_lanes = segment_lanes,
          .segment_length = segment_length,
          .max_slots = static_cast<int>(slots_that_fit(*this, problem)),
          .token_lanes = token_lanes,
          .sweep_columns = sweep_columns};
}

const Family& gather_family() {
  static const Family kFamily = {
      .name = "gather",
      .parameters = parameters(),
      .rules = joined({legal_rules(), worthwhile_rules()}),
      .packing_of_rows = packing_name<GatherConfig>,
      .kernels = gather_kernels,
      .predict = predicted_gather_us,
  };
  return kFamily;
}

}  // namespace sparsmith
