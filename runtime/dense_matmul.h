// A dense weight times activations through cuBLASLt: what runs where a weight is better kept dense. Internal.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/cublas_lt.h"
#include "runtime/cuda_context.h"
#include "runtime/executor.h"
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

  // Error: kNoDevice when the library is missing.
  static Result<std::unique_ptr<DenseMatmul>> create(const std::shared_ptr<const CudaContext>& context,
                                                     const OperatorSpec& spec);

  DenseMatmul(const DenseMatmul&) = delete;
  DenseMatmul& operator=(const DenseMatmul&) = delete;
  ~DenseMatmul();

  // The whole operator. `weight`: [weight_rows][weight_cols] row-major, of the spec's type, whichever the operator's
  // kind. REQUIRES covers(spec) and bindings.scratch; the context is current.
  Status enqueue(DeviceAddress weight, const LaunchBindings& bindings, CUstream stream) const;

  // W X alone, in fp32, to `product`, in Y's layout without gaps. REQUIRES as above, but for covers().
  Status enqueue_product(DeviceAddress weight, const LaunchBindings& bindings, DeviceAddress product,
                         CUstream stream) const;

  const OperatorSpec& spec() const { return spec_; }

 private:
  struct Product;  // one call of the library

  DenseMatmul(std::shared_ptr<const CudaContext> context, const CublasLt& library, const OperatorSpec& spec)
      : context_(std::move(context)), library_(library), spec_(spec) {}

  Status multiply(const LaunchBindings& bindings, const Product& product, CUstream stream) const;

  std::shared_ptr<const CudaContext> context_;
  const CublasLt& library_;
  OperatorSpec spec_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace sparsmith
