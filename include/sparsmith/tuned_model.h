// Running a tuned file on a GPU: load it once, then run its operators on any stream.
//
//   Result<TunedModel> model = TunedModel::load("model.tuned.safetensors");
//   Result<Operator> fc1 = model->op("layers.0.fc1.weight");
//   Status status = fc1->run({.operands = {{"x", {x}}, {"y", {y}}, {"bias", {b}}}, .tokens = n}, stream);
//
// Pointers are device pointers of the device's primary context, the one that the CUDA runtime and PyTorch use; streams
// are CUstream or cudaStream_t handles (null: the default stream). Needs the CUDA driver alone; a weight that was best
// kept dense needs cuBLASLt as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
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

// A GPU. A cheap handle: copies share it, and it stays open while any of them, or a model on it, lives. Immutable: any
// number of threads may use one.
class SPARSMITH_API Device {
 public:
  // `ordinal` counts the devices that this process sees, from 0.
  // Error: kNoDevice when there is no driver or no such device, with what to do.
  static Result<Device> open(int ordinal = 0);

  Device(const Device&);
  Device(Device&&) noexcept;
  Device& operator=(const Device&);
  Device& operator=(Device&&) noexcept;
  ~Device();

  int ordinal() const;
  std::string name() const;
  int compute_capability() const;  // 10 * major + minor: 90

 private:
  friend class TunedModel;
  explicit Device(std::shared_ptr<const CudaContext> context);
  std::shared_ptr<const CudaContext> context_;
};

// The array of an operand.
struct OperandArray {
  const void* data = nullptr;  // written where the operand's access says so
  std::int64_t ld = 0;         // leading dimension: elements from one line to the next. 0: lines without gaps
};

// One run of an operator: Y = activation(alpha * W X + bias) + beta * Y + residual, as far as it was tuned for them.
struct RunArguments {
  NamedValues<OperandArray> operands;  // of each that the operator has (Operator::info()); null is none
  std::int64_t tokens = 1;             // N; 0 does nothing
  void* workspace = nullptr;           // workspace_bytes(tokens) bytes, aligned to 256; its contents do not matter
  float alpha = 1.0F;                  // 0 leaves W X out
  float beta = 0.0F;                   // other than 0 only when the operator has beta
};

// What was chosen for numbers of tokens up to `tokens`, from the choice before it on.
struct ChoiceInfo {
  std::int64_t tokens = 0;
  std::string config;     // of the generated kernels; "dense" where the weight stays dense
  std::string packing;    // that they read
  bool measured = false;  // times are measured; false: predicted
  double median_us = 0;
  double dense_us = 0;  // the operator on the dense weight; 0: not known
};

// What an operator computes, and what was chosen for a number of tokens.
struct OperatorInfo {
  OperatorKind kind = OperatorKind::kSpmm;
  std::int64_t rows = 0;               // M: features of Y or dY
  std::int64_t cols = 0;               // K: features of X
  DataType type = DataType::kFloat32;  // of all operands
  std::string layout;                  // "token_major" or "feature_major"
  std::string epilogue;                // "none", "bias+relu", ...
  // "fp32"; or "fp16_chains": sums of up to four products at a time may be formed in fp16, and are infinite beyond
  // 65,504
  std::string accumulation;
  std::vector<Operand> operands;    // also those that it does not have, marked so
  std::vector<ChoiceInfo> choices;  // ascending in tokens
};

struct WeightInfo {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DataType type = DataType::kFloat32;
  std::int64_t nnz = 0;
  std::int64_t gpu_bytes = 0;        // of all its packings, as allocated
  std::int64_t places_bytes = 0;     // besides, for new values
  std::vector<GroupMember> members;  // of a group, in the order of their rows; empty: it is no group
};

// The product with one weight, or with a group. A cheap handle that keeps its model loaded. Immutable: any number of
// threads may run one at the same time, on any streams, each run with a workspace and outputs of its own.
class SPARSMITH_API Operator {
 public:
  Operator(const Operator&);
  Operator(Operator&&) noexcept;
  Operator& operator=(const Operator&);
  Operator& operator=(Operator&&) noexcept;
  ~Operator();

  const std::string& name() const;  // of its weight
  OperatorInfo info() const;

  // Where a member of this group lies in the Y that run() writes for this many tokens (spmm_transposed: in the X that
  // it reads), with `ld` as it is given to run(). With the residual's ld: where it lies in a residual.
  //   Errors: kNotFound, with the members that there are; kInvalidArgument, as of run(); kUnsupported of sddmm, whose
  //   values have the order of CSR.
  Result<MemberView> member(const std::string& member_name, std::int64_t tokens, std::int64_t ld = 0) const;

  // Bytes of workspace that run() needs for this many tokens; 0: none.
  Result<std::size_t> workspace_bytes(std::int64_t tokens) const;

  // Puts the operator on `stream` and returns. Allocates nothing and does not synchronise, so it may be captured into a
  // CUDA graph; a captured run holds the arguments of the call. The model must stay loaded until the work, and every
  // graph that holds it, is done.
  //   Programmatic launches: an operator that was tuned for them may begin to load its weight while the kernel in front
  //   of it in the stream still runs, whoever's that is. It waits for all that is in front of it before it reads X,
  //   bias or residual or writes Y or workspace, and what follows waits for it as for any kernel: results do not depend
  //   on it. (A kernel of yours that you launch programmatically behind it has to wait likewise, as CUDA asks of all.)
  //   Errors: kInvalidArgument names the argument that is missing, too much or too small; kDeviceError.
  Status run(const RunArguments& arguments, void* stream) const;

 private:
  friend class Weight;
  Operator(std::shared_ptr<const LoadedModel> model, const LoadedOperator* loaded);
  std::shared_ptr<const LoadedModel> model_;
  const LoadedOperator* loaded_;
};

// A weight or a group of a model. A cheap handle that keeps its model loaded. Any number of threads may use one.
class SPARSMITH_API Weight {
 public:
  Weight(const Weight&);
  Weight(Weight&&) noexcept;
  Weight& operator=(const Weight&);
  Weight& operator=(Weight&&) noexcept;
  ~Weight();

  const WeightInfo& info() const;
  // Error: kNotFound where the file has no operator of that kind.
  Result<Operator> op(OperatorKind kind = OperatorKind::kSpmm) const;

  // Puts on `stream` what gives the weight new values, in every packing, and returns. `values`: a device pointer to
  // nnz numbers in the order of the pattern (row by row, ascending columns), fp32 or the weight's own type; they are
  // rounded to the weight's type. A value may be 0. Allocates nothing and does not synchronise; captured graphs stay
  // valid. Runs that follow in the stream see the new values; the caller keeps others from running meanwhile.
  //   Errors: kInvalidArgument, also when the model was loaded without LoadOptions::updatable.
  Status set_values(const void* values, DataType type, void* stream) const;

 private:
  friend class TunedModel;
  Weight(std::shared_ptr<const LoadedModel> model, const LoadedWeight* loaded);
  std::shared_ptr<const LoadedModel> model_;
  const LoadedWeight* loaded_;
};

// A tuned file on a GPU. A cheap handle: copies share the weights. Immutable: any number of threads may use one.
class SPARSMITH_API TunedModel {
 public:
  // Checks the file as load() does, and touches no device and no driver. Errors: kNotFound, kIoError, kInvalidInput.
  static Status validate(const std::string& path, const LoadOptions& options = {});
  static Status validate(std::span<const std::byte> file, const LoadOptions& options = {});

  // Checks the file, then opens the device (0: the first that this process sees), copies the weights to it and loads
  // the kernels. A file that is not in order is an error before any driver is opened.
  //   Errors: kNotFound, kIoError, kInvalidInput (a damaged file); kUnsupported when it holds no kernel for this
  //   device, with how to tune for it; kOutOfMemory; kNoDevice when there is no such device, or when a dense weight
  //   needs cuBLASLt and it is missing.
  static Result<TunedModel> load(const std::string& path, int device = 0, const LoadOptions& options = {});
  // The same on a device that is open.
  static Result<TunedModel> load(const std::string& path, const Device& device, const LoadOptions& options = {});
  // The same of a file's bytes in memory, aligned to 8, which are no longer needed afterwards.
  static Result<TunedModel> load(std::span<const std::byte> file, int device = 0, const LoadOptions& options = {});

  TunedModel(const TunedModel&);
  TunedModel(TunedModel&&) noexcept;
  TunedModel& operator=(const TunedModel&);
  TunedModel& operator=(TunedModel&&) noexcept;
  ~TunedModel();

  std::vector<std::string> names() const;  // of its weights and groups, in the file's order
  // A weight or a group by its name. Error: kNotFound, with the group where `name` is a member of one, otherwise with
  // some of the names that there are.
  Result<Weight> weight(const std::string& name) const;
  // Its operator. Error: as of weight() and Weight::op().
  Result<Operator> op(const std::string& name, OperatorKind kind = OperatorKind::kSpmm) const;

  std::int64_t gpu_bytes() const;  // all that was allocated: packed weights, and places for new values

 private:
  static Result<TunedModel> load(const TunedFile& file, const Device& device, const LoadOptions& options);
  explicit TunedModel(std::shared_ptr<const LoadedModel> model);
  std::shared_ptr<const LoadedModel> model_;
};

}  // namespace sparsmith
