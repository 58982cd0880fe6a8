#include "generator/families/rows/rows_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "formats/packed_format.h"
#include "generator/catalogue.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

std::vector<Parameter> parameters() {
  return {
      {"index_bits", "u", {16, 32}, "bytes of a column against the largest K"},
      {"vector_width", "v", tuned("CsrStream", "kVectorWidth"), "nonzeros a load: load width against padding"},
      {"alignment", "a", {1, 2, 4, 8}, "a segment begins at a multiple of it: vector loads against padding"},
      {"row_order", "o", {0, 1, 2}, "balance against locality of Y", {"natural", "sorted", "binned"}},
      {"split_length", "l", {0, 128, 512, 2048, 8192}, "longer rows are cut: balance against a second pass"},
      {"partial_sums", "p", {0, 1, 2}, "how a cut row adds up", {"none", "atomic", "two_pass"}},
      {"token_lanes", "tl", tuned("RowsKernel", "kTokenLanes"),
       "lanes that share out a token tile: coalescing of X against lanes a row"},
      {"tokens_per_thread", "tt", tuned("RegisterSums", "kTokens"), "use of a loaded nonzero against registers"},
      {"shuffle_lanes", "s", tuned("ShuffleSum", "kLanes"),
       "lanes of a row that combine by shuffle: balance against depth"},
      {"shared_parts", "h", tuned("SharedSum", "kParts"), "parts of a row that combine through shared memory"},
      {"rows_per_group", "r", tuned("RegisterSums", "kRows"),
       "rows in flight a thread group: latency hiding against registers"},
      {"unroll", "n", tuned("RowsKernel", "kUnroll"), "vectors in flight a thread: latency hiding against registers"},
      {"input", "x", {0, 1, 2}, "gather cost against staging", {"global", "shared", "relayout"}},
      {"threads_per_block", "b", tuned("RowsKernel", "kThreads"), "occupancy against tail"},
      {"blocks_per_sm", "g", {0, 1, 2, 4, 8}, "blocks of a persistent grid; 0: a block for each piece of work"},
  };
}

std::vector<Rule> legal_rules() {
  return legal({
      {{"alignment", "vector_width"},
       "a vector load needs segments aligned to it",
       [](auto& in) { return in["vector_width"] <= in["alignment"]; }},
      {{"split_length", "partial_sums"},
       "partial sums are kept exactly when rows are cut",
       [](auto& in) { return (in["split_length"] == 0) == (in["partial_sums"] == 0); }},
      {{"shuffle_lanes", "token_lanes"},
       "a shuffle stays inside a warp",
       [](auto& in) { return in["shuffle_lanes"] * in["token_lanes"] <= 32; }},
      {{"shuffle_lanes", "token_lanes", "shared_parts", "threads_per_block"},
       "a thread group lies in one block",
       [](auto& in) {
         return in["shuffle_lanes"] * in["token_lanes"] * in["shared_parts"] <= in["threads_per_block"];
       }},
      {{"rows_per_group", "tokens_per_thread", "unroll", "vector_width"},
       "sums and loads in flight exceed the registers of a thread",
       [](auto& in) {
         return in["rows_per_group"] * in["tokens_per_thread"] <= 32 &&
                in["rows_per_group"] * in["unroll"] * in["vector_width"] <= 32;
       }},
      {{"input", "token_lanes", "tokens_per_thread", "shuffle_lanes", "shared_parts", "rows_per_group",
        "threads_per_block"},
       "the panel of X and the row sums exceed the shared memory of a block",
       [](auto& in) {
         const RowsConfig config(in.config);
         return config.panel_bytes(in.spec.cols, size_of(in.spec.type)) + config.sums_bytes() <=
                in.device.shared_bytes_per_block;
       }},
      {{"input"},
       "feature-major X needs no relayout",
       [](auto& in) {
         return static_cast<RowsConfig::Input>(in["input"]) != RowsConfig::Input::kRelayout ||
                in.spec.layout == Layout::kTokenMajor;
       }},
  });
}

std::vector<Rule> worthwhile_rules() {
  return {
      {{"alignment", "vector_width"},
       "segments aligned to the load, or to the widest one where rows are long",
       [](auto& in) {
         return in["alignment"] == in["vector_width"] ||
                (in["alignment"] == 8 && in["vector_width"] == 4 && in.statistics.row_mean >= 64);
       }},
      {{"alignment"},
       "padding stays under a fifth of the nonzeros",
       [](auto& in) {
         return in["alignment"] == 1 || static_cast<double>(in["alignment"] - 1) / 2 <= 0.2 * in.statistics.row_mean;
       }},
      {{"vector_width"},
       "long rows are worth loads of at least 8 bytes of columns",
       [](auto& in) { return in["vector_width"] >= 4 || in.statistics.row_mean < 32; }},
      {{"row_order"},
       "equal rows need no order",
       [](auto& in) { return in["row_order"] == 0 || in.statistics.row_cov > (in["row_order"] == 1 ? 0.05 : 0.3); }},
      {{"split_length"},
       "only rows far above the mean are worth cutting",
       [](auto& in) {
         const auto length = static_cast<double>(in["split_length"]);
         return length == 0 || (static_cast<double>(in.statistics.row_max) > length &&
                                in.statistics.row_max_over_mean > 4 && length >= 2 * in.statistics.row_mean);
       }},
      {{"vector_width", "shuffle_lanes", "shared_parts"},
       "a thread group no wider than its rows",
       [](auto& in) {
         const std::int64_t lanes = in["shuffle_lanes"] * in["shared_parts"];
         return lanes == 1 || static_cast<double>(lanes * in["vector_width"]) < 4 * in.statistics.row_mean;
       }},
      {{"vector_width", "shuffle_lanes", "shared_parts", "token_lanes"},
       "a row is not left to so few threads that it takes over 64 rounds",
       [](auto& in) {
         const std::int64_t lanes = in["shuffle_lanes"] * in["shared_parts"];
         return in["token_lanes"] >= 8 ||
                in.statistics.row_mean <= 64 * static_cast<double>(lanes * in["vector_width"]);
       }},
      {{"shuffle_lanes", "shared_parts", "token_lanes"},
       "a row's work is shared out by whole warps before several take part",
       [](auto& in) { return in["shared_parts"] == 1 || in["shuffle_lanes"] * in["token_lanes"] == 32; }},
      {{"token_lanes", "tokens_per_thread"},
       "a token tile no larger than the tokens, nor much smaller",
       [](auto& in) {
         const auto tokens = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(in.problem.tokens)));
         const std::int64_t tile = in["token_lanes"] * in["tokens_per_thread"];
         return tile <= tokens && tile >= std::min<std::int64_t>(tokens, 8);
       }},
      {{"token_lanes", "tokens_per_thread"},
       "a thread takes several tokens before more lanes do",
       [](auto& in) { return in["token_lanes"] == 1 || in["tokens_per_thread"] >= 4; }},
      {{"input"},
       "a relayout needs tokens to gather side by side",
       [](auto& in) { return in["input"] != 2 || in.problem.tokens > 1; }},
      {{"input", "token_lanes"},
       "lanes that share out tokens need them side by side",
       [](auto& in) { return in["token_lanes"] == 1 || in["input"] != 0 || in.spec.layout == Layout::kFeatureMajor; }},
      {{"index_bits", "rows_per_group", "unroll", "vector_width", "tokens_per_thread", "threads_per_block"},
       "what a thread holds fits the registers that its block leaves it",
       [](auto& in) {
         // Columns and values in flight, sums, one column's tokens; addresses, counters and lengths.
         const auto nonzero = in["index_bits"] / 8 + static_cast<std::int64_t>(size_of(in.spec.type));
         const std::int64_t registers = in["rows_per_group"] * in["unroll"] * in["vector_width"] * nonzero / 4 +
                                        in["rows_per_group"] * (in["tokens_per_thread"] + 4) + in["tokens_per_thread"] +
                                        34;
         return registers * in["threads_per_block"] <= in.device.registers_per_sm;
       }},
      {{"rows_per_group", "unroll", "vector_width", "tokens_per_thread"},
       "X values in flight take at most 32 registers of a thread",
       [](auto& in) {
         const std::int64_t values = in["rows_per_group"] * in["unroll"] * in["vector_width"] * in["tokens_per_thread"];
         return values * static_cast<std::int64_t>(size_of(in.spec.type)) <= 128;
       }},
      {{"rows_per_group", "unroll", "vector_width"},
       "4 to 32 nonzeros in flight a thread",
       [](auto& in) {
         const std::int64_t flight = in["rows_per_group"] * in["unroll"] * in["vector_width"];
         return flight <= 32 && (flight >= 4 || in.statistics.row_mean < 16);
       }},
      {{"blocks_per_sm", "input", "threads_per_block"},
       "staging X only pays with a resident grid",
       [](auto& in) {
         if (in["input"] != 1) return in["blocks_per_sm"] == 0;
         return in["blocks_per_sm"] > 0 &&
                in["blocks_per_sm"] * in["threads_per_block"] <= in.device.max_threads_per_sm &&
                in["blocks_per_sm"] * in["threads_per_block"] >= 512;
       }},
      {{"input", "threads_per_block"},
       "small blocks refill a multiprocessor sooner; panels want large ones",
       [](auto& in) {
         return (in["input"] == 1) == (in["threads_per_block"] >= 512) || in["threads_per_block"] == 256;
       }},
      {{"blocks_per_sm", "input", "token_lanes", "tokens_per_thread", "shuffle_lanes", "shared_parts", "rows_per_group",
        "threads_per_block"},
       "a persistent grid that fits the shared memory",
       [](auto& in) {
         const RowsConfig config(in.config);
         const std::int64_t block = config.panel_bytes(in.spec.cols, size_of(in.spec.type)) + 1024;
         return config.blocks_per_sm == 0 || config.blocks_per_sm * block <= in.device.shared_bytes_per_sm;
       }},
  };
}

constexpr const char* kPartialsTypes[] = {"NoPartials", "AtomicPartials", "StoredPartials"};  // by PartialSums

// Formula: where partial sums begin in the workspace.
std::string partials_offset(const RowsConfig& config, const OperatorSpec& spec) {
  return config.input == RowsConfig::Input::kRelayout ? relayout_bytes(spec) : "0";
}

KernelText rows_text(const RowsConfig& config, const OperatorSpec& spec, const Coding* coding) {
  const bool targets = config.row_order != RowOrder::kNatural || config.split_length > 0;
  const bool token_major_input = spec.layout == Layout::kTokenMajor && config.input != RowsConfig::Input::kRelayout;
  const bool shared = config.input == RowsConfig::Input::kShared;
  KernelText text;
  text.name = fmt::format("rows_{}_u{}_v{}_tl{}_tt{}_s{}_h{}_r{}_n{}_x{}_p{}{}_b{}", spec_tag(spec), config.index_bits,
                          config.vector_width, config.token_lanes, config.tokens_per_thread, config.shuffle_lanes,
                          config.shared_parts, config.rows_per_group, config.unroll,
                          std::string_view("gsr").substr(static_cast<std::size_t>(config.input), 1),
                          std::string_view("nat").substr(static_cast<std::size_t>(config.partial_sums), 1),
                          targets ? "t" : "", config.threads_per_block);
  if (coding != nullptr) text.name += fmt::format("_{}", coding->name);
  text.summary = fmt::format("Y = W X for {} weights in csr, {} reduction lanes a row, {} tokens a tile",
                             short_name(spec.type), config.shuffle_lanes * config.shared_parts, config.token_tile());
  text.threads = config.threads_per_block;
  text.headers = {"snippets/prolog/csr_stream.cuh",
                  shared ? "snippets/prolog/shared_input.cuh" : "snippets/prolog/global_input.cuh",
                  "snippets/reduction/register_sums.cuh",
                  "snippets/reduction/shuffle_sum.cuh",
                  "snippets/reduction/shared_sum.cuh",
                  "snippets/kernels/rows.cuh"};
  text.lines = {
      stored_type(coding == nullptr ? spec.type : coding->stored),
      coding_type(coding),
      input_type(spec),
      output_type(spec),
      {fmt::format("using Index = u{}", config.index_bits), "of a column"},
      {fmt::format("constexpr int kTokenLanes = {}", config.token_lanes), "lanes that share out a token tile"},
      {fmt::format("constexpr int kTokens = {}", config.tokens_per_thread), "tokens of a thread"},
      {fmt::format("constexpr int kShuffleLanes = {}", config.shuffle_lanes), "lanes of a row that combine by shuffle"},
      {fmt::format("constexpr int kSharedParts = {}", config.shared_parts),
       "parts of a row that combine through shared memory"},
      {fmt::format("using Stream = CsrStream<Stored, Index, {}>", config.vector_width), "nonzeros a load"},
      {fmt::format("using Input = {}<InputType, {}, kTokenLanes, kTokens, kThreads>",
                   shared ? "SharedInput" : "GlobalInput", boolean(token_major_input)),
       "X token-major"},
      {fmt::format("using Sums = RegisterSums<{}, kTokens>", config.rows_per_group), "rows of a thread group"},
      {"using Shuffle = ShuffleSum<kShuffleLanes, kTokenLanes>", ""},
      {"using Shared = SharedSum<kSharedParts, kShuffleLanes * kTokenLanes, kTokenLanes, kThreads>", ""},
      {fmt::format("using Partials = {}", kPartialsTypes[static_cast<std::size_t>(config.partial_sums)]),
       "of rows that were cut"},
  };
  add_output(spec, text);
  text.lines.push_back(
      {fmt::format("using Kernel = RowsKernel<Stream, Coding, Input, Sums, Shuffle, Shared, Partials, Output, "
                   "kTokenLanes, {}, {}, kThreads>",
                   config.unroll, boolean(targets)),
       "vectors in flight, segments name their rows"});
  add_shared_bytes(config.sums_bytes(), "Shared::shared_bytes<Sums>()", text);
  text.max_shared_bytes += config.panel_bytes(spec.cols, size_of(spec.type));
  const bool relaid = config.input == RowsConfig::Input::kRelayout;
  const PlanArgument partials =
      config.partial_sums == PartialSums::kNone ? null_pointer() : workspace(partials_offset(config, spec));
  text.parameters = {{"const csr::Segment*", "segments", packed_array("segments")},
                     {"const u32*", "targets", targets ? packed_array("targets") : null_pointer()},
                     {"const Index*", "columns", packed_array("columns")},
                     {"const Stored*", "values", packed_array("values")},
                     {"const InputType*", "x", relaid ? workspace() : operand("x")},
                     {"float*", "partials", partials},
                     {"int", "segment_count", integer("fact.segments")},
                     {"int", "cols", integer(spec.cols)},
                     {"int", "n", integer("n")},
                     {"i64", "ldx", integer(relaid ? kRelayoutStride : "ld.x")}};
  add_output_parameters(text);
  text.body = "const Stream stream{columns, values};\n" + make_coding(coding, spec, text) +
              "Input input(x, ldx, cols, shared_memory());\n" + kMakeOutput +
              "Kernel::run(segments, targets, stream, coding, input, output, partials, segment_count, n,\n"
              "            shared_memory() + Input::shared_bytes(cols));";
  return text;
}

// The second pass.
void add_finish_rows(const OperatorSpec& spec, const std::string& partials, PlannedKernels& kernels) {
  KernelText text;
  text.name = "finish_rows";
  text.summary = "adds up the partial sums of rows that were cut, and runs the epilog";
  text.headers = {"snippets/kernels/finish.cuh"};
  text.parameters = {{"const u32*", "split_rows", packed_array("split_rows")},
                     {"const u32*", "slot_offsets", packed_array("slot_offsets")},
                     {"const float*", "partials", workspace(partials)},
                     {"int", "split_row_count", integer("fact.split_rows")},
                     {"int", "n", integer("n")}};
  text.body = "Kernel::run(split_rows, slot_offsets, partials, output, split_row_count, n);";
  add_finisher(spec, "fact.split_rows * n", {"using Kernel = FinishRowsKernel<Output, kThreads>", ""}, std::move(text),
               kernels);
}

// Blocks along the rows.
IntegerExpression blocks_of(const RowsConfig& config, const DeviceProperties& device) {
  const std::int64_t per_block =
      std::int64_t{config.threads_per_block} / config.group_threads() * config.rows_per_group;
  const std::string blocks = fmt::format("max(ceil_div(fact.segments, {}), 1)", per_block);
  if (config.blocks_per_sm == 0) return IntegerExpression::of(blocks);
  const std::int64_t most = std::int64_t{config.blocks_per_sm} * std::max(device.sm_count, 1);
  return formula("min({}, {})", blocks, most);
}

Result<PlannedKernels> rows_kernels(const Config& values, const Problem& problem, const PackedWeight& packed) {
  const RowsConfig config(values);
  const Coding* const coding = coding_of(without_transposed(packed.packing));
  if (coding != nullptr && (config.split_length > 0 || config.vector_width == 1))
    return unsupported("codes are of whole rows, and loaded by two at least");
  const std::string offset = partials_offset(config, problem.spec);
  const std::string partial_bytes = "fact.slots * 4 * n";
  const bool splits = packed.facts.at("split_rows") > 0;
  PlannedKernels kernels;
  kernels.plan.workspace_bytes = IntegerExpression::of(offset + " + " + partial_bytes);
  if (config.input == RowsConfig::Input::kRelayout) add_relayout(problem.spec, kernels);
  if (splits && config.partial_sums == PartialSums::kAtomic) {
    PlanStep& zero = kernels.plan.steps.emplace_back();
    zero.kind = PlanStep::Kind::kZero;
    zero.zero_offset = IntegerExpression::of(offset);
    zero.zero_bytes = IntegerExpression::of(partial_bytes);
  }
  kernels.launch(rows_text(config, problem.spec, coding)).grid = {blocks_of(config, problem.device),
                                                                  token_blocks(config.token_tile()), 1};
  if (splits) add_finish_rows(problem.spec, offset, kernels);
  return kernels;
}

}  // namespace

std::vector<Rule> csr_column_rules() {
  constexpr std::int64_t kMaxColumns16 = 65536;
  return joined({legal({
                     {{"index_bits"},
                      "16-bit columns need K <= 65,536",
                      [](auto& in) { return in["index_bits"] == 32 || in.spec.cols <= kMaxColumns16; }},
                 }),
                 {
                     {{"index_bits"},
                      "32-bit columns only where 16-bit ones do not do",
                      [](auto& in) { return in["index_bits"] == 16 || in.spec.cols > kMaxColumns16; }},
                 }});
}

CsrPacking RowsConfig::packing() const { return {index_bits / 8, alignment, row_order, split_length, partial_sums}; }

std::int64_t RowsConfig::panel_bytes(std::int64_t cols, std::size_t element_bytes) const {
  if (input != Input::kShared) return 0;
  return (cols * token_tile() * static_cast<std::int64_t>(element_bytes) + 15) / 16 * 16;
}

std::int64_t RowsConfig::sums_bytes() const {
  if (shared_parts == 1) return 0;
  return std::int64_t{threads_per_block} / shuffle_lanes * rows_per_group * tokens_per_thread * 4;
}

const Family& rows_family() {
  static const Family kFamily = {
      .name = "rows",
      .parameters = parameters(),
      .rules = joined({csr_column_rules(), legal_rules(), worthwhile_rules()}),
      .packing_of_rows = packing_name<RowsConfig>,
      .kernels = rows_kernels,
      .predict = predicted_rows_us,
  };
  return kFamily;
}

}  // namespace sparsmith
