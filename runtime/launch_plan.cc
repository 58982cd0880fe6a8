#include "runtime/launch_plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

#include "base/json_text.h"
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

constexpr std::array<std::string_view, 6> kKindNames = {"packed", "operand", "workspace", "int32", "int64", "scalar"};

std::string_view kind_name(Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

// As tuned files before version 4 have it: the name was the kind.
struct OldKind {
  std::string_view name;
  Kind kind;
};
constexpr std::array<OldKind, 6> kOldKinds = {{{"x", Kind::kOperand},
                                               {"y", Kind::kOperand},
                                               {"bias", Kind::kOperand},
                                               {"residual", Kind::kOperand},
                                               {"alpha", Kind::kScalar},
                                               {"beta", Kind::kScalar}}};

// An argument has a name or a value.
bool has_value(Kind kind) { return kind == Kind::kWorkspace || kind == Kind::kInt32 || kind == Kind::kInt64; }

// ---- writing ----

// A constant as a number, a formula as text.
OrderedJson json_of(const IntegerExpression& expression) {
  const Result<std::int64_t> constant = expression.evaluate({});
  if (constant.ok() && std::to_string(*constant) == expression.text()) return *constant;
  return expression.text();
}

OrderedJson json_of(const std::array<IntegerExpression, 3>& sizes) {
  return OrderedJson::array({json_of(sizes[0]), json_of(sizes[1]), json_of(sizes[2])});
}

OrderedJson json_of(const PlanArgument& argument) {
  OrderedJson json = {{"kind", kind_name(argument.kind)}};
  if (has_value(argument.kind)) {
    json["value"] = json_of(argument.value);
  } else {
    json["name"] = argument.name;
  }
  return json;
}

OrderedJson json_of(const PlanStep& step) {
  if (step.kind == PlanStep::Kind::kZero) {
    return {{"kind", "zero"}, {"offset", json_of(step.zero_offset)}, {"bytes", json_of(step.zero_bytes)}};
  }
  if (step.kind == PlanStep::Kind::kMatmul) {
    OrderedJson json = {{"kind", "matmul"}, {"array", step.array}};
    if (step.product) json["product"] = json_of(*step.product);
    if (step.proposal != 0) json["proposal"] = step.proposal;
    if (step.proposed_for != 0) json["proposed_for"] = step.proposed_for;
    return json;
  }
  OrderedJson json = {
      {"kind", "launch"}, {"kernel", step.kernel}, {"grid", json_of(step.grid)}, {"block", json_of(step.block)}};
  if (step.cluster != PlanStep().cluster) json["cluster"] = json_of(step.cluster);
  if (step.shared_bytes != IntegerExpression(0)) json["shared_bytes"] = json_of(step.shared_bytes);
  if (step.programmatic_launch) json["programmatic_launch"] = true;
  OrderedJson& arguments = json["arguments"] = OrderedJson::array();
  for (const PlanArgument& argument : step.arguments) arguments.push_back(json_of(argument));
  return json;
}

// ---- reading: every function says with `where` which part of the plan it complains about ----

Status error(const std::string& where, std::string_view reason) {
  return invalid_input(fmt::format("launch plan: {} {}", where, reason));
}

Status check_keys(const Json& json, const std::string& where, std::initializer_list<std::string_view> known) {
  if (!json.is_object()) return error(where, "is not an object");
  for (const auto& item : json.items()) {
    if (std::find(known.begin(), known.end(), item.key()) == known.end()) {
      return error(where, fmt::format("has the unknown key \"{}\"", item.key()));
    }
  }
  return {};
}

Result<const Json*> member(const Json& json, const std::string& where, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return error(where, fmt::format("has no \"{}\"", key));
  return &*found;
}

Result<IntegerExpression> read_expression(const Json& json, const std::string& where) {
  if (const auto integer = json_integer(json)) return IntegerExpression(*integer);
  if (json.is_number_integer()) return error(where, "is beyond 64 bits");
  if (!json.is_string()) return error(where, "is neither an integer nor an expression");
  Result<IntegerExpression> expression = IntegerExpression::parse(json.get_ref<const std::string&>());
  if (!expression.ok()) return error(where, expression.status().message());
  return expression;
}

Result<IntegerExpression> read_expression_member(const Json& json, const std::string& where, const char* key) {
  SPARSMITH_ASSIGN_OR_RETURN(const Json* value, member(json, where, key));
  return read_expression(*value, where + "." + key);
}

Result<std::array<IntegerExpression, 3>> read_sizes(const Json& json, const std::string& where, const char* key) {
  SPARSMITH_ASSIGN_OR_RETURN(const Json* sizes, member(json, where, key));
  if (!sizes->is_array() || sizes->size() != 3) return error(where + "." + key, "is not an array of three sizes");
  std::array<IntegerExpression, 3> result;
  for (std::size_t i = 0; i < 3; ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(result[i], read_expression((*sizes)[i], fmt::format("{}.{}[{}]", where, key, i)));
  }
  return result;
}

// A name of letters, digits and underscores; packed arrays may have '.', '-' and '/' as well.
Result<std::string> read_name(const Json& json, const std::string& where, const char* key, std::string_view also) {
  SPARSMITH_ASSIGN_OR_RETURN(const Json* value, member(json, where, key));
  if (!value->is_string()) return error(where + "." + key, "is not a string");
  const auto& name = value->get_ref<const std::string&>();
  if (name.empty() || name.size() > kMaxNameCharacters) {
    return error(where + "." + key,
                 fmt::format("has {} characters; 1 to {} are taken", name.size(), kMaxNameCharacters));
  }
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!plain && also.find(c) == std::string_view::npos) return error(where + "." + key, "is not a name");
  }
  return name;
}

Result<PlanArgument> read_argument(const Json& json, const std::string& where) {
  SPARSMITH_RETURN_IF_ERROR(check_keys(json, where, {"kind", "name", "value"}));
  SPARSMITH_ASSIGN_OR_RETURN(const Json* kind_json, member(json, where, "kind"));
  const std::string_view kind = kind_json->is_string() ? kind_json->get_ref<const std::string&>() : std::string_view();
  PlanArgument argument;
  const auto* old = std::ranges::find(kOldKinds, kind, &OldKind::name);
  const auto* found = std::ranges::find(kKindNames, kind);
  if (old != kOldKinds.end()) {
    argument = {old->kind, std::string(kind), 0};
  } else if (found != kKindNames.end()) {
    argument.kind = static_cast<Kind>(found - kKindNames.begin());
  } else {
    return error(where + ".kind", "is not a kind of argument");
  }
  if (has_value(argument.kind)) {
    SPARSMITH_ASSIGN_OR_RETURN(argument.value, read_expression_member(json, where, "value"));
  } else if (json.contains("value")) {
    return error(where, fmt::format("has a value, which {} does not take", kind));
  } else if (argument.name.empty()) {
    SPARSMITH_ASSIGN_OR_RETURN(argument.name, read_name(json, where, "name", ".-/"));
    return argument;
  }
  if (json.contains("name")) return error(where, fmt::format("has a name, which {} does not take", kind));
  return argument;
}

Result<PlanStep> read_launch(const Json& json, const std::string& where) {
  SPARSMITH_RETURN_IF_ERROR(check_keys(
      json, where, {"kind", "kernel", "grid", "block", "cluster", "shared_bytes", "programmatic_launch", "arguments"}));
  PlanStep step;
  SPARSMITH_ASSIGN_OR_RETURN(step.kernel, read_name(json, where, "kernel", ""));
  SPARSMITH_ASSIGN_OR_RETURN(step.grid, read_sizes(json, where, "grid"));
  SPARSMITH_ASSIGN_OR_RETURN(step.block, read_sizes(json, where, "block"));
  if (json.contains("cluster")) {
    SPARSMITH_ASSIGN_OR_RETURN(step.cluster, read_sizes(json, where, "cluster"));
  }
  if (json.contains("shared_bytes")) {
    SPARSMITH_ASSIGN_OR_RETURN(step.shared_bytes, read_expression_member(json, where, "shared_bytes"));
  }
  if (const auto found = json.find("programmatic_launch"); found != json.end()) {
    if (!found->is_boolean()) return error(where + ".programmatic_launch", "is neither true nor false");
    step.programmatic_launch = found->get<bool>();
  }
  SPARSMITH_ASSIGN_OR_RETURN(const Json* arguments, member(json, where, "arguments"));
  if (!arguments->is_array()) return error(where + ".arguments", "is not an array");
  if (arguments->size() > kMaxArguments) {
    return error(where, fmt::format("has {} arguments; at most {} are taken", arguments->size(), kMaxArguments));
  }
  for (std::size_t i = 0; i < arguments->size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(PlanArgument argument,
                               read_argument((*arguments)[i], fmt::format("{}.arguments[{}]", where, i)));
    step.arguments.push_back(std::move(argument));
  }
  return step;
}

// 0 where it is missing.
Result<std::int64_t> read_count(const Json& json, const std::string& where, const char* key, std::int64_t most) {
  const auto found = json.find(key);
  if (found == json.end()) return std::int64_t{0};
  if (const auto count = json_integer(*found, 0, most)) return *count;
  return error(where, fmt::format("has a {} that is no integer from 0 to {}", key, most));
}

Result<PlanStep> read_matmul(const Json& json, const std::string& where) {
  SPARSMITH_RETURN_IF_ERROR(check_keys(json, where, {"kind", "array", "product", "proposal", "proposed_for"}));
  PlanStep step = matmul_step("", std::nullopt);
  SPARSMITH_ASSIGN_OR_RETURN(step.array, read_name(json, where, "array", ".-/"));
  if (json.contains("product")) {
    SPARSMITH_ASSIGN_OR_RETURN(step.product, read_expression_member(json, where, "product"));
  }
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t proposal, read_count(json, where, "proposal", kMostProposals - 1));
  step.proposal = static_cast<int>(proposal);
  SPARSMITH_ASSIGN_OR_RETURN(step.proposed_for, read_count(json, where, "proposed_for", kMaxTokens));
  return step;
}

Result<PlanStep> read_step(const Json& json, const std::string& where) {
  if (!json.is_object()) return error(where, "is not an object");
  SPARSMITH_ASSIGN_OR_RETURN(const Json* kind, member(json, where, "kind"));
  if (*kind == "launch") return read_launch(json, where);
  if (*kind == "matmul") return read_matmul(json, where);
  if (*kind != "zero") return error(where + ".kind", "is neither launch, zero nor matmul");
  SPARSMITH_RETURN_IF_ERROR(check_keys(json, where, {"kind", "offset", "bytes"}));
  PlanStep step;
  step.kind = PlanStep::Kind::kZero;
  SPARSMITH_ASSIGN_OR_RETURN(step.zero_offset, read_expression_member(json, where, "offset"));
  SPARSMITH_ASSIGN_OR_RETURN(step.zero_bytes, read_expression_member(json, where, "bytes"));
  return step;
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

PlanArgument packed_array(std::string name) { return {Kind::kPacked, std::move(name), 0}; }
PlanArgument operand(std::string name) { return {Kind::kOperand, std::move(name), 0}; }
PlanArgument workspace(std::string_view offset) { return {Kind::kWorkspace, "", IntegerExpression::of(offset)}; }
PlanArgument scalar(std::string name) { return {Kind::kScalar, std::move(name), 0}; }
PlanArgument null_pointer() { return {Kind::kInt64, "", 0}; }

void launch_programmatically(LaunchPlan& plan, bool first_too) {
  bool behind_kernel = first_too;
  for (PlanStep& step : plan.steps) {
    step.programmatic_launch = step.kind == PlanStep::Kind::kLaunch && behind_kernel;
    behind_kernel = step.kind != PlanStep::Kind::kZero;
  }
}

nlohmann::ordered_json json_of(const LaunchPlan& plan) {
  OrderedJson json = {{"workspace_bytes", json_of(plan.workspace_bytes)}};
  OrderedJson& steps = json["steps"] = OrderedJson::array();
  for (const PlanStep& step : plan.steps) steps.push_back(json_of(step));
  return json;
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
  SPARSMITH_RETURN_IF_ERROR(check_keys(json, "the plan", {"workspace_bytes", "steps"}));
  LaunchPlan plan;
  SPARSMITH_ASSIGN_OR_RETURN(plan.workspace_bytes, read_expression_member(json, "the plan", "workspace_bytes"));
  SPARSMITH_ASSIGN_OR_RETURN(const Json* steps, member(json, "the plan", "steps"));
  if (!steps->is_array()) return error("steps", "is not an array");
  if (steps->size() > kMaxSteps) {
    return error("the plan", fmt::format("has {} steps; at most {} are taken", steps->size(), kMaxSteps));
  }
  for (std::size_t i = 0; i < steps->size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(PlanStep step, read_step((*steps)[i], fmt::format("steps[{}]", i)));
    plan.steps.push_back(std::move(step));
  }
  return plan;
}

}  // namespace sparsmith
