#include "runtime/tuned_file_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "base/hash.h"
#include "base/json_text.h"
#include "runtime/json_reader.h"
#include "runtime/launch_plan_json.h"

namespace sparsmith {
namespace {

using Json = JsonReader::Json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int64_t>::max();
constexpr int kVersion = 4;
constexpr int kFirstVersionWithGroups = 2;
constexpr int kFirstVersionWithChains = 3;
constexpr int kFirstVersionWithOperators = 4;

// ---- writing ----

OrderedJson json_of(const TunedProvenance& provenance) {
  return {{"sparsmith_version", provenance.sparsmith_version},
          {"device_class", provenance.device_class},
          {"device_name", provenance.device_name},
          {"driver_version", provenance.driver_version},
          {"compiler_version", provenance.compiler_version},
          {"timing_policy", provenance.timing_policy},
          {"source_file", provenance.source_file}};
}

OrderedJson json_of(const TunedKernel& kernel) {
  OrderedJson json = {{"name", kernel.name},
                      {"closure_hash", kernel.closure_hash},
                      {"max_shared_bytes", kernel.max_shared_bytes},
                      {"source_hash", hash_text(kernel.source)}};
  OrderedJson& binaries = json["binaries"] = OrderedJson::array();
  for (const TunedKernel::Binary& binary : kernel.binaries) {
    binaries.push_back({{"architecture", binary.architecture}, {"hash", hash_bytes(binary.cubin)}});
  }
  return json;
}

OrderedJson json_of(const TunedPacking& packing) {
  OrderedJson json = {
      {"packing", packing.packing}, {"packer_version", packing.packer_version}, {"facts", packing.facts}};
  OrderedJson& arrays = json["arrays"] = OrderedJson::array();
  for (const TunedArray& array : packing.arrays) {
    arrays.push_back({{"name", array.name}, {"type", short_name(array.type)}, {"hash", hash_bytes(array.bytes)}});
  }
  if (packing.writers.empty()) return json;
  OrderedJson& writers = json["writers"] = OrderedJson::array();
  for (const TunedWriter& writer : packing.writers)
    writers.push_back({{"source", short_name(writer.source)}, {"plan", json_of(writer.plan)}});
  return json;
}

std::string_view evidence_name(TunedChoice::Evidence evidence) {
  return evidence == TunedChoice::Evidence::kMeasured ? "measured" : "predicted";
}

OrderedJson json_of(const TunedChoice& choice) {
  return {{"tokens", choice.tokens},       {"packing", choice.packing},   {"evidence", evidence_name(choice.evidence)},
          {"median_us", choice.median_us}, {"dense_us", choice.dense_us}, {"config", choice.config},
          {"reason", choice.reason},       {"plan", json_of(choice.plan)}};
}

OrderedJson json_of(const TunedWeight& weight) {
  OrderedJson json = {{"name", weight.name},
                      {"rows", weight.rows},
                      {"cols", weight.cols},
                      {"nnz", weight.nnz},
                      {"type", short_name(weight.type)},
                      {"pattern_hash", weight.pattern_hash},
                      {"value_hash", weight.value_hash},
                      {"packed_bytes", weight.packed_bytes()},
                      {"dense_bytes", weight.dense_bytes()}};
  if (!weight.members.empty()) {
    OrderedJson& members = json["members"] = OrderedJson::array();
    for (const GroupMember& member : weight.members) {
      members.push_back({{"name", member.name}, {"first_row", member.first_row}, {"rows", member.rows}});
    }
  }
  OrderedJson& packings = json["packings"] = OrderedJson::array();
  for (const TunedPacking& packing : weight.packings) packings.push_back(json_of(packing));
  return json;
}

OrderedJson json_of(const TunedWeight& weight, const TunedOperator& op) {
  OrderedJson json = {{"weight", weight.name},
                      {"kind", operator_kind_name(op.spec.kind)},
                      {"layout", layout_name(op.spec.layout)},
                      {"epilogue", op.spec.epilogue.name()}};
  if (op.spec.accumulation != Accumulation::kFp32) json["accumulation"] = accumulation_name(op.spec.accumulation);
  OrderedJson& choices = json["choices"] = OrderedJson::array();
  for (const TunedChoice& choice : op.choices) choices.push_back(json_of(choice));
  return json;
}

// ---- reading ----

Result<TunedProvenance> read_provenance(const Json& json) {
  JsonReader reader(json, "provenance",
                    {"sparsmith_version", "device_class", "device_name", "driver_version", "compiler_version",
                     "timing_policy", "source_file"});
  TunedProvenance provenance;
  provenance.sparsmith_version = reader.text("sparsmith_version");
  provenance.device_class = reader.text("device_class");
  provenance.device_name = reader.text("device_name");
  provenance.driver_version = reader.text("driver_version");
  provenance.compiler_version = reader.text("compiler_version");
  provenance.timing_policy = reader.text("timing_policy");
  provenance.source_file = reader.text("source_file");
  if (!reader.status().ok()) return reader.status();
  return provenance;
}

Result<TunedKernel> read_kernel(const Json& json, const std::string& where, const TensorBytes& tensors) {
  JsonReader reader(json, where, {"name", "closure_hash", "max_shared_bytes", "source_hash", "binaries"});
  TunedKernel kernel;
  kernel.name = reader.text("name");
  kernel.closure_hash = reader.text("closure_hash");
  kernel.max_shared_bytes = reader.integer("max_shared_bytes", 0, kMaxInteger);
  const std::string source_hash = reader.text("source_hash");
  const Json& binaries = reader.array("binaries");
  if (!reader.status().ok()) return reader.status();
  const auto source = reader.take(tensors(source_tensor_name(kernel), DataType::kUint8, source_hash));
  kernel.source = {reinterpret_cast<const char*>(source.data()), source.size()};
  for (const Json& item : binaries) {
    JsonReader binary(item, where + ".binaries", {"architecture", "hash"});
    TunedKernel::Binary read;
    read.architecture = binary.text("architecture");
    const std::string hash = binary.text("hash");
    if (!binary.status().ok()) return binary.status();
    read.cubin = reader.take(tensors(cubin_tensor_name(kernel, read.architecture), DataType::kUint8, hash));
    kernel.binaries.push_back(std::move(read));
  }
  if (!reader.status().ok()) return reader.status();
  return kernel;
}

// Takes the memory of a plan out of `room`.
Status charge(const LaunchPlan& plan, std::size_t& room) {
  std::size_t bytes = sizeof(TunedChoice);
  for (const PlanStep& step : plan.steps) {
    // An expression has an allocation or two beside it; a step has a dozen of them.
    bytes += 2 * sizeof(PlanStep) + 2 * sizeof(PlanArgument) * step.arguments.size();
  }
  if (bytes > room) return invalid_input("it holds more plans than a file of its size may");
  room -= bytes;
  return {};
}

Result<DataType> type_of(const std::string& name, const std::string& where) {
  const std::optional<DataType> type = data_type_from_short_name(name);
  if (!type) return invalid_input(fmt::format("{}: \"{}\" is no data type", where, name));
  return *type;
}

// Error: kInvalidInput, also where the plan takes more memory than there is room.
Result<LaunchPlan> read_plan(const Json& json, std::size_t& room) {
  SPARSMITH_ASSIGN_OR_RETURN(LaunchPlan plan, launch_plan_from(json));
  SPARSMITH_RETURN_IF_ERROR(charge(plan, room));
  return plan;
}

Status read_writers(JsonReader& reader, TunedPacking& packing, std::size_t& room) {
  const Json& writers = reader.array("writers");
  SPARSMITH_RETURN_IF_ERROR(reader.status());
  for (const Json& item : writers) {
    JsonReader writer(item, reader.where() + ".writers", {"source", "plan"});
    const std::string source = writer.text("source");
    const Json& plan = writer.object("plan");
    SPARSMITH_RETURN_IF_ERROR(writer.status());
    TunedWriter& read = packing.writers.emplace_back();
    SPARSMITH_ASSIGN_OR_RETURN(read.source, type_of(source, writer.where()));
    Result<LaunchPlan> launches = read_plan(plan, room);
    if (!launches.ok()) return launches.status().annotate(writer.where());
    read.plan = *std::move(launches);
  }
  return {};
}

Result<TunedPacking> read_packing(const Json& json, const std::string& where, const TunedWeight& weight,
                                  const TensorBytes& tensors, std::size_t& room) {
  JsonReader reader(json, where, {"packing", "packer_version", "facts", "arrays", "writers"});
  TunedPacking packing;
  packing.packing = reader.text("packing");
  packing.packer_version = static_cast<int>(reader.integer("packer_version", 0, std::numeric_limits<int>::max()));
  for (const auto& fact : reader.object("facts").items()) {
    if (const auto value = json_integer(fact.value())) {
      packing.facts[fact.key()] = *value;
    } else {
      reader.fail("facts", "holds what is not an integer");
    }
  }
  for (const Json& item : reader.array("arrays")) {
    JsonReader array(item, where + ".arrays", {"name", "type", "hash"});
    TunedArray read;
    read.name = array.text("name");
    const std::string type = array.text("type");
    const std::string hash = array.text("hash");
    if (!array.status().ok()) return array.status();
    SPARSMITH_ASSIGN_OR_RETURN(read.type, type_of(type, where));
    read.bytes = reader.take(tensors(packed_tensor_name(weight, packing, read.name), read.type, hash));
    packing.arrays.push_back(std::move(read));
  }
  if (reader.has("writers")) SPARSMITH_RETURN_IF_ERROR(read_writers(reader, packing, room));
  if (!reader.status().ok()) return reader.status();
  return packing;
}

// Before version 4 a dense choice had no config, and was multiplied whatever its plan said, which made Y of the product
// where it had steps.
void complete_dense(TunedChoice& choice) {
  choice.config = kDensePacking;
  const bool whole = choice.plan.steps.empty();
  choice.plan.steps.insert(
      choice.plan.steps.begin(),
      matmul_step(std::string(kDenseArray), whole ? std::nullopt : std::optional(IntegerExpression(0))));
}

Result<TunedChoice> read_choice(const Json& json, const std::string& where, std::int64_t version, std::size_t& room) {
  JsonReader reader(json, where,
                    {"tokens", "kind", "packing", "evidence", "median_us", "dense_us", "config", "reason", "plan"});
  TunedChoice choice;
  choice.tokens = reader.integer("tokens", 1, kMaxInteger);
  if (version < kFirstVersionWithOperators) {
    const std::string kind = reader.text("kind");
    if (kind != "generated" && kind != "dense") reader.fail("kind", "is neither generated nor dense");
  } else if (reader.has("kind")) {
    reader.fail("kind", fmt::format("is not of version {}", version));
  }
  const std::string evidence = reader.text("evidence");
  if (evidence == evidence_name(TunedChoice::Evidence::kMeasured)) {
    choice.evidence = TunedChoice::Evidence::kMeasured;
  } else if (evidence != evidence_name(TunedChoice::Evidence::kPredicted)) {
    reader.fail("evidence", "is neither measured nor predicted");
  }
  choice.packing = reader.text("packing");
  choice.median_us = reader.number("median_us");
  choice.dense_us = reader.number("dense_us");
  choice.config = reader.text("config");
  choice.reason = reader.text("reason");
  const Json& plan = reader.object("plan");
  if (reader.status().ok()) choice.plan = reader.take(read_plan(plan, room));
  if (!reader.status().ok()) return reader.status();
  if (version < kFirstVersionWithOperators && choice.packing == kDensePacking) complete_dense(choice);
  return choice;
}

// An operator of this weight, from an entry of "operators", or before version 4 from the weight's own.
Result<TunedOperator> read_operator(JsonReader& reader, const TunedWeight& weight, std::int64_t version,
                                    std::size_t& room) {
  TunedOperator op;
  OperatorSpec& spec = op.spec;
  if (version >= kFirstVersionWithOperators) {
    const std::optional<OperatorKind> kind = operator_kind_of_name(reader.text("kind"));
    if (!kind) reader.fail("kind", "is no kind of an operator");
    spec.kind = kind.value_or(OperatorKind::kSpmm);
  }
  spec.set_weight(weight.rows, weight.cols, weight.nnz);
  spec.type = weight.type;
  const std::string layout = reader.text("layout");
  if (layout == layout_name(Layout::kFeatureMajor)) {
    spec.layout = Layout::kFeatureMajor;
  } else if (layout != layout_name(Layout::kTokenMajor)) {
    reader.fail("layout", "is no layout");
  }
  const Result<Epilogue> epilogue = Epilogue::parse(reader.text("epilogue"));
  if (epilogue.ok()) {
    spec.epilogue = *epilogue;
  } else {
    reader.fail("epilogue", epilogue.status().message());
  }
  if (reader.has("accumulation")) {
    const std::optional<Accumulation> accumulation = accumulation_of_name(reader.text("accumulation"));
    if (!accumulation) reader.fail("accumulation", "is neither fp32 nor fp16_chains");
    spec.accumulation = accumulation.value_or(Accumulation::kFp32);
    if (spec.accumulation != Accumulation::kFp32 && version < kFirstVersionWithChains)
      reader.fail("accumulation", fmt::format("has fp16 chains in version {} of the format", version));
  }
  const Json& choices = reader.array("choices");
  if (!reader.status().ok()) return reader.status();
  const std::string place = fmt::format("{} ({})", reader.where(), weight.name);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(TunedChoice choice,
                               read_choice(choices[i], fmt::format("{}.choices[{}]", place, i), version, room));
    op.choices.push_back(std::move(choice));
  }
  return op;
}

Result<std::vector<GroupMember>> read_members(JsonReader& weight) {
  const Json& list = weight.array("members");
  if (!weight.status().ok()) return weight.status();
  std::vector<GroupMember> members;
  for (std::size_t i = 0; i < list.size(); ++i) {
    JsonReader reader(list[i], fmt::format("{}.members[{}]", weight.where(), i), {"name", "first_row", "rows"});
    members.push_back(
        {reader.text("name"), reader.integer("first_row", 0, kMaxInteger), reader.integer("rows", 1, kMaxInteger)});
    if (!reader.status().ok()) return reader.status();
  }
  if (members.empty()) return invalid_input("a group without members").annotate(weight.where());
  return members;
}

Result<TunedWeight> read_weight(const Json& json, const std::string& where, std::int64_t version,
                                const TensorBytes& tensors, std::size_t& room) {
  const bool has_operator = version < kFirstVersionWithOperators;
  const auto reader_with = [&](std::initializer_list<std::string_view> more) {
    return JsonReader(json, where,
                      {"name", "rows", "cols", "nnz", "type", "pattern_hash", "value_hash", "packed_bytes",
                       "dense_bytes", "members", "packings"},
                      more);
  };
  JsonReader reader = has_operator ? reader_with({"layout", "epilogue", "accumulation", "choices"}) : reader_with({});
  TunedWeight weight;
  weight.name = reader.text("name");
  weight.rows = reader.integer("rows", 1, kMaxInteger);
  weight.cols = reader.integer("cols", 1, kMaxInteger);
  weight.nnz = reader.integer("nnz", 0, kMaxInteger);
  const std::string type = reader.text("type");
  weight.pattern_hash = reader.text("pattern_hash");
  weight.value_hash = reader.text("value_hash");
  reader.integer("packed_bytes", 0, kMaxInteger);  // both follow from the rest; they stand there for other readers
  reader.integer("dense_bytes", 0, kMaxInteger);
  const Json& packings = reader.array("packings");
  if (!reader.status().ok()) return reader.status();
  SPARSMITH_ASSIGN_OR_RETURN(weight.type, type_of(type, where));
  if (json.contains("members")) {
    if (version < kFirstVersionWithGroups) return invalid_input("a group in version 1 of the format").annotate(where);
    SPARSMITH_ASSIGN_OR_RETURN(weight.members, read_members(reader));
  }
  const std::string place = fmt::format("{} ({})", where, weight.name);
  for (std::size_t i = 0; i < packings.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(TunedPacking packing, read_packing(packings[i], fmt::format("{}.packings[{}]", place, i),
                                                                  weight, tensors, room));
    weight.packings.push_back(std::move(packing));
  }
  if (has_operator) {
    SPARSMITH_ASSIGN_OR_RETURN(TunedOperator op, read_operator(reader, weight, version, room));
    weight.operators.push_back(std::move(op));
  }
  return weight;
}

Status read_operators(const Json& list, std::int64_t version, std::size_t& room, TunedContents& contents) {
  std::map<std::string_view, TunedWeight*> weights;
  for (TunedWeight& weight : contents.weights) weights.emplace(weight.name, &weight);
  for (std::size_t i = 0; i < list.size(); ++i) {
    JsonReader reader(list[i], fmt::format("operators[{}]", i),
                      {"weight", "kind", "layout", "epilogue", "accumulation", "choices"});
    const std::string name = reader.text("weight");
    if (!reader.status().ok()) return reader.status();
    const auto weight = weights.find(name);
    if (weight == weights.end())
      return invalid_input(fmt::format("{}: there is no weight {:.100}", reader.where(), name));
    SPARSMITH_ASSIGN_OR_RETURN(TunedOperator op, read_operator(reader, *weight->second, version, room));
    weight->second->operators.push_back(std::move(op));
  }
  return {};
}

}  // namespace

std::string packed_tensor_name(const TunedWeight& weight, const TunedPacking& packing, std::string_view array) {
  return fmt::format("packed/{}/{}/{}", weight.name, packing.packing, array);
}

std::string cubin_tensor_name(const TunedKernel& kernel, std::string_view architecture) {
  return fmt::format("cubin/{}/{}", kernel.name, architecture);
}

std::string source_tensor_name(const TunedKernel& kernel) { return fmt::format("source/{}", kernel.name); }

std::string tuned_contents_to_json(const TunedContents& contents) {
  OrderedJson json = {{"version", kVersion}, {"provenance", json_of(contents.provenance)}};
  OrderedJson& weights = json["weights"] = OrderedJson::array();
  for (const TunedWeight& weight : contents.weights) weights.push_back(json_of(weight));
  OrderedJson& operators = json["operators"] = OrderedJson::array();
  for (const TunedWeight& weight : contents.weights)
    for (const TunedOperator& op : weight.operators) operators.push_back(json_of(weight, op));
  OrderedJson& kernels = json["kernels"] = OrderedJson::array();
  for (const TunedKernel& kernel : contents.kernels) kernels.push_back(json_of(kernel));
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

Result<TunedContents> tuned_contents_from_json(std::string_view text, const TensorBytes& tensors,
                                               std::size_t memory_bytes) {
  const Result<Json> parsed = parse_json(text, memory_bytes);
  if (!parsed.ok()) return parsed.status().annotate("its description");
  const Json& json = *parsed;
  JsonReader reader(json, "the description", {"version", "provenance", "weights", "operators", "kernels"});
  const std::int64_t version = reader.integer("version", 1, kMaxInteger);
  if (version > kVersion) {
    return unsupported(fmt::format(
        "it was written by a later sparsmith, in version {} of the format; this one reads {}", version, kVersion));
  }
  TunedContents contents;
  contents.provenance = reader.take(read_provenance(reader.object("provenance")));
  const Json& weights = reader.array("weights");
  const Json& kernels = reader.array("kernels");
  if (!reader.status().ok()) return reader.status();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(TunedKernel kernel, read_kernel(kernels[i], fmt::format("kernels[{}]", i), tensors));
    contents.kernels.push_back(std::move(kernel));
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(TunedWeight weight,
                               read_weight(weights[i], fmt::format("weights[{}]", i), version, tensors, memory_bytes));
    contents.weights.push_back(std::move(weight));
  }
  if (version >= kFirstVersionWithOperators) {
    const Json& operators = reader.array("operators");
    if (!reader.status().ok()) return reader.status();
    SPARSMITH_RETURN_IF_ERROR(read_operators(operators, version, memory_bytes, contents));
  }
  return contents;
}

}  // namespace sparsmith
