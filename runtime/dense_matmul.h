// A dense weight times activations through cuBLASLt: what runs where a weight is better kept dense. Internal.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cublas_lt.h"
#include "runtime/cuda_context.h"
#include "runtime/executor.h"
#include "runtime/launch_plan.h"
#include "runtime/operator_spec.h"

namespace sparsmith {

// Any number of threads may enqueue, each with scratch memory of its own.
class DenseMatmul {
 public:
  // What cuBLASLt may use.
  static constexpr std::size_t kScratchBytes = std::size_t{32} << 20;

  // Whether cuBLASLt computes the whole operator: its epilogues know bias and relu, but add beta * C before them, and
  // their gelu is another one. In feature_major layout it has no bias along our rows.
  static bool covers(const OperatorSpec& spec);

  // exact: a proposal that the library does not make is an error, kUnsupported, where the first would take its place.
  // Error: kNoDevice when the library is missing.
  static Result<std::unique_ptr<DenseMatmul>> create(const std::shared_ptr<const CudaContext>& context,
                                                     const OperatorSpec& spec, bool exact);

  DenseMatmul(const DenseMatmul&) = delete;
  DenseMatmul& operator=(const DenseMatmul&) = delete;
  ~DenseMatmul();

  // The step's product. `weight`: [weight_rows][weight_cols] row-major, of the spec's type, whichever the operator's
  // kind. `product`: where W X goes; null where the step computes the whole operator, which REQUIRES covers(spec).
  // REQUIRES bindings.scratch; the context is current.
  Status enqueue(const PlanStep& step, DeviceAddress weight, const LaunchBindings& bindings, DeviceAddress product,
                 CUstream stream) const;

  const OperatorSpec& spec() const { return spec_; }

 private:
  struct Product;    // what is computed
  struct Described;  // as the library knows it, for some tokens

  // What the library's answer depends on, beside the operator: tokens, strides of x and of both outputs, alignments of
  // the arrays, and what the step asks for.
  using Question = std::array<std::int64_t, 11>;

  DenseMatmul(std::shared_ptr<const CudaContext> context, const CublasLt& library, const OperatorSpec& spec, bool exact)
      : context_(std::move(context)), library_(library), spec_(spec), exact_(exact) {}

  Product whole_operator(const LaunchBindings& bindings) const;
  Product product_alone(const LaunchBindings& bindings, DeviceAddress address) const;
  Result<Described> described(const LaunchBindings& bindings, const Product& product, std::int64_t tokens) const;
  // Of the algorithms that the library proposes, that one; the first where there are fewer.
  Result<cublasLtMatmulAlgo_t> proposed(Described& described, int proposal, bool exact) const;
  Result<cublasLtMatmulAlgo_t> algorithm_of(const PlanStep& step, const LaunchBindings& bindings,
                                            const Product& product, Described& described) const;
  // The same, from what was asked before.
  Result<cublasLtMatmulAlgo_t> known_algorithm(const PlanStep& step, const LaunchBindings& bindings,
                                               const Product& product, Described& described) const;

  std::shared_ptr<const CudaContext> context_;
  const CublasLt& library_;
  OperatorSpec spec_;
  bool exact_;
  cublasLtHandle_t handle_ = nullptr;
  mutable std::mutex mutex_;
  // The library takes longer to answer than to launch. Guarded by mutex_; of a fixed size: a run allocates nothing.
  struct Answer {
    Question question{};  // of no tokens: none yet
    cublasLtMatmulAlgo_t algorithm{};
  };
  mutable std::vector<Answer> answers_ = std::vector<Answer>(64);
  mutable std::size_t oldest_ = 0;
};

}  // namespace sparsmith
