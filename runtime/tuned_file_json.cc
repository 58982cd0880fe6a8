#include "runtime/tuned_file_json.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "base/hash.h"
#include "base/json_text.h"
#include "runtime/json_fields.h"
#include "runtime/launch_plan_json.h"

namespace sparsmith {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;
using Bytes = std::span<const std::byte>;

constexpr int kVersion = 7;
constexpr int kFirstVersionWithGroups = 2;
constexpr int kFirstVersionWithChains = 3;
constexpr int kFirstVersionWithOperators = 4;
constexpr int kFirstVersionWithPlaceKinds = 6;
constexpr int kFirstVersionWithRanks = 7;

// What a description is read with.
struct Context {
  std::int64_t version = kVersion;
  TensorBytes tensors{};
  std::size_t room = 0;  // bytes that plans may take
};

// Subtracts the memory of a plan from `room`.
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

// Completes a dense choice from before version 4. It had no config and no matmul step: the matmul always ran, and the
// plan's steps, if any, made Y from its product.
void complete_dense(TunedChoice& choice) {
  choice.config = kDensePacking;
  const bool whole = choice.plan.steps.empty();
  choice.plan.steps.insert(
      choice.plan.steps.begin(),
      matmul_step(std::string(kDenseArray), whole ? std::nullopt : std::optional(IntegerExpression(0))));
}

// ---- fields, in the order in which they are written ----

void type_field(auto& f, const char* key, auto& type) {
  text_field(f, key, type, short_name, data_type_from_short_name, "is no data type");
}

// The hash of a tensor's bytes.
void hash_field(auto& f, const char* key, Context& context, const std::string& tensor, DataType type, Bytes& bytes) {
  const auto find = [&](const std::string& hash) { return context.tensors(tensor, type, hash); };
  text_field(f, key, bytes, hash_bytes, find);
}

void plan_field(auto& f, Context& context, LaunchPlan& plan) {
  const auto write = [](const LaunchPlan& from) { return json_of(from); };
  f.value("plan", plan, write, [&](const Json& json) -> Result<LaunchPlan> {
    SPARSMITH_ASSIGN_OR_RETURN(LaunchPlan read, launch_plan_from(json));
    SPARSMITH_RETURN_IF_ERROR(charge(read, context.room));
    return read;
  });
}

Result<Facts> read_facts(const Json& json) {
  if (!json.is_object()) return invalid_input("is not an object");
  Facts facts;
  for (const auto& fact : json.items()) {
    const auto value = json_integer(fact.value());
    if (!value) return invalid_input("holds what is not an integer");
    facts[fact.key()] = *value;
  }
  return facts;
}

void fields(auto& f, TunedProvenance& provenance) {
  f("sparsmith_version", provenance.sparsmith_version);
  f("device_class", provenance.device_class);
  f("device_name", provenance.device_name);
  f("driver_version", provenance.driver_version);
  f("compiler_version", provenance.compiler_version);
  f("timing_policy", provenance.timing_policy);
  f("source_file", provenance.source_file);
}

void fields(auto& f, TunedKernel& kernel, Context& context) {
  f("name", kernel.name);
  f("closure_hash", kernel.closure_hash);
  f("max_shared_bytes", kernel.max_shared_bytes, 0);
  Bytes source = std::as_bytes(std::span(kernel.source));
  hash_field(f, "source_hash", context, source_tensor_name(kernel), DataType::kUint8, source);
  if (f.reads()) kernel.source = {reinterpret_cast<const char*>(source.data()), source.size()};
  f.list("binaries", kernel.binaries, [&](auto& of_binary, TunedKernel::Binary& binary) {
    of_binary("architecture", binary.architecture);
    hash_field(of_binary, "hash", context, cubin_tensor_name(kernel, binary.architecture), DataType::kUint8,
               binary.cubin);
  });
}

void writers_field(auto& f, const char* name, std::vector<TunedWriter>& writers, Context& context) {
  if (!f.has(name, !writers.empty())) return;
  f.list(name, writers, [&](auto& of_writer, TunedWriter& writer) {
    type_field(of_writer, "source", writer.source);
    plan_field(of_writer, context, writer.plan);
  });
}

void fields(auto& f, TunedPacking& packing, const TunedWeight& weight, Context& context) {
  f("packing", packing.packing);
  f("packer_version", packing.packer_version, 0);
  f.value("facts", packing.facts, [](const Facts& facts) { return OrderedJson(facts); }, read_facts);
  f.list("arrays", packing.arrays, [&](auto& of_array, TunedArray& array) {
    of_array("name", array.name);
    type_field(of_array, "type", array.type);
    hash_field(of_array, "hash", context, packed_tensor_name(weight, packing, array.name), array.type, array.bytes);
  });
  writers_field(f, "writers", packing.writers, context);
  if (f.reads() && context.version < kFirstVersionWithPlaceKinds) packing.writers.clear();  // they read other places
}

void fields(auto& f, TunedChoice& choice, Context& context) {
  const bool is_old = context.version < kFirstVersionWithOperators;
  f("tokens", choice.tokens, 1);
  std::string kind;
  if (is_old) f("kind", kind);
  if (is_old && kind != "generated" && kind != "dense") f.fail("kind", "is neither generated nor dense");
  f("packing", choice.packing);
  static constexpr std::string_view kEvidence[] = {"measured", "predicted"};
  text_field(
      f, "evidence", choice.evidence, [](auto evidence) { return name_in(kEvidence, evidence); },
      [](const std::string& name) { return value_in<TunedChoice::Evidence>(kEvidence, name); },
      "is neither measured nor predicted");
  f("median_us", choice.median_us);
  f("dense_us", choice.dense_us);
  f("config", choice.config);
  f("reason", choice.reason);
  plan_field(f, context, choice.plan);
  if (is_old && choice.packing == kDensePacking) complete_dense(choice);
}

// The fields from `kind` on. Before version 4 they were fields of the weight.
void fields(auto& f, TunedOperator& op, const TunedWeight& weight, Context& context) {
  OperatorSpec& spec = op.spec;
  if (context.version >= kFirstVersionWithOperators)
    text_field(f, "kind", spec.kind, operator_kind_name, operator_kind_of_name, "is no kind of an operator");
  const auto layout_of = [](const std::string& name) -> std::optional<Layout> {
    for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor})
      if (layout_name(layout) == name) return layout;
    return std::nullopt;
  };
  text_field(f, "layout", spec.layout, layout_name, layout_of, "is no layout");
  text_field(f, "epilogue", spec.epilogue, [](const Epilogue& epilogue) { return epilogue.name(); }, Epilogue::parse);
  if (f.has("accumulation", spec.accumulation != Accumulation::kFp32))
    text_field(f, "accumulation", spec.accumulation, accumulation_name, accumulation_of_name,
               "is neither fp32 nor fp16_chains");
  if (f.reads()) {
    spec.set_weight(weight.rows, weight.cols, weight.nnz);
    spec.type = weight.type;
    if (spec.accumulation != Accumulation::kFp32 && context.version < kFirstVersionWithChains)
      f.fail("accumulation", fmt::format("has fp16 chains in version {} of the format", context.version));
    f.call(weight.name);
  }
  f.list("choices", op.choices, [&](auto& of_choice, TunedChoice& choice) { fields(of_choice, choice, context); });
}

void fields(auto& f, GroupMember& member) {
  f("name", member.name);
  f("first_row", member.first_row, 0);
  f("rows", member.rows, 1);
}

Result<std::vector<std::int64_t>> read_boundaries(const Json& json) {
  if (!json.is_array()) return invalid_input("is not an array");
  std::vector<std::int64_t> boundaries;
  for (const Json& one : json) {
    const auto value = json_integer(one);
    if (!value) return invalid_input("holds what is not an integer");
    boundaries.push_back(*value);
  }
  return boundaries;
}

void fields(auto& f, WeightCut& cut) {
  text_field(
      f, "dimension", cut.dimension, [](auto dimension) { return name_in(kCutDimensions, dimension); },
      [](const std::string& name) { return value_in<WeightCut::Dimension>(kCutDimensions, name); },
      "is neither rows nor columns");
  f.value(
      "boundaries", cut.boundaries, [](const auto& boundaries) { return OrderedJson(boundaries); }, read_boundaries);
  f("whole", cut.whole);
}

void fields(auto& f, TunedWeight& weight, Context& context) {
  f("name", weight.name);
  f("rows", weight.rows, 1);
  f("cols", weight.cols, 1);
  f("nnz", weight.nnz, 0);
  type_field(f, "type", weight.type);
  f("pattern_hash", weight.pattern_hash);
  f("value_hash", weight.value_hash);
  // Both follow from the rest, and stand there for other readers.
  std::int64_t packed_bytes = f.reads() ? 0 : weight.packed_bytes();
  std::int64_t dense_bytes = f.reads() ? 0 : weight.dense_bytes();
  f("packed_bytes", packed_bytes, 0);
  f("dense_bytes", dense_bytes, 0);
  if (f.has("members", !weight.members.empty())) {
    f.list("members", weight.members, [](auto& of_member, GroupMember& member) { fields(of_member, member); });
    if (context.version < kFirstVersionWithGroups) f.fail("members", "make a group in version 1 of the format");
    if (weight.members.empty()) f.fail("members", "make a group without members");
  }
  if (f.has("split", weight.cut.has_value())) {
    if (f.reads()) weight.cut.emplace();
    if (context.version < kFirstVersionWithRanks)
      f.fail("split", fmt::format("makes a part in version {} of the format", context.version));
    f.object("split", [&](auto& of_cut) { fields(of_cut, *weight.cut); });
  }
  f.call(weight.name);
  f.list("packings", weight.packings,
         [&](auto& of_packing, TunedPacking& packing) { fields(of_packing, packing, weight, context); });
  writers_field(f, "pruners", weight.pruners, context);
  if (context.version < kFirstVersionWithOperators) fields(f, weight.operators.emplace_back(), weight, context);
}

// An entry of the list of all weights' operators.
struct OperatorEntry {
  TunedWeight* weight = nullptr;
  TunedOperator* op = nullptr;
};

void operators_field(auto& f, TunedContents& contents, Context& context) {
  std::vector<OperatorEntry> entries;
  std::map<std::string, TunedWeight*, std::less<>> weights;
  for (TunedWeight& weight : contents.weights) {
    weights.emplace(weight.name, &weight);
    for (TunedOperator& op : weight.operators) entries.push_back({&weight, &op});
  }
  f.list("operators", entries, [&](auto& of_entry, OperatorEntry& entry) {
    text_field(
        of_entry, "weight", entry.weight, [](const TunedWeight* weight) { return weight->name; },
        [&](const std::string& name) -> Result<TunedWeight*> {
          const auto found = weights.find(name);
          if (found != weights.end()) return found->second;
          return invalid_input(fmt::format("there is no weight {:.100}", name));
        });
    if (entry.weight == nullptr) return;
    if (of_entry.reads()) entry.op = &entry.weight->operators.emplace_back();
    fields(of_entry, *entry.op, *entry.weight, context);
  });
}

void fields(auto& f, TunedContents& contents, Context& context) {
  f("version", context.version, 1);
  if (context.version > kVersion) return;
  f.object("provenance", [&](auto& of_provenance) { fields(of_provenance, contents.provenance); });
  if (f.has("rank", contents.ranks > 1)) {
    f("rank", contents.rank, 0);
    f("ranks", contents.ranks, 2);
    if (context.version < kFirstVersionWithRanks)
      f.fail("rank", fmt::format("stands in version {} of the format", context.version));
  }
  f.list("weights", contents.weights,
         [&](auto& of_weight, TunedWeight& weight) { fields(of_weight, weight, context); });
  if (context.version >= kFirstVersionWithOperators) operators_field(f, contents, context);
  f.list("kernels", contents.kernels,
         [&](auto& of_kernel, TunedKernel& kernel) { fields(of_kernel, kernel, context); });
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
  JsonFieldWriter writer;
  Context context;
  fields(writer, const_cast<TunedContents&>(contents), context);  // only reads them
  return writer.json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

Result<TunedContents> tuned_contents_from_json(std::string_view text, const TensorBytes& tensors,
                                               std::size_t memory_bytes) {
  const Result<Json> json = parse_json(text, memory_bytes);
  if (!json.ok()) return json.status().annotate("its description");
  JsonFieldReader reader(*json, "the description", "");
  Context context{.tensors = tensors, .room = memory_bytes};
  TunedContents contents;
  fields(reader, contents, context);
  if (reader.status().ok() && context.version > kVersion)
    return unsupported(
        fmt::format("it was written by a later sparsmith, in version {} of the format; this one reads {}",
                    context.version, kVersion));
  SPARSMITH_RETURN_IF_ERROR(reader.finish());
  return contents;
}

}  // namespace sparsmith
