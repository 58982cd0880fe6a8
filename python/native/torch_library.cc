#include "python/native/torch_library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "python/native/host_linear.h"
#include "python/native/plan_registry.h"
#include "python/native/torch_shim.h"
#include "runtime/plan_sizes.h"

namespace sparsmith::torch {
namespace {

// PyTorch turns it into a RuntimeError. This library shares PyTorch's C++ runtime, so the exception may pass.
[[noreturn]] void fail(const std::string& message) { throw std::runtime_error("sparsmith: " + message); }

void require(const Status& status) {
  if (!status.ok()) fail(status.message());
}
template <class T>
T require(Result<T> result) {
  if (!result.ok()) fail(result.status().message());
  return std::move(*result);
}
void require_torch(std::int32_t code, const char* call) {
  if (code != 0) fail(fmt::format("PyTorch's {} failed; its log says why", call));
}

struct DeleteTensor {
  void operator()(TensorHandle tensor) const { shim().delete_tensor(tensor); }
};
using OwnedTensor = std::unique_ptr<TensorObject, DeleteTensor>;

struct TensorInfo {
  void* data = nullptr;
  std::int64_t numel = 0;
  std::span<const std::int64_t> sizes;
  std::span<const std::int64_t> strides;
  std::int32_t dtype = 0;
  std::int32_t device_type = 0;
  std::int32_t device = 0;
};

TensorInfo info_of(TensorHandle tensor) {
  const Shim& torch = shim();
  TensorInfo info;
  std::int64_t dim = 0;
  std::int64_t* sizes = nullptr;
  std::int64_t* strides = nullptr;
  const std::int32_t failed =
      torch.get_data_ptr(tensor, &info.data) | torch.get_dim(tensor, &dim) | torch.get_numel(tensor, &info.numel) |
      torch.get_sizes(tensor, &sizes) | torch.get_strides(tensor, &strides) | torch.get_dtype(tensor, &info.dtype) |
      torch.get_device_type(tensor, &info.device_type) | torch.get_device_index(tensor, &info.device);
  require_torch(failed, "description of a tensor");
  info.sizes = {sizes, static_cast<std::size_t>(dim)};
  info.strides = {strides, static_cast<std::size_t>(dim)};
  return info;
}

std::string text_of(const TensorInfo& info) { return fmt::format("[{}]", fmt::join(info.sizes, ", ")); }

std::int32_t dtype_of(DataType type) {
  const Shim& torch = shim();
  return type == DataType::kFloat32 ? torch.float32 : type == DataType::kFloat16 ? torch.float16 : torch.bfloat16;
}

OwnedTensor empty(std::span<const std::int64_t> sizes, std::int32_t dtype, const TensorInfo& on) {
  std::array<std::int64_t, 32> strides{};
  if (sizes.size() > strides.size()) fail(fmt::format("a tensor has {} dimensions", sizes.size()));
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(sizes[i], 1);
  }
  TensorHandle made = nullptr;
  require_torch(shim().empty_strided(static_cast<std::int64_t>(sizes.size()), sizes.data(), strides.data(), dtype,
                                     on.device_type, on.device, &made),
                "empty_strided");
  return OwnedTensor(made);
}

// A tensor [..., length] as lines of `length` elements. Keeps the copy where the tensor has to be copied for that.
struct Lines {
  const void* data = nullptr;
  std::int64_t count = 0;
  std::int64_t ld = 0;
  OwnedTensor copy;
};

// The elements from line to line; no value if lines have gaps inside, or distances that differ.
std::optional<std::int64_t> ld_of(const TensorInfo& info) {
  const std::size_t last = info.sizes.size() - 1;
  if (info.numel == 0) return info.sizes[last];
  if (info.sizes[last] > 1 && info.strides[last] != 1) return std::nullopt;
  std::int64_t ld = info.sizes[last];
  std::int64_t lines = 1;
  for (std::size_t i = last; i-- > 0;) {
    if (info.sizes[i] == 1) continue;
    if (lines == 1) {
      ld = info.strides[i];
      if (ld < info.sizes[last]) return std::nullopt;  // expanded, or overlapping
    } else if (info.strides[i] != ld * lines) {
      return std::nullopt;
    }
    lines *= info.sizes[i];
  }
  return ld;
}

Lines lines_of(TensorHandle tensor, const TensorInfo& info, std::int64_t length) {
  Lines lines;
  lines.count = length == 0 ? 0 : info.numel / length;
  if (const std::optional<std::int64_t> ld = ld_of(info)) {
    lines.data = info.data;
    lines.ld = *ld;
    return lines;
  }
  lines.copy = empty(info.sizes, info.dtype, info);
  require_torch(shim().copy(lines.copy.get(), tensor, 0), "copy_");
  lines.data = info_of(lines.copy.get()).data;
  lines.ld = length;
  return lines;
}

std::shared_ptr<Plan> plan_of(std::int64_t hash) {
  std::shared_ptr<Plan> plan = PlanRegistry::instance().find(hash);
  if (plan == nullptr)
    fail(
        fmt::format("the plan {} is not known: call sparsmith.load() on the tuned file of this layer first (its name "
                    "is in the layer's tuned_file)",
                    hash));
  return plan;
}

std::span<const std::byte> packed_bytes(const TensorInfo& packed, const Plan& plan) {
  if (packed.dtype != shim().uint8 || packed.sizes.size() != 1 || ld_of(packed) != packed.numel ||
      packed.numel != static_cast<std::int64_t>(plan.packed_bytes()))
    fail(fmt::format("weight {}: the packed tensor must be {} bytes of torch.uint8, without gaps; it is {}",
                     plan.weight().name, plan.packed_bytes(), text_of(packed)));
  return {static_cast<const std::byte*>(packed.data), plan.packed_bytes()};
}

// Checks an operand besides x. `lines`: 0 for a vector.
void check_operand(std::string_view name, const TensorInfo& given, const Plan& plan, const TensorInfo& x,
                   std::span<const std::int64_t> sizes) {
  const std::string& weight = plan.weight().name;
  if (given.dtype != dtype_of(plan.weight().type))
    fail(fmt::format("weight {}: {} must be {}", weight, name, short_name(plan.weight().type)));
  if (given.device_type != x.device_type || given.device != x.device)
    fail(fmt::format("weight {}: {} and x are on different devices", weight, name));
  if (!std::ranges::equal(given.sizes, sizes))
    fail(fmt::format("weight {}: {} is {}, not [{}]", weight, name, text_of(given), fmt::join(sizes, ", ")));
}

const OperatorSpec& spec_of(const Plan& plan, OperatorKind kind) {
  const TunedOperator* const op = plan.weight().op(kind);
  if (op == nullptr)
    fail(fmt::format("weight {}: its plan has no {}: tune for training, and load the tuned file for new values",
                     plan.weight().name, operator_kind_name(kind)));
  return op->spec;
}

// New values of a weight.
struct Values {
  const void* data = nullptr;  // null: those that are packed
  DataType type = DataType::kFloat32;
};

Values values_of(TensorHandle tensor, const Plan& plan, const TensorInfo& x) {
  if (tensor == nullptr) return {};
  const TunedWeight& weight = plan.weight();
  const TensorInfo info = info_of(tensor);
  if (info.dtype != dtype_of(weight.type) && info.dtype != shim().float32)
    fail(fmt::format("weight {}: values must be fp32 or {}", weight.name, short_name(weight.type)));
  if (info.device_type != x.device_type || info.device != x.device)
    fail(fmt::format("weight {}: values and x are on different devices", weight.name));
  if (info.sizes.size() != 1 || info.numel != weight.nnz || (info.numel > 1 && info.strides[0] != 1))
    fail(fmt::format("weight {}: values are {}, not [{}] without gaps", weight.name, text_of(info), weight.nnz));
  return {info.data, info.dtype == shim().float32 ? DataType::kFloat32 : weight.type};
}

CUstream current_stream(const TensorInfo& x) {
  void* stream = nullptr;
  if (shim().get_current_cuda_stream == nullptr) fail("this PyTorch was built without CUDA");
  require_torch(shim().get_current_cuda_stream(x.device, &stream), "get_current_cuda_stream");
  return static_cast<CUstream>(stream);
}

// Writes `values` into the packing that the operator reads, and runs it.
void run_on_gpu(Plan& plan, OperatorKind kind, const TensorInfo& x, std::span<const std::byte> packed,
                const Values& values, RunArguments& arguments) {
  const std::shared_ptr<const BoundWeight> bound =
      require(plan.bind(x.device, reinterpret_cast<DeviceAddress>(packed.data())));
  const LoadedOperator& op = bound->op(kind);
  const LoadedOperator::Choice& choice = op.choice_for(arguments.tokens);
  const std::int64_t bytes = require(op.workspace_bytes(choice, variables_without_gaps(op.spec, arguments.tokens)));
  OwnedTensor workspace;  // PyTorch frees it in the order of the stream
  if (bytes > 0) {
    workspace = empty(std::array{bytes}, shim().uint8, x);
    arguments.workspace = info_of(workspace.get()).data;
  }
  const CUstream stream = current_stream(x);
  Status status;
  if (values.data != nullptr) {
    const std::string& packing = op.chosen[static_cast<std::size_t>(&choice - op.choices.data())].packing;
    status = bound->write_values(kind, packing, plan.keeps_values(packing), values.data, values.type, stream,
                                 arguments.workspace);
  }
  if (status.ok()) status = op.run(*bound->context, arguments, stream);
  if (!status.ok()) fail(fmt::format("weight {}: {}", plan.weight().name, status.message()));
}

// The operands of a product, besides x and the packed weight. Null: none.
struct Operands {
  TensorHandle bias = nullptr;
  TensorHandle residual = nullptr;
  TensorHandle values = nullptr;
  TensorHandle out = nullptr;  // where to write; the result is then null
};

// Of the kinds that multiply the weight.
OwnedTensor product(OperatorKind kind, TensorHandle x_tensor, TensorHandle packed_tensor, std::int64_t hash,
                    const Operands& operands) {
  const std::shared_ptr<Plan> plan = plan_of(hash);
  const OperatorSpec& spec = spec_of(*plan, kind);
  TensorHandle const out = operands.out;
  const std::string& name = plan->weight().name;
  const TensorInfo x = info_of(x_tensor);
  const TensorInfo packed = info_of(packed_tensor);
  if (x.sizes.empty() || x.sizes.back() != spec.cols)
    fail(fmt::format("weight {}: x is {}, and its last dimension must be {}", name, text_of(x), spec.cols));
  if (x.dtype != dtype_of(spec.type)) fail(fmt::format("weight {}: x must be {}", name, short_name(spec.type)));
  if (packed.device_type != x.device_type || packed.device != x.device)
    fail(fmt::format("weight {}: the weight and x are on different devices", name));
  const std::span<const std::byte> bytes = packed_bytes(packed, *plan);

  std::vector<std::int64_t> sizes(x.sizes.begin(), x.sizes.end());
  sizes.back() = spec.output_rows();
  OwnedTensor made;
  if (out == nullptr) made = empty(sizes, x.dtype, x);
  const TensorInfo y = info_of(out == nullptr ? made.get() : out);
  if (out != nullptr) check_operand("out", y, *plan, x, sizes);
  const std::optional<std::int64_t> ldy = ld_of(y);
  if (!ldy) fail(fmt::format("weight {}: the elements of each line of out must follow each other", name));

  const auto given = [&](const char* operand, TensorHandle tensor, bool present,
                         std::span<const std::int64_t> shape) -> TensorInfo {
    if (present != (tensor != nullptr))
      fail(fmt::format("weight {}: the operator was tuned {} {}", name, present ? "with a" : "without a", operand));
    if (!present) return {};
    const TensorInfo info = info_of(tensor);
    check_operand(operand, info, *plan, x, shape);
    return info;
  };
  const TensorInfo bias = given("bias", operands.bias, spec.epilogue.bias, std::array{spec.rows});
  if (spec.epilogue.bias && ld_of(bias) != spec.rows) fail(fmt::format("weight {}: bias has gaps", name));
  const TensorInfo residual = given("residual", operands.residual, spec.epilogue.residual, sizes);
  if (spec.epilogue.beta)
    fail(fmt::format("weight {}: the operator was tuned with beta, which layers do not have", name));
  const Values values = values_of(operands.values, *plan, x);
  if (plan->takes_values() != (values.data != nullptr) && plan->weight().nnz > 0)
    fail(fmt::format("weight {}: its plan {}", name,
                     plan->takes_values() ? "takes new values, and there are none"
                                          : "is of a constant weight: load the tuned file for training"));

  const Lines lines = lines_of(x_tensor, x, spec.cols);
  Lines residual_lines;
  if (operands.residual != nullptr) residual_lines = lines_of(operands.residual, residual, spec.rows);
  const std::int64_t tokens = spec.output_rows() == 0 ? 0 : y.numel / spec.output_rows();
  if (tokens == 0) return made;
  if (x.device_type == shim().cuda) {
    RunArguments arguments;
    arguments.tokens = tokens;
    arguments.operands.set("x", {lines.data, lines.ld});
    arguments.operands.set("y", {y.data, *ldy});
    if (operands.bias != nullptr) arguments.operands.set("bias", {bias.data});
    if (operands.residual != nullptr) arguments.operands.set("residual", {residual_lines.data, residual_lines.ld});
    run_on_gpu(*plan, kind, x, bytes, values, arguments);
  } else {
    CsrMatrix weight = require(plan->unpack(bytes));
    if (values.data != nullptr) weight.values = rounded_values(values.data, weight.nnz(), values.type, spec.type);
    if (*ldy != spec.output_rows()) fail(fmt::format("weight {}: the lines of out have gaps", name));
    host_linear(multiplied(kind, std::move(weight)), spec, tokens, {lines.data, lines.ld}, bias.data,
                {residual_lines.data, residual_lines.ld}, y.data);
  }
  return made;
}

// The values of dY^T X at the weight's pattern.
OwnedTensor sampled(TensorHandle x_tensor, TensorHandle dy_tensor, TensorHandle packed_tensor, std::int64_t hash) {
  const std::shared_ptr<Plan> plan = plan_of(hash);
  const TunedWeight& weight = plan->weight();
  const OperatorSpec& spec = spec_of(*plan, OperatorKind::kSddmm);
  const TensorInfo x = info_of(x_tensor);
  const TensorInfo dy = info_of(dy_tensor);
  const TensorInfo packed = info_of(packed_tensor);
  if (x.sizes.empty() || x.sizes.back() != weight.cols)
    fail(fmt::format("weight {}: x is {}, and its last dimension must be {}", weight.name, text_of(x), weight.cols));
  if (x.dtype != dtype_of(spec.type)) fail(fmt::format("weight {}: x must be {}", weight.name, short_name(spec.type)));
  std::vector<std::int64_t> sizes(x.sizes.begin(), x.sizes.end());
  sizes.back() = weight.rows;
  check_operand("dy", dy, *plan, x, sizes);
  if (packed.device_type != x.device_type || packed.device != x.device)
    fail(fmt::format("weight {}: the weight and x are on different devices", weight.name));
  const std::span<const std::byte> bytes = packed_bytes(packed, *plan);

  OwnedTensor made = empty(std::array{weight.nnz}, x.dtype, x);
  void* const values = info_of(made.get()).data;
  const Lines x_lines = lines_of(x_tensor, x, weight.cols);
  const Lines dy_lines = lines_of(dy_tensor, dy, weight.rows);
  if (weight.nnz == 0) return made;
  if (x.device_type != shim().cuda) {
    host_sampled(require(plan->unpack(bytes)), spec.type, x_lines.count, {x_lines.data, x_lines.ld},
                 {dy_lines.data, dy_lines.ld}, values);
  } else {
    RunArguments arguments;
    arguments.tokens = x_lines.count;
    arguments.operands.set("x", {x_lines.data, x_lines.ld});
    arguments.operands.set("dy", {dy_lines.data, dy_lines.ld});
    arguments.operands.set("values", {values});
    run_on_gpu(*plan, OperatorKind::kSddmm, x, bytes, {}, arguments);
  }
  return made;
}

// The packed bytes of a dense weight, pruned.
OwnedTensor pruned(TensorHandle weight_tensor, std::int64_t hash) {
  const std::shared_ptr<Plan> plan = plan_of(hash);
  const TunedWeight& weight = plan->weight();
  if (!plan->prunes()) fail(fmt::format("weight {}: its plan does not prune", weight.name));
  const TensorInfo given = info_of(weight_tensor);
  if (given.dtype != dtype_of(weight.type) && given.dtype != shim().float32)
    fail(fmt::format("weight {}: a dense weight must be fp32 or {}", weight.name, short_name(weight.type)));
  if (!std::ranges::equal(given.sizes, std::array{weight.rows, weight.cols}))
    fail(fmt::format("weight {}: the dense weight is {}, not [{}, {}]", weight.name, text_of(given), weight.rows,
                     weight.cols));
  const DataType source = given.dtype == shim().float32 ? DataType::kFloat32 : weight.type;
  Lines lines = lines_of(weight_tensor, given, weight.cols);
  if (lines.ld != weight.cols || reinterpret_cast<std::uintptr_t>(lines.data) % 16 != 0) {
    lines.copy = empty(given.sizes, given.dtype, given);
    require_torch(shim().copy(lines.copy.get(), weight_tensor, 0), "copy_");
    lines.data = info_of(lines.copy.get()).data;
  }
  OwnedTensor packed = empty(std::array{static_cast<std::int64_t>(plan->packed_bytes())}, shim().uint8, given);
  void* const to = info_of(packed.get()).data;
  Status status;
  if (given.device_type == shim().cuda) {
    const auto bound = require(plan->bind(given.device, reinterpret_cast<DeviceAddress>(to)));
    status = bound->weight.set_values(*bound->context, lines.data, source, current_stream(given));
  } else {
    status = plan->prune(lines.data, source, static_cast<std::byte*>(to));
  }
  if (!status.ok()) fail(fmt::format("weight {}: {}", weight.name, status.message()));
  return packed;
}

// Arguments of a boxed operator. They belong to the operator.
OwnedTensor tensor_of(StackValue value) { return OwnedTensor(reinterpret_cast<TensorHandle>(value)); }

OwnedTensor optional_of(StackValue value) {
  const std::unique_ptr<StackValue> held(reinterpret_cast<StackValue*>(value));
  return held == nullptr ? nullptr : tensor_of(*held);
}

// (Tensor x, Tensor packed, Tensor? bias, int plan, Tensor? residual, Tensor? values) -> Tensor
void boxed_linear(StackValue* stack, std::uint64_t /*inputs*/, std::uint64_t /*outputs*/) {
  const OwnedTensor x = tensor_of(stack[0]);
  const OwnedTensor packed = tensor_of(stack[1]);
  const OwnedTensor bias = optional_of(stack[2]);
  const OwnedTensor residual = optional_of(stack[4]);
  const OwnedTensor values = optional_of(stack[5]);
  OwnedTensor y = product(OperatorKind::kSpmm, x.get(), packed.get(), static_cast<std::int64_t>(stack[3]),
                          {.bias = bias.get(), .residual = residual.get(), .values = values.get()});
  stack[0] = reinterpret_cast<StackValue>(y.release());
}

// (Tensor x, Tensor packed, Tensor? bias, int plan, Tensor? residual, Tensor(a!) out) -> ()
void boxed_linear_out(StackValue* stack, std::uint64_t /*inputs*/, std::uint64_t /*outputs*/) {
  const OwnedTensor x = tensor_of(stack[0]);
  const OwnedTensor packed = tensor_of(stack[1]);
  const OwnedTensor bias = optional_of(stack[2]);
  const OwnedTensor residual = optional_of(stack[4]);
  const OwnedTensor out = tensor_of(stack[5]);
  product(OperatorKind::kSpmm, x.get(), packed.get(), static_cast<std::int64_t>(stack[3]),
          {.bias = bias.get(), .residual = residual.get(), .out = out.get()});
}

// (Tensor dy, Tensor packed, int plan, Tensor? values) -> Tensor
void boxed_linear_transposed(StackValue* stack, std::uint64_t /*inputs*/, std::uint64_t /*outputs*/) {
  const OwnedTensor dy = tensor_of(stack[0]);
  const OwnedTensor packed = tensor_of(stack[1]);
  const OwnedTensor values = optional_of(stack[3]);
  OwnedTensor dx = product(OperatorKind::kSpmmTransposed, dy.get(), packed.get(), static_cast<std::int64_t>(stack[2]),
                           {.values = values.get()});
  stack[0] = reinterpret_cast<StackValue>(dx.release());
}

// (Tensor x, Tensor dy, Tensor packed, int plan) -> Tensor
void boxed_sampled(StackValue* stack, std::uint64_t /*inputs*/, std::uint64_t /*outputs*/) {
  const OwnedTensor x = tensor_of(stack[0]);
  const OwnedTensor dy = tensor_of(stack[1]);
  const OwnedTensor packed = tensor_of(stack[2]);
  OwnedTensor values = sampled(x.get(), dy.get(), packed.get(), static_cast<std::int64_t>(stack[3]));
  stack[0] = reinterpret_cast<StackValue>(values.release());
}

// (Tensor weight, int plan) -> Tensor
void boxed_prune_two_four(StackValue* stack, std::uint64_t /*inputs*/, std::uint64_t /*outputs*/) {
  const OwnedTensor weight = tensor_of(stack[0]);
  stack[0] = reinterpret_cast<StackValue>(pruned(weight.get(), static_cast<std::int64_t>(stack[1])).release());
}

// (Tensor packed, int plan) -> Tensor, on the host
void boxed_to_dense(StackValue* stack, std::uint64_t /*inputs*/, std::uint64_t /*outputs*/) {
  const OwnedTensor packed = tensor_of(stack[0]);
  const std::shared_ptr<Plan> plan = plan_of(static_cast<std::int64_t>(stack[1]));
  const TensorInfo info = info_of(packed.get());
  if (plan->takes_values())
    fail(fmt::format("weight {}: its plan takes new values: the packed tensor has none", plan->weight().name));
  const CsrMatrix weight = require(plan->unpack(packed_bytes(info, *plan)));
  OwnedTensor dense = empty(std::array{weight.rows, weight.cols}, dtype_of(plan->weight().type), info);
  write_dense(weight, plan->weight().type, info_of(dense.get()).data);
  stack[0] = reinterpret_cast<StackValue>(dense.release());
}

Status add_operators() {
  SPARSMITH_RETURN_IF_ERROR(open_shim());
  const Shim& torch = shim();
  const auto refused = [](const char* what) {
    return internal_error(fmt::format("PyTorch refuses the operators of sparsmith ({}); its log says why", what));
  };
  // The libraries stay registered until the process ends.
  LibraryHandle definitions = nullptr;
  if (torch.library_init_def("sparsmith", __FILE__, __LINE__, &definitions) != 0) return refused("library");
  for (const char* schema :
       {"linear(Tensor x, Tensor packed, Tensor? bias, int plan, Tensor? residual=None, Tensor? values=None) -> Tensor",
        "linear_transposed(Tensor dy, Tensor packed, int plan, Tensor? values=None) -> Tensor",
        "sampled(Tensor x, Tensor dy, Tensor packed, int plan) -> Tensor",
        "prune_two_four(Tensor weight, int plan) -> Tensor",
        "linear_out(Tensor x, Tensor packed, Tensor? bias, int plan, Tensor? residual, Tensor(a!) out) -> ()",
        "to_dense(Tensor packed, int plan) -> Tensor"}) {
    if (torch.library_def(definitions, schema) != 0) return refused(schema);
  }
  for (const char* device : {"CPU", "CUDA"}) {
    LibraryHandle library = nullptr;
    if (torch.library_init_impl("sparsmith", device, __FILE__, __LINE__, &library) != 0 ||
        torch.library_impl(library, "linear", boxed_linear) != 0 ||
        torch.library_impl(library, "linear_transposed", boxed_linear_transposed) != 0 ||
        torch.library_impl(library, "sampled", boxed_sampled) != 0 ||
        torch.library_impl(library, "prune_two_four", boxed_prune_two_four) != 0 ||
        torch.library_impl(library, "linear_out", boxed_linear_out) != 0)
      return refused(device);
    if (std::string_view(device) == "CPU" && torch.library_impl(library, "to_dense", boxed_to_dense) != 0)
      return refused("to_dense");
  }
  return {};
}

}  // namespace

Status register_operators() {
  static const Status status = add_operators();
  return status;
}

}  // namespace sparsmith::torch
