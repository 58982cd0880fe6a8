// The operators of PyTorch: sparsmith::linear, linear_out, linear_transposed, sampled and to_dense.
#pragma once

#include "sparsmith/status.h"

namespace sparsmith::torch {

// Registers the operators with the PyTorch of this process; later calls return the same result. Errors: those of
// open_shim(); kInternal if PyTorch refuses.
Status register_operators();

}  // namespace sparsmith::torch
