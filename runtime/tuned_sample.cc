#include "runtime/tuned_sample.h"

#include <array>
#include <cstring>

#include "runtime/fake_cuda_driver.h"

namespace sparsmith {
namespace {

template <class T, std::size_t kCount>
PackedArray packed_array(const char* name, DataType type, const std::array<T, kCount>& values) {
  PackedArray array{name, type, std::vector<std::byte>(sizeof(values))};
  std::memcpy(array.bytes.data(), values.data(), sizeof(values));
  return array;
}

IntegerExpression formula(const char* text) { return *IntegerExpression::parse(text); }

PlanStep csr_step(bool bias) {
  using Kind = PlanArgument::Kind;
  PlanStep step;
  step.kernel = "fake_csr";
  step.grid = {formula("ceil_div(n, 8)"), 1, 1};
  step.block = {128, 1, 1};
  step.arguments = {{Kind::kPacked, "row_offsets", 0},
                    {Kind::kPacked, "columns", 0},
                    {Kind::kPacked, "values", 0},
                    {Kind::kX, "", 0},
                    {Kind::kY, "", 0},
                    bias ? PlanArgument{Kind::kBias, "", 0} : PlanArgument{Kind::kInt64, "", 0},
                    {Kind::kInt32, "", 2},
                    {Kind::kInt32, "", formula("n")},
                    {Kind::kInt32, "", formula("ldx")},
                    {Kind::kInt32, "", formula("ldy")},
                    {Kind::kAlpha, "", 0}};
  return step;
}

PlanStep fill_step() {
  using Kind = PlanArgument::Kind;
  PlanStep step;
  step.kernel = "fake_fill";
  step.arguments = {{Kind::kWorkspace, "", 0}, {Kind::kInt32, "", formula("n * 16")}, {Kind::kInt32, "", 1}};
  return step;
}

TunedChoice choice(std::int64_t tokens, LaunchPlan plan) {
  TunedChoice made;
  made.tokens = tokens;
  made.packing = "csr_u32";
  made.plan = std::move(plan);
  made.evidence = TunedChoice::Evidence::kMeasured;
  made.median_us = 3.25;
  made.dense_us = 7.5;
  made.config = "rows threads_per_block=128";
  made.reason = "fastest of 12";
  return made;
}

}  // namespace

TunedSample::TunedSample() : cubin80_(fake_cubin(80)), cubin90_(fake_cubin(90)) {
  csr_.packing = "csr_u32";
  csr_.rows = 2;
  csr_.cols = 3;
  csr_.nnz = 3;
  csr_.arrays = {packed_array("row_offsets", DataType::kInt32, std::array{0, 2, 3}),
                 packed_array("columns", DataType::kUint32, std::array{0U, 2U, 1U}),
                 packed_array("values", DataType::kFloat32, std::array{1.0F, 2.0F, 3.0F})};
  csr_.facts = {{"segments", 2}, {"padding", 0}};
  dense_.packing = kDensePacking;
  dense_.arrays = {packed_array("values", DataType::kFloat32, std::array{1.0F, 0.0F, 2.0F, 0.0F, 3.0F, 0.0F})};
  contents_.provenance = {"0.1.0", "sm_90 132 SMs", "NVIDIA H200", "580", "13.0", "cold_weights", "model.safetensors"};
  add_kernels();
  add_weights();
}

void TunedSample::add_kernels() {
  for (const char* name : {"fake_csr", "fake_fill"}) {
    TunedKernel kernel;
    kernel.name = name;
    kernel.closure_hash = "0123";
    kernel.max_shared_bytes = 1024;
    kernel.source = "extern \"C\" __global__ void kernel();\n";
    kernel.binaries = {{"sm_80", cubin80_}, {"sm_90", cubin90_}};
    contents_.kernels.push_back(kernel);
  }
}

void TunedSample::add_weights() {
  TunedWeight weight;
  weight.name = "fc/1";
  weight.spec.rows = 2;
  weight.spec.cols = 3;
  weight.spec.epilogue.bias = true;
  weight.nnz = 3;
  weight.pattern_hash = "aa";
  weight.value_hash = "bb";
  weight.packings = {view_of(csr_)};
  weight.choices = {choice(1, {{csr_step(true)}, 0}), choice(8, {{csr_step(true)}, 0})};
  contents_.weights.push_back(weight);

  weight.name = "fc2";
  weight.spec.epilogue.bias = false;
  weight.choices = {choice(4, {{fill_step(), csr_step(false)}, formula("n * 16")})};
  contents_.weights.push_back(weight);

  weight.name = "fc3";
  weight.spec.epilogue.bias = true;
  weight.packings = {view_of(dense_)};
  TunedChoice dense = choice(1, {});
  dense.kind = TunedChoice::Kind::kDense;
  dense.packing = kDensePacking;
  dense.config.clear();
  weight.choices = {dense};
  contents_.weights.push_back(weight);
}

}  // namespace sparsmith
