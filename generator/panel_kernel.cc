// Kernels and launch plans of the panel family.
#include <fmt/format.h>

#include <optional>

#include "generator/kernel_parts.h"
#include "generator/panel_family.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kFlagBytes = 16;

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
    return fmt::format("PlainProducts<Value, {}, {}, {}>", config.segment_lanes, config.panels,
                       row_products_type(spec));
  return fmt::format("{}<Value, {}, {}>", fallback ? "TensorFallback" : "TensorProducts", config.segment_lanes,
                     config.panels);
}

std::string input_type(const PanelConfig& config, const Problem& problem) {
  const bool roomy = config.roomy(problem);
  const bool turns = config.turns(problem.spec.layout);
  if (config.pairs()) {
    if (turns)
      return fmt::format("using Input = TokenMajorPair<Value, kThreads, {}>",
                         roomy && size_of(problem.spec.type) == 2 ? 8 : 4);
    return fmt::format("using Input = FeatureMajorPair<Value, kThreads, {}, {}>",
                       boolean(config.input == PanelConfig::Input::kNeighbours), roomy ? 8 : 4);
  }
  if (!turns) return fmt::format("using Input = FeatureMajorPanel<Value, kThreads, {}>", config.panels);
  return fmt::format("using Input = TokenMajorPanel<Value, kThreads, {}, {}>",
                     roomy && config.panels == 1 && !config.sweeps() ? 2 : 1, config.panels);
}

// How the kernel's name spells it: X as it lies or turned, and who fills panels together.
std::string input_tag(const PanelConfig& config, const Problem& problem) {
  std::string tag = config.turns(problem.spec.layout) ? "t" : "f";
  if (config.input == PanelConfig::Input::kNeighbours) tag += "n";
  if (config.input == PanelConfig::Input::kShared) tag += "s";
  return tag;
}

KernelText panel_text(const PanelConfig& config, const Problem& problem, std::int64_t shared_bytes) {
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
  text.max_shared_bytes = shared_bytes;
  text.headers = {"snippets/prolog/panel_stream.cuh",
                  config.pairs() ? "snippets/prolog/panel_pair.cuh" : "snippets/prolog/panel_input.cuh",
                  config.products == PanelConfig::Products::kPlain ? "snippets/reduction/plain_products.cuh"
                                                                   : "snippets/reduction/tensor_products.cuh",
                  config.sweeps() ? "snippets/kernels/swept_panel.cuh" : "snippets/kernels/panel.cuh"};
  text.lines = {
      {fmt::format("using Value = {}", device_type(spec.type)), "of W, X, Y, bias and residual"},
      {fmt::format("using Stream = PanelStream<panel::StepOf<Value>, {}, kThreads / 32>", config.depth),
       "steps loaded ahead"},
      {input_type(config, problem), "X to shared memory"},
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
        {"using Kernel = SweptPanelKernel<Value, Stream, Input, Products, Output, kStore, kThreads>", ""});
  } else {
    text.lines.push_back(
        {fmt::format(
             "using Kernel = PanelKernel<Value, Stream, Input, Products, Fallback, Output, kStore, kThreads, {}>",
             boolean(config.roomy(problem))),
         "looks up early"});
  }
  text.parameters = {{"const u32*", "entries"},
                     {"const panel::Share*", "shares"},
                     {"const u16*", "task_slots"},
                     {"const panel::Part*", "parts"},
                     {"const u16*", "row_slots"},
                     {"int", "part_count"},
                     {"int", "share_steps"},
                     {"int", "width"},
                     {"const Value*", "x"},
                     {"i64", "ldx"},
                     {"i64", "panel_stride"},
                     {"i64", "column_stride"},
                     {"int", "cols"},
                     {"int", "x_tokens"},
                     {"int", config.sweeps() ? "column_parts" : "staged_rows"},
                     {"int", "n"}};
  text.body =
      "const panel::Weight weight{entries, shares, task_slots, parts, row_slots, part_count, share_steps, width};\n"
      "const panel::Source<Value> source{x, ldx, panel_stride, column_stride, cols, x_tokens};\n";
  if (split) {
    text.parameters.insert(text.parameters.end(), {{"float*", "partials"}, {"i64", "ldp"}, {"i64", "partial_stride"}});
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

KernelText relayout_panels_text(const OperatorSpec& spec) {
  const bool token_major = spec.layout == Layout::kTokenMajor;
  KernelText text;
  text.name = fmt::format("relayout_panels_{}_{}", short_name(spec.type), token_major ? "tm" : "fm");
  text.summary = "X to panels of a few tokens each";
  text.threads = 128;
  text.headers = {"snippets/kernels/relayout_panels.cuh"};
  text.lines = {{fmt::format("using Value = {}", device_type(spec.type)), "of X"},
                {fmt::format("using Kernel = RelayoutPanelsKernel<Value, {}>", boolean(token_major)), "X token-major"}};
  text.parameters = {{"const Value*", "x"}, {"i64", "ldx"}, {"Value*", "panels"}, {"int", "cols"}, {"int", "n"}};
  text.body = "Kernel::run(x, ldx, panels, cols, n);";
  return text;
}

class PlanBuilder {
 public:
  PlanBuilder(const PanelConfig& config, const Problem& problem, const PackedWeight& packed)
      : config_(config), problem_(problem), spec_(problem.spec), packed_(packed) {}

  std::int64_t shared_bytes() const {
    return config_.panel_bytes(spec_.cols) + kFlagBytes + staged_rows() * config_.panels * panel::kRowBytes +
           packed_.facts.at("slots") * config_.block_tokens(spec_.type) * 4;
  }

  Result<LaunchPlan> build(const KernelText& panel, const KernelText& relayout, const KernelText& finish) {
    const std::int64_t tokens = panel_tokens(spec_.type);
    panels_ = fmt::format("ceil_div(n, {})", tokens);
    const bool relaid = config_.input == PanelConfig::Input::kRelayout;
    const std::string panel_bytes =
        relaid ? fmt::format("({} * {} + 255) / 256 * 256", panels_, spec_.cols * panel::kRowBytes) : "0";
    const std::string partial_bytes =
        splits_columns(config_) ? fmt::format("{} * n", spec_.rows * config_.column_parts * 4) : "0";
    plan_.workspace_bytes = arguments_.expression(panel_bytes + " + " + partial_bytes);
    if (relaid) add_relayout(relayout);
    add_panel(panel, relaid, panel_bytes);
    if (splits_columns(config_))
      plan_.steps.push_back(finish_parts_step(spec_, finish, config_.column_parts, panel_bytes, arguments_));
    if (!arguments_.error().ok()) return arguments_.error();
    return std::move(plan_);
  }

 private:
  std::int64_t staged_rows() const { return config_.store == panel::RowStore::kStaged ? packed_.facts.at("rows") : 0; }

  void add_relayout(const KernelText& text) {
    const std::int64_t tokens = panel_tokens(spec_.type);
    PlanStep step;
    step.kernel = text.name;
    if (spec_.layout == Layout::kTokenMajor) {
      const std::int64_t per_block = tokens * text.threads;
      step.grid = {(spec_.cols + per_block - 1) / per_block,
                   arguments_.expression(fmt::format("min({}, 65535)", panels_)), 1};
    } else {
      step.grid = {
          arguments_.expression(fmt::format("min(ceil_div({} * {}, {}), 65535)", panels_, spec_.cols, text.threads)), 1,
          1};
    }
    step.block = {text.threads, 1, 1};
    step.arguments = {PlanArguments::x(), arguments_.int64("ldx"), arguments_.workspace("0"),
                      arguments_.int32(std::to_string(spec_.cols)), arguments_.int32("n")};
    plan_.steps.push_back(std::move(step));
  }

  void add_panel(const KernelText& text, bool relaid, const std::string& partials) {
    const std::int64_t tokens = panel_tokens(spec_.type);
    const bool token_major = spec_.layout == Layout::kTokenMajor;
    PlanStep step;
    step.kernel = text.name;
    step.grid = {arguments_.expression(fmt::format("ceil_div(n, {})", config_.block_tokens(spec_.type))),
                 config_.row_parts, config_.sweeps() ? 1 : config_.column_parts};
    if (config_.input == PanelConfig::Input::kNeighbours) {
      step.grid[0] = arguments_.expression(fmt::format("ceil_div(n, {}) * 2", 2 * tokens));
      step.cluster = {2, 1, 1};
    } else if (config_.input == PanelConfig::Input::kShared) {
      step.cluster = {1, 2, 1};
    }
    step.block = {text.threads, 1, 1};
    step.shared_bytes = shared_bytes();
    for (const char* array : {"entries", "shares", "task_slots", "parts", "row_slots"})
      step.arguments.push_back(PlanArguments::packed(array));
    for (const char* fact : {"parts", "share_steps", "width"})
      step.arguments.push_back(arguments_.int32(std::to_string(packed_.facts.at(fact))));
    step.arguments.push_back(relaid ? arguments_.workspace("0") : PlanArguments::x());
    const std::string ldx = relaid ? std::to_string(tokens) : "ldx";
    const std::string panel_stride = relaid        ? std::to_string(spec_.cols * tokens)
                                     : token_major ? fmt::format("{} * ldx", tokens)
                                                   : std::to_string(tokens);
    step.arguments.push_back(arguments_.int64(ldx));
    step.arguments.push_back(arguments_.int64(panel_stride));
    step.arguments.push_back(arguments_.int64(token_major && !relaid ? "1" : ldx));
    step.arguments.push_back(arguments_.int32(std::to_string(spec_.cols)));
    step.arguments.push_back(arguments_.int32(relaid ? fmt::format("{} * {}", panels_, tokens) : "n"));
    step.arguments.push_back(arguments_.int32(std::to_string(config_.sweeps() ? config_.column_parts : staged_rows())));
    step.arguments.push_back(arguments_.int32("n"));
    if (splits_columns(config_)) {
      step.arguments.push_back(arguments_.workspace(partials));
      step.arguments.push_back(arguments_.int64(token_major ? std::to_string(spec_.rows) : "n"));
      step.arguments.push_back(arguments_.int64(fmt::format("{} * n", spec_.rows)));
    } else {
      add_output_arguments(step);
    }
    plan_.steps.push_back(std::move(step));
  }

  const PanelConfig& config_;
  const Problem& problem_;
  const OperatorSpec& spec_;
  const PackedWeight& packed_;
  std::string panels_;
  LaunchPlan plan_;
  PlanArguments arguments_{"panel"};
};

Status take_out(Ablation part, const PanelConfig& config, KernelText& text) {
  AblatedText ablated(part, text);
  const bool plain = config.products == PanelConfig::Products::kPlain;
  constexpr const char* kPlainHeader = "snippets/ablation/plain_panel_products.cuh";
  switch (part) {
    case Ablation::kNoDecode:
      if (plain) {
        ablated.replace("Products", "PlainProducts", "UngatheredPlainProducts", kPlainHeader);
      } else {
        ablated.replace("Products", "TensorProducts", "UngatheredTensorProducts",
                        "snippets/ablation/ungathered_tensor_products.cuh");
      }
      break;
    case Ablation::kNoMultiply:
      if (plain) {
        ablated.replace("Products", "PlainProducts", "UnmultipliedPlainProducts", kPlainHeader);
      } else {
        ablated.replace("Products", "Value", "Unmultiplied<Value>", "snippets/ablation/unmultiplied.cuh");
      }
      break;
    case Ablation::kCopyOnly:
      ablated.replace("Kernel", config.sweeps() ? "SweptPanelKernel" : "PanelKernel",
                      config.sweeps() ? "SweptPanelCopyKernel" : "PanelCopyKernel", "snippets/ablation/panel_copy.cuh");
      break;
  }
  return ablated.status();
}

Result<Candidate> candidate_of(const Config& config, const Problem& problem, const PackedWeight& packed,
                               std::optional<Ablation> without) {
  const PanelConfig panel(config);
  SPARSMITH_RETURN_IF_ERROR(check_packing(config, panel.packing(problem).name(), packed));
  PlanBuilder builder(panel, problem, packed);
  KernelText texts[] = {panel_text(panel, problem, builder.shared_bytes()), relayout_panels_text(problem.spec),
                        finish_parts_text(problem.spec)};
  if (without) SPARSMITH_RETURN_IF_ERROR(take_out(*without, panel, texts[0]));
  SPARSMITH_ASSIGN_OR_RETURN(LaunchPlan plan, builder.build(texts[0], texts[1], texts[2]));
  if (without == Ablation::kCopyOnly) keep_kernel(plan, texts[0].name);
  return make_candidate(config, problem, packed, std::move(plan), texts);
}

}  // namespace

Result<Candidate> PanelFamily::generate(const Config& config, const Problem& problem,
                                        const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, std::nullopt);
}

std::vector<Ablation> PanelFamily::ablations(const Config& /*config*/) const {
  return {std::begin(kAblations), std::end(kAblations)};
}

Result<Candidate> PanelFamily::generate_without(Ablation part, const Config& config, const Problem& problem,
                                                const PackedWeight& packed) const {
  return candidate_of(config, problem, packed, part);
}

}  // namespace sparsmith
