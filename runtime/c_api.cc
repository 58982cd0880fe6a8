// The C interface over the C++ one. What the standard library throws (no memory) ends here as a status.
#include <fmt/format.h>

#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "sparsmith/sparsmith.h"
#include "sparsmith/tuned_model.h"

struct sparsmith_model {
  sparsmith::TunedModel model;
  std::vector<std::string> names;
};

struct sparsmith_operator {
  sparsmith::Operator op;
  sparsmith::OperatorInfo info;
  std::string type;
};

namespace {

using sparsmith::Result;
using sparsmith::Status;
using sparsmith::StatusCode;

static_assert(SPARSMITH_INVALID_ARGUMENT == static_cast<int>(StatusCode::kInvalidArgument));
static_assert(SPARSMITH_INTERNAL == static_cast<int>(StatusCode::kInternal), "the two enumerations go in step");

thread_local std::string last_error;

sparsmith_status report(const Status& status) {
  if (!status.ok()) last_error = status.message();
  return static_cast<sparsmith_status>(status.code());
}

// Runs `body`, which returns a Status, and reports it.
template <class Body>
sparsmith_status guarded(Body&& body) {
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return report(sparsmith::out_of_memory("host memory is exhausted"));
  } catch (const std::exception& error) {
    return report(sparsmith::internal_error(error.what()));
  }
}

Status null_argument(const char* name) { return sparsmith::invalid_argument(fmt::format("{} is null", name)); }

// A struct of the caller's may be of a later version, not of an earlier one than the first.
Status check_size(const char* name, std::size_t given, std::size_t known) {
  if (given >= known) return {};
  return sparsmith::invalid_argument(
      fmt::format("{}: struct_size is {}, not {}: set it to sizeof({})", name, given, known, name));
}

// Null: the defaults.
Result<sparsmith::LoadOptions> options_of(const sparsmith_load_options* options) {
  if (options == nullptr) return sparsmith::LoadOptions{};
  SPARSMITH_RETURN_IF_ERROR(check_size("sparsmith_load_options", options->struct_size, sizeof(*options)));
  return sparsmith::LoadOptions{options->trusted != 0, options->threads};
}

}  // namespace

const char* sparsmith_version(void) { return SPARSMITH_VERSION; }

const char* sparsmith_status_name(sparsmith_status status) {
  return sparsmith::status_code_name(static_cast<StatusCode>(status));
}

const char* sparsmith_last_error(void) { return last_error.c_str(); }

sparsmith_status sparsmith_model_load(const char* path, int device, sparsmith_model** model) {
  const sparsmith_load_options options{sizeof(options), device, 0, 0};
  return sparsmith_model_load_with(path, &options, model);
}

sparsmith_status sparsmith_model_load_with(const char* path, const sparsmith_load_options* options,
                                           sparsmith_model** model) {
  return guarded([&]() -> Status {
    if (path == nullptr) return null_argument("path");
    if (options == nullptr) return null_argument("options");
    if (model == nullptr) return null_argument("model");
    SPARSMITH_ASSIGN_OR_RETURN(const sparsmith::LoadOptions taken, options_of(options));
    SPARSMITH_ASSIGN_OR_RETURN(sparsmith::TunedModel loaded, sparsmith::TunedModel::load(path, options->device, taken));
    std::vector<std::string> names = loaded.names();
    *model = new sparsmith_model{std::move(loaded), std::move(names)};
    return {};
  });
}

sparsmith_status sparsmith_validate(const char* path, const sparsmith_load_options* options) {
  return guarded([&]() -> Status {
    if (path == nullptr) return null_argument("path");
    SPARSMITH_ASSIGN_OR_RETURN(const sparsmith::LoadOptions taken, options_of(options));
    return sparsmith::TunedModel::validate(path, taken);
  });
}

void sparsmith_model_free(sparsmith_model* model) { delete model; }

size_t sparsmith_model_weight_count(const sparsmith_model* model) { return model == nullptr ? 0 : model->names.size(); }

const char* sparsmith_model_weight_name(const sparsmith_model* model, size_t index) {
  return index < sparsmith_model_weight_count(model) ? model->names[index].c_str() : nullptr;
}

sparsmith_status sparsmith_model_operator(const sparsmith_model* model, const char* name, sparsmith_operator** op) {
  return guarded([&]() -> Status {
    if (model == nullptr) return null_argument("model");
    if (name == nullptr) return null_argument("name");
    if (op == nullptr) return null_argument("op");
    SPARSMITH_ASSIGN_OR_RETURN(sparsmith::Operator found, model->model.op(name));
    sparsmith::OperatorInfo info = found.info();
    std::string type(sparsmith::short_name(info.type));
    *op = new sparsmith_operator{std::move(found), std::move(info), std::move(type)};
    return {};
  });
}

void sparsmith_operator_free(sparsmith_operator* op) { delete op; }

sparsmith_status sparsmith_operator_describe(const sparsmith_operator* op, sparsmith_operator_info* info) {
  return guarded([&]() -> Status {
    if (op == nullptr) return null_argument("op");
    if (info == nullptr) return null_argument("info");
    SPARSMITH_RETURN_IF_ERROR(
        check_size("sparsmith_operator_info", info->struct_size, offsetof(sparsmith_operator_info, accumulation)));
    info->rows = op->info.rows;
    info->cols = op->info.cols;
    info->nnz = op->info.nnz;
    info->gpu_bytes = op->info.gpu_bytes;
    info->type = op->type.c_str();
    info->layout = op->info.layout.c_str();
    info->epilogue = op->info.epilogue.c_str();
    if (info->struct_size >= sizeof(*info)) info->accumulation = op->info.accumulation.c_str();
    return {};
  });
}

size_t sparsmith_operator_member_count(const sparsmith_operator* op) {
  return op == nullptr ? 0 : op->info.members.size();
}

const char* sparsmith_operator_member_name(const sparsmith_operator* op, size_t index) {
  return index < sparsmith_operator_member_count(op) ? op->info.members[index].name.c_str() : nullptr;
}

sparsmith_status sparsmith_operator_member(const sparsmith_operator* op, const char* name, int64_t tokens, int64_t ldy,
                                           sparsmith_member_view* view) {
  return guarded([&]() -> Status {
    if (op == nullptr) return null_argument("op");
    if (name == nullptr) return null_argument("name");
    if (view == nullptr) return null_argument("view");
    SPARSMITH_RETURN_IF_ERROR(check_size("sparsmith_member_view", view->struct_size, sizeof(*view)));
    SPARSMITH_ASSIGN_OR_RETURN(const sparsmith::MemberView found, op->op.member(name, tokens, ldy));
    view->first_row = found.first_row;
    view->rows = found.rows;
    view->offset = found.offset;
    view->ld = found.ld;
    return {};
  });
}

sparsmith_status sparsmith_operator_workspace_bytes(const sparsmith_operator* op, int64_t tokens, size_t* bytes) {
  return guarded([&]() -> Status {
    if (op == nullptr) return null_argument("op");
    if (bytes == nullptr) return null_argument("bytes");
    SPARSMITH_ASSIGN_OR_RETURN(*bytes, op->op.workspace_bytes(tokens));
    return {};
  });
}

sparsmith_status sparsmith_operator_run(const sparsmith_operator* op, const sparsmith_run_arguments* arguments,
                                        void* stream) {
  return guarded([&]() -> Status {
    if (op == nullptr) return null_argument("op");
    if (arguments == nullptr) return null_argument("arguments");
    SPARSMITH_RETURN_IF_ERROR(check_size("sparsmith_run_arguments", arguments->struct_size, sizeof(*arguments)));
    if (arguments->alpha == 0) {
      return sparsmith::invalid_argument(
          "alpha is 0, which leaves W x out: set it to 1 (SPARSMITH_RUN_ARGUMENTS_INIT does), or to what W x is times");
    }
    sparsmith::RunArguments run;
    run.x = arguments->x;
    run.y = arguments->y;
    run.tokens = arguments->tokens;
    run.bias = arguments->bias;
    run.residual = arguments->residual;
    run.workspace = arguments->workspace;
    run.ldx = arguments->ldx;
    run.ldy = arguments->ldy;
    run.ldr = arguments->ldr;
    run.alpha = arguments->alpha;
    run.beta = arguments->beta;
    return op->op.run(run, stream);
  });
}
