// The operators sparsmith::linear, sparsmith::linear_out and sparsmith::to_dense of PyTorch.
#pragma once

#include "sparsmith/status.h"

namespace sparsmith::torch {

// Registers the operators with the PyTorch of this process; later calls return the same result. Errors: those of
// open_shim(); kInternal if PyTorch refuses.
Status register_operators();

}  // namespace sparsmith::torch
