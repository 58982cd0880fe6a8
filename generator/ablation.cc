#include "generator/ablation.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace sparsmith {
namespace {

// In the line `using LINE = ...` of a family's kernel, `by` stands for `type`; where that is empty, the whole type T of
// the line becomes by<T>. Lines of a kernel that do not hold `type` stay.
struct Exchange {
  std::string_view family;
  Ablation part;
  std::string_view line;
  std::string_view type;
  std::string_view by;
  std::string_view header;  // of snippets/ablation
};

constexpr Exchange kExchanges[] = {
    {"rows", Ablation::kNoDecode, "Input", "", "UngatheredInput", "rows"},
    {"rows", Ablation::kNoMultiply, "Sums", "", "UnmultipliedSums", "rows"},
    {"panel", Ablation::kNoDecode, "Products", "PlainProducts", "UngatheredPlainProducts", "panel"},
    {"panel", Ablation::kNoDecode, "Products", "TensorProducts", "UngatheredTensorProducts", "panel"},
    {"panel", Ablation::kNoMultiply, "Products", "PlainProducts", "UnmultipliedPlainProducts", "panel"},
    {"panel", Ablation::kNoMultiply, "Products", "TensorProducts<InputType", "TensorProducts<Unmultiplied<InputType>",
     "unmultiplied"},
    {"slots", Ablation::kNoDecode, "Stream", "", "UngatheredSlots", "slots"},
    {"slots", Ablation::kNoMultiply, "Stream", "", "UnmultipliedSlots", "slots"},
    {"bitmap", Ablation::kNoDecode, "Values", "", "UndecodedStrips", "undecoded_strips"},
    {"bitmap", Ablation::kNoMultiply, "InputType", "", "Unmultiplied", "unmultiplied"},
    {"scatter", Ablation::kNoDecode, "Entries", "", "UnstoredEntries", "unstored_entries"},
    {"scatter", Ablation::kNoMultiply, "InputType", "", "Unmultiplied", "unmultiplied"},
    {"gather", Ablation::kNoDecode, "Input", "", "UngatheredRows", "gather"},
    {"gather", Ablation::kNoMultiply, "Products", "GatheredProducts", "UnmultipliedRows", "gather"},
    {"bsr", Ablation::kNoMultiply, "InputType", "", "Unmultiplied", "unmultiplied"},
    {"wgmma", Ablation::kNoDecode, "Entries", "", "UnstoredEntries", "unstored_entries"},
    // Nothing is stored into the tiles, so that they need not be cleared as a whole.
    {"wgmma", Ablation::kNoDecode, "Kernel", "true", "false", "unstored_entries"},
    {"wgmma", Ablation::kNoMultiply, "InputType", "", "Unmultiplied", "unmultiplied"},
};

bool has_builds(std::string_view family, Ablation part) {
  return std::ranges::any_of(kExchanges, [&](const Exchange& each) {
    return each.family == family && (each.part == part || part == Ablation::kCopyOnly);
  });
}

// Whether the line was there.
bool exchange(const Exchange& wanted, KernelText& text) {
  const std::string begin = fmt::format("using {} = ", wanted.line);
  for (KernelText::Line& line : text.lines) {
    if (!line.declaration.starts_with(begin)) continue;
    const std::string type = line.declaration.substr(begin.size());
    const std::size_t at = type.find(wanted.type);
    if (at == std::string::npos) return false;
    line.declaration = begin + (wanted.type.empty() ? fmt::format("{}<{}>", wanted.by, type)
                                                    : std::string(type).replace(at, wanted.type.size(), wanted.by));
    text.headers.push_back(fmt::format("snippets/ablation/{}.cuh", wanted.header));
    return true;
  }
  return false;
}

void name_after(const KernelText& whole, Ablation part, KernelText& text) {
  text.name = fmt::format("{}_{}", whole.name, ablation_key(part));
  text.summary = fmt::format("{} (ablation: {}; outputs are wrong)", whole.summary, ablation_name(part));
}

Status take_out(std::string_view family, Ablation part, KernelText& text) {
  bool changed = false;
  for (const Exchange& each : kExchanges)
    if (each.family == family && each.part == part && exchange(each, text)) changed = true;
  if (!changed) return internal_error(fmt::format("{}: no line to take \"{}\" out of", text.name, ablation_name(part)));
  name_after(text, part, text);
  return {};
}

// Loads the arrays of `packed` by as many threads as a launch of `whole` has.
KernelText copy_text(const KernelText& whole, const PackedWeight& packed) {
  KernelText text;
  name_after(whole, Ablation::kCopyOnly, text);
  text.threads = whole.threads;
  text.min_blocks_per_sm = whole.min_blocks_per_sm;
  text.architecture = whole.architecture;
  text.headers = {"snippets/ablation/copied_arrays.cuh"};
  text.lines = {{"using Copied = CopiedArrays<kThreads>", ""}};
  text.parameters = {{"u8*", "y", operand("y")}};
  text.body = "launch_dependents();\nCopied copied;\n";
  for (const PackedArray& array : packed.arrays) {
    text.parameters.push_back({"const u8*", array.name, packed_array(array.name)});
    text.parameters.push_back({"i64", array.name + "_bytes", integer(static_cast<std::int64_t>(array.bytes.size()))});
    text.body += fmt::format("copied.load({0}, {0}_bytes);\n", array.name);
  }
  text.body += "wait_for_previous();\ncopied.end(y);";
  return text;
}

}  // namespace

std::string_view ablation_name(Ablation ablation) {
  static constexpr std::string_view kNames[] = {"no decode", "no multiply", "copy only"};
  return kNames[static_cast<std::size_t>(ablation)];
}

std::string ablation_key(Ablation ablation) {
  std::string key(ablation_name(ablation));
  std::ranges::replace(key, ' ', '_');
  return key;
}

std::vector<Ablation> ablations(const Family& family) {
  std::vector<Ablation> parts;
  for (const Ablation part : kAblations)
    if (has_builds(family.name, part)) parts.push_back(part);
  return parts;
}

Result<Candidate> generate_without(Ablation part, const Family& family, const Config& config, const Problem& problem,
                                   const PackedWeight& packed) {
  if (!has_builds(family.name, part))
    return unsupported(fmt::format("{}: there is no build for \"{}\"", family.name, ablation_name(part)));
  SPARSMITH_ASSIGN_OR_RETURN(PlannedKernels planned, family.plan(config, problem, packed));
  KernelText& own = planned.texts.front();
  PlanStep& launch = *std::ranges::find(planned.plan.steps, own.name, &PlanStep::kernel);
  if (part == Ablation::kCopyOnly) {
    PlannedKernels copy;
    PlanStep& step = copy.launch(copy_text(own, packed));
    const auto& [x, y, z] = launch.grid;
    step.grid[0] = formula("({}) * ({}) * ({})", x.text(), y.text(), z.text());
    step.shared_bytes = launch.shared_bytes;
    return make_candidate(config, problem, packed, std::move(copy));
  }
  SPARSMITH_RETURN_IF_ERROR(take_out(family.name, part, own));
  launch.kernel = own.name;
  return make_candidate(config, problem, packed, std::move(planned));
}

}  // namespace sparsmith
