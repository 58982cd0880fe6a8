// A dense weight times activations through cuBLASLt: what runs where a weight is better kept dense. Internal.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/cublas_lt.h"
#include "runtime/cuda_context.h"
#include "runtime/executor.h"
#include "runtime/operator_spec.h"

namespace sparsmith {

// Any number of threads may enqueue, each with a workspace of its own. The weight must outlive it.
class DenseMatmul {
 public:
  // What cuBLASLt may use of the workspace.
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  // Whether cuBLASLt computes the whole operator: its epilogues know bias and relu, but add beta * C before them, and
  // their gelu is another one. In feature_major layout it has no bias along our rows.
  static bool covers(const OperatorSpec& spec);

  // `weight`: [M][K] row-major, of the spec's type. Error: kNoDevice when the library is missing.
  static Result<std::unique_ptr<DenseMatmul>> create(const std::shared_ptr<const CudaContext>& context,
                                                     const OperatorSpec& spec, DeviceAddress weight);

  DenseMatmul(const DenseMatmul&) = delete;
  DenseMatmul& operator=(const DenseMatmul&) = delete;
  ~DenseMatmul();

  // The whole operator into `bindings.y`. REQUIRES covers(spec) and kWorkspaceBytes at `workspace`; the context is
  // current.
  Status enqueue(const LaunchBindings& bindings, DeviceAddress workspace, CUstream stream) const;

  // W X alone, in fp32, to `product`, in Y's layout without gaps. REQUIRES as above, but for covers().
  Status enqueue_product(const LaunchBindings& bindings, DeviceAddress product, DeviceAddress workspace,
                         CUstream stream) const;

  // The same with another weight of that shape and type.
  Status enqueue_product(DeviceAddress weight, const LaunchBindings& bindings, DeviceAddress product,
                         DeviceAddress workspace, CUstream stream) const;

 private:
  struct Product;  // one call of the library

  DenseMatmul(std::shared_ptr<const CudaContext> context, const CublasLt& library, const OperatorSpec& spec,
              DeviceAddress weight)
      : context_(std::move(context)), library_(library), spec_(spec), weight_(weight) {}

  Status multiply(const LaunchBindings& bindings, const Product& product, DeviceAddress workspace,
                  CUstream stream) const;

  std::shared_ptr<const CudaContext> context_;
  const CublasLt& library_;
  OperatorSpec spec_;
  DeviceAddress weight_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace sparsmith
