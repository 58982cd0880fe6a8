// Runs a tuned file on a GPU: load the file once, then run its operators on any stream.
//
//   Result<TunedModel> model = TunedModel::load("model.tuned.safetensors");
//   Result<Operator> fc1 = model->op("layers.0.fc1.weight");
//   Status status = fc1->run({.operands = {{"x", {x}}, {"y", {y}}, {"bias", {b}}}, .tokens = n}, stream);
//
// Pointers are device pointers of the device's primary context, the one that the CUDA runtime and PyTorch use; streams
// are CUstream or cudaStream_t handles (null: the default stream). Needs only the CUDA driver; weights that
// stay dense need cuBLASLt as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sparsmith/data_type.h"
#include "sparsmith/export.h"
#include "sparsmith/group_member.h"
#include "sparsmith/load_options.h"
#include "sparsmith/named_values.h"
#include "sparsmith/operand.h"
#include "sparsmith/status.h"

namespace sparsmith {

class CudaContext;
class TunedFile;
struct LoadedModel;
struct LoadedOperator;
struct LoadedWeight;

// A GPU. A cheap handle: the device stays open as long as a copy of the handle or a model on it lives. Immutable: any
// number of threads may use one handle.
class SPARSMITH_API Device {
 public:
  // `ordinal`: number of the device among those that this process sees, from 0.
  // Error: kNoDevice if there is no driver or no such device, with advice.
  static Result<Device> open(int ordinal = 0);

  int ordinal() const;
  std::string name() const;
  int compute_capability() const;  // 10 * major + minor: 90

 private:
  friend class TunedModel;
  explicit Device(std::shared_ptr<const CudaContext> context) : context_(std::move(context)) {}
  std::shared_ptr<const CudaContext> context_;
};

// The array of an operand.
struct OperandArray {
  const void* data = nullptr;  // written if the operand's access says so
  std::int64_t ld = 0;         // leading dimension: elements from one line to the next. 0: lines without gaps
};

// One run of an operator: Y = activation(alpha * W X + bias) + beta * Y + residual, with the parts of its epilogue; a
// gated one halves the rows.
struct RunArguments {
  NamedValues<OperandArray> operands{};  // all operands of the operator (Operator::info()), not null
  std::int64_t tokens = 1;               // N; 0 does nothing, and makes values 0
  void* workspace = nullptr;             // workspace_bytes(tokens) bytes of any contents, aligned to 256
  float alpha = 1.0F;                    // 0: without W X
  float beta = 0.0F;                     // not 0 only if the operator has beta
};

// The choice for numbers of tokens above the previous choice's and up to `tokens`.
struct ChoiceInfo {
  std::int64_t tokens = 0;
  std::string config;     // of the generated kernels; "dense" where the weight stays dense
  std::string packing;    // the packing that the kernels read
  bool measured = false;  // times are measured; false: predicted
  double median_us = 0;
  double dense_us = 0;  // time of the operator on the dense weight; 0: not known
};

// An operator, and its choices.
struct OperatorInfo {
  OperatorKind kind = OperatorKind::kSpmm;
  std::int64_t rows = 0;               // M: features of Y or dY
  std::int64_t cols = 0;               // K: features of X
  DataType type = DataType::kFloat32;  // of all operands
  std::string layout;                  // "token_major" or "feature_major"
  std::string epilogue;                // "none", "bias+relu", ...
  // "fp32"; or "fp16_chains": up to four products at a time may be summed in fp16, where sums beyond 65,504 are
  // infinite
  std::string accumulation;
  std::vector<Operand> operands;    // also absent operands, with present = false
  std::vector<ChoiceInfo> choices;  // ascending in tokens
};

struct WeightInfo {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DataType type = DataType::kFloat32;
  std::int64_t nnz = 0;
  std::int64_t gpu_bytes = 0;        // allocated bytes of all packings
  std::int64_t places_bytes = 0;     // further bytes, for new values
  std::vector<GroupMember> members;  // of a group, in the order of rows; empty: not a group
};

// An operator of a weight or of a group. A cheap handle that keeps its model loaded. Immutable: any number of threads
// may run it at the same time, on any streams, if each run has its own workspace and outputs.
class SPARSMITH_API Operator {
 public:
  const std::string& name() const;  // of its weight
  OperatorInfo info() const;

  // The place of a member of this group in the Y that run() writes for this number of tokens (spmm_transposed: in the X
  // that it reads). `ld`: as given to run(). With the ld of a residual: the place in the residual.
  //   Errors: kNotFound, with the names of the members; kInvalidArgument, as run(); kUnsupported for sddmm, whose
  //   values have the order of CSR.
  Result<MemberView> member(const std::string& member_name, std::int64_t tokens, std::int64_t ld = 0) const;

  // Bytes of workspace of run() with this number of tokens; 0: none.
  Result<std::size_t> workspace_bytes(std::int64_t tokens) const;

  // Enqueues the operator on `stream` and returns. Allocates nothing and does not synchronise, so a CUDA graph may
  // capture the run; a captured run keeps the arguments of the call. The model must stay loaded until the work, and
  // every graph that holds the work, is done.
  //   Programmatic launches: the operator may load its weight while the previous kernel in the stream, of any owner, is
  //   still running. The operator waits for all earlier work before it reads X, bias or residual or writes Y or
  //   workspace, and later kernels wait for the operator. Results do not depend on the launch mode. (A later kernel
  //   that the caller launches programmatically has to wait likewise, by CUDA's rules.) Errors: kInvalidArgument names
  //   the argument that is missing, unknown or too small; kDeviceError.
  Status run(const RunArguments& arguments, void* stream) const;

 private:
  friend class Weight;
  Operator(std::shared_ptr<const LoadedModel> model, const LoadedOperator* loaded)
      : model_(std::move(model)), loaded_(loaded) {}
  std::shared_ptr<const LoadedModel> model_;
  const LoadedOperator* loaded_;
};

// A weight or a group of a model. A cheap handle that keeps its model loaded. Any number of threads may use it.
class SPARSMITH_API Weight {
 public:
  const WeightInfo& info() const;
  // Error: kNotFound if the file has no operator of that kind.
  Result<Operator> op(OperatorKind kind = OperatorKind::kSpmm) const;

  // Enqueues an update of the weight's values, in every packing, on `stream`, and returns. `values`: a device pointer
  // to nnz numbers in the order of the pattern (row by row, ascending columns), fp32 or of the weight's type; values
  // are rounded to the weight's type, and may be 0. Allocates nothing and does not synchronise; captured graphs stay
  // valid. Later runs in the stream see the new values. The caller keeps runs on other streams from overlapping the
  // update.
  //   Errors: kInvalidArgument, also if the model was loaded without LoadOptions::updatable.
  Status set_values(const void* values, DataType type, void* stream) const;

 private:
  friend class TunedModel;
  Weight(std::shared_ptr<const LoadedModel> model, const LoadedWeight* loaded)
      : model_(std::move(model)), loaded_(loaded) {}
  std::shared_ptr<const LoadedModel> model_;
  const LoadedWeight* loaded_;
};

// A tuned file on a GPU. A cheap handle: copies share the weights. Immutable: any number of threads may use it.
class SPARSMITH_API TunedModel {
 public:
  // Checks the file as load() does, without a device or a driver. Errors: kNotFound, kIoError, kInvalidInput.
  static Status validate(const std::string& path, const LoadOptions& options = {});
  static Status validate(std::span<const std::byte> file, const LoadOptions& options = {});

  // Checks the file, then opens the device (0: the first that this process sees), copies the weights to it and loads
  // the kernels. A damaged file is an error before any driver is opened.
  //   Errors: kNotFound, kIoError, kInvalidInput (a damaged file); kUnsupported if the file has no kernel for this
  //   device, with the command that tunes for it; kOutOfMemory; kNoDevice if there is no such device, or if a dense
  //   weight needs cuBLASLt and the library is missing.
  static Result<TunedModel> load(const std::string& path, int device = 0, const LoadOptions& options = {});
  // The same on an open device.
  static Result<TunedModel> load(const std::string& path, const Device& device, const LoadOptions& options = {});
  // The same from the bytes of a file in memory, aligned to 8; not needed after the call.
  static Result<TunedModel> load(std::span<const std::byte> file, int device = 0, const LoadOptions& options = {});

  std::vector<std::string> names() const;  // of weights and groups, in the order of the file
  // A weight or a group by name. Error: kNotFound, with the group if `name` is a member of a group, otherwise with some
  // of the names in the file.
  Result<Weight> weight(const std::string& name) const;
  // An operator of a weight. Errors: as weight() and Weight::op().
  Result<Operator> op(const std::string& name, OperatorKind kind = OperatorKind::kSpmm) const;

  std::int64_t gpu_bytes() const;  // allocated bytes: packed weights, and places for new values

 private:
  static Result<TunedModel> load(const TunedFile& file, const Device& device, const LoadOptions& options);
  explicit TunedModel(std::shared_ptr<const LoadedModel> model) : model_(std::move(model)) {}
  std::shared_ptr<const LoadedModel> model_;
};

}  // namespace sparsmith
