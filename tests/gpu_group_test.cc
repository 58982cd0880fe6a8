// A group from model file to members' outputs on a GPU: tuned there, loaded as programs load it, and run.
#include <gtest/gtest.h>

#include "runtime/gpu_executor.h"
#include "sparsmith/tuned_model.h"
#include "tests/support/tuned_group.h"
#include "tuner/compile/kernel_compiler.h"
#include "tuner/verify/guarded_buffer.h"

namespace sparsmith::test {
namespace {

// REQUIRES: `executor` is on the operator's device; it holds the memory.
Status run_operator(Executor& executor, const Operator& group, GroupInputs& inputs) {
  const auto pointer = [](const GuardedBuffer& buffer) { return reinterpret_cast<void*>(buffer.address()); };
  SPARSMITH_ASSIGN_OR_RETURN(const GuardedBuffer x, GuardedBuffer::holding(executor, inputs.x.bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(const GuardedBuffer y, GuardedBuffer::holding(executor, inputs.y.bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(const GuardedBuffer bias, GuardedBuffer::holding(executor, inputs.bias.bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(const GuardedBuffer residual, GuardedBuffer::holding(executor, inputs.residual.bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(const std::size_t workspace_bytes, group.workspace_bytes(inputs.tokens));
  SPARSMITH_ASSIGN_OR_RETURN(const GuardedBuffer workspace, GuardedBuffer::make(executor, workspace_bytes));
  const RunArguments arguments{.operands = {{"x", {pointer(x), inputs.ldx}},
                                            {"y", {pointer(y), inputs.ldy}},
                                            {"bias", {pointer(bias)}},
                                            {"residual", {pointer(residual), inputs.ldy}}},
                               .tokens = inputs.tokens,
                               .workspace = pointer(workspace),
                               .alpha = inputs.alpha};
  SPARSMITH_RETURN_IF_ERROR(group.run(arguments, nullptr));
  return executor.read(inputs.y.bytes(), y.address());  // behind the run, on the default stream
}

class GpuGroupTest : public testing::TestWithParam<GroupCase> {};

TEST_P(GpuGroupTest, EachMemberHasItsProduct) {
  auto executor = GpuExecutor::create(0);
  if (!executor.ok()) GTEST_SKIP() << "no GPU: " << executor.status().to_string();
  auto compiler = KernelCompiler::open();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  TuneResources resources;
  resources.workers = {worker_factory({.device = "cuda:0", .program = ""})};
  resources.compiler = compiler->get();
  const auto group = TunedGroup::make(GetParam(), resources);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  const auto device = Device::open(0);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  const auto model = TunedModel::load((*group)->path(), *device, {.updatable = true});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const auto loaded = model->op(TunedGroup::kName);
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  const auto check = [&](float factor) {
    return (*group)->check([&](const std::string& name, std::int64_t tokens,
                               std::int64_t ldy) { return loaded->member(name, tokens, ldy); },
                           [&](GroupInputs& inputs) { return run_operator(**executor, *loaded, inputs); }, factor);
  };
  EXPECT_TRUE(check(1).ok()) << check(1).to_string();
  float factor = -0.5F;
  for (const DataType type : {DataType::kFloat32, GetParam().type}) {
    const auto values = (*group)->values(factor);
    ASSERT_TRUE(values.ok()) << values.status().to_string();
    ElementBuffer elements(type, std::ssize(*values));
    for (std::int64_t i = 0; i < elements.size(); ++i) elements.set(i, (*values)[static_cast<std::size_t>(i)]);
    const auto buffer = GuardedBuffer::holding(**executor, elements.bytes());
    ASSERT_TRUE(buffer.ok()) << buffer.status().to_string();
    const Status set =
        model->weight(TunedGroup::kName)->set_values(reinterpret_cast<const void*>(buffer->address()), type, nullptr);
    ASSERT_TRUE(set.ok()) << set.to_string();
    EXPECT_TRUE(check(factor).ok()) << short_name(type) << ": " << check(factor).to_string();
    EXPECT_FALSE(check(1).ok()) << short_name(type) << ": the values are the old ones";
    factor = 2;
  }
  EXPECT_EQ(model->op((*group)->members()[1]).status().code(), StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Layouts, GpuGroupTest,
                         testing::Values(GroupCase{DataType::kFloat32, Layout::kTokenMajor, 1},
                                         GroupCase{DataType::kFloat32, Layout::kFeatureMajor, 8},
                                         GroupCase{DataType::kFloat16, Layout::kTokenMajor, 8},
                                         GroupCase{DataType::kBFloat16, Layout::kFeatureMajor, 1}),
                         [](const auto& instance) { return text_of(instance.param); });

}  // namespace
}  // namespace sparsmith::test
