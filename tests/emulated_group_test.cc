// A group from model file to members' outputs with no GPU: tuned in a worker on the emulator, and run there from the
// tuned file.
#include <gtest/gtest.h>

#include "emulator/emulated_executor.h"
#include "runtime/group_members.h"
#include "runtime/tuned_file.h"
#include "search/record/regenerated_choice.h"
#include "search/record/tuned_output.h"
#include "tests/support/tuned_group.h"
#include "tuner/verify/device_packing.h"

namespace sparsmith::test {
namespace {

// Runs a choice of a tuned file as a loaded model runs it.
Status run_choice(Executor& executor, const TunedContents& contents, const TunedWeight& weight, GroupInputs& inputs) {
  const TunedOperator& op = weight.operators.front();
  const TunedChoice& choice = op.choice_for(inputs.tokens);
  SPARSMITH_ASSIGN_OR_RETURN(const CompiledCandidate loaded, regenerated_choice(contents, weight, op.spec, choice));
  for (const KernelImage& kernel : loaded.kernels) SPARSMITH_RETURN_IF_ERROR(executor.load(kernel));
  SPARSMITH_ASSIGN_OR_RETURN(
      const DevicePacking packing,
      DevicePacking::upload(executor, packed_weight_of(weight, *weight.packing(choice.packing))));
  SPARSMITH_ASSIGN_OR_RETURN(const GuardedBuffer x, GuardedBuffer::holding(executor, inputs.x.bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(const GuardedBuffer y, GuardedBuffer::holding(executor, inputs.y.bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(const GuardedBuffer bias, GuardedBuffer::holding(executor, inputs.bias.bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(const GuardedBuffer residual, GuardedBuffer::holding(executor, inputs.residual.bytes()));
  LaunchBindings bindings;
  bindings.packed = packing.bindings();
  bindings.operands = {
      {"x", x.address()}, {"y", y.address()}, {"bias", bias.address()}, {"residual", residual.address()}};
  bindings.variables = {.n = inputs.tokens,
                        .strides = {{"x", inputs.ldx}, {"y", inputs.ldy}, {"residual", inputs.ldy}},
                        .facts = &packing.packed().facts};
  bindings.scalars.set("alpha", inputs.alpha);
  bindings.spec = &op.spec;
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t workspace_bytes,
                             choice.plan.workspace_bytes.evaluate(bindings.variables));
  SPARSMITH_ASSIGN_OR_RETURN(const GuardedBuffer workspace,
                             GuardedBuffer::make(executor, static_cast<std::size_t>(workspace_bytes)));
  bindings.workspace = workspace.address();
  SPARSMITH_RETURN_IF_ERROR(executor.run(choice.plan, bindings));
  return executor.read(inputs.y.bytes(), y.address());
}

class EmulatedGroupTest : public testing::TestWithParam<GroupCase> {};

TEST_P(EmulatedGroupTest, EachMemberHasItsProduct) {
  auto executor = make_emulated_executor();
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  TuneResources resources;
  resources.workers = {worker_factory({.device = "emulator", .program = ""})};
  const auto group = TunedGroup::make(GetParam(), resources);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  const auto file = TunedFile::open((*group)->path());
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const TunedContents& contents = file->contents();
  const TunedWeight& weight = **contents.find_weight(TunedGroup::kName);
  const Status status = (*group)->check(
      [&](const std::string& name, std::int64_t, std::int64_t ldy) {
        return member_view(name, weight.members, weight.operators.front().spec.layout, ldy);
      },
      [&](GroupInputs& inputs) { return run_choice(**executor, contents, weight, inputs); });
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(contents.find_weight((*group)->members()[1]).status().code(), StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Layouts, EmulatedGroupTest,
                         testing::Values(GroupCase{DataType::kFloat32, Layout::kTokenMajor, 1},
                                         GroupCase{DataType::kFloat32, Layout::kFeatureMajor, 4},
                                         GroupCase{DataType::kFloat16, Layout::kTokenMajor, 4},
                                         GroupCase{DataType::kFloat16, Layout::kFeatureMajor, 1}),
                         [](const auto& instance) { return text_of(instance.param); });

}  // namespace
}  // namespace sparsmith::test
