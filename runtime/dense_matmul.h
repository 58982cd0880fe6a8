// Dense products by cuBLASLt: a weight times activations, or the gradient of a weight at all its places. They run where
// they are faster than kernels of sparse weights. Internal.
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

// Any number of threads may enqueue, each with its own scratch memory.
class DenseMatmul {
 public:
  // Scratch memory that cuBLASLt may use.
  static constexpr std::size_t kScratchBytes = std::size_t{32} << 20;

  // Whether cuBLASLt computes the whole operator: never sddmm. Its epilogues have bias and relu, but they add beta * C
  // before both, and their gelu is another function. In feature_major layout it has no bias along our rows.
  static bool covers(const OperatorSpec& spec);

  // exact: when the library does not make the step's proposal, a run fails with kUnsupported. Otherwise the first
  // proposal replaces it. Error: kNoDevice when the library is missing.
  static Result<std::unique_ptr<DenseMatmul>> create(const std::shared_ptr<const CudaContext>& context,
                                                     const OperatorSpec& spec, bool exact);

  DenseMatmul(const DenseMatmul&) = delete;
  DenseMatmul& operator=(const DenseMatmul&) = delete;
  ~DenseMatmul();

  // Enqueues the step's product. `weight`: [weight_rows][weight_cols] row-major, of the spec's type, for every kind of
  // operator that multiplies by it. `product`: the address for W X or dY X^T; null when the step computes the whole
  // operator, which REQUIRES covers(spec). REQUIRES bindings.scratch; the context is current.
  Status enqueue(const PlanStep& step, DeviceAddress weight, const LaunchBindings& bindings, DeviceAddress product,
                 CUstream stream) const;

  const OperatorSpec& spec() const { return spec_; }

 private:
  struct Product;    // the product to compute
  struct Factor;     // one of its two factors in memory, column-major
  struct Described;  // the product in the library's descriptors, for one number of tokens

  // The library's answer depends on these numbers and on the operator: tokens, strides of x, dy and both outputs,
  // alignments of the arrays, and the step's proposal.
  using Question = std::array<std::int64_t, 12>;

  DenseMatmul(std::shared_ptr<const CudaContext> context, const CublasLt& library, const OperatorSpec& spec, bool exact)
      : context_(std::move(context)), library_(library), spec_(spec), exact_(exact) {}

  Product whole_operator(const LaunchBindings& bindings) const;
  Product product_alone(const LaunchBindings& bindings, DeviceAddress address) const;
  Product gradient(const LaunchBindings& bindings, DeviceAddress address) const;
  std::array<Factor, 2> factors(const LaunchBindings& bindings, const Product& product, std::int64_t tokens) const;
  Result<Described> described(const LaunchBindings& bindings, const Product& product, std::int64_t tokens) const;
  // Algorithm number `proposal` of those that the library proposes; the first when there are fewer.
  Result<cublasLtMatmulAlgo_t> proposed(Described& described, int proposal, bool exact) const;
  Result<cublasLtMatmulAlgo_t> algorithm_of(const PlanStep& step, const LaunchBindings& bindings,
                                            const Product& product, Described& described) const;
  // The same, but looks into answers_ first.
  Result<cublasLtMatmulAlgo_t> known_algorithm(const PlanStep& step, const LaunchBindings& bindings,
                                               const Product& product, Described& described) const;

  std::shared_ptr<const CudaContext> context_;
  const CublasLt& library_;
  OperatorSpec spec_;
  bool exact_;
  cublasLtHandle_t handle_ = nullptr;
  mutable std::mutex mutex_;
  // Earlier answers of the library: an answer takes longer than a launch. Guarded by mutex_. The size is fixed, so a
  // run allocates nothing.
  struct Answer {
    Question question{};  // 0 tokens: no answer yet
    cublasLtMatmulAlgo_t algorithm{};
  };
  mutable std::vector<Answer> answers_ = std::vector<Answer>(64);
  mutable std::size_t oldest_ = 0;
};

}  // namespace sparsmith
