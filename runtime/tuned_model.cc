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

Device::Device(std::shared_ptr<const CudaContext> context) : context_(std::move(context)) {}
Device::Device(const Device&) = default;
Device::Device(Device&&) noexcept = default;
Device& Device::operator=(const Device&) = default;
Device& Device::operator=(Device&&) noexcept = default;
Device::~Device() = default;

int Device::ordinal() const { return context_->ordinal(); }
std::string Device::name() const { return context_->properties().name; }
int Device::compute_capability() const { return context_->properties().compute_capability; }

Operator::Operator(std::shared_ptr<const LoadedModel> model, const LoadedOperator* loaded)
    : model_(std::move(model)), loaded_(loaded) {}
Operator::Operator(const Operator&) = default;
Operator::Operator(Operator&&) noexcept = default;
Operator& Operator::operator=(const Operator&) = default;
Operator& Operator::operator=(Operator&&) noexcept = default;
Operator::~Operator() = default;

const std::string& Operator::name() const { return loaded_->name; }

OperatorInfo Operator::info() const {
  const OperatorSpec& spec = loaded_->spec;
  return {spec.rows,
          spec.cols,
          loaded_->nnz,
          spec.type,
          std::string(layout_name(spec.layout)),
          spec.epilogue.name(),
          loaded_->buckets,
          loaded_->gpu_bytes,
          loaded_->members,
          std::string(accumulation_name(spec.accumulation))};
}

Result<MemberView> Operator::member(const std::string& member_name, std::int64_t tokens, std::int64_t ldy) const {
  Result<MemberView> view = loaded_->member(member_name, tokens, ldy);
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

Status TunedModel::validate(const std::string& path, const LoadOptions& options) {
  return TunedFile::open(path, options).status();
}

Result<TunedModel> TunedModel::load(const std::string& path, int device, const LoadOptions& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const TunedFile file, TunedFile::open(path, options));
  SPARSMITH_ASSIGN_OR_RETURN(const Device opened, Device::open(device));
  return load(path, file, opened);
}

Result<TunedModel> TunedModel::load(const std::string& path, const Device& device, const LoadOptions& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const TunedFile file, TunedFile::open(path, options));
  return load(path, file, device);
}

Result<TunedModel> TunedModel::load(const std::string& path, const TunedFile& file, const Device& device) {
  Result<std::shared_ptr<const LoadedModel>> model = LoadedModel::load(file.contents(), device.context_);
  if (!model.ok()) return model.status().annotate(path);
  return TunedModel(std::move(model).value());
}

TunedModel::TunedModel(std::shared_ptr<const LoadedModel> model) : model_(std::move(model)) {}
TunedModel::TunedModel(const TunedModel&) = default;
TunedModel::TunedModel(TunedModel&&) noexcept = default;
TunedModel& TunedModel::operator=(const TunedModel&) = default;
TunedModel& TunedModel::operator=(TunedModel&&) noexcept = default;
TunedModel::~TunedModel() = default;

std::vector<std::string> TunedModel::names() const {
  std::vector<std::string> names;
  for (const LoadedOperator& loaded : model_->operators) names.push_back(loaded.name);
  return names;
}

Result<Operator> TunedModel::op(const std::string& name) const {
  for (const LoadedOperator& loaded : model_->operators) {
    if (loaded.name == name) return Operator(model_, &loaded);
  }
  for (const LoadedOperator& loaded : model_->operators) {
    SPARSMITH_RETURN_IF_ERROR(not_a_member(name, loaded.name, loaded.members));
  }
  return no_such_weight(name, names());
}

std::int64_t TunedModel::gpu_bytes() const {
  std::int64_t total = 0;
  for (const LoadedOperator& loaded : model_->operators) total += loaded.gpu_bytes;
  return total;
}

}  // namespace sparsmith
