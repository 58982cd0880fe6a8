// The functions that the Python package calls through ctypes. A function that can fail returns null or a number other
// than 0, and sparsmith_torch_error() says why.
#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/enum_names.h"
#include "python/native/host_linear.h"
#include "python/native/plan_registry.h"
#include "python/native/torch_library.h"
#include "sparsmith/export.h"

namespace {

using sparsmith::Result;
using sparsmith::Status;
using sparsmith::TunedChoice;
using sparsmith::TunedFile;
using sparsmith::TunedWeight;
using sparsmith::torch::PackedPlace;
using sparsmith::torch::Plan;
using sparsmith::torch::PlanRegistry;

thread_local std::string last_error;

// Runs `body`, which returns a Status. 0: ok; else 1 + its code.
template <class Body>
int guarded(const Body& body) {
  Status status;
  try {
    status = body();
  } catch (const std::bad_alloc&) {
    status = sparsmith::out_of_memory("host memory is exhausted");
  } catch (const std::exception& error) {
    status = sparsmith::internal_error(error.what());
  }
  if (!status.ok()) last_error = status.message();
  return status.ok() ? 0 : 1 + static_cast<int>(status.code());
}

struct OpenFile {
  TunedFile file;
  std::vector<PlanRegistry::Added> plans;
  std::string description;
};

nlohmann::json json_of(const TunedChoice& choice) {
  return {{"tokens", choice.tokens},
          {"config", choice.config},
          {"packing", choice.packing},
          {"median_us", choice.median_us},
          {"dense_us", choice.dense_us},
          {"reason", choice.reason},
          {"measured", choice.evidence == TunedChoice::Evidence::kMeasured}};
}

// Of a plan that takes values. `weight`: with its arrays.
nlohmann::json packings_of(const TunedWeight& weight, const Plan& plan) {
  nlohmann::json all = nlohmann::json::array();
  for (std::size_t i = 0; i < plan.weight().packings.size(); ++i) {
    nlohmann::json arrays = nlohmann::json::object();
    for (const PackedPlace& place : plan.arrays(i))
      if (place.in == sparsmith::ArrayMemory::kKept)
        arrays[place.name] = {{"offset", place.offset}, {"bytes", place.bytes}};
    sparsmith::Facts facts = plan.weight().packings[i].facts;
    facts.insert(plan.writer_facts(i).begin(), plan.writer_facts(i).end());
    nlohmann::json& packing = all.emplace_back(
        nlohmann::json{{"packing", plan.weight().packings[i].packing}, {"arrays", arrays}, {"facts", facts}});
    if (!plan.moves()) continue;  // `weight` has the packings of a plan that moves, in their order
    if (const sparsmith::TunedArray* const halves = weight.packings[i].array("half_rows")) {
      std::vector<std::uint32_t> order(halves->bytes.size() / sizeof(std::uint32_t));
      std::memcpy(order.data(), halves->bytes.data(), order.size() * sizeof(std::uint32_t));
      packing["half_rows"] = order;  // stays when the pattern moves
    }
  }
  return all;
}

nlohmann::json json_of(const TunedWeight& weight, const Plan& plan, const Plan* pruned) {
  nlohmann::json json{{"name", weight.name},
                      {"plan", plan.hash()},
                      {"shape", {weight.rows, weight.cols}},
                      {"dtype", short_name(weight.type)},
                      {"nnz", weight.nnz},
                      {"pattern_hash", weight.pattern_hash},
                      {"value_hash", weight.value_hash},
                      {"packed_bytes", plan.packed_bytes()},
                      {"dense_bytes", weight.dense_bytes()},
                      {"bias", plan.spec().epilogue.bias},
                      {"activation", activation_name(plan.spec().epilogue.activation)},
                      {"residual", plan.spec().epilogue.residual},
                      {"gated", plan.spec().epilogue.gated},
                      {"members", nlohmann::json::array()},
                      {"choices", nlohmann::json::object()},
                      {"pruned", nullptr},
                      {"split", nullptr},
                      {"packings", plan.takes_values() ? packings_of(weight, plan) : nlohmann::json()}};
  for (const sparsmith::GroupMember& member : weight.members)
    json["members"].push_back({{"name", member.name}, {"first_row", member.first_row}, {"rows", member.rows}});
  if (weight.cut)
    json["split"] = {{"dimension", name_in(sparsmith::kCutDimensions, weight.cut->dimension)},
                     {"boundaries", weight.cut->boundaries},
                     {"whole", weight.cut->whole}};
  for (const sparsmith::TunedOperator& op : plan.weight().operators) {
    nlohmann::json& choices = json["choices"][std::string(operator_kind_name(op.spec.kind))];
    for (const TunedChoice& choice : op.choices) choices.push_back(json_of(choice));
  }
  if (pruned != nullptr) json["pruned"] = {{"plan", pruned->hash()}, {"packed_bytes", pruned->packed_bytes()}};
  return json;
}

Result<std::unique_ptr<OpenFile>> open_file(const char* path, bool trusted, bool updatable, std::int64_t block) {
  SPARSMITH_ASSIGN_OR_RETURN(TunedFile file, TunedFile::open(path, {.trusted = trusted}));
  SPARSMITH_ASSIGN_OR_RETURN(std::vector<PlanRegistry::Added> plans,
                             PlanRegistry::instance().add(file.contents(), path, updatable, block));
  auto open = std::make_unique<OpenFile>(OpenFile{std::move(file), std::move(plans), {}});
  nlohmann::json weights = nlohmann::json::array();
  for (std::size_t i = 0; i < open->plans.size(); ++i)
    weights.push_back(json_of(open->file.contents().weights[i], *open->plans[i].plan, open->plans[i].pruned.get()));
  std::set<std::string> architectures;
  for (const sparsmith::TunedKernel& kernel : open->file.contents().kernels)
    for (const sparsmith::TunedKernel::Binary& binary : kernel.binaries) architectures.insert(binary.architecture);
  const sparsmith::TunedProvenance& from = open->file.contents().provenance;
  open->description = nlohmann::json{{"weights", weights},
                                     {"architectures", architectures},
                                     {"rank", open->file.contents().rank},
                                     {"ranks", open->file.contents().ranks},
                                     {"device_name", from.device_name},
                                     {"device_class", from.device_class},
                                     {"source_file", from.source_file},
                                     {"sparsmith_version", from.sparsmith_version}}
                          .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return open;
}

Result<std::shared_ptr<Plan>> find_plan(std::int64_t hash) {
  std::shared_ptr<Plan> plan = PlanRegistry::instance().find(hash);
  if (plan == nullptr) return sparsmith::not_found("no loaded tuned file has this plan");
  return plan;
}

}  // namespace

extern "C" {

SPARSMITH_API const char* sparsmith_torch_error(void) { return last_error.c_str(); }
SPARSMITH_API const char* sparsmith_torch_version(void) { return SPARSMITH_VERSION; }

SPARSMITH_API int sparsmith_torch_register(void) {
  return guarded([] { return sparsmith::torch::register_operators(); });
}

// Maps and checks a tuned file, and registers its plans. The file stays mapped until it is closed; plans stay.
// `updatable`: plans with all operators, for new values; `block`: unless 0, for patterns that move, in blocks of this
// side.
SPARSMITH_API OpenFile* sparsmith_torch_open(const char* path, int trusted, int updatable, std::int64_t block) {
  std::unique_ptr<OpenFile> file;
  guarded([&]() -> Status {
    SPARSMITH_ASSIGN_OR_RETURN(file, open_file(path, trusted != 0, updatable != 0, block));
    return {};
  });
  return file.release();
}
SPARSMITH_API void sparsmith_torch_close(OpenFile* file) { delete file; }

// JSON: the weights of the file, with plans and choices.
SPARSMITH_API const char* sparsmith_torch_describe(const OpenFile* file) { return file->description.c_str(); }

// Writes the packed bytes of the weight of an index into host memory. REQUIRES: index < the number of weights.
SPARSMITH_API int sparsmith_torch_read(const OpenFile* file, std::size_t weight, void* to) {
  return guarded([&]() -> Status {
    const PlanRegistry::Added& added = file->plans[weight];
    added.plan->copy_arrays(file->file.contents().weights[weight], added.written, static_cast<std::byte*>(to));
    return {};
  });
}

// Writes the weight of an index: row_offsets[rows + 1], column_indices[nnz] and, unless null, values[nnz].
SPARSMITH_API int sparsmith_torch_matrix(const OpenFile* file, std::size_t weight, std::int64_t* row_offsets,
                                         std::int32_t* column_indices, float* values) {
  return guarded([&]() -> Status {
    SPARSMITH_ASSIGN_OR_RETURN(const sparsmith::CsrMatrix matrix,
                               sparsmith::matrix_of(file->file.contents().weights[weight]));
    std::ranges::copy(matrix.row_offsets, row_offsets);
    std::ranges::copy(matrix.column_indices, column_indices);
    if (values != nullptr) std::ranges::copy(matrix.values, values);
    return {};
  });
}

// Whether kernels may read these bytes as the weight of a plan.
SPARSMITH_API int sparsmith_torch_check(std::int64_t plan, const void* packed, std::size_t bytes) {
  return guarded([&]() -> Status {
    SPARSMITH_ASSIGN_OR_RETURN(const std::shared_ptr<Plan> found, find_plan(plan));
    return found->check({static_cast<const std::byte*>(packed), bytes});
  });
}

}  // extern "C"
