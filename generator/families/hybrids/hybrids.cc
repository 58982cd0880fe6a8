#include "generator/families/hybrids/hybrids.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "base/ceil_div.h"
#include "formats/csr.h"
#include "formats/hybrid.h"
#include "generator/device_speed.h"
#include "generator/families/bsr_strips/bsr_strips_family.h"
#include "generator/families/bsr_wgmma/bsr_wgmma_family.h"
#include "generator/families/two_four_wgmma/two_four_wgmma_family.h"
#include "matrix/weight_structure.h"

namespace sparsmith {
namespace {

constexpr double kMostRest = 0.01;  // of the weight's elements
constexpr int kVectorWidth = 4;     // entries that a thread of the last kernel loads at once
constexpr int kTileRows = 32;       // of the last kernel,
constexpr int kTileTokens = 64;
constexpr std::int64_t kSharedBytes = kTileTokens * (kTileRows + 1) * 4;

constexpr const char* kBlocks = "blocks";  // the parameter; families of no blocks lack it
std::int64_t block_of(const Config& config) { return config.values.contains(kBlocks) ? config.at(kBlocks) : 0; }

// In SparsityStatistics::kBlockSizes.
std::size_t size_index(std::int64_t block) {
  return static_cast<std::size_t>(std::ranges::find(SparsityStatistics::kBlockSizes, block) -
                                  SparsityStatistics::kBlockSizes.begin());
}

double rest_nonzeros(const SparsityStatistics& statistics, std::int64_t block) {
  if (block > 0) return statistics.block_rest[size_index(block)] * static_cast<double>(statistics.nnz);
  return static_cast<double>(statistics.groups[0][3] + 2 * statistics.groups[0][4]);
}

CsrPacking rest_packing(const OperatorSpec& spec) {
  return {.index_bytes = spec.cols <= 65536 ? 2 : 4, .alignment = kVectorWidth};
}

// Rules of the structured family, for the structured part.
std::vector<Rule> rules_of_part(const Family& structured, const std::vector<std::string>& asked_first) {
  std::vector<Rule> rules = structured.rules;
  for (Rule& rule : rules) {
    rule.parameters.insert(rule.parameters.end(), asked_first.begin(), asked_first.end());
    rule.holds = [holds = std::move(rule.holds)](const RuleInput& in) {
      return holds({in.config, in.problem, structured_statistics(in.statistics, block_of(in.config))});
    };
  }
  return rules;
}

std::vector<Rule> worthwhile_rules(const std::string& first_parameter) {
  return {
      {{first_parameter},
       "blocks of the structure that the weight nearly has",
       [](auto& in) {
         const std::int64_t block = block_of(in.config);
         const std::optional<WeightStructure> found = structure_of(in.statistics);
         return found && found->name == (block > 0 ? fmt::format("b{}", block) : "2:4");
       }},
      {{first_parameter},
       "a rest, of at most a hundredth of the elements",
       [](auto& in) {
         const double rest = rest_nonzeros(in.statistics, block_of(in.config));
         return rest > 0 && rest <= kMostRest * static_cast<double>(in.statistics.rows * in.statistics.cols);
       }},
  };
}

KernelText add_rest_text(const std::string& family, const Problem& problem, const std::string& sums) {
  const OperatorSpec& spec = problem.spec;
  const int index_bits = rest_packing(spec).index_bytes * 8;
  KernelText text;
  text.name = fmt::format("{}_{}_u{}", family, spec_tag(spec), index_bits);
  text.summary = fmt::format("adds the products of a rest of {} nonzeros to the sums of the structured part",
                             short_name(spec.type));
  text.threads = kTileRows * kTileTokens / 8;
  text.headers = {"snippets/prolog/csr_stream.cuh", "snippets/kernels/add_rest.cuh"};
  text.lines = {
      stored_type(spec.type),
      output_type(spec),
      {fmt::format("using Stream = CsrStream<Stored, u{}, {}>", index_bits, kVectorWidth),
       "columns, nonzeros that are loaded at once"},
  };
  add_output(spec, text);
  text.lines.push_back({"using Kernel = AddRestKernel<Stream, Output>", ""});
  text.lines.push_back({"static_assert(kThreads == Kernel::kThreads)", ""});
  add_shared_bytes(kSharedBytes, "Kernel::kSharedBytes", text);
  text.parameters = {{"const csr::Segment*", "segments", packed_array("rest_segments")},
                     {fmt::format("const u{}*", index_bits), "columns", packed_array("rest_columns")},
                     {"const Stored*", "values", packed_array("rest_values")},
                     {"const Stored*", "xt", workspace()},
                     {"i64", "ldt", integer(kRelayoutStride)},
                     {"const float*", "sums", workspace(sums)},
                     {"int", "rows", integer(spec.rows)},
                     {"int", "n", integer("n")}};
  add_output_parameters(text);
  text.body = std::string(kMakeOutput) +
              "const Stream rest{columns, values};\n"
              "Kernel::run(segments, rest, xt, ldt, sums, output, rows, n, shared_memory());";
  return text;
}

// The structured part's kernels leave their sums behind the workspace that they need themselves, which X then takes.
Result<PlannedKernels> hybrid_kernels(const Family& structured, const std::string& name, const Config& config,
                                      const Problem& problem, const PackedWeight& packed) {
  const OperatorSpec& spec = problem.spec;
  Problem part = problem;
  part.spec.epilogue = {};
  SPARSMITH_ASSIGN_OR_RETURN(PlannedKernels kernels, structured.kernels(config, part, packed));
  const std::string sums =
      fmt::format("ceil_div(max({}, {}), 256) * 256", kernels.plan.workspace_bytes.text(), relayout_bytes(spec));
  leave_sums(part.spec, sums, kernels);
  add_relayout(spec, kernels);
  kernels.launch(add_rest_text(name, problem, sums)).grid[0] =
      formula("min(ceil_div({}, {}) * ceil_div(n, {}), 65535)", spec.rows, kTileRows, kTileTokens);
  kernels.plan.workspace_bytes = formula("{} + {} * n", sums, spec.rows * 4);
  return kernels;
}

// The cost model: the structured part's kernels, X turned, and the last kernel. Sums are written and read as fp32, and
// each nonzero of the rest reads its line of X from L2; few tokens wait for one nonzero of a row after the other.
//
// Fitted to 126 times on an H100: 8192 x 8192, blocks of 16 and 32 at 90 % zeros and 2:4, with 0.1 and 0.5 % scattered,
// 64 to 2,048 tokens; rms 0.07.
double predicted_hybrid_us(const Family& structured, const Config& config, const Problem& problem,
                           const SparsityStatistics& statistics) {
  constexpr double kLastKernelUs = 4.5;
  constexpr double kSumBytesPerUs = 1.65e6;
  constexpr double kRestBytesPerUs = 6.8e6;
  constexpr double kNonzeroUs = 0.3;  // of the rest, of a row
  const std::int64_t block = block_of(config);
  const auto tokens = static_cast<double>(problem.tokens);
  const double sum_bytes = 2 * 4 * static_cast<double>(problem.spec.rows) * tokens;
  const double rest = rest_nonzeros(statistics, block);
  const double rest_us = std::max(2 * rest * tokens / (kRestBytesPerUs * l2_speed(problem.device)),
                                  kNonzeroUs * rest / std::max(1.0, static_cast<double>(problem.spec.rows)));
  return structured.predict(config, problem, structured_statistics(statistics, block)) + relayout_us(problem) +
         kLastKernelUs + launch_delay_us(problem.device) + sum_bytes / (kSumBytesPerUs * l2_speed(problem.device)) +
         rest_us;
}

// `structured` lives as long as the family.
Family hybrid_of(const Family& structured, bool in_blocks) {
  Family family = structured;
  family.name = structured.name + "_rest";
  if (in_blocks)
    family.parameters.insert(family.parameters.begin(),
                             {kBlocks, "b", {8, 16, 32, 64}, "the size of the structured part's blocks"});
  const std::string first = family.parameters.front().name;
  family.rules =
      joined({worthwhile_rules(first),
              rules_of_part(structured, in_blocks ? std::vector<std::string>{kBlocks} : std::vector<std::string>{})});
  family.packing_of_rows = [&structured](const Config& config, const Problem& problem) {
    return HybridPacking{structured.packing_of_rows(config, problem), static_cast<int>(block_of(config)),
                         rest_packing(problem.spec).name()}
        .name();
  };
  family.kernels = [&structured, name = family.name](const Config& config, const Problem& problem,
                                                     const PackedWeight& packed) {
    return hybrid_kernels(structured, name, config, problem, packed);
  };
  family.predict = [&structured](const Config& config, const Problem& problem, const SparsityStatistics& statistics) {
    return predicted_hybrid_us(structured, config, problem, statistics);
  };
  return family;
}

}  // namespace

SparsityStatistics structured_statistics(const SparsityStatistics& statistics, std::int64_t block) {
  SparsityStatistics part = statistics;
  part.nnz -= std::llround(rest_nonzeros(statistics, block));
  const double elements = static_cast<double>(part.rows) * static_cast<double>(part.cols);
  if (elements > 0) part.sparsity = 1 - static_cast<double>(part.nnz) / elements;
  if (block == 0) {
    auto& fours = part.groups[0];
    fours[2] += std::exchange(fours[3], 0) + std::exchange(fours[4], 0);
    part.two_four_legal = 1;
    return part;
  }
  const double full = statistics.block_full[size_index(block)];
  for (std::size_t i = 0; i < part.block_touched.size(); ++i) {
    const double held = static_cast<double>(SparsityStatistics::kBlockSizes[i]) / static_cast<double>(block);
    part.block_touched[i] = std::min(part.block_touched[i], held <= 1 ? full : 1 - std::pow(1 - full, held * held));
  }
  return part;
}

const Family& bsr_wgmma_rest_family() {
  static const Family kFamily = hybrid_of(bsr_wgmma_family(), true);
  return kFamily;
}

const Family& bsr_strips_rest_family() {
  static const Family kFamily = hybrid_of(bsr_strips_family(), true);
  return kFamily;
}

const Family& two_four_wgmma_rest_family() {
  static const Family kFamily = hybrid_of(two_four_wgmma_family(), false);
  return kFamily;
}

}  // namespace sparsmith
