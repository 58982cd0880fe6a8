// The second pass of a gated operator: Y = activation(V[0, M/2)) * V[M/2, M), where a product left V in the workspace,
// in Y's layout without gaps.
//
// One thread owns kVector neighbouring outputs of a line of Y; neighbouring threads own neighbouring ones.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Product, class Value, class Activation, bool kTokenMajor, bool kBias, int kVector, int kThreads>
struct GatedKernel {
  SPARSMITH_ROLE(kernel)

  // `rows`: of Y. bias: [2 * rows], if kBias.
  static SPARSMITH_DEVICE void run(const Product* v, const Value* bias, float alpha, Value* y, i64 ldy, int rows,
                                   int n) {
    launch_dependents();
    wait_for_previous();
    const i64 length = kTokenMajor ? rows : n;  // of a line
    const i64 lines = kTokenMajor ? n : rows;
    const i64 vectors = length / kVector;
    const i64 half = kTokenMajor ? rows : static_cast<i64>(rows) * n;  // from a gate to the value behind it
    const i64 stride = static_cast<i64>(grid_size_x()) * kThreads;
    for (i64 i = static_cast<i64>(block_index_x()) * kThreads + thread_index(); i < lines * vectors; i += stride) {
      const i64 line = i / vectors;
      const i64 first = i % vectors * kVector;
      const Product* gate = v + line * (kTokenMajor ? 2 * length : length) + first;
      const auto gates = load_coherent(reinterpret_cast<const Vector<Product, kVector>*>(gate));
      const auto values = load_coherent(reinterpret_cast<const Vector<Product, kVector>*>(gate + half));
      Vector<Value, kVector> outputs;
      SPARSMITH_UNROLL for (int e = 0; e < kVector; ++e) {
        const i64 row = kTokenMajor ? first + e : line;
        float shift = 0.0F;
        float value_shift = 0.0F;
        if constexpr (kBias) {
          shift = to_float(bias[row]);
          value_shift = to_float(bias[rows + row]);
        }
        outputs[e] = from_float<Value>(Activation::apply(multiply_add(alpha, to_float(gates[e]), shift)) *
                                       multiply_add(alpha, to_float(values[e]), value_shift));
      }
      store(outputs, y + line * ldy + first);
    }
  }

 private:
  static SPARSMITH_DEVICE void store(const Vector<Value, kVector>& outputs, Value* to) {
    if (reinterpret_cast<u64>(to) % sizeof(outputs) == 0) {
      *reinterpret_cast<Vector<Value, kVector>*>(to) = outputs;
    } else {
      SPARSMITH_UNROLL for (int e = 0; e < kVector; ++e) to[e] = outputs[e];
    }
  }
};

}  // namespace sparsmith
