// From an fp32 sum to an output: y = activation(alpha * sum + bias) + beta * y + residual, rounded once.
//
// One thread owns one row and kTokens neighbouring tokens. Feature-major Y[M][N] is written as one vector where the
// address allows it; token-major Y[N][M] as one element a token, neighbouring rows by neighbouring threads. Or it owns
// neighbouring rows of one token; then token-major Y is written as vectors.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// ---- activation functions, in fp32 ----

// y = v
struct NoActivation {
  SPARSMITH_ROLE(epilog)
  static SPARSMITH_DEVICE float apply(float v) { return v; }
};

// y = max(v, 0); NaN stays NaN.
struct Relu {
  SPARSMITH_ROLE(epilog)
  static SPARSMITH_DEVICE float apply(float v) { return v < 0.0F ? 0.0F : v; }
};

// y = v * Phi(v), by the error function (Hendrycks and Gimpel, 2016; not the tanh approximation).
struct Gelu {
  SPARSMITH_ROLE(epilog)
  static SPARSMITH_DEVICE float apply(float v) { return 0.5F * v * (1.0F + error_function(v * 0.70710678F)); }
};

// Its approximation by v * sigmoid(2 u), as v/2 * (1 + tanh(u)) with u = sqrt(2/pi) * (v + 0.044715 v^3).
struct GeluTanh {
  SPARSMITH_ROLE(epilog)
  static SPARSMITH_DEVICE float apply(float v) {
    return v / (1.0F + exponential(-1.5957691F * (v + 0.044715F * v * v * v)));
  }
};

// y = v * sigmoid(v) (Elfwing et al., 2017); -0 for v = -inf's limit.
struct Silu {
  SPARSMITH_ROLE(epilog)
  static SPARSMITH_DEVICE float apply(float v) { return v / (1.0F + exponential(-v)); }
};

// ---- outputs ----

// From an fp32 sum to an output, with the whole epilogue.
template <class Value, bool kTokenMajor, class Activation, bool kBias, bool kBeta, bool kResidual>
struct StoreOutput {
  SPARSMITH_ROLE(epilog)

  static constexpr bool kReads = kBeta || kResidual;  // the old Y, or a residual

  Value* y;
  i64 ldy;
  const Value* bias;      // [M]
  const Value* residual;  // in Y's layout
  i64 ldr;
  float alpha;
  float beta;  // 0: old Y is not read

  template <int kTokens>
  SPARSMITH_DEVICE void store(u32 row, int first_token, int n, const float (&sums)[kTokens]) const {
    float shift = 0.0F;
    if constexpr (kBias) shift = to_float(bias[row]);
    if constexpr (!kTokenMajor && kTokens > 1) {
      Value* to = y + static_cast<i64>(row) * ldy + first_token;
      constexpr int kVector = kTokens * sizeof(Value) > 16 ? 16 / static_cast<int>(sizeof(Value)) : kTokens;
      if (first_token + kTokens <= n && reinterpret_cast<u64>(to) % (kVector * sizeof(Value)) == 0) {
        SPARSMITH_UNROLL for (int v = 0; v < kTokens; v += kVector) {
          Vector<Value, kVector> vector;
          SPARSMITH_UNROLL for (int t = 0; t < kVector; ++t) {
            vector[t] = from_float<Value>(finish(sums[v + t], shift, row, first_token + v + t));
          }
          *reinterpret_cast<Vector<Value, kVector>*>(to + v) = vector;
        }
        return;
      }
    }
    Value* to = y + at(row, first_token, ldy);
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t, to += kTokenMajor ? ldy : 1) {
      const int token = first_token + t;
      if (token < n) *to = from_float<Value>(finish(sums[t], shift, row, token));
    }
  }

  // In two steps: what does not depend on the old Y or on a residual, and what only writes.
  template <int kTokens>
  SPARSMITH_DEVICE Vector<Value, kTokens> finished(u32 row, const float (&sums)[kTokens]) const {
    static_assert(!kReads, "these are read where they are added");
    float shift = 0.0F;
    if constexpr (kBias) shift = to_float(bias[row]);
    Vector<Value, kTokens> vector;
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) vector[t] = from_float<Value>(finish(sums[t], shift, row, 0));
    return vector;
  }
  template <int kTokens>
  SPARSMITH_DEVICE void store_finished(u32 row, int first_token, int n, const Vector<Value, kTokens>& values) const {
    Value* to = y + at(row, first_token, ldy);
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t, to += kTokenMajor ? ldy : 1) {
      if (first_token + t < n) *to = values[t];
    }
  }

  // kRows neighbouring rows of a token, those below `end_row`, in two steps: what reads, and what only writes. kWhole:
  // all are below it, they begin at a multiple of kRows, and takes_vectors() holds.
  template <int kRows>
  using Finished = Vector<Value, kRows>;
  template <int kRows>
  SPARSMITH_DEVICE bool takes_vectors() const {
    return kTokenMajor &&
           (reinterpret_cast<u64>(y) | static_cast<u64>(ldy) * sizeof(Value)) % (kRows * sizeof(Value)) == 0;
  }
  template <int kRows, bool kWhole = false>
  SPARSMITH_DEVICE void finish_rows(u32 row, int end_row, int token, const float (&sums)[kRows],
                                    Finished<kRows>& values) const {
    SPARSMITH_UNROLL for (int i = 0; i < kRows; ++i) {
      values[i] = {};
      if (!kWhole && row + i >= static_cast<u32>(end_row)) continue;
      float shift = 0.0F;
      if constexpr (kBias) shift = to_float(bias[row + i]);
      values[i] = from_float<Value>(finish(sums[i], shift, row + i, token));
    }
  }
  template <int kRows, bool kWhole = false>
  SPARSMITH_DEVICE void store_rows(u32 row, int end_row, int token, const Finished<kRows>& values) const {
    Value* to = y + at(row, token, ldy);
    if (kWhole ||
        (kTokenMajor && row + kRows <= static_cast<u32>(end_row) && reinterpret_cast<u64>(to) % sizeof(values) == 0)) {
      *reinterpret_cast<Finished<kRows>*>(to) = values;
      return;
    }
    SPARSMITH_UNROLL for (int i = 0; i < kRows; ++i, to += kTokenMajor ? 1 : ldy) {
      if (row + i < static_cast<u32>(end_row)) *to = values[i];
    }
  }

 private:
  static SPARSMITH_DEVICE i64 at(u32 row, int token, i64 ld) {
    return kTokenMajor ? static_cast<i64>(token) * ld + row : static_cast<i64>(row) * ld + token;
  }

  SPARSMITH_DEVICE float finish(float sum, float shift, u32 row, int token) const {
    float value = Activation::apply(multiply_add(alpha, sum, shift));
    if constexpr (kBeta) {
      if (beta != 0.0F) value = multiply_add(beta, to_float(y[at(row, token, ldy)]), value);
    }
    if constexpr (kResidual) value += to_float(residual[at(row, token, ldr)]);
    return value;
  }
};

}  // namespace sparsmith
