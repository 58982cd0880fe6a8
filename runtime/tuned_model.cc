#include "sparsmith/tuned_model.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/group_members.h"
#include "runtime/loaded_model.h"
#include "runtime/plan_sizes.h"

namespace sparsmith {

Result<Device> Device::open(int ordinal) {
  SPARSMITH_ASSIGN_OR_RETURN(std::shared_ptr<const CudaContext> context, CudaContext::open(ordinal));
  return Device(std::move(context));
}

int Device::ordinal() const { return context_->ordinal(); }
std::string Device::name() const { return context_->properties().name; }
int Device::compute_capability() const { return context_->properties().compute_capability; }

const std::string& Operator::name() const { return loaded_->weight; }

OperatorInfo Operator::info() const {
  const OperatorSpec& spec = loaded_->spec;
  return {spec.kind,
          spec.rows,
          spec.cols,
          spec.type,
          std::string(layout_name(spec.layout)),
          spec.epilogue.name(),
          std::string(accumulation_name(spec.accumulation)),
          loaded_->operands,
          loaded_->chosen};
}

Result<MemberView> Operator::member(const std::string& member_name, std::int64_t tokens, std::int64_t ld) const {
  Result<MemberView> view = loaded_->member(member_name, tokens, ld);
  return view.ok() ? view : view.status().annotate(name());
}

Result<std::size_t> Operator::workspace_bytes(std::int64_t tokens) const {
  if (tokens < 0) return invalid_argument(fmt::format("{}: tokens = {} is negative", name(), tokens));
  const Result<std::int64_t> bytes =
      loaded_->workspace_bytes(loaded_->choice_for(tokens), variables_without_gaps(loaded_->spec, tokens));
  if (!bytes.ok()) return bytes.status().annotate(name());
  return static_cast<std::size_t>(*bytes);
}

Status Operator::run(const RunArguments& arguments, void* stream) const {
  Status status = loaded_->run(*model_->context, arguments, static_cast<CUstream>(stream));
  return status.ok() ? status : status.annotate(name());
}

const WeightInfo& Weight::info() const { return loaded_->info; }

Result<Operator> Weight::op(OperatorKind kind) const {
  for (const LoadedOperator& op : loaded_->operators)
    if (op.spec.kind == kind) return Operator(model_, &op);
  return not_found(
      fmt::format("{}: the file has no operator {}; tune the weight for it", info().name, operator_kind_name(kind)));
}

Status Weight::set_values(const void* values, DataType type, void* stream) const {
  const Status status = loaded_->set_values(*model_->context, values, type, static_cast<CUstream>(stream));
  return status.ok() ? status : status.annotate(info().name);
}

Status TunedModel::validate(const std::string& path, const LoadOptions& options) {
  return TunedFile::open(path, options).status();
}

Status TunedModel::validate(std::span<const std::byte> file, const LoadOptions& options) {
  return TunedFile::parse(file, options).status();
}

Result<TunedModel> TunedModel::load(const std::string& path, int device, const LoadOptions& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const TunedFile file, TunedFile::open(path, options));
  SPARSMITH_ASSIGN_OR_RETURN(const Device opened, Device::open(device));
  Result<TunedModel> model = load(file, opened, options);
  return model.ok() ? std::move(model) : model.status().annotate(path);
}

Result<TunedModel> TunedModel::load(const std::string& path, const Device& device, const LoadOptions& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const TunedFile file, TunedFile::open(path, options));
  Result<TunedModel> model = load(file, device, options);
  return model.ok() ? std::move(model) : model.status().annotate(path);
}

Result<TunedModel> TunedModel::load(std::span<const std::byte> file, int device, const LoadOptions& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const TunedFile parsed, TunedFile::parse(file, options));
  SPARSMITH_ASSIGN_OR_RETURN(const Device opened, Device::open(device));
  return load(parsed, opened, options);
}

Result<TunedModel> TunedModel::load(const TunedFile& file, const Device& device, const LoadOptions& options) {
  SPARSMITH_ASSIGN_OR_RETURN(std::shared_ptr<const LoadedModel> model,
                             LoadedModel::load(file.contents(), device.context_, options));
  return TunedModel(std::move(model));
}

std::vector<std::string> TunedModel::names() const {
  std::vector<std::string> names;
  for (const LoadedWeight& weight : model_->weights) names.push_back(weight.info.name);
  return names;
}

Result<Weight> TunedModel::weight(const std::string& name) const {
  for (const LoadedWeight& weight : model_->weights)
    if (weight.info.name == name) return Weight(model_, &weight);
  for (const LoadedWeight& weight : model_->weights)
    SPARSMITH_RETURN_IF_ERROR(not_a_member(name, weight.info.name, weight.info.members));
  return no_such_weight(name, names());
}

Result<Operator> TunedModel::op(const std::string& name, OperatorKind kind) const {
  SPARSMITH_ASSIGN_OR_RETURN(const Weight found, weight(name));
  return found.op(kind);
}

std::int64_t TunedModel::gpu_bytes() const { return static_cast<std::int64_t>(model_->memory.bytes()); }

}  // namespace sparsmith
