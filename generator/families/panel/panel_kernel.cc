// Kernels and launch plans of the panel family.
#include <fmt/format.h>

#include "base/ceil_div.h"
#include "generator/families/panel/panel_family.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

// Column parts that write partial sums for a second pass, in Y's layout.
bool splits_columns(const PanelConfig& config) { return config.column_parts > 1 && !config.sweeps(); }

// What the snippets call where whole rows go, and how a kernel's name spells it; by panel::RowStore.
struct StoreName {
  const char* name;
  const char* tag;
};
constexpr StoreName kStores[] = {{"kSlots", ""}, {"kDirect", "_o"}, {"kStaged", "_s"}, {"kAdded", "_a"}};

std::string products_type(const PanelConfig& config, const OperatorSpec& spec, bool fallback) {
  if (config.products == PanelConfig::Products::kPlain)
    return fmt::format("PlainProducts<InputType, {}, {}, {}>", config.segment_lanes, config.panels,
                       row_products_type(spec));
  return fmt::format("{}<InputType, {}, {}>", fallback ? "TensorFallback" : "TensorProducts", config.segment_lanes,
                     config.panels);
}

std::string input_line(const PanelConfig& config, const Problem& problem) {
  const bool roomy = config.roomy(problem);
  const bool turns = config.turns(problem.spec.layout);
  if (config.pairs()) {
    if (turns)
      return fmt::format("using Input = TokenMajorPair<InputType, kThreads, {}>",
                         roomy && size_of(problem.spec.type) == 2 ? 8 : 4);
    return fmt::format("using Input = FeatureMajorPair<InputType, kThreads, {}, {}>",
                       boolean(config.input == PanelConfig::Input::kNeighbours), roomy ? 8 : 4);
  }
  if (!turns) return fmt::format("using Input = FeatureMajorPanel<InputType, kThreads, {}>", config.panels);
  return fmt::format("using Input = TokenMajorPanel<InputType, kThreads, {}, {}>",
                     roomy && config.panels == 1 && !config.sweeps() ? 2 : 1, config.panels);
}

// How the kernel's name spells it: X as it lies or turned, and who fills panels together.
std::string input_tag(const PanelConfig& config, const Problem& problem) {
  std::string tag = config.turns(problem.spec.layout) ? "t" : "f";
  if (config.input == PanelConfig::Input::kNeighbours) tag += "n";
  if (config.input == PanelConfig::Input::kShared) tag += "s";
  return tag;
}

bool lays_out(const PanelConfig& config) { return config.input == PanelConfig::Input::kRelayout; }

// Formulas: panels of X, and the bytes of those that a launch in front lays out, at the start of the workspace.
std::string panel_count(const OperatorSpec& spec) { return fmt::format("ceil_div(n, {})", panel_tokens(spec.type)); }
std::string panels_bytes(const PanelConfig& config, const OperatorSpec& spec) {
  if (!lays_out(config)) return "0";
  return fmt::format("({} * {} + 255) / 256 * 256", panel_count(spec), spec.cols * panel::kRowBytes);
}

std::string staged_rows(const PanelConfig& config) {
  return config.store == panel::RowStore::kStaged ? "fact.rows" : "0";
}

// How the kernel finds X: as it lies, or in panels.
void add_input_parameters(const PanelConfig& config, const OperatorSpec& spec, KernelText& text) {
  const std::int64_t tokens = panel_tokens(spec.type);
  const bool token_major = spec.layout == Layout::kTokenMajor;
  const bool relaid = lays_out(config);
  const std::string ldx = relaid ? std::to_string(tokens) : "ld.x";
  const std::string panel_stride = relaid        ? std::to_string(spec.cols * tokens)
                                   : token_major ? fmt::format("{} * ld.x", tokens)
                                                 : std::to_string(tokens);
  text.parameters.insert(
      text.parameters.end(),
      {{"const InputType*", "x", relaid ? workspace() : operand("x")},
       {"i64", "ldx", integer(ldx)},
       {"i64", "panel_stride", integer(panel_stride)},
       {"i64", "column_stride", integer(token_major && !relaid ? "1" : ldx)},
       {"int", "cols", integer(spec.cols)},
       {"int", "x_tokens", integer(relaid ? fmt::format("{} * {}", panel_count(spec), tokens) : "n")}});
}

KernelText panel_text(const PanelConfig& config, const Problem& problem) {
  const OperatorSpec& spec = problem.spec;
  const bool split = splits_columns(config);
  const auto store = static_cast<std::size_t>(config.store);
  KernelText text;
  text.name = fmt::format("panel_{}_{}{}{}_x{}_d{}{}{}_b{}x{}", spec_tag(spec),
                          config.products == PanelConfig::Products::kTensor ? "t"
                          : config.chains(spec)                             ? "c"
                                                                            : "p",
                          config.segment_lanes, config.panels == 1 ? "" : fmt::format("_g{}", config.panels),
                          input_tag(config, problem), config.depth, split ? "_k" : "", kStores[store].tag,
                          config.threads_per_block, config.blocks_per_sm(problem));
  text.summary = fmt::format("Y = W X for {} weights in panel tasks, {} tokens of X in shared memory",
                             short_name(spec.type), config.block_tokens(spec.type));
  text.threads = config.threads_per_block;
  text.min_blocks_per_sm = config.blocks_per_sm(problem);
  text.headers = {"snippets/prolog/panel_stream.cuh",
                  config.pairs() ? "snippets/prolog/panel_pair.cuh" : "snippets/prolog/panel_input.cuh",
                  config.products == PanelConfig::Products::kPlain ? "snippets/reduction/plain_products.cuh"
                                                                   : "snippets/reduction/tensor_products.cuh",
                  config.sweeps() ? "snippets/kernels/swept_panel.cuh" : "snippets/kernels/panel.cuh"};
  text.lines = {
      stored_type(spec.type),
      input_type(spec),
      output_type(spec),
      {fmt::format("using Stream = PanelStream<panel::StepOf<Stored>, {}, kThreads / 32>", config.depth),
       "steps loaded ahead"},
      {input_line(config, problem), "X to shared memory"},
      {fmt::format("using Products = {}", products_type(config, spec, false)), "lanes a segment, panels of a block"},
  };
  if (!config.sweeps())
    text.lines.push_back(
        {fmt::format("using Fallback = {}", products_type(config, spec, true)), "where X holds Inf or NaN"});
  add_part_output(spec, split, text);
  text.lines.push_back({fmt::format("constexpr panel::RowStore kStore = panel::RowStore::{}", kStores[store].name),
                        "of rows that are all in one task"});
  if (config.sweeps()) {
    text.lines.push_back(
        {"using Kernel = SweptPanelKernel<InputType, Stream, Input, Products, Output, kStore, kThreads>", ""});
  } else {
    text.lines.push_back(
        {fmt::format(
             "using Kernel = PanelKernel<InputType, Stream, Input, Products, Fallback, Output, kStore, kThreads, {}>",
             boolean(config.roomy(problem))),
         "looks up early"});
  }
  add_panel_parameters(text);
  text.parameters.push_back({"int", "width", integer("fact.width")});
  add_input_parameters(config, spec, text);
  text.parameters.push_back(config.sweeps()
                                ? KernelText::Parameter{"int", "column_parts", integer(config.column_parts)}
                                : KernelText::Parameter{"int", "staged_rows", integer(staged_rows(config))});
  text.parameters.push_back({"int", "n", integer("n")});
  text.body =
      "const panel::Weight weight{entries, shares, task_slots, parts, row_slots, part_count, share_steps, width};\n"
      "const panel::Source<InputType> source{x, ldx, panel_stride, column_stride, cols, x_tokens};\n";
  if (split) {
    const bool token_major = spec.layout == Layout::kTokenMajor;
    text.parameters.insert(text.parameters.end(),
                           {{"float*", "partials", workspace(panels_bytes(config, spec))},
                            {"i64", "ldp", token_major ? integer(spec.rows) : integer("n")},
                            {"i64", "partial_stride", integer(fmt::format("{} * n", spec.rows))}});
    text.body +=
        "const Output output{partials, ldp, nullptr, nullptr, 0, 1.0F, 0.0F};\n"
        "Kernel::run(weight, source, output, partial_stride, staged_rows, n, shared_memory());";
  } else {
    add_output_parameters(text);
    text.body += std::string(kMakeOutput) +
                 (config.sweeps() ? "Kernel::run(weight, source, output, column_parts, n, shared_memory());"
                                  : "Kernel::run(weight, source, output, 0, staged_rows, n, shared_memory());");
  }
  return text;
}

void add_relayout_panels(const OperatorSpec& spec, PlannedKernels& kernels) {
  const bool token_major = spec.layout == Layout::kTokenMajor;
  KernelText text;
  text.name = fmt::format("relayout_panels_{}_{}", short_name(spec.type), token_major ? "tm" : "fm");
  text.summary = "X to panels of a few tokens each";
  text.threads = 128;
  text.headers = {"snippets/kernels/relayout_panels.cuh"};
  text.lines = {
      input_type(spec),
      {fmt::format("using Kernel = RelayoutPanelsKernel<InputType, {}>", boolean(token_major)), "X token-major"}};
  text.parameters = {{"const InputType*", "x", operand("x")},
                     {"i64", "ldx", integer("ld.x")},
                     {"InputType*", "panels", workspace()},
                     {"int", "cols", integer(spec.cols)},
                     {"int", "n", integer("n")}};
  text.body = "Kernel::run(x, ldx, panels, cols, n);";
  const int threads = text.threads;
  PlanStep& step = kernels.launch(std::move(text));
  if (token_major) {
    step.grid[0] = ceil_div(spec.cols, panel_tokens(spec.type) * threads);
    step.grid[1] = formula("min({}, 65535)", panel_count(spec));
  } else {
    step.grid[0] = formula("min(ceil_div({} * {}, {}), 65535)", panel_count(spec), spec.cols, threads);
  }
}

}  // namespace

void add_panel_parameters(KernelText& text) {
  text.parameters = {{"const u32*", "entries", packed_array("entries")},
                     {"const panel::Share*", "shares", packed_array("shares")},
                     {"const u16*", "task_slots", packed_array("task_slots")},
                     {"const panel::Part*", "parts", packed_array("parts")},
                     {"const u16*", "row_slots", packed_array("row_slots")},
                     {"int", "part_count", integer("fact.parts")},
                     {"int", "share_steps", integer("fact.share_steps")}};
}

Result<PlannedKernels> panel_kernels(const Config& values, const Problem& problem, const PackedWeight& /*packed*/) {
  const PanelConfig config(values);
  const OperatorSpec& spec = problem.spec;
  PlannedKernels kernels;
  std::string workspace_bytes = panels_bytes(config, spec);
  if (lays_out(config)) add_relayout_panels(spec, kernels);
  const std::int64_t tokens = config.block_tokens(spec.type);
  PlanStep& step = kernels.launch(panel_text(config, problem));
  step.grid = {formula("ceil_div(n, {})", tokens), config.row_parts, config.sweeps() ? 1 : config.column_parts};
  if (config.input == PanelConfig::Input::kNeighbours) {
    step.grid[0] = formula("ceil_div(n, {}) * 2", 2 * panel_tokens(spec.type));
    step.cluster = {2, 1, 1};
  } else if (config.input == PanelConfig::Input::kShared) {
    step.cluster = {1, 2, 1};
  }
  step.shared_bytes = formula("{} + {} * {} + fact.slots * {}", config.panel_bytes(spec.cols) + PanelConfig::kFlagBytes,
                              staged_rows(config), config.panels * panel::kRowBytes, tokens * 4);
  if (splits_columns(config)) {
    add_finish_parts(spec, config.column_parts, workspace_bytes, kernels);
    workspace_bytes += " + " + part_bytes(spec, config.column_parts);
  }
  kernels.plan.workspace_bytes = IntegerExpression::of(workspace_bytes);
  return kernels;
}

}  // namespace sparsmith
