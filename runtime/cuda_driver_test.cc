#include "runtime/cuda_driver.h"

#include <gtest/gtest.h>

#include "runtime/gpu_executor.h"

namespace sparsmith {
namespace {

// On a machine with a GPU the driver opens; without one every call says the same, with what to do.
TEST(CudaDriver, OpensOrSaysWhatIsMissing) {
  const auto driver = cuda_driver();
  if (driver.ok()) {
    EXPECT_FALSE((*driver)->check(CUDA_ERROR_INVALID_VALUE, "here").message().empty());
    EXPECT_EQ((*driver)->check(CUDA_ERROR_OUT_OF_MEMORY, "here").code(), StatusCode::kOutOfMemory);
    return;
  }
  EXPECT_EQ(driver.status().code(), StatusCode::kNoDevice);
  EXPECT_NE(driver.status().message().find("install"), std::string::npos) << driver.status().message();
  EXPECT_EQ(GpuExecutor::create(0).status().message(), driver.status().message());
}

}  // namespace
}  // namespace sparsmith
