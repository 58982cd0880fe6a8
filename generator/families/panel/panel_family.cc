#include "generator/families/panel/panel_family.h"

#include <algorithm>

#include "generator/catalogue.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kSumBytes = 9 * 1024;  // beside a panel, at least about
constexpr std::int64_t kMostSlots = 8192;
constexpr std::int64_t kMostAddedSlots = 16384;  // of all rows of a block

// Slots of sums that fit beside the panel.
std::int64_t slots_that_fit(const PanelConfig& config, const Problem& problem) {
  const std::int64_t left =
      problem.device.shared_bytes_per_block - config.panel_bytes(problem.spec.cols) - PanelConfig::kFlagBytes;
  return std::min(left / (config.block_tokens(problem.spec.type) * 4) / 64 * 64,
                  config.sweeps() ? kMostAddedSlots : kMostSlots);
}

// Whether the rows of a block are one part with so many row and column parts, where it goes through all of K.
bool rows_are_one_part(PanelConfig config, const Problem& problem, int row_parts, int column_parts) {
  config.column_parts = column_parts;
  const std::int64_t rows = (problem.spec.rows + row_parts - 1) / row_parts;
  return rows + rows / 32 <= slots_that_fit(config, problem);  // a few are cut
}

std::int64_t panels_of(const Problem& problem) {
  const std::int64_t tokens = panel_tokens(problem.spec.type);
  return (problem.tokens + tokens - 1) / tokens;
}

PanelConfig::Input input_of(const RuleInput& in) { return static_cast<PanelConfig::Input>(in["input"]); }

std::vector<Parameter> parameters() {
  return {
      {"products", "p", {0, 1}, "instructions an entry", {"plain", "tensor"}},
      {"segment_lanes", "t", tuned("PlainProducts", "kLanes"),
       "lanes of a segment: balance of few rows against sums to combine"},
      {"segment_length", "l", {32, 128, 512}, "longer rows are cut: balance against sums to combine"},
      {"column_parts",
       "k",
       {1, 2, 3, 4, 6, 8, 12, 16, 32},
       "parts of K: what fits shared memory against a second pass"},
      {"threads_per_block", "b", tuned("PanelKernel", "kThreads"), "warps that hide latency against registers of each"},
      {"row_parts", "r", {1, 2, 4, 8, 16, 32, 33, 66, 132, 264}, "blocks that share out the rows: each fills a panel"},
      {"input",
       "x",
       {0, 1, 2, 3},
       "X to panels: by every block, by a launch of its own, or by two blocks of a cluster together",
       {"direct", "relayout", "neighbours", "shared"}},
      {"depth", "d", {1, 2, 3, 6}, "steps in flight a warp: latency hiding against registers"},
      {"store",
       "o",
       {0, 1, 2, 3},
       "neighbouring rows together against rows as they come, and room for sums; or sums that stay while a block goes "
       "through K",
       {"sums", "rows", "staged", "added"}},
      {.name = "panels",
       .abbreviation = "g",
       .values = {0, 1, 2},
       .meaning = "tokens for which a block reads the weight once, against parts of K and room for sums",
       .labels = {"1", "2", "4"},
       .later = true},
  };
}

std::vector<Rule> legal_rules() {
  return legal({
      {{"products"},
       "tensor cores take 16-bit values",
       [](auto& in) { return in["products"] == 0 || size_of(in.spec.type) == 2; }},
      {{"products", "column_parts", "store"},
       "rows that may be stored a second time leave what the epilog reads of Y as it is",
       [](auto& in) {
         const Epilogue& epilogue = in.spec.epilogue;
         return in["store"] != 1 || in["products"] == 0 || in["column_parts"] > 1 ||
                !(epilogue.beta || epilogue.residual);
       }},
      {{"store"},
       "results stored rounded, in half the room of their sums",
       [](auto& in) { return in["store"] != 2 || size_of(in.spec.type) == 2; }},
      {{"column_parts", "store"},
       "results stored rounded, so no later summation",
       [](auto& in) {
         const Epilogue& epilogue = in.spec.epilogue;
         return in["store"] != 2 || (in["column_parts"] == 1 && !epilogue.beta && !epilogue.residual);
       }},
      {{"store", "products", "column_parts", "input"},
       "sums of several parts of K are added by each lane for itself, of panels that a block fills alone",
       [](auto& in) {
         return in["store"] != 3 ||
                (in["products"] == 0 && in["column_parts"] > 1 && input_of(in) < PanelConfig::Input::kNeighbours);
       }},
      {{"column_parts"},
       "every part of K holds columns",
       [](auto& in) {
         const PanelPacking packing{.column_parts = static_cast<int>(in["column_parts"])};
         return (packing.column_parts - 1) * packing.width(in.spec.cols) < in.spec.cols;
       }},
      {{"input"},
       "clusters of blocks exist from compute capability 9.0 on",
       [](auto& in) { return input_of(in) < PanelConfig::Input::kNeighbours || in.device.compute_capability >= 90; }},
      {{"input"},
       "tokens of neighbouring panels are neighbours in feature-major X",
       [](auto& in) {
         return input_of(in) != PanelConfig::Input::kNeighbours || in.spec.layout == Layout::kFeatureMajor;
       }},
      {{"input", "panels"},
       "blocks that fill panels together keep one each",
       [](auto& in) { return in["panels"] == 0 || input_of(in) < PanelConfig::Input::kNeighbours; }},
      {{"input", "row_parts"},
       "row parts in pairs share a panel",
       [](auto& in) { return input_of(in) != PanelConfig::Input::kShared || in["row_parts"] % 2 == 0; }},
      {{},
       "the panel of X and the sums exceed the shared memory of a block",
       [](auto& in) {
         const PanelConfig config(in.config);
         const PanelPacking packing = config.packing(in.problem);
         return packing.width(in.spec.cols) <= panel::kMostRows - panel::kZeroRows &&
                slots_that_fit(config, in.problem) >= least_slots(packing);
       }},
  });
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"products"}, "a panel needs tokens that share it", [](auto& in) { return in.problem.tokens > 1; }},
      {{"panels"},
       "more than half of a block's panels have tokens",
       [](auto& in) { return (std::int64_t{1} << in["panels"]) < 2 * panels_of(in.problem); }},
      {{"products", "depth"},
       "products this fast need two steps under way",
       [](auto& in) { return in["products"] == 0 || in["depth"] >= 2; }},
      {{},
       "steps in flight do not exceed the registers of a thread",
       [](auto& in) {
         // By what ptxas says of kernels that spill and of kernels that do not.
         std::int64_t needed = 4 * in["depth"] + 48;
         const bool tensor = in["products"] == 1;
         if (tensor) needed += 4 + (in["segment_lanes"] == 1 ? 4 : 0) + (in["store"] == 2 ? 4 : 0);
         if (!tensor && size_of(in.spec.type) == 2) needed += 8;
         const std::int64_t more_panels = (std::int64_t{1} << in["panels"]) - 1;
         needed += more_panels * (panel_tokens(in.spec.type) + (tensor ? 10 : 0));
         if (in.device.compute_capability >= 100) needed += 8;
         if (in["store"] == 3) needed += 8;
         const bool turned_by_pairs =
             input_of(in) == PanelConfig::Input::kShared && in.spec.layout == Layout::kTokenMajor;
         if (tensor && turned_by_pairs) needed += 4;
         const PanelConfig config(in.config);
         if (config.turns(in.spec.layout)) {
           if (in.device.compute_capability < 90) needed += tensor ? 4 : 8;
           if (more_panels > 0) needed += 4;
         }
         return needed <= in.device.registers_per_sm /
                              (std::int64_t{config.threads_per_block} * config.blocks_per_sm(in.problem));
       }},
      {{"segment_length", "segment_lanes"},
       "a segment long enough for its lanes",
       [](auto& in) { return in["segment_length"] >= 16 * in["segment_lanes"]; }},
      {{"segment_length"},
       "rows of usual length are not cut, and a shorter segment would not do for the longest row",
       [](auto& in) {
         const auto length = static_cast<double>(in["segment_length"]);
         return (length >= in.statistics.row_mean || length >= 256) &&
                (length < 4 * static_cast<double>(in.statistics.row_max) || length <= 32);
       }},
      {{},
       "no more blocks than run at once, and not far fewer than multiprocessors",
       [](auto& in) {
         const Problem& problem = in.problem;
         const PanelConfig config(in.config);
         if (config.sweeps()) {
           const std::int64_t blocks = config.token_blocks(problem) * config.row_parts;
           return config.row_parts == 1 || blocks <= problem.device.sm_count ||
                  !rows_are_one_part(config, problem, config.row_parts / 2, config.column_parts);
         }
         const std::int64_t resident = std::clamp<std::int64_t>(
             problem.device.shared_bytes_per_sm / (config.panel_bytes(problem.spec.cols) + kSumBytes), 1,
             std::max<std::int64_t>(1, PanelConfig::kThreadsAtOnce / config.threads_per_block));
         const std::int64_t blocks = config.token_blocks(problem) * config.column_parts * config.row_parts;
         const std::int64_t places = resident * problem.device.sm_count;
         return config.row_parts == 1 || (blocks <= places && 6 * blocks > problem.device.sm_count);
       }},
      {{"segment_length", "store"},
       "rows as they come where a row's tokens are neighbours in Y and few rows are cut",
       [](auto& in) {
         const bool few_cuts = static_cast<double>(in["segment_length"]) >= in.statistics.row_mean;
         const bool neighbours = in.spec.layout == Layout::kFeatureMajor;
         if (in["store"] == 3) return true;
         return neighbours ? in["store"] == (few_cuts ? 1 : 0) : in["store"] == 0 || (few_cuts && in["store"] == 2);
       }},
      {{},
       "rows wait where the sums of all rows ask for several parts",
       [](auto& in) {
         if (in["store"] != 2) return true;
         const PanelConfig config(in.config);
         const std::int64_t sums = in.spec.rows / config.row_parts + least_slots(config.packing(in.problem));
         return sums > slots_that_fit(config, in.problem);
       }},
      {{"row_parts"},
       "a part of several rows",
       [](auto& in) { return in["row_parts"] == 1 || in["row_parts"] * 4 <= in.spec.rows; }},
      {{},
       "K is cut as far as the sums of all rows of a block ask, and no further",
       [](auto& in) {
         const PanelConfig config(in.config);
         return !config.sweeps() ||
                (rows_are_one_part(config, in.problem, config.row_parts, config.column_parts) &&
                 (config.column_parts == 2 ||
                  !rows_are_one_part(config, in.problem, config.row_parts, config.column_parts * 2 / 3)));
       }},
      {{"column_parts", "panels", "store"},
       "K is cut only as far as the panels ask",
       [](auto& in) {
         if (in["store"] == 3) return true;
         // With one part fewer they would not fit beside the sums of a part.
         const PanelPacking fewer{.column_parts = static_cast<int>(in["column_parts"]) * 2 / 3};
         return in["column_parts"] == 1 || (panel::panel_bytes(fewer.width(in.spec.cols)) << in["panels"]) >
                                               in.device.shared_bytes_per_block * 3 / 4;
       }},
      {{"input"},
       "a relayout needs blocks that share it",
       [](auto& in) { return input_of(in) != PanelConfig::Input::kRelayout || panels_of(in.problem) > 1; }},
      {{"input", "row_parts"},
       "a relayout needs blocks that share it",
       [](auto& in) { return input_of(in) != PanelConfig::Input::kRelayout || in["row_parts"] > 1; }},
      {{"input", "row_parts"},
       "33 parts use more multiprocessors than 32, where they need not pair up",
       [](auto& in) { return in["row_parts"] != 32 || input_of(in) == PanelConfig::Input::kShared; }},
      {{"input"},
       "neighbours need a panel that has one",
       [](auto& in) { return input_of(in) != PanelConfig::Input::kNeighbours || panels_of(in.problem) > 1; }},
      {{"input"},
       "X of one panel, as it lies, comes as one bulk copy",
       [](auto& in) {
         return input_of(in) != PanelConfig::Input::kShared || in.spec.layout == Layout::kTokenMajor ||
                in.problem.tokens != panel_tokens(in.spec.type);
       }},
      {{"threads_per_block", "column_parts", "panels", "store"},
       "enough warps on a multiprocessor",
       [](auto& in) {
         if (in["store"] == 3) return in["threads_per_block"] >= 512;
         const PanelPacking packing{.column_parts = static_cast<int>(in["column_parts"])};
         const std::int64_t panel = (panel::panel_bytes(packing.width(in.spec.cols)) << in["panels"]) + kSumBytes;
         return in["threads_per_block"] * std::max<std::int64_t>(1, in.device.shared_bytes_per_sm / panel) >= 512;
       }},
  };
}

}  // namespace

std::int64_t PanelConfig::block_tokens(DataType type) const { return panels * panel_tokens(type); }

std::int64_t PanelConfig::token_blocks(const Problem& problem) const {
  const std::int64_t blocks = (panels_of(problem) + panels - 1) / panels;
  return input == Input::kNeighbours ? (blocks + 1) / 2 * 2 : blocks;
}

std::int64_t PanelConfig::panel_bytes(std::int64_t cols) const {
  const PanelPacking packing{.column_parts = column_parts};
  return panels * panel::panel_bytes(packing.width(cols));
}

int PanelConfig::blocks_per_sm(const Problem& problem) const {
  // A block that goes through K has sums of many rows.
  const std::int64_t block = sweeps() ? problem.device.shared_bytes_per_sm : panel_bytes(problem.spec.cols) + kSumBytes;
  const bool more = threads_per_block * (problem.device.shared_bytes_per_sm / block) > 512;
  return std::max(1, (more ? 1024 : 512) / threads_per_block);
}

PanelPacking PanelConfig::packing(const Problem& problem) const {
  return {.row_parts = row_parts,
          .column_parts = column_parts,
          .warps = threads_per_block / panel::kWarpLanes,
          .segment_lanes = segment_lanes,
          .segment_length = segment_length,
          .max_slots = static_cast<int>(slots_that_fit(*this, problem)),
          .order = products == Products::kTensor ? panel::tensor_order(segment_lanes) : panel::LaneOrder::kPlain,
          .turned = turns(problem.spec.layout),
          .row_store = store};
}

const Family& panel_family() {
  static const Family kFamily = {
      .name = "panel",
      .parameters = parameters(),
      .rules = joined({legal_rules(), worthwhile_rules()}),
      .packing_of_rows = packing_name<PanelConfig>,
      .kernels = panel_kernels,
      .predict = predicted_panel_us,
  };
  return kFamily;
}

}  // namespace sparsmith
