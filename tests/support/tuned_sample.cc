#include "tests/support/tuned_sample.h"

#include <array>
#include <span>
#include <string>
#include <utility>

#include "tests/support/fake_cuda_driver.h"
#include "tests/support/packings.h"

namespace sparsmith {
namespace {

IntegerExpression formula(const char* text) { return *IntegerExpression::parse(text); }

PlanStep csr_step(bool bias) {
  using Kind = PlanArgument::Kind;
  PlanStep step;
  step.kernel = "fake_csr";
  step.grid = {formula("ceil_div(n, 8)"), 1, 1};
  step.block = {128, 1, 1};
  step.arguments = {{Kind::kPacked, "segments", 0},
                    {Kind::kPacked, "columns", 0},
                    {Kind::kPacked, "values", 0},
                    operand("x"),
                    operand("y"),
                    bias ? operand("bias") : null_pointer(),
                    {Kind::kInt32, "", 2},
                    {Kind::kInt32, "", formula("n")},
                    {Kind::kInt32, "", formula("ld.x")},
                    {Kind::kInt32, "", formula("ld.y")},
                    scalar("alpha")};
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
  made.packing = CsrPacking().name();
  made.plan = std::move(plan);
  made.evidence = TunedChoice::Evidence::kMeasured;
  made.median_us = 3.25;
  made.dense_us = 7.5;
  made.config = "rows threads_per_block=128";
  made.reason = "fastest of 12";
  return made;
}

}  // namespace

TunedSample::TunedSample() {
  matrix_ = CsrMatrix{{2, 3, {0, 2, 3}, {0, 2, 1}}, DataType::kFloat32, {1, 2, 3}};
  csr_ = pack_csr(matrix_, CsrPacking(), DataType::kFloat32).value();
  constexpr std::array kValues = {1.0F, 0.0F, 2.0F, 0.0F, 3.0F, 0.0F};
  const auto bytes = std::as_bytes(std::span(kValues));
  dense_.packing = kDensePacking;
  dense_.arrays = {{"values", DataType::kFloat32, {bytes.begin(), bytes.end()}}};
  contents_.provenance = {"0.1.0", "sm_90 132 SMs", "NVIDIA H200", "580", "13.0", "cold_weights", "model.safetensors"};
  add_kernels();
  add_weights();
}

TunedWriter TunedSample::writer() {
  using Kind = PlanArgument::Kind;
  PlanStep step;
  step.kernel = "fake_write";
  step.grid = {formula("ceil_div(fact.places, 256)"), 1, 1};
  step.block = {256, 1, 1};
  step.arguments = {operand("values"),
                    {Kind::kPacked, "place_runs", 0},
                    {Kind::kPacked, "place_offsets", 0},
                    {Kind::kPacked, "place_copies", 0},
                    {Kind::kPacked, "values", 0},
                    {Kind::kInt64, "", formula("fact.places")},
                    {Kind::kInt32, "", formula("fact.place_run_bits")},
                    {Kind::kInt32, "", formula("fact.place_kind")},
                    {Kind::kInt64, "", formula("fact.place_copies")},
                    {Kind::kInt64, "", 0},
                    {Kind::kInt64, "", formula("fact.places_in_values")}};
  return {DataType::kFloat32, {{step}, 0}};
}

void TunedSample::make_prunable() {
  using Kind = PlanArgument::Kind;
  TunedWeight& weight = contents_.weights[0];
  weight.packings.resize(1);
  weight.packings[0].arrays.push_back({"tiles", DataType::kUint8, tiles_});
  weight.packings.push_back(weight.packings[0]);
  for (std::size_t i = 0; i < 2; ++i) weight.packings[i].packing = kPrunedPackings[i];
  for (TunedChoice& choice : weight.operators[0].choices) choice.packing = kPrunedPackings[0];
  PlanStep step;
  step.kernel = "fake_fill";
  step.grid = {1, 1, 1};
  step.block = {32, 1, 1};
  step.arguments = {
      {Kind::kPacked, std::string(kPrunedTransposedTiles), 0}, {Kind::kInt32, "", 16}, {Kind::kInt32, "", 7}};
  weight.pruners = {{DataType::kFloat32, {{step}, 0}}};
}

void TunedSample::add_kernels() {
  cubins_.reserve(6);  // contents_ points into it
  for (const auto& [name, parameters] : {std::pair{"fake_csr", kFakeCsrParameters},
                                         {"fake_write", kFakeWriteParameters},
                                         {"fake_fill", kFakeFillParameters}}) {
    TunedKernel kernel;
    kernel.name = name;
    kernel.closure_hash = "0123";
    kernel.max_shared_bytes = 1024;
    kernel.source = "extern \"C\" __global__ void kernel();\n";
    for (const int architecture : {80, 90}) {
      cubins_.push_back(fake_cubin(name, parameters, static_cast<unsigned char>(architecture)));
      kernel.binaries.push_back({"sm_" + std::to_string(architecture), cubins_.back()});
    }
    contents_.kernels.push_back(kernel);
  }
}

void TunedSample::add_weights() {
  TunedWeight weight;
  weight.name = "fc/1";
  weight.rows = 2;
  weight.cols = 3;
  TunedOperator& op = weight.operators.emplace_back();
  op.spec.rows = 2;
  op.spec.cols = 3;
  op.spec.epilogue.bias = true;
  weight.nnz = matrix_.nnz();
  weight.pattern_hash = matrix_.pattern_hash();
  weight.value_hash = matrix_.value_hash();
  weight.packings = {view_of(csr_)};
  op.choices = {choice(1, {{csr_step(true)}, 0}), choice(8, {{csr_step(true)}, 0})};
  contents_.weights.push_back(weight);

  weight.name = "fc2";
  op.spec.epilogue.bias = false;
  op.choices = {choice(4, {{fill_step(), csr_step(false)}, formula("n * 16")})};
  contents_.weights.push_back(weight);

  weight.name = "fc3";
  op.spec.epilogue.bias = true;
  weight.packings = {view_of(dense_)};
  TunedChoice dense = choice(1, {.steps = {matmul_step("values", std::nullopt)}});
  dense.packing = kDensePacking;
  dense.config = kDensePacking;
  op.choices = {dense};
  contents_.weights.push_back(weight);
}

}  // namespace sparsmith
