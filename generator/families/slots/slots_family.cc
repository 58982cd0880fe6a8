#include "generator/families/slots/slots_family.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/slots_layout.h"
#include "formats/slots_steps.h"
#include "generator/catalogue.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

constexpr int kKernelRegisters = 32;  // of a thread, besides its tiles in flight

bool has_base(std::int64_t columns) {
  return columns != static_cast<std::int64_t>(SlotColumns::kUint16) &&
         columns != static_cast<std::int64_t>(SlotColumns::kUint32);
}

// Whether rows are so long that the padding of a last tile of 32 nonzeros, 16 in the mean, takes less than a shared
// base saves.
bool fills_wide_tiles(const RuleInput& in) { return in.statistics.row_mean >= 512; }

// Bytes a nonzero in tiles of equal width, padding between nonzeros included, which distances of 8 bits have none of.
double distance_bytes(SlotColumns columns, const RuleInput& in) {
  return slot_nonzero_bytes(columns, 16, in.spec.type, in.statistics);
}

// Of distances that any width of tile has, those that take the fewest.
SlotColumns narrowest_distances(const RuleInput& in) {
  return std::ranges::min({SlotColumns::kDelta8, SlotColumns::kDelta6, SlotColumns::kDelta4}, {},
                          [&](SlotColumns columns) { return distance_bytes(columns, in); });
}

// 3 bits, which only wide tiles have, beside what is the narrowest otherwise: their gathers meet more words in a bank.
bool has_short_steps(const RuleInput& in) {
  return fills_wide_tiles(in) && in.spec.cols >= slots::kLeastColumns3 &&
         distance_bytes(SlotColumns::kDelta3, in) < distance_bytes(narrowest_distances(in), in);
}

double density(const RuleInput& in) {
  return in.statistics.row_mean / static_cast<double>(std::max<std::int64_t>(1, in.spec.cols));
}

std::vector<Parameter> parameters() {
  return {
      {"columns",
       "i",
       {0, 1, 2, 3, 4, 5, 6},
       "bytes of a column against its reach",
       {"u16", "u32", "delta8", "off8", "delta4", "delta6", "delta3"}},
      {"vector_width", "v", {4, 8, 16, 32}, "nonzeros of a lane's tile: width of loads against padding"},
      {"tiles_per_slot", "p", tuned("SlotsKernel", "kTilesPerSlot"), "sums in shared memory against padding"},
      {"input", "x", {0, 1}, "gather cost against staging", {"global", "shared"}},
      {"tokens_per_pass", "n", tuned("SlotSums", "kTokens"),
       "the weight is decoded once for them: registers and shared memory"},
      {"blocks_per_sm", "g", {1, 2, 4}, "copies of x against phases that overlap"},
      {"threads_per_block", "b", tuned("SlotsKernel", "kThreads"), "occupancy against registers"},
      {"depth", "d", tuned("SlotsKernel", "kDepth"), "tiles in flight a lane: latency hiding against registers"},
      {"row_lanes", "s", tuned("SlotSums", "kLanes"), "lanes that add up a row: depth against rows at once"},
  };
}

std::vector<Rule> legal_rules() {
  return legal({
      {{"columns"},
       "16-bit columns need K <= 65,535, distances K <= 65,536",
       [](auto& in) {
         const std::int64_t reach = in["columns"] == static_cast<std::int64_t>(SlotColumns::kUint16) ? 65535 : 65536;
         return in["columns"] == static_cast<std::int64_t>(SlotColumns::kUint32) || in.spec.cols <= reach;
       }},
      {{"columns", "vector_width"},
       "the columns of a tile are whole words: 8 to 32 nonzeros with 4-bit distances, 16 with 6-bit, 32 with 3-bit "
       "ones",
       [](auto& in) { return has_vector_width(static_cast<SlotColumns>(in["columns"]), in["vector_width"]); }},
      {{"columns"},
       "3-bit distances need K >= 256",
       [](auto& in) {
         return in["columns"] != static_cast<std::int64_t>(SlotColumns::kDelta3) ||
                in.spec.cols >= slots::kLeastColumns3;
       }},
      {{"tiles_per_slot", "depth"},
       "the tiles in flight are whole slots",
       [](auto& in) { return in["depth"] % in["tiles_per_slot"] == 0; }},
      {{"threads_per_block", "blocks_per_sm"},
       "the blocks exceed the threads of a multiprocessor",
       [](auto& in) { return in["threads_per_block"] * in["blocks_per_sm"] <= in.device.max_threads_per_sm; }},
      {{"columns", "vector_width", "depth", "input", "threads_per_block", "tokens_per_pass", "blocks_per_sm"},
       "tiles and gathers in flight exceed the registers of a thread",
       [](auto& in) {
         // At least those that a tile takes while it is multiplied.
         const SlotsConfig config(in.config);
         int needed = config.depth * config.tile_registers(in.spec.type) + kKernelRegisters;
         if (config.input == SlotsConfig::Input::kGlobal) {
           // An address and what comes from it for each token, and each of its nonzeros in a tile.
           needed += 2 * (config.vector_width + 1) * config.tokens_per_pass;
         } else {
           needed += 3 * (config.tokens_per_pass - 1);
         }
         const std::int64_t threads = in["threads_per_block"] * in["blocks_per_sm"];
         return needed <= std::min<std::int64_t>(255, in.device.registers_per_sm / threads);
       }},
      {{"columns", "vector_width", "tiles_per_slot", "input", "tokens_per_pass", "blocks_per_sm"},
       "x and the sums of slots exceed the shared memory of a block",
       [](auto& in) {
         const SlotsConfig config(in.config);
         const SlotsEstimate estimate(config, in.problem, in.statistics);
         return config.vector_bytes(in.problem.spec) + config.tokens_per_pass * estimate.sums_bytes() <=
                    in.device.shared_bytes_per_block &&
                estimate.part_slots < 65536;
       }},
  });
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"columns"},
       "32-bit columns only where 16-bit ones do not do",
       [](auto& in) {
         return in["columns"] != static_cast<std::int64_t>(SlotColumns::kUint32) || in.spec.cols > 65535;
       }},
      {{"columns"},
       "distances need neighbours that are near",
       [](auto& in) { return !has_base(in["columns"]) || density(in) >= 0.02; }},
      {{"columns"},
       "distances in 4 or 6 bits take fewer bytes than each other and than 8, those in 3 fewer still, padding included",
       [](auto& in) {
         const auto columns = static_cast<SlotColumns>(in["columns"]);
         if (columns == SlotColumns::kDelta3) return has_short_steps(in);
         return !pads_long_steps(columns) || columns == narrowest_distances(in);
       }},
      {{"columns", "vector_width"},
       "a base of 16 bits is shared by at least 8 nonzeros",
       [](auto& in) { return !has_base(in["columns"]) || in["vector_width"] >= 8; }},
      {{"vector_width"},
       "tiles of 32 nonzeros for rows of many",
       [](auto& in) { return in["vector_width"] < 32 || fills_wide_tiles(in); }},
      {{"vector_width", "tiles_per_slot"},
       "a row fills a slot",
       [](auto& in) {
         return in["vector_width"] * in["tiles_per_slot"] <= 8 ||
                static_cast<double>(in["vector_width"] * in["tiles_per_slot"]) <= in.statistics.row_mean;
       }},
      {{"input", "blocks_per_sm"},
       "x in shared memory wherever it fits, unless a block has few nonzeros",
       [](auto& in) {
         const auto bytes = in.spec.cols * static_cast<std::int64_t>(size_of(in.spec.type));
         const std::int64_t blocks = in["blocks_per_sm"] * std::max(in.device.sm_count, 1);
         return static_cast<SlotsConfig::Input>(in["input"]) == SlotsConfig::Input::kShared ||
                bytes > in.device.shared_bytes_per_block / 3 || in.statistics.nnz / blocks < in.spec.cols / 4;
       }},
      {{"tokens_per_pass"},
       "a pass of more tokens than there are",
       [](auto& in) { return in["tokens_per_pass"] == 1 || in["tokens_per_pass"] / 2 < in.problem.tokens; }},
      {{"tokens_per_pass"},
       "few passes",
       [](auto& in) { return in["tokens_per_pass"] == 8 || 4 * in["tokens_per_pass"] >= in.problem.tokens; }},
      {{"columns", "vector_width", "tiles_per_slot", "input", "tokens_per_pass", "blocks_per_sm"},
       "the blocks of a multiprocessor fit its shared memory together",
       [](auto& in) {
         const SlotsConfig config(in.config);
         const SlotsEstimate estimate(config, in.problem, in.statistics);
         const std::int64_t block =
             config.vector_bytes(in.problem.spec) + config.tokens_per_pass * estimate.sums_bytes() + 1024;
         return in["blocks_per_sm"] * block <= in.device.shared_bytes_per_sm;
       }},
      {{"threads_per_block", "blocks_per_sm", "tokens_per_pass"},
       "at least 512 threads hide the latency of a multiprocessor's loads",
       [](auto& in) {
         const std::int64_t passes = (in.problem.tokens + in["tokens_per_pass"] - 1) / in["tokens_per_pass"];
         return in["threads_per_block"] * in["blocks_per_sm"] * passes >= 512;
       }},
  };
}

std::string columns_type(const SlotsConfig& config) {
  static constexpr const char* kTypes[] = {
      "Columns16<{}>", "Columns32<{}>", "Columns8<{}, true>", "Columns8<{}, false>", "Columns4<{}>",
      "Columns6",      "Columns3"};  // by SlotColumns
  return fmt::format(fmt::runtime(kTypes[static_cast<std::size_t>(config.columns)]), config.vector_width);
}

KernelText slots_text(const SlotsConfig& config, const OperatorSpec& spec, bool long_rows) {
  const bool shared = config.input == SlotsConfig::Input::kShared;
  KernelText text;
  text.name =
      fmt::format("slots_{}_{}_v{}_p{}_d{}_s{}_x{}_n{}_b{}x{}{}", spec_tag(spec), slot_columns_name(config.columns),
                  config.vector_width, config.tiles_per_slot, config.depth, config.row_lanes, shared ? "s" : "g",
                  config.tokens_per_pass, config.threads_per_block, config.blocks_per_sm, long_rows ? "_l" : "");
  text.summary = fmt::format("Y = W X for {} weights in slots of {} nonzeros, {} tokens a pass", short_name(spec.type),
                             config.vector_width * config.tiles_per_slot, config.tokens_per_pass);
  text.threads = config.threads_per_block;
  text.min_blocks_per_sm = config.blocks_per_sm;
  text.headers = {"snippets/prolog/slot_stream.cuh",
                  shared ? "snippets/prolog/staged_vector.cuh" : "snippets/prolog/direct_vector.cuh",
                  "snippets/reduction/slot_sums.cuh", "snippets/kernels/slots.cuh"};
  text.lines = {
      stored_type(spec.type),
      input_type(spec),
      output_type(spec),
      {fmt::format("using Columns = {}", columns_type(config)), "of a lane's tile"},
      {"using Stream = SlotStream<Stored, Columns>", ""},
      {shared ? fmt::format("using Input = StagedVector<InputType, {}, kThreads>", config.tokens_per_pass)
              : fmt::format("using Input = DirectVector<InputType, {}>", config.tokens_per_pass),
       "tokens of X"},
      {fmt::format("using Sums = SlotSums<{}, {}, {}>", config.row_lanes, config.tokens_per_pass,
                   long_rows ? "kThreads" : "0"),
       "lanes that add up a row, tokens, threads that add up a long one"},
  };
  add_output(spec, text);
  text.lines.push_back({fmt::format("using Kernel = SlotsKernel<Stream, Input, Sums, Output, {}, {}, kThreads>",
                                    config.tiles_per_slot, config.depth),
                        "tiles a slot, tiles in flight"});
  const bool token_major = spec.layout == Layout::kTokenMajor;
  text.parameters = {{"const u8*", "stream", packed_array("slots")},
                     {"const slots::Row*", "rows", packed_array("rows")},
                     {"const InputType*", "x", operand("x")},
                     {"int", "groups", integer("fact.groups")},
                     {"int", "heavy_parts", integer("fact.heavy_parts")},
                     {"int", "heavy_groups", integer("fact.heavy_groups")},
                     {"int", "rows_per_part", integer("fact.rows_per_part")},
                     {"int", "cols", integer(spec.cols)},
                     {"int", "n", integer("n")},
                     {"i64", "column_stride", integer(token_major ? "1" : "ld.x")},
                     {"i64", "token_stride", integer(token_major ? "ld.x" : "1")}};
  add_output_parameters(text);
  text.body = std::string("Input input(x, column_stride, token_stride, cols, shared_memory());\n") +
              "const Sums sums{reinterpret_cast<float*>(shared_memory() + Input::shared_bytes(cols)), heavy_groups * "
              "32};\n" +
              kMakeOutput + "const slots::PartSizes sizes{heavy_parts, heavy_groups, groups};\n" +
              "Kernel::run(stream, rows, input, sums, output, sizes, rows_per_part, n);";
  return text;
}

Result<PlannedKernels> slots_kernels(const Config& values, const Problem& problem, const PackedWeight& packed) {
  const SlotsConfig config(values);
  const bool long_rows = config.adds_long_rows(packed);
  PlannedKernels kernels;
  PlanStep& step = kernels.launch(slots_text(config, problem.spec, long_rows));
  step.grid = {formula("fact.parts"), token_blocks(config.tokens_per_pass), 1};
  const std::int64_t places = long_rows ? config.threads_per_block / slots::kLanes + 1 : 0;
  step.shared_bytes = formula("{} + (fact.heavy_groups * {} + {}) * {}", config.vector_bytes(problem.spec),
                              slots::kLanes, places, 4 * config.tokens_per_pass);
  return kernels;
}

}  // namespace

SlotsPacking SlotsConfig::packing(const Problem& problem) const {
  return {columns, vector_width, tiles_per_slot, blocks_per_sm * std::max(problem.device.sm_count, 1)};
}

std::int64_t SlotsConfig::vector_bytes(const OperatorSpec& spec) const {
  if (input != Input::kShared) return 0;
  const auto element = static_cast<std::int64_t>(size_of(spec.type));
  return 128 + tokens_per_pass * ((spec.cols * element + element + 127) / 128 * 128);  // StagedVector::shared_bytes
}

int SlotsConfig::tile_registers(DataType type) const {
  const int values = vector_width * static_cast<int>(size_of(type)) / 4;
  switch (columns) {
    case SlotColumns::kUint16: return values + vector_width / 2;
    case SlotColumns::kUint32: return values + vector_width;
    case SlotColumns::kDelta4: return values + vector_width / 8 + 1;
    case SlotColumns::kDelta6: return values + vector_width / 16 * 3 + 1;
    case SlotColumns::kDelta3: return values + vector_width / 32 * 3 + 1;
    default: return values + vector_width / 4 + 1;
  }
}

bool SlotsConfig::adds_long_rows(const PackedWeight& packed) const {
  const std::int64_t longest = packed.facts.at("longest_row");
  const std::int64_t slot_length = std::int64_t{vector_width} * tiles_per_slot;
  return longest > std::int64_t{slots::kLongRow} * row_lanes &&
         2 * longest * slot_length * packed.facts.at("parts") > packed.facts.at("stored");
}

const Family& slots_family() {
  static const Family kFamily = {
      .name = "slots",
      .parameters = parameters(),
      .rules = joined({legal_rules(), worthwhile_rules()}),
      .packing_of_rows = packing_name<SlotsConfig>,
      .kernels = slots_kernels,
      .predict = predicted_slots_us,
  };
  return kFamily;
}

}  // namespace sparsmith
