// Activation functions, in fp32.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

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

// y = v * sigmoid(v) (Elfwing et al., 2017); -0 for v = -inf's limit.
struct Silu {
  SPARSMITH_ROLE(epilog)
  static SPARSMITH_DEVICE float apply(float v) { return v / (1.0F + exponential(-v)); }
};

}  // namespace sparsmith
