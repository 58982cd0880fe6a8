// Element types as the CUDA libraries name them. Internal.
#pragma once

#include <library_types.h>

#include "sparsmith/data_type.h"

namespace sparsmith {

// REQUIRES: `type` is fp32, fp16 or bf16.
inline cudaDataType_t cuda_data_type(DataType type) {
  switch (type) {
    case DataType::kFloat16: return CUDA_R_16F;
    case DataType::kBFloat16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

}  // namespace sparsmith
