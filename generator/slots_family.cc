#include "generator/slots_family.h"

#include <algorithm>

#include "formats/slots_layout.h"
#include "formats/slots_steps.h"
#include "generator/catalogue.h"

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
  return slot_nonzero_bytes(columns, 16, in.problem.spec.type, in.statistics);
}

// Of distances that any width of tile has, those that take the fewest.
SlotColumns narrowest_distances(const RuleInput& in) {
  return std::ranges::min({SlotColumns::kDelta8, SlotColumns::kDelta6, SlotColumns::kDelta4}, {},
                          [&](SlotColumns columns) { return distance_bytes(columns, in); });
}

// 3 bits, which only wide tiles have, beside what is the narrowest otherwise: their gathers meet more words in a bank.
bool has_short_steps(const RuleInput& in) {
  return fills_wide_tiles(in) && in.problem.spec.cols >= slots::kLeastColumns3 &&
         distance_bytes(SlotColumns::kDelta3, in) < distance_bytes(narrowest_distances(in), in);
}

double density(const RuleInput& in) {
  return in.statistics.row_mean / static_cast<double>(std::max<std::int64_t>(1, in.problem.spec.cols));
}

// A kernel with such a config would be wrong or would not launch.
std::vector<Rule> legal_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kLegal,
       {"columns"},
       "16-bit columns need K <= 65,535, distances K <= 65,536",
       [](const RuleInput& in) {
         const std::int64_t reach = in["columns"] == static_cast<std::int64_t>(SlotColumns::kUint16) ? 65535 : 65536;
         return in["columns"] == static_cast<std::int64_t>(SlotColumns::kUint32) || in.problem.spec.cols <= reach;
       }},
      {Kind::kLegal,
       {"columns", "vector_width"},
       "the columns of a tile are whole words: 8 to 32 nonzeros with 4-bit distances, 16 with 6-bit, 32 with 3-bit "
       "ones",
       [](const RuleInput& in) {
         return has_vector_width(static_cast<SlotColumns>(in["columns"]), in["vector_width"]);
       }},
      {Kind::kLegal,
       {"columns"},
       "3-bit distances need K >= 256",
       [](const RuleInput& in) {
         return in["columns"] != static_cast<std::int64_t>(SlotColumns::kDelta3) ||
                in.problem.spec.cols >= slots::kLeastColumns3;
       }},
      {Kind::kLegal,
       {"tiles_per_slot", "depth"},
       "the tiles in flight are whole slots",
       [](const RuleInput& in) { return in["depth"] % in["tiles_per_slot"] == 0; }},
      {Kind::kLegal,
       {"threads_per_block", "blocks_per_sm"},
       "the blocks exceed the threads of a multiprocessor",
       [](const RuleInput& in) {
         return in["threads_per_block"] * in["blocks_per_sm"] <= in.problem.device.max_threads_per_sm;
       }},
      {Kind::kLegal,
       {"columns", "vector_width", "depth", "input", "threads_per_block", "tokens_per_pass", "blocks_per_sm"},
       "tiles and gathers in flight exceed the registers of a thread",
       [](const RuleInput& in) {
         // At least those that a tile takes while it is multiplied.
         const SlotsConfig config(in.config);
         int needed = config.depth * config.tile_registers(in.problem.spec.type) + kKernelRegisters;
         if (config.input == SlotsConfig::Input::kGlobal) {
           // An address and what comes from it for each token, and each of its nonzeros in a tile.
           needed += 2 * (config.vector_width + 1) * config.tokens_per_pass;
         } else {
           needed += 3 * (config.tokens_per_pass - 1);
         }
         const std::int64_t threads = in["threads_per_block"] * in["blocks_per_sm"];
         return needed <= std::min<std::int64_t>(255, in.problem.device.registers_per_sm / threads);
       }},
      {Kind::kLegal,
       {"columns", "vector_width", "tiles_per_slot", "input", "tokens_per_pass", "blocks_per_sm"},
       "x and the sums of slots exceed the shared memory of a block",
       [](const RuleInput& in) {
         const SlotsConfig config(in.config);
         const SlotsEstimate estimate(config, in.problem, in.statistics);
         return config.vector_bytes(in.problem.spec) + config.tokens_per_pass * estimate.sums_bytes() <=
                    in.problem.device.shared_bytes_per_block &&
                estimate.part_slots < 65536;
       }},
  };
}

// What another config does with less.
std::vector<Rule> worthwhile_rules() {
  using Kind = Rule::Kind;
  return {
      {Kind::kWorthwhile,
       {"columns"},
       "32-bit columns only where 16-bit ones do not do",
       [](const RuleInput& in) {
         return in["columns"] != static_cast<std::int64_t>(SlotColumns::kUint32) || in.problem.spec.cols > 65535;
       }},
      {Kind::kWorthwhile,
       {"columns"},
       "distances need neighbours that are near",
       [](const RuleInput& in) { return !has_base(in["columns"]) || density(in) >= 0.02; }},
      {Kind::kWorthwhile,
       {"columns"},
       "distances in 4 or 6 bits take fewer bytes than each other and than 8, those in 3 fewer still, padding included",
       [](const RuleInput& in) {
         const auto columns = static_cast<SlotColumns>(in["columns"]);
         if (columns == SlotColumns::kDelta3) return has_short_steps(in);
         return !pads_long_steps(columns) || columns == narrowest_distances(in);
       }},
      {Kind::kWorthwhile,
       {"columns", "vector_width"},
       "a base of 16 bits is shared by at least 8 nonzeros",
       [](const RuleInput& in) { return !has_base(in["columns"]) || in["vector_width"] >= 8; }},
      {Kind::kWorthwhile,
       {"vector_width"},
       "tiles of 32 nonzeros for rows of many",
       [](const RuleInput& in) { return in["vector_width"] < 32 || fills_wide_tiles(in); }},
      {Kind::kWorthwhile,
       {"vector_width", "tiles_per_slot"},
       "a row fills a slot",
       [](const RuleInput& in) {
         return in["vector_width"] * in["tiles_per_slot"] <= 8 ||
                static_cast<double>(in["vector_width"] * in["tiles_per_slot"]) <= in.statistics.row_mean;
       }},
      {Kind::kWorthwhile,
       {"input", "blocks_per_sm"},
       "x in shared memory wherever it fits, unless a block has few nonzeros",
       [](const RuleInput& in) {
         const auto bytes = in.problem.spec.cols * static_cast<std::int64_t>(size_of(in.problem.spec.type));
         const std::int64_t blocks = in["blocks_per_sm"] * std::max(in.problem.device.sm_count, 1);
         return static_cast<SlotsConfig::Input>(in["input"]) == SlotsConfig::Input::kShared ||
                bytes > in.problem.device.shared_bytes_per_block / 3 ||
                in.statistics.nnz / blocks < in.problem.spec.cols / 4;
       }},
      {Kind::kWorthwhile,
       {"tokens_per_pass"},
       "a pass of more tokens than there are",
       [](const RuleInput& in) { return in["tokens_per_pass"] == 1 || in["tokens_per_pass"] / 2 < in.problem.tokens; }},
      {Kind::kWorthwhile,
       {"tokens_per_pass"},
       "few passes",
       [](const RuleInput& in) {
         return in["tokens_per_pass"] == 8 || 4 * in["tokens_per_pass"] >= in.problem.tokens;
       }},
      {Kind::kWorthwhile,
       {"columns", "vector_width", "tiles_per_slot", "input", "tokens_per_pass", "blocks_per_sm"},
       "the blocks of a multiprocessor fit its shared memory together",
       [](const RuleInput& in) {
         const SlotsConfig config(in.config);
         const SlotsEstimate estimate(config, in.problem, in.statistics);
         const std::int64_t block =
             config.vector_bytes(in.problem.spec) + config.tokens_per_pass * estimate.sums_bytes() + 1024;
         return in["blocks_per_sm"] * block <= in.problem.device.shared_bytes_per_sm;
       }},
      {Kind::kWorthwhile,
       {"threads_per_block", "blocks_per_sm", "tokens_per_pass"},
       "at least 512 threads hide the latency of a multiprocessor's loads",
       [](const RuleInput& in) {
         const std::int64_t passes = (in.problem.tokens + in["tokens_per_pass"] - 1) / in["tokens_per_pass"];
         return in["threads_per_block"] * in["blocks_per_sm"] * passes >= 512;
       }},
  };
}

}  // namespace

SlotsConfig::SlotsConfig(const Config& config)
    : columns(static_cast<SlotColumns>(config.at("columns"))),
      vector_width(static_cast<int>(config.at("vector_width"))) {
  // Rules ask before all parameters are chosen.
  const auto value = [&](const char* name) {
    const auto found = config.values.find(name);
    return found == config.values.end() ? 1 : static_cast<int>(found->second);
  };
  tiles_per_slot = value("tiles_per_slot");
  depth = value("depth");
  row_lanes = value("row_lanes");
  input = static_cast<Input>(value("input"));
  threads_per_block = value("threads_per_block");
  blocks_per_sm = value("blocks_per_sm");
  tokens_per_pass = value("tokens_per_pass");
}

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

std::vector<Parameter> SlotsFamily::parameters() const {
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

std::vector<Rule> SlotsFamily::rules() const {
  std::vector<Rule> rules = legal_rules();
  for (Rule& rule : worthwhile_rules()) rules.push_back(std::move(rule));
  return rules;
}

std::string SlotsFamily::packing_of_rows(const Config& config, const Problem& problem) const {
  return SlotsConfig(config).packing(problem).name();
}

}  // namespace sparsmith
