#include "tuner/vendor_problem.h"

#include "base/parallel_for.h"

namespace sparsmith {
namespace {

OperatorSpec without_epilogue(OperatorSpec spec) {
  spec.epilogue = {};
  return spec;
}

// Where element (feature, token) stands in an array of `features` x `tokens` without padding.
std::int64_t index_in(Layout layout, std::int64_t features, std::int64_t tokens, std::int64_t feature,
                      std::int64_t token) {
  return layout == Layout::kTokenMajor ? token * features + feature : feature * tokens + token;
}

}  // namespace

VendorProblem::VendorProblem(GpuExecutor& executor, const ReferenceProblem& problem, PlanVerifier* verifier)
    : executor_(executor),
      plain_(&problem),
      epilogue_left_out_(problem.spec().epilogue != Epilogue{}),
      verifier_(epilogue_left_out_ ? nullptr : verifier) {
  if (!epilogue_left_out_) return;
  own_.emplace(problem.matrix(), without_epilogue(problem.spec()), problem.options(), problem.shared_values());
  own_->set_sums(problem.sums());
  plain_ = &*own_;
}

Result<std::unique_ptr<VendorProblem>> VendorProblem::create(GpuExecutor& executor, const ReferenceProblem& problem,
                                                             PlanVerifier* verifier) {
  if (!problem.has_reference()) return internal_error("a vendor was to be measured without a reference");
  std::unique_ptr<VendorProblem> vendor_problem(new VendorProblem(executor, problem, verifier));
  SPARSMITH_RETURN_IF_ERROR(vendor_problem->activations(problem.spec().layout).status());
  return vendor_problem;
}

Result<const VendorProblem::Activations*> VendorProblem::activations(Layout layout) {
  std::unique_ptr<Activations>& slot = by_layout_[layout == Layout::kTokenMajor ? 0 : 1];
  if (slot != nullptr) return slot.get();
  const std::int64_t rows = spec().rows;
  const std::int64_t cols = spec().cols;
  ElementBuffer x(spec().type, cols * tokens());
  parallel_for(cols, grain_of_rows(tokens()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t column = begin; column < end; ++column)
      for (std::int64_t token = 0; token < tokens(); ++token)
        x.set(index_in(layout, cols, tokens(), column, token), plain_->x().get(plain_->x_index(column, token)));
  });
  auto made = std::make_unique<Activations>();
  made->ldx = layout == Layout::kTokenMajor ? cols : tokens();
  made->ldy = layout == Layout::kTokenMajor ? rows : tokens();
  SPARSMITH_ASSIGN_OR_RETURN(made->x, DeviceAllocation::holding(executor_, x.bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(made->y, DeviceAllocation::make(executor_, size_of(spec().type) * rows * tokens()));
  slot = std::move(made);
  return slot.get();
}

Status VendorProblem::poison(Layout layout) {
  SPARSMITH_ASSIGN_OR_RETURN(const Activations* const found, activations(layout));
  return executor_.fill(found->y.address(), std::byte{0xFF}, found->y.bytes());
}

Result<Verification> VendorProblem::verify(Layout layout) {
  SPARSMITH_ASSIGN_OR_RETURN(const Activations* const found, activations(layout));
  if (verifier_ != nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(std::optional<Verification> compared, verifier_->compare(found->y.address(), layout));
    if (compared) return *std::move(compared);
  }
  ElementBuffer raw(spec().type, spec().rows * tokens());
  SPARSMITH_RETURN_IF_ERROR(executor_.read(raw.bytes(), found->y.address()));
  ElementBuffer y = plain_->initial_output();
  parallel_for(spec().rows, grain_of_rows(tokens()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t token = 0; token < tokens(); ++token)
        y.set(plain_->index_in("y", row, token), raw.get(index_in(layout, spec().rows, tokens(), row, token)));
  });
  return verify_outputs(*plain_, y.bytes());
}

Result<DeviceAllocation> device_copy(GpuExecutor& executor, const DeviceAllocation& original) {
  SPARSMITH_ASSIGN_OR_RETURN(DeviceAllocation copy, DeviceAllocation::make(executor, original.bytes()));
  SPARSMITH_RETURN_IF_ERROR(executor.copy(copy.address(), original.address(), original.bytes()));
  return copy;
}

}  // namespace sparsmith
