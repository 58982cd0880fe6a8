#include "tuner/compile/kernel_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/compile_all.h"

namespace sparsmith {
namespace {

class KernelCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = KernelCompiler::open();
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    compiler_ = std::move(opened).value();
  }
  std::unique_ptr<KernelCompiler> compiler_;
};

KernelSource scale_kernel(const std::string& name, const std::string& body = "y[threadIdx.x] *= 2.0f;") {
  return {.name = name,
          .source = "extern \"C\" __global__ void " + name + "(float* y) { " + body + " }\n",
          .closure_hash = "",
          .threads_per_block = 32,
          .max_shared_bytes = 0};
}

TEST_F(KernelCompilerTest, CompilesForEachArchitecture) {
  for (const char* architecture : {"sm_80", "sm_90", "sm_90a", "sm_100"}) {
    const auto compiled = compiler_->compile(scale_kernel("scale"), architecture);
    ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
    ASSERT_GT(compiled->cubin.size(), 4U);
    EXPECT_EQ(static_cast<char>(compiled->cubin[1]), 'E');  // an ELF file
    EXPECT_GT(compiled->figures.registers, 0) << architecture;
    EXPECT_EQ(compiled->figures.spill_store_bytes, 0);
  }
}

// A kernel that says what it is for is compiled for that, and for nothing else.
TEST_F(KernelCompilerTest, AKernelMayBeForOneArchitecture) {
  KernelSource kernel = scale_kernel("fenced", "asm volatile(\"wgmma.fence.sync.aligned;\"); y[0] = 1.0f;");
  EXPECT_FALSE(compiler_->compile(kernel, "sm_90").ok());
  kernel.architecture = "sm_90a";
  for (const char* architecture : {"sm_90", "sm_90a"}) {
    const auto compiled = compiler_->compile(kernel, architecture);
    EXPECT_TRUE(compiled.ok()) << compiled.status().to_string();
    EXPECT_EQ(*architecture_of(kernel, architecture), "sm_90a");
  }
  EXPECT_TRUE(compiler_->ptx(kernel, "compute_90").ok());
  for (const char* architecture : {"sm_80", "sm_86", "sm_100", "sm_100a"}) {
    const auto compiled = compiler_->compile(kernel, architecture);
    ASSERT_FALSE(compiled.ok()) << architecture;
    EXPECT_EQ(compiled.status().code(), StatusCode::kUnsupported);
    EXPECT_THAT(compiled.status().message(), testing::HasSubstr("fenced is for sm_90a alone"));
  }
  kernel.architecture.clear();
  EXPECT_EQ(*architecture_of(kernel, "sm_100"), "sm_100");
}

TEST_F(KernelCompilerTest, ReportsSharedMemoryAndSpills) {
  const auto shared = compiler_->compile(scale_kernel("shared",
                                                      "__shared__ float s[256]; s[threadIdx.x] = y[threadIdx.x]; "
                                                      "__syncthreads(); y[threadIdx.x] = s[255 - threadIdx.x];"),
                                         "sm_90");
  ASSERT_TRUE(shared.ok()) << shared.status().to_string();
  EXPECT_EQ(shared->figures.static_shared_bytes, 1024);

  const std::string spill =
      "float v[200]; _Pragma(\"unroll\") for (int i = 0; i < 200; ++i) v[i] = y[i * 32 + threadIdx.x];"
      "__syncthreads(); _Pragma(\"unroll\") for (int i = 0; i < 200; ++i) y[i * 64 + threadIdx.x] = v[199 - i];";
  KernelSource spilling = scale_kernel("spilling", spill);
  spilling.source.replace(spilling.source.find("void"), 4, "void __launch_bounds__(1024)");
  const auto spilled = compiler_->compile(spilling, "sm_90");
  ASSERT_TRUE(spilled.ok()) << spilled.status().to_string();
  EXPECT_LE(spilled->figures.registers, 64);
  EXPECT_GT(spilled->figures.spill_store_bytes, 0);
  EXPECT_GT(spilled->figures.spill_load_bytes, 0);
  EXPECT_GT(spilled->figures.stack_bytes, 0);
}

TEST_F(KernelCompilerTest, AnErrorCarriesTheCompilersFirstLines) {
  const auto compiled = compiler_->compile(scale_kernel("broken", "y[0] = undefined_name;"), "sm_90");
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.status().code(), StatusCode::kInvalidInput);
  EXPECT_THAT(compiled.status().message(), testing::HasSubstr("broken.cu(1)"));
  EXPECT_THAT(compiled.status().message(), testing::HasSubstr("undefined_name"));
}

TEST_F(KernelCompilerTest, AnUnknownArchitectureIsAnError) {
  EXPECT_FALSE(compiler_->compile(scale_kernel("scale"), "sm_1").ok());
  EXPECT_FALSE(compiler_->compile(scale_kernel("scale"), "compute_90").ok());
}

TEST_F(KernelCompilerTest, AnEntryOfAnotherNameIsAnError) {
  KernelSource kernel = scale_kernel("scale");
  kernel.name = "other";
  EXPECT_FALSE(compiler_->compile(kernel, "sm_90").ok());
}

TEST_F(KernelCompilerTest, CompilesAllOnAPool) {
  std::vector<KernelSource> kernels;
  for (int i = 0; i < 6; ++i) kernels.push_back(scale_kernel("scale" + std::to_string(i)));
  kernels.push_back(scale_kernel("broken", "not c++"));
  kernels.push_back(scale_kernel("scale0"));  // a second use of a name is not a second compile
  const auto results = compile_all(*compiler_, kernels, "sm_90", 3);
  ASSERT_EQ(results.size(), 7U);
  for (const auto& [name, result] : results) {
    EXPECT_EQ(result.ok(), name != "broken") << name;
    if (!result.ok()) continue;
    EXPECT_EQ(result->name, name);
  }
  EXPECT_TRUE(compile_all(*compiler_, {}, "sm_90").empty());
}

}  // namespace
}  // namespace sparsmith
