#include "runtime/launch_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/json_text.h"
#include "runtime/json_fields.h"
#include "runtime/launch_plan_json.h"

namespace sparsmith {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMaxTextBytes = std::size_t{4} << 20;  // the longest plans have some kB
constexpr std::size_t kMaxTreeBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxSteps = 256;
constexpr std::size_t kMaxArguments = 64;
constexpr std::size_t kMaxNameCharacters = 1000;
constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();

using Kind = PlanArgument::Kind;

constexpr std::string_view kStepNames[] = {"launch", "zero", "matmul"};
constexpr std::string_view kKindNames[] = {"packed", "operand", "workspace", "int32", "int64", "scalar", "tensor_map"};

// In tuned files before version 4 the kind of an operand or a scalar was its name.
constexpr std::string_view kOldOperands[] = {"x", "y", "bias", "residual"};
constexpr std::string_view kOldScalars[] = {"alpha", "beta"};

// Whether an argument of this kind has a value, and whether it has a name.
bool has_value(Kind kind) {
  return kind == Kind::kWorkspace || kind == Kind::kInt32 || kind == Kind::kInt64 || kind == Kind::kTensorMap;
}
bool has_name(Kind kind) { return !has_value(kind) || kind == Kind::kTensorMap; }

// JSON of a constant is a number, JSON of a formula is a text.
OrderedJson json_of_expression(const IntegerExpression& expression) {
  const Result<std::int64_t> constant = expression.evaluate({});
  if (constant.ok() && std::to_string(*constant) == expression.text()) return *constant;
  return expression.text();
}

Result<IntegerExpression> read_expression(const Json& json) {
  if (const auto integer = json_integer(json)) return IntegerExpression(*integer);
  if (json.is_number_integer()) return invalid_input("is beyond 64 bits");
  if (!json.is_string()) return invalid_input("is neither an integer nor an expression");
  return IntegerExpression::parse(json.get_ref<const std::string&>());
}

// ---- fields, in the order in which they are written ----

void expression_field(auto& f, const char* key, IntegerExpression& expression) {
  f.value(key, expression, json_of_expression, read_expression);
}

void sizes_field(auto& f, const char* key, std::array<IntegerExpression, 3>& sizes) {
  const auto write = [](const auto& from) {
    return OrderedJson::array({json_of_expression(from[0]), json_of_expression(from[1]), json_of_expression(from[2])});
  };
  f.value(key, sizes, write, [](const Json& json) -> Result<std::array<IntegerExpression, 3>> {
    if (!json.is_array() || json.size() != 3) return invalid_input("is not an array of three sizes");
    std::array<IntegerExpression, 3> read;
    for (std::size_t i = 0; i < 3; ++i) {
      SPARSMITH_ASSIGN_OR_RETURN(read[i], read_expression(json[i]));
    }
    return read;
  });
}

void box_field(auto& f, MapBox& box) {
  const auto write = [](const MapBox& from) { return OrderedJson::array({from.lines, from.elements}); };
  f.value("box", box, write, [](const Json& json) -> Result<MapBox> {
    if (!json.is_array() || json.size() != 2 || !json[0].is_number_unsigned() || !json[1].is_number_unsigned())
      return invalid_input("is not an array of lines and elements");
    const auto lines = json[0].get<std::uint64_t>();
    const auto elements = json[1].get<std::uint64_t>();
    if (lines == 0 || lines > 256 || lines % 8 != 0 || (elements != 32 && elements != 64))
      return invalid_input(fmt::format("of {} lines of {} elements: not 8, 16, ... 256 of 32 or 64", lines, elements));
    return MapBox{static_cast<int>(lines), static_cast<int>(elements)};
  });
}

// A name of letters, digits, underscores and the characters in `also`: for packed arrays '.', '-' and '/'.
void name_field(auto& f, const char* key, std::string& name, std::string_view also) {
  const auto same = [](const std::string& text) { return text; };
  text_field(f, key, name, same, [&](const std::string& text) -> Result<std::string> {
    if (text.empty() || text.size() > kMaxNameCharacters)
      return invalid_input(fmt::format("has {} characters; 1 to {} are taken", text.size(), kMaxNameCharacters));
    for (const char c : text) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
      if (!plain && also.find(c) == std::string_view::npos) return invalid_input("is not a name");
    }
    return text;
  });
}

void fields(auto& f, PlanArgument& argument) {
  bool is_old = false;
  const auto name_of = [](const PlanArgument& from) { return name_in(kKindNames, from.kind); };
  const auto parse = [&](const std::string& name) -> std::optional<PlanArgument> {
    is_old = true;
    if (std::ranges::count(kOldOperands, name) > 0) return operand(name);
    if (std::ranges::count(kOldScalars, name) > 0) return scalar(name);
    is_old = false;
    const auto kind = value_in<Kind>(kKindNames, name);
    return kind ? std::optional(PlanArgument{*kind, "", 0}) : std::nullopt;
  };
  text_field(f, "kind", argument, name_of, parse, "is not a kind of argument");
  if (has_name(argument.kind) && !is_old) name_field(f, "name", argument.name, ".-/");
  if (has_value(argument.kind)) expression_field(f, "value", argument.value);
  if (argument.kind == Kind::kTensorMap && f.has("box", argument.box != MapBox())) box_field(f, argument.box);
}

void fields(auto& f, PlanStep& step) {
  text_field(
      f, "kind", step.kind, [](PlanStep::Kind kind) { return name_in(kStepNames, kind); },
      [](const std::string& name) { return value_in<PlanStep::Kind>(kStepNames, name); },
      "is neither launch, zero nor matmul");
  switch (step.kind) {
    case PlanStep::Kind::kZero:
      expression_field(f, "offset", step.zero_offset);
      expression_field(f, "bytes", step.zero_bytes);
      return;
    case PlanStep::Kind::kMatmul:
      if (f.has("weight", step.weight.has_value()))
        expression_field(f, "weight", step.weight ? *step.weight : step.weight.emplace());
      else if (f.has("array", !step.array.empty()) || !f.has("product", step.product.has_value()))
        name_field(f, "array", step.array, ".-/");
      if (f.has("product", step.product.has_value()))
        expression_field(f, "product", step.product ? *step.product : step.product.emplace());
      if (f.has("proposal", step.proposal != 0)) f("proposal", step.proposal, 0, kMostProposals - 1);
      if (f.has("proposed_for", step.proposed_for != 0)) f("proposed_for", step.proposed_for, 0, kMaxTokens);
      return;
    case PlanStep::Kind::kLaunch: break;
  }
  name_field(f, "kernel", step.kernel, "");
  sizes_field(f, "grid", step.grid);
  sizes_field(f, "block", step.block);
  if (f.has("cluster", step.cluster != PlanStep().cluster)) sizes_field(f, "cluster", step.cluster);
  if (f.has("shared_bytes", step.shared_bytes != IntegerExpression(0)))
    expression_field(f, "shared_bytes", step.shared_bytes);
  if (f.has("programmatic_launch", step.programmatic_launch)) f("programmatic_launch", step.programmatic_launch);
  f.list(
      "arguments", step.arguments, [](auto& of_argument, PlanArgument& argument) { fields(of_argument, argument); },
      kMaxArguments);
}

void fields(auto& f, LaunchPlan& plan) {
  expression_field(f, "workspace_bytes", plan.workspace_bytes);
  f.list("steps", plan.steps, [](auto& of_step, PlanStep& step) { fields(of_step, step); }, kMaxSteps);
}

}  // namespace

bool LaunchPlan::has_matmul() const {
  return std::ranges::any_of(steps, [](const PlanStep& step) { return step.kind == PlanStep::Kind::kMatmul; });
}

PlanStep matmul_step(std::string array, std::optional<IntegerExpression> product) {
  PlanStep step;
  step.kind = PlanStep::Kind::kMatmul;
  step.array = std::move(array);
  step.product = std::move(product);
  return step;
}

PlanStep matmul_by_workspace(IntegerExpression weight) {
  PlanStep step;
  step.kind = PlanStep::Kind::kMatmul;
  step.weight = std::move(weight);
  return step;
}

PlanStep gradient_step(IntegerExpression product) { return matmul_step("", std::move(product)); }

PlanArgument packed_array(std::string name) { return {Kind::kPacked, std::move(name), 0}; }
PlanArgument operand(std::string name) { return {Kind::kOperand, std::move(name), 0}; }
PlanArgument workspace(std::string_view offset) { return {Kind::kWorkspace, "", IntegerExpression::of(offset)}; }
PlanArgument scalar(std::string name) { return {Kind::kScalar, std::move(name), 0}; }
PlanArgument tensor_map(std::string name, std::int64_t elements, MapBox box) {
  return {Kind::kTensorMap, std::move(name), elements, box};
}
PlanArgument null_pointer() { return {Kind::kInt64, "", 0}; }

void launch_programmatically(LaunchPlan& plan, bool first_too) {
  bool behind_kernel = first_too;
  for (PlanStep& step : plan.steps) {
    step.programmatic_launch = step.kind == PlanStep::Kind::kLaunch && behind_kernel;
    behind_kernel = step.kind != PlanStep::Kind::kZero;
  }
}

nlohmann::ordered_json json_of(const LaunchPlan& plan) {
  JsonFieldWriter writer;
  fields(writer, const_cast<LaunchPlan&>(plan));  // only reads it
  return std::move(writer.json);
}

std::string to_json(const LaunchPlan& plan) {
  // Replaces what is not UTF-8 in place of throwing; such a name is refused when it is read.
  return json_of(plan).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

Result<LaunchPlan> launch_plan_from_json(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return invalid_input(fmt::format("launch plan of {} bytes; at most {} are taken", text.size(), kMaxTextBytes));
  }
  const Result<Json> json = parse_json(text, kMaxTreeBytes);
  if (!json.ok()) return json.status().annotate("launch plan");
  return launch_plan_from(*json);
}

Result<LaunchPlan> launch_plan_from(const nlohmann::json& json) {
  JsonFieldReader reader(json, "the plan", "");
  LaunchPlan plan;
  fields(reader, plan);
  SPARSMITH_RETURN_IF_ERROR(reader.finish().annotate("launch plan"));
  return plan;
}

}  // namespace sparsmith
