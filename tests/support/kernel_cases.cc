#include "tests/support/kernel_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/half.h"
#include "generator/families/panel/panel_family.h"
#include "generator/families/slots/slots_family.h"

namespace sparsmith::test {
namespace {

// Appends a row with `count` nonzeros in distinct drawn columns.
void add_row(Random& random, CsrMatrix& matrix, std::int64_t count) {
  std::vector<std::uint32_t> columns;
  if (count * 2 > matrix.cols) {  // dense: choose which to leave out
    columns.resize(static_cast<std::size_t>(matrix.cols));
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<std::uint32_t>(i);
    std::shuffle(columns.begin(), columns.end(), random);
    columns.resize(static_cast<std::size_t>(std::min(count, matrix.cols)));
  } else {
    while (static_cast<std::int64_t>(columns.size()) < count) {
      columns.push_back(static_cast<std::uint32_t>(draw_between(random, 0, matrix.cols - 1)));
      if (static_cast<std::int64_t>(columns.size()) == count) {
        std::sort(columns.begin(), columns.end());
        columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
      }
    }
  }
  std::sort(columns.begin(), columns.end());
  for (const std::uint32_t column : columns) {
    matrix.column_indices.push_back(column);
    const auto magnitude = static_cast<float>(draw_between(random, 1, 2047)) / 1024.0F;
    matrix.values.push_back(random() % 2 == 0 ? magnitude : -magnitude);
  }
  matrix.row_offsets.push_back(matrix.nnz());
}

CsrMatrix draw_rows(Random& random, std::int64_t rows, std::int64_t cols,
                    const std::function<std::int64_t(std::int64_t)>& length) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  for (std::int64_t row = 0; row < rows; ++row) add_row(random, matrix, std::min(length(row), cols));
  return matrix;
}

// How many tokens a case may have so that emulating and checking it stays in milliseconds.
std::int64_t draw_tokens(Random& random, const CsrMatrix& matrix, const Config& config) {
  static constexpr std::int64_t kChoices[] = {1, 1, 2, 3, 5, 8, 9, 16, 31, 40};
  const std::int64_t tokens = kChoices[random() % std::size(kChoices)];
  std::int64_t limit = 40000 / (matrix.nnz() + matrix.rows + matrix.cols + 1);
  if (config.family == "rows") {  // all threads of a row meet for each of its tokens
    const std::int64_t threads = config.values.at("shuffle_lanes") * config.values.at("shared_parts");
    limit = std::min(limit, 100000 / (matrix.rows * threads));
  }
  return std::min(tokens, std::max<std::int64_t>(limit, 1));
}

bool shares_panels(const Config& config) {
  return config.family == "panel" && PanelConfig(config).input == PanelConfig::Input::kShared;
}

// An emulated product of tiles takes about a second for 16 million multiplications. One kernel in four may take more
// than that; the others lose tokens by 64.
std::int64_t bound_products(const CsrMatrix& matrix, std::int64_t tokens, int kernel) {
  const std::int64_t most = kernel % 4 == 0 ? 32'000'000 : 6'000'000;
  const std::int64_t rows = (matrix.rows + 63) / 64 * 64;
  while (tokens > 64 && rows * matrix.cols * tokens > most) tokens -= 64;
  return tokens;
}

// Around the tokens of two panels: the second whole, with a token, without any.
std::int64_t draw_tokens_of_panels(Random& random, DataType type) {
  const std::int64_t panel = panel_tokens(type);
  const std::int64_t choices[] = {panel + 1, 2 * panel, 2 * panel + 1, 3 * panel};
  return choices[random() % std::size(choices)];
}

bool is_hybrid(const Family& family) { return family.name.ends_with("_rest"); }

bool multiplies_tiles(const Family& family) {
  return family.name.ends_with("scatter") || family.name.ends_with("wgmma") || family.name.ends_with("wgmma_rest") ||
         family.name == "specialized" || family.name == "sampled_regions" || family.name == "cooperative";
}
bool samples_tiles(const Family& family) { return family.name == "sampled_wgmma" || family.name == "sampled_regions"; }
// Families of persistent blocks, which multiply X in boxes of many tokens.
bool multiplies_boxes(const Family& family) {
  return family.name == "cooperative" || family.name == "bsr_strips" || family.name == "bsr_wgmma" ||
         family.name == "two_four_wgmma" || samples_tiles(family) || is_hybrid(family);
}
bool needs_16_bits(const Family& family) {
  return family.name.ends_with("bitmap") || family.name.starts_with("bsr") || family.name.starts_with("two_four") ||
         multiplies_tiles(family);
}

// Families that make use of Accumulation::kFp16Chains.
bool may_chain(const Family& family) { return family.name == "panel" || family.name == "gather"; }

// What some legal rules ask of the pattern, and drawn weights are made to have.
SparsityStatistics legal_pattern() {
  SparsityStatistics statistics;
  statistics.two_four_legal = 1;
  return statistics;
}

// Of each aligned group of four columns leaves two nonzeros at most, drawn ones. `spares`: but of one group in 3.
void keep_two_in_four(Random& random, CsrMatrix& matrix, bool spares) {
  CsrMatrix kept;
  kept.rows = matrix.rows;
  kept.cols = matrix.cols;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1];) {
      const std::int64_t first = i;
      while (i < matrix.row_offsets[row + 1] && matrix.column_indices[i] / 4 == matrix.column_indices[first] / 4) ++i;
      std::int64_t wanted = spares && random() % 3 == 0 ? i - first : std::min<std::int64_t>(i - first, 2);
      for (std::int64_t at = first; at < i; ++at) {
        if (draw_between(random, 1, i - at) > wanted) continue;
        --wanted;
        kept.column_indices.push_back(matrix.column_indices[at]);
        kept.values.push_back(matrix.values[at]);
      }
    }
    kept.row_offsets.push_back(kept.nnz());
  }
  matrix = std::move(kept);
}

// A weight of which half of the blocks of 32 or 64 rows by 64 columns hold nothing, in more columns of blocks than a
// kernel has stages.
CsrMatrix draw_in_blocks(Random& random) {
  const CsrMatrix drawn =
      draw_rows(random, random() % 4 == 0 ? draw_between(random, 65, 330) : 8 * draw_between(random, 9, 41),
                8 * draw_between(random, 20, 160), [&](auto) { return 40; });
  const std::int64_t block_rows = random() % 4 == 0 ? 64 : 32;
  std::vector<bool> holds(11 * 20);
  for (std::size_t i = 0; i < holds.size(); ++i) holds[i] = random() % 2 == 0;
  CsrMatrix kept;
  kept.rows = drawn.rows;
  kept.cols = drawn.cols;
  for (std::int64_t row = 0; row < drawn.rows; ++row) {
    for (std::int64_t i = drawn.row_offsets[row]; i < drawn.row_offsets[row + 1]; ++i) {
      if (!holds[row / block_rows * 20 + drawn.column_indices[i] / 64]) continue;
      kept.column_indices.push_back(drawn.column_indices[i]);
      kept.values.push_back(drawn.values[i]);
    }
    kept.row_offsets.push_back(kept.nnz());
  }
  return kept;
}

// False: it is left out. Emulated tensor cores need seconds for a wide matrix, and families that have no index of
// columns know nothing of 65,536. For them, most wide weights become less wide ones, where every warp still goes round
// several times, and two in three still have a multiple of any vector; of those for families that multiply tiles three
// quarters are left out. Panels of all of X take long too: one wide weight in four stays.
bool narrow_wide_weight(Random& random, const Family& family, CsrMatrix& matrix) {
  const auto between = [&](std::int64_t low, std::int64_t high) { return draw_between(random, low, high); };
  const bool tiles = multiplies_tiles(family);
  if (family.name == "panel" ? random() % 4 == 0 : !needs_16_bits(family)) return true;
  const std::int64_t drawn = between(0, 47);
  if (drawn < (tiles ? 1 : 4)) return true;
  if (tiles && drawn >= 12) return false;
  const std::int64_t cols = 8 * between(250, 750) + (between(1, 3) == 1 ? 1 : 0);
  matrix = tiles ? draw_rows(random, between(17, 40), cols, [&](auto) { return between(0, 600); })
                 : draw_rows(random, between(1, 9), cols, [&](auto) { return between(0, 60); });
  return true;
}

// Packing parameters change data, not code; the kernel stays the same. The parameter that the kernel was drawn for,
// `drawn`, keeps its value; where that makes many blocks, which the emulator runs one after another, for the first
// weight.
void vary_packing(Random& random, const Family& family, const std::string& drawn, bool first_weight, Config& config) {
  if (family.by_library && drawn != "proposal") config.values["proposal"] = 0;
  if (config.family == "rows") {
    const std::int64_t width = config.values["vector_width"];
    std::vector<std::int64_t> alignments;
    for (const std::int64_t alignment : {1, 2, 4, 8})
      if (alignment >= width) alignments.push_back(alignment);
    config.values["alignment"] = alignments[random() % alignments.size()];
  }
  if (config.family == "two_four" && drawn != "stages") config.values["stages"] = draw_between(random, 1, 4);
  if (config.family == "bitmap" && drawn != "stages") config.values["stages"] = draw_between(random, 2, 4);
  // Few parts, so that more of the small matrices have several steps in each.
  if (config.family == "wgmma" && drawn != "column_parts" && config.values["sum"] == 0 &&
      config.values["column_parts"] > 1)
    config.values["column_parts"] = draw_between(random, 2, 3);
  if (config.family == "gather" && drawn != "sweep_columns" && config.values["sweep_columns"] > 0)
    config.values["sweep_columns"] = std::vector<std::int64_t>{512, 1024, 2048}[random() % 3];
  if (config.family == "panel" || config.family == "gather") {
    for (const Parameter& parameter : family.parameters) {
      const bool row_parts = parameter.name == "row_parts";
      if (!row_parts && parameter.name != "segment_length") continue;
      if (parameter.name == drawn && (!row_parts || first_weight)) continue;
      // Few blocks: the emulator runs them one after another. Row parts that share a panel are even.
      const std::size_t least = row_parts && shares_panels(config) ? 1 : 0;
      const std::size_t most = row_parts ? 4 : parameter.values.size();
      config.values[parameter.name] = parameter.values[least + random() % (most - least)];
    }
  }
}

// Old Y is not read where beta is 0.
float beta_of(std::uint64_t seed) {
  static constexpr float kBetas[] = {0.5F, 0.0F, 1.0F, -1.0F};
  return kBetas[seed % std::size(kBetas)];
}

// A few rows that are far longer than all others together: heavy parts, and rows that a block adds up.
CsrMatrix draw_long_rows(Random& random) {
  const std::int64_t rows = draw_between(random, 9, 60);
  const std::int64_t period = draw_between(random, 7, rows);
  return draw_rows(random, rows, draw_between(random, 1500, 4000),
                   [&](auto row) { return row % period == 3 ? 1 << 20 : draw_between(random, 0, 12); });
}

// Whether a parameter of the slots family has a value that makes tiles of 32 nonzeros a lane: only a weight of many
// gives a warp several.
bool draws_wide_tiles(const std::string& parameter, std::int64_t value) {
  return (parameter == "vector_width" && value == 32) ||
         (parameter == "columns" && value == static_cast<std::int64_t>(SlotColumns::kDelta3));
}

}  // namespace

std::int64_t draw_between(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

std::string KernelCase::text() const {
  return fmt::format("{} x {}, {} nonzeros, N = {}, {}, inputs {}{}; {}", matrix.rows, matrix.cols, matrix.nnz(),
                     problem.tokens, problem.spec.name(), static_cast<int>(inputs.kind),
                     small_grid ? ", small grid" : "",
                     config.text() + (programmatic ? ", programmatic" : "") + (written ? ", written" : ""));
}

std::vector<std::string> kernel_families() {
  std::vector<std::string> names;
  for (const auto& each : families())
    if (!each->is_baseline) names.push_back(each->name);
  return names;
}

CsrMatrix draw_weight(Random& random, int kind) {
  const auto between = [&](std::int64_t low, std::int64_t high) { return draw_between(random, low, high); };
  switch (kind % kWeightKinds) {
    case 0: return draw_rows(random, between(1, 40), between(1, 100), [](auto) { return 0; });  // nnz = 0
    case 1: {                                                                                   // one full row
      const std::int64_t rows = between(2, 30);
      const std::int64_t full = between(0, rows - 1);
      return draw_rows(random, rows, between(30, 900), [&](auto row) { return row == full ? 1 << 20 : 0; });
    }
    case 2: return draw_rows(random, 1, between(1, 700), [&](auto) { return between(0, 400); });  // M = 1
    case 3: return draw_rows(random, between(1, 60), 1, [&](auto) { return between(0, 1); });     // K = 1
    case 4: return draw_rows(random, between(1, 9), 65536, [&](auto) { return between(0, 60); });
    case 5: return draw_rows(random, between(1, 9), 65537, [&](auto) { return between(0, 60); });
    case 6: return draw_rows(random, between(1, 9), 70000, [&](auto) { return between(0, 60); });
    case 7:
      return draw_rows(random, between(1, 130), between(2, 130), [&](auto) { return between(0, 1) * between(0, 130); });
    case 8: return draw_rows(random, 257, 129, [&](auto row) { return row % 3 == 0 ? 0 : between(1, 17); });
    case 9:
      return draw_rows(random, between(3, 17), between(300, 1500),
                       [&](auto) { return between(1, 6) == 1 ? 1200 : between(0, 20); });
    case 10:  // multiples of any vector
      return draw_rows(random, 8 * between(4, 9), 8 * between(4, 12), [&](auto) { return between(20, 50); });
    default: return draw_rows(random, between(2, 65), between(2, 333), [&](auto) { return between(0, 33); });
  }
}

bool meets_infinity(const KernelCase& each) {
  for (std::int64_t row = 0; row < each.matrix.rows; ++row) {
    const auto begin = each.matrix.column_indices.begin() + each.matrix.row_offsets[row];
    const auto end = each.matrix.column_indices.begin() + each.matrix.row_offsets[row + 1];
    if (begin == end || (*begin != 0 && *(end - 1) + 1 != each.matrix.cols)) return true;
  }
  return false;
}

bool stores_infinity(const KernelCase& each) {
  const std::vector<std::uint32_t>& columns = each.matrix.column_indices;
  return std::ranges::any_of(columns,
                             [&](std::uint32_t column) { return column == 0 || column + 1 == each.matrix.cols; });
}

void fit_gate(OperatorSpec& spec) {
  if (!spec.check().ok()) spec.epilogue.gated = false;
}

OperatorSpec draw_operator(Random& random) {
  OperatorSpec spec;
  spec.type = static_cast<DataType>(random() % 3);
  spec.layout = static_cast<Layout>(random() % 2);
  spec.epilogue.activation = static_cast<Activation>(random() % kActivations);
  spec.epilogue.bias = random() % 2 == 0;
  spec.epilogue.beta = random() % 3 == 0;
  spec.epilogue.residual = random() % 3 == 0;
  spec.epilogue.gated = !spec.epilogue.beta && !spec.epilogue.residual && random() % 3 == 0;
  return spec;
}

std::optional<Config> draw_config(Random& random, const Family& family, const Problem& problem,
                                  const std::string& parameter, std::int64_t value) {
  const std::vector<Parameter> parameters = family.parameters;
  for (int attempt = 0; attempt < 2000; ++attempt) {
    Config config{family.name, {}};
    for (const Parameter& each : parameters)
      config.values[each.name] = each.name == parameter ? value : each.values[random() % each.values.size()];
    if (family.check(config, problem, legal_pattern()).ok()) return config;
  }
  return std::nullopt;
}

std::vector<KernelCase> draw_cases(const Family& family, std::uint64_t seed, int kernels, int weights, int first) {
  Random random(seed);
  std::vector<std::pair<std::string, std::int64_t>> values;  // every value of every parameter, in turn
  for (const Parameter& parameter : family.parameters)
    for (const std::int64_t value : parameter.values) values.emplace_back(parameter.name, value);
  const auto activations = static_cast<int>(random() % kActivations);
  std::vector<KernelCase> cases;
  for (int kernel = first; kernel < first + kernels; ++kernel) {
    const auto& [parameter, value] = values[static_cast<std::size_t>(kernel) % values.size()];
    const auto draw_spec = [&] {
      OperatorSpec drawn = draw_operator(random);
      while (needs_16_bits(family) && size_of(drawn.type) != 2) drawn = draw_operator(random);
      if (!family.serves(drawn)) {
        drawn.kind = OperatorKind::kSddmm;
        drawn.epilogue = {.beta = drawn.epilogue.beta};
        return drawn;
      }
      drawn.epilogue.activation =
          static_cast<Activation>((activations + kernel) % kActivations);  // each in turn, none left out
      if (may_chain(family) && drawn.type == DataType::kFloat16 && kernel % 3 == 0)
        drawn.accumulation = Accumulation::kFp16Chains;
      return drawn;
    };
    OperatorSpec spec = draw_spec();
    std::optional<Config> config;
    const std::size_t before = cases.size();
    for (int weight = 0; weight < weights; ++weight) {
      KernelCase each;
      each.matrix = draw_weight(random, kernel + weight * 5);
      each.problem.device = typical_device(90);
      // Few blocks, which have many rows each: the emulator runs blocks one after another.
      if (family.name == "slots" || multiplies_boxes(family))
        each.problem.device.sm_count = static_cast<int>(draw_between(random, 1, 6));
      if (family.name == "slots" && weight == 0 && draws_wide_tiles(parameter, value)) {
        each.matrix = draw_rows(random, draw_between(random, 20, 60), draw_between(random, 300, 1500),
                                [&](auto) { return draw_between(random, 100, 1000); });
        each.problem.device.sm_count = 1;
      }
      if (family.name == "slots" && weight % 5 == 4) each.matrix = draw_long_rows(random);
      if (each.matrix.cols <= 0) continue;
      if (each.matrix.cols > 60000 && !narrow_wide_weight(random, family, each.matrix)) continue;
      const bool in_blocks = family.name.starts_with("bsr_") || samples_tiles(family);
      if (in_blocks && weight % 3 == 0) each.matrix = draw_in_blocks(random);
      const bool sampled = samples_tiles(family);
      if (family.name == "sampled_regions" && weight % 4 == 3)  // several panels of 512 rows
        each.matrix = draw_rows(random, 8 * draw_between(random, 65, 140), 8 * draw_between(random, 8, 30),
                                [&](auto) { return draw_between(random, 0, 30); });
      if (in_blocks && (is_hybrid(family) || (sampled && weight % 3 == 1))) {
        constexpr std::int64_t kMostFilled = 6000;  // elements
        const std::int64_t block = sampled                 ? 32
                                   : config                ? config->at("blocks")
                                   : parameter == "blocks" ? value
                                                           : 8 << random() % 4;
        const std::int64_t share = each.matrix.rows * each.matrix.cols / kMostFilled;
        each.matrix =
            fill_blocks(random, each.matrix, block, static_cast<std::uint64_t>(std::max<std::int64_t>(2, share)));
      }
      if (family.name.starts_with("two_four")) keep_two_in_four(random, each.matrix, is_hybrid(family));
      const auto take_spec = [&] {
        each.problem.spec = spec;
        each.problem.spec.set_weight(each.matrix.rows, each.matrix.cols, each.matrix.nnz());
        fit_gate(each.problem.spec);
      };
      take_spec();
      if (!config) config = draw_config(random, family, each.problem, parameter, value);
      // Some operators have no config of this value, whatever the weight.
      for (int operators = 0; !config && operators < 16; ++operators) {
        spec = draw_spec();
        take_spec();
        config = draw_config(random, family, each.problem, parameter, value);
      }
      if (!config || !family.check(*config, each.problem, legal_pattern()).ok()) continue;
      each.config = *config;
      vary_packing(random, family, parameter, cases.size() == before, each.config);
      each.problem.tokens = draw_tokens(random, each.matrix, each.config);
      if (family.name == "panel" && PanelConfig(*config).pairs() && each.matrix.cols < 10000 && random() % 2 == 0)
        each.problem.tokens = draw_tokens_of_panels(random, spec.type);
      if (family.name == "wgmma" && random() % 6 == 0) each.problem.tokens += 64;  // several token tiles
      if (multiplies_boxes(family) && random() % 3 == 0) each.problem.tokens += 120;
      if (multiplies_boxes(family) && weight == 0) each.problem.tokens += 256;
      if (multiplies_boxes(family)) each.problem.tokens = bound_products(each.matrix, each.problem.tokens, kernel);
      each.inputs = {.tokens = each.problem.tokens,
                     .seed = random(),
                     .kind = static_cast<InputKind>(random() % 8 < 5 ? 0 : random() % 4),
                     .padding = random() % 2 == 0 ? 0 : draw_between(random, 1, 9)};
      each.inputs.beta = beta_of(each.inputs.seed);
      if (spec.kind == OperatorKind::kSpmm && !each.problem.spec.epilogue.gated && each.inputs.seed / 16 % 4 == 0)
        each.problem.spec.kind = OperatorKind::kSpmmTransposed;
      each.small_grid = random() % 3 == 0;
      each.programmatic = (kernel + weight) % 2 == 0;
      each.written = each.inputs.seed / 64 % 2 == 0;
      cases.push_back(std::move(each));
    }
  }
  return cases;
}

}  // namespace sparsmith::test
