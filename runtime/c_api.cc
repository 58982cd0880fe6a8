// The C interface on top of the C++ interface. Exceptions of the standard library (no memory) become a status here.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sparsmith/sparsmith.h"
#include "sparsmith/tuned_model.h"

struct sparsmith_operator {
  sparsmith::Operator op;
  sparsmith::OperatorInfo info;
  std::vector<std::string> operand_names;
};

struct sparsmith_weight {
  sparsmith::Weight weight;
  std::vector<sparsmith_operator> operators;
};

struct sparsmith_model {
  sparsmith::TunedModel model;
  std::vector<sparsmith_weight> weights;
};

namespace {

using sparsmith::Result;
using sparsmith::Status;
using sparsmith::StatusCode;

static_assert(SPARSMITH_INVALID_ARGUMENT == static_cast<int>(StatusCode::kInvalidArgument));
static_assert(SPARSMITH_INTERNAL == static_cast<int>(StatusCode::kInternal), "the two enumerations go in step");

constexpr std::array kTypes = {std::pair{SPARSMITH_FP32, sparsmith::DataType::kFloat32},
                               std::pair{SPARSMITH_FP16, sparsmith::DataType::kFloat16},
                               std::pair{SPARSMITH_BF16, sparsmith::DataType::kBFloat16}};
constexpr std::array kKinds = {std::pair{SPARSMITH_SPMM, sparsmith::OperatorKind::kSpmm},
                               std::pair{SPARSMITH_SPMM_TRANSPOSED, sparsmith::OperatorKind::kSpmmTransposed},
                               std::pair{SPARSMITH_SDDMM, sparsmith::OperatorKind::kSddmm}};
static_assert(kKinds.size() == std::size(sparsmith::kOperatorKinds), "every kind has a C value");

// The C value for a C++ value. REQUIRES: it is in the table.
template <class Pairs, class Cpp>
auto c_value_of(const Pairs& pairs, Cpp value) {
  return std::ranges::find(pairs, value, [](const auto& pair) { return pair.second; })->first;
}

// The C++ value for a C value; no value for an invalid number from the caller.
template <class Pairs, class C>
auto value_of(const Pairs& pairs, C value) -> std::optional<decltype(pairs[0].second)> {
  for (const auto& [c, cpp] : pairs)
    if (c == value) return cpp;
  return std::nullopt;
}

thread_local std::string last_error;

sparsmith_status report(const Status& status) {
  if (!status.ok()) last_error = status.message();
  return static_cast<sparsmith_status>(status.code());
}

Status null_argument(const char* name) { return sparsmith::invalid_argument(fmt::format("{} is null", name)); }

// Runs `body`, which returns a Status, and reports it. `pointers`: arguments that must not be null.
template <class Body>
sparsmith_status guarded(std::initializer_list<std::pair<const char*, const void*>> pointers, Body&& body) {
  try {
    for (const auto& [name, pointer] : pointers)
      if (pointer == nullptr) return report(null_argument(name));
    return report(body());
  } catch (const std::bad_alloc&) {
    return report(sparsmith::out_of_memory("host memory is exhausted"));
  } catch (const std::exception& error) {
    return report(sparsmith::internal_error(error.what()));
  }
}

// The caller's struct may have a later version, but not be smaller than the known version.
Status check_size(const char* name, std::size_t given, std::size_t known) {
  if (given >= known) return {};
  return sparsmith::invalid_argument(
      fmt::format("{}: struct_size is {}, not {}: set it to sizeof({})", name, given, known, name));
}

// The caller's options; null gives the defaults.
Result<sparsmith_load_options> options_of(const sparsmith_load_options* options) {
  if (options == nullptr) return sparsmith_load_options{};
  SPARSMITH_RETURN_IF_ERROR(check_size("sparsmith_load_options", options->struct_size, sizeof(*options)));
  return *options;
}

sparsmith::LoadOptions cpp_options(const sparsmith_load_options& options) {
  return {.trusted = options.trusted != 0,
          .threads = options.threads,
          .updatable = options.updatable != 0,
          .allocator = {options.allocate, options.free, options.context}};
}

sparsmith_operator operator_of(sparsmith::Operator op) {
  sparsmith::OperatorInfo info = op.info();
  std::vector<std::string> names;
  for (const sparsmith::Operand& operand : info.operands) names.emplace_back(operand.name);
  return {std::move(op), std::move(info), std::move(names)};
}

std::unique_ptr<sparsmith_model> model_of(sparsmith::TunedModel loaded) {
  auto model = std::make_unique<sparsmith_model>(sparsmith_model{std::move(loaded), {}});
  for (const std::string& name : model->model.names()) {
    sparsmith_weight weight{model->model.weight(name).value(), {}};
    for (const auto& [c, kind] : kKinds) {
      Result<sparsmith::Operator> op = weight.weight.op(kind);
      if (op.ok()) weight.operators.push_back(operator_of(*std::move(op)));
    }
    model->weights.push_back(std::move(weight));
  }
  return model;
}

// `file`: a path, or the bytes of a file.
template <class File>
Status load(const File& file, const sparsmith_load_options* options, sparsmith_model** model) {
  SPARSMITH_ASSIGN_OR_RETURN(const sparsmith_load_options taken, options_of(options));
  SPARSMITH_ASSIGN_OR_RETURN(sparsmith::TunedModel loaded,
                             sparsmith::TunedModel::load(file, taken.device, cpp_options(taken)));
  *model = model_of(std::move(loaded)).release();
  return {};
}

std::int64_t extent_of(const sparsmith::Extent& extent) { return extent.is_tokens ? -1 : extent.fixed; }

}  // namespace

const char* sparsmith_version(void) { return SPARSMITH_VERSION; }

const char* sparsmith_status_name(sparsmith_status status) {
  return sparsmith::status_code_name(static_cast<StatusCode>(status));
}

const char* sparsmith_last_error(void) { return last_error.c_str(); }

sparsmith_status sparsmith_model_load(const char* path, const sparsmith_load_options* options,
                                      sparsmith_model** model) {
  return guarded({{"path", path}, {"model", model}}, [&] { return load(std::string(path), options, model); });
}

sparsmith_status sparsmith_model_load_bytes(const void* bytes, size_t size, const sparsmith_load_options* options,
                                            sparsmith_model** model) {
  return guarded({{"bytes", bytes}, {"model", model}},
                 [&] { return load(std::span(static_cast<const std::byte*>(bytes), size), options, model); });
}

sparsmith_status sparsmith_validate(const char* path, const sparsmith_load_options* options) {
  return guarded({{"path", path}}, [&]() -> Status {
    SPARSMITH_ASSIGN_OR_RETURN(const sparsmith_load_options taken, options_of(options));
    return sparsmith::TunedModel::validate(path, cpp_options(taken));
  });
}

void sparsmith_model_free(sparsmith_model* model) { delete model; }

int64_t sparsmith_model_gpu_bytes(const sparsmith_model* model) {
  return model == nullptr ? 0 : model->model.gpu_bytes();
}

size_t sparsmith_model_weight_count(const sparsmith_model* model) {
  return model == nullptr ? 0 : model->weights.size();
}

const sparsmith_weight* sparsmith_model_weight_at(const sparsmith_model* model, size_t index) {
  return index < sparsmith_model_weight_count(model) ? &model->weights[index] : nullptr;
}

sparsmith_status sparsmith_model_weight(const sparsmith_model* model, const char* name,
                                        const sparsmith_weight** weight) {
  return guarded({{"model", model}, {"name", name}, {"weight", weight}}, [&]() -> Status {
    for (const sparsmith_weight& each : model->weights) {
      if (each.weight.info().name != name) continue;
      *weight = &each;
      return {};
    }
    return model->model.weight(name).status();
  });
}

sparsmith_status sparsmith_weight_describe(const sparsmith_weight* weight, sparsmith_weight_info* info) {
  return guarded({{"weight", weight}, {"info", info}}, [&]() -> Status {
    SPARSMITH_RETURN_IF_ERROR(check_size("sparsmith_weight_info", info->struct_size, sizeof(*info)));
    const sparsmith::WeightInfo& from = weight->weight.info();
    *info = {info->struct_size, from.name.c_str(), from.rows,
             from.cols,         from.nnz,          c_value_of(kTypes, from.type),
             from.gpu_bytes,    from.places_bytes, from.members.size()};
    return {};
  });
}

const char* sparsmith_weight_member_name(const sparsmith_weight* weight, size_t index) {
  if (weight == nullptr || index >= weight->weight.info().members.size()) return nullptr;
  return weight->weight.info().members[index].name.c_str();
}

sparsmith_status sparsmith_weight_set_values(const sparsmith_weight* weight, const void* values, sparsmith_type type,
                                             void* stream) {
  return guarded({{"weight", weight}}, [&]() -> Status {
    const auto known = value_of(kTypes, type);
    if (!known) return sparsmith::invalid_argument(fmt::format("{} is no sparsmith_type", static_cast<int>(type)));
    return weight->weight.set_values(values, *known, stream);
  });
}

sparsmith_status sparsmith_weight_operator(const sparsmith_weight* weight, sparsmith_operator_kind kind,
                                           const sparsmith_operator** op) {
  return guarded({{"weight", weight}, {"op", op}}, [&]() -> Status {
    const auto known = value_of(kKinds, kind);
    if (!known)
      return sparsmith::invalid_argument(fmt::format("{} is no sparsmith_operator_kind", static_cast<int>(kind)));
    for (const sparsmith_operator& each : weight->operators) {
      if (each.info.kind != *known) continue;
      *op = &each;
      return {};
    }
    return weight->weight.op(*known).status();
  });
}

sparsmith_status sparsmith_operator_describe(const sparsmith_operator* op, sparsmith_operator_info* info) {
  return guarded({{"op", op}, {"info", info}}, [&]() -> Status {
    SPARSMITH_RETURN_IF_ERROR(check_size("sparsmith_operator_info", info->struct_size, sizeof(*info)));
    const sparsmith::OperatorInfo& from = op->info;
    info->kind = c_value_of(kKinds, from.kind);
    info->rows = from.rows;
    info->cols = from.cols;
    info->type = c_value_of(kTypes, from.type);
    info->layout = from.layout.c_str();
    info->epilogue = from.epilogue.c_str();
    info->accumulation = from.accumulation.c_str();
    info->operand_count = from.operands.size();
    info->choice_count = from.choices.size();
    return {};
  });
}

sparsmith_status sparsmith_operator_operand(const sparsmith_operator* op, size_t index, sparsmith_operand_info* info) {
  return guarded({{"op", op}, {"info", info}}, [&]() -> Status {
    SPARSMITH_RETURN_IF_ERROR(check_size("sparsmith_operand_info", info->struct_size, sizeof(*info)));
    if (index >= op->info.operands.size())
      return sparsmith::invalid_argument(fmt::format("operand {} of {}", index, op->info.operands.size()));
    const sparsmith::Operand& from = op->info.operands[index];
    info->name = op->operand_names[index].c_str();
    info->type = c_value_of(kTypes, from.type);
    info->present = from.present ? 1 : 0;
    info->read = from.access == sparsmith::Access::kOut ? 0 : 1;
    info->written = from.access == sparsmith::Access::kIn ? 0 : 1;
    info->lines = extent_of(from.lines);
    info->length = extent_of(from.length);
    info->has_ld = from.has_stride ? 1 : 0;
    return {};
  });
}

sparsmith_status sparsmith_operator_choice(const sparsmith_operator* op, size_t index, sparsmith_choice_info* info) {
  return guarded({{"op", op}, {"info", info}}, [&]() -> Status {
    SPARSMITH_RETURN_IF_ERROR(check_size("sparsmith_choice_info", info->struct_size, sizeof(*info)));
    if (index >= op->info.choices.size())
      return sparsmith::invalid_argument(fmt::format("choice {} of {}", index, op->info.choices.size()));
    const sparsmith::ChoiceInfo& from = op->info.choices[index];
    *info = {info->struct_size,     from.tokens,    from.config.c_str(), from.packing.c_str(),
             from.measured ? 1 : 0, from.median_us, from.dense_us};
    return {};
  });
}

sparsmith_status sparsmith_operator_member(const sparsmith_operator* op, const char* name, int64_t tokens, int64_t ld,
                                           sparsmith_member_view* view) {
  return guarded({{"op", op}, {"name", name}, {"view", view}}, [&]() -> Status {
    SPARSMITH_RETURN_IF_ERROR(check_size("sparsmith_member_view", view->struct_size, sizeof(*view)));
    SPARSMITH_ASSIGN_OR_RETURN(const sparsmith::MemberView found, op->op.member(name, tokens, ld));
    *view = {view->struct_size, found.first_row, found.rows, found.offset, found.ld};
    return {};
  });
}

sparsmith_status sparsmith_operator_workspace_bytes(const sparsmith_operator* op, int64_t tokens, size_t* bytes) {
  return guarded({{"op", op}, {"bytes", bytes}}, [&]() -> Status {
    SPARSMITH_ASSIGN_OR_RETURN(*bytes, op->op.workspace_bytes(tokens));
    return {};
  });
}

sparsmith_status sparsmith_operator_run(const sparsmith_operator* op, const sparsmith_run_arguments* arguments,
                                        void* stream) {
  return guarded({{"op", op}, {"arguments", arguments}}, [&]() -> Status {
    SPARSMITH_RETURN_IF_ERROR(check_size("sparsmith_run_arguments", arguments->struct_size, sizeof(*arguments)));
    if (arguments->operand_count > 0 && arguments->operands == nullptr) return null_argument("operands");
    sparsmith::RunArguments run;
    for (const sparsmith_operand_array& given : std::span(arguments->operands, arguments->operand_count)) {
      if (given.name == nullptr) return null_argument("an operand's name");
      if (run.operands.find(given.name) != nullptr)
        return sparsmith::invalid_argument(fmt::format("{} is given twice", given.name));
      if (!run.operands.set(given.name, {given.data, given.ld}))
        return sparsmith::invalid_argument(fmt::format("there is no operand {:.100}", given.name));
    }
    run.tokens = arguments->tokens;
    run.workspace = arguments->workspace;
    run.alpha = arguments->alpha == 0 ? 1.0F : arguments->alpha;
    run.beta = arguments->beta;
    return op->op.run(run, stream);
  });
}
