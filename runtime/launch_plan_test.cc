#include "runtime/launch_plan.h"

#include <gtest/gtest.h>

namespace sparsmith {
namespace {

IntegerExpression formula(std::string_view text) { return *IntegerExpression::parse(text); }

// Uses every kind of step and argument.
LaunchPlan two_pass_plan() {
  using Kind = PlanArgument::Kind;
  PlanStep zero;
  zero.kind = PlanStep::Kind::kZero;
  zero.zero_offset = 256;
  zero.zero_bytes = formula("n * 4096");

  PlanStep first;
  first.kernel = "rows_fp32_b128";
  first.grid = {formula("ceil_div(n, 8) * 132"), 2, 1};
  first.block = {128, 1, 1};
  first.cluster = {2, 1, 1};
  first.shared_bytes = formula("min(n, 8) * 1024");
  first.arguments = {{Kind::kPacked, "values", 0},
                     operand("x"),
                     operand("y"),
                     operand("bias"),
                     operand("residual"),
                     {Kind::kWorkspace, "", formula("n * 16")},
                     {Kind::kInt32, "", -1},
                     {Kind::kInt64, "", formula("ld.x")},
                     scalar("alpha"),
                     scalar("beta")};

  PlanStep second;
  second.kernel = "reduce_fp32";
  second.grid = {4, 1, 1};
  second.block = {256, 1, 1};
  second.programmatic_launch = true;

  LaunchPlan plan;
  plan.steps = {zero, first, second};
  plan.workspace_bytes = formula("256 + n * 4096");
  return plan;
}

TEST(LaunchPlan, SurvivesJson) {
  const LaunchPlan plan = two_pass_plan();
  const auto back = launch_plan_from_json(to_json(plan));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(*back, plan);
  EXPECT_EQ(to_json(*back), to_json(plan));
}

TEST(LaunchPlan, KernelsAreLaunchedProgrammaticallyButNotRightBehindAStepThatZeroes) {
  LaunchPlan plan = two_pass_plan();
  plan.steps.insert(plan.steps.begin(), plan.steps[2]);
  plan.steps[0].programmatic_launch = plan.steps[3].programmatic_launch = false;
  launch_programmatically(plan, true);
  EXPECT_TRUE(plan.steps[0].programmatic_launch);   // whatever is in front of the plan
  EXPECT_FALSE(plan.steps[1].programmatic_launch);  // zeroes
  EXPECT_FALSE(plan.steps[2].programmatic_launch);
  EXPECT_TRUE(plan.steps[3].programmatic_launch);
  launch_programmatically(plan, false);
  EXPECT_FALSE(plan.steps[0].programmatic_launch);
  EXPECT_TRUE(plan.steps[3].programmatic_launch);
  EXPECT_EQ(*launch_plan_from_json(to_json(plan)), plan);
}

TEST(LaunchPlan, ReadsArgumentsAsFilesBeforeVersion4NameThem) {
  const auto plan = launch_plan_from_json(
      R"({"workspace_bytes":"n * 4","steps":[{"kind":"launch","kernel":"k","grid":[1,1,1],"block":[32,1,1],"arguments":[)"
      R"({"kind":"packed","name":"values"},{"kind":"x"},{"kind":"y"},{"kind":"bias"},{"kind":"residual"},)"
      R"({"kind":"alpha"},{"kind":"beta"},{"kind":"int64","value":"ldx + ldy * ldr"}]}]})");
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  const std::vector<PlanArgument>& arguments = plan->steps[0].arguments;
  const std::vector<PlanArgument> expected = {packed_array("values"), operand("x"),    operand("y"),  operand("bias"),
                                              operand("residual"),    scalar("alpha"), scalar("beta")};
  EXPECT_EQ(std::vector(arguments.begin(), arguments.begin() + 7), expected);
  EXPECT_EQ(*arguments[7].value.evaluate({.strides = {{"x", 5}, {"y", 7}, {"residual", 11}}}), 82);
  EXPECT_EQ(*launch_plan_from_json(to_json(*plan)), *plan);
}

TEST(LaunchPlan, TensorMapsSurviveJson) {
  LaunchPlan plan;
  plan.steps.emplace_back().kernel = "k";
  plan.steps[0].arguments = {tensor_map("x", 72, {}), operand("x"), tensor_map("x", 72, {128, 32})};
  const std::string json = to_json(plan);
  EXPECT_NE(json.find(R"({"kind":"tensor_map","name":"x","value":72})"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("value":72,"box":[128,32]})"), std::string::npos) << json;
  EXPECT_EQ(*launch_plan_from_json(json), plan);
}

TEST(LaunchPlan, BoxesThatTheAcceleratorDoesNotBringAreRefused) {
  LaunchPlan plan;
  plan.steps.emplace_back().kernel = "k";
  plan.steps[0].arguments = {tensor_map("x", 72, {128, 32})};
  const std::string json = to_json(plan);
  for (const char* box :
       {"[128,33]", "[0,32]", "[264,64]", "[12,64]", "[-8,64]", "[8.5,64]", "[64]", "64", "[8,8,8]"}) {
    std::string changed = json;
    changed.replace(changed.find("[128,32]"), 8, box);
    EXPECT_EQ(launch_plan_from_json(changed).status().code(), StatusCode::kInvalidInput) << box;
  }
}

TEST(LaunchPlan, MatmulStepsSurviveJson) {
  PlanStep third = matmul_step("values", std::nullopt);
  third.proposal = 2;
  third.proposed_for = 64;
  EXPECT_NE(to_json(LaunchPlan{.steps = {third}}).find(R"("proposal":2,"proposed_for":64)"), std::string::npos);
  for (const LaunchPlan& plan :
       {LaunchPlan{.steps = {matmul_step("values", std::nullopt)}}, LaunchPlan{.steps = {third}},
        LaunchPlan{.steps = {matmul_step("w", formula("n * 16"))}, .workspace_bytes = 64},
        LaunchPlan{.steps = {matmul_by_workspace(formula("n * 16"))}, .workspace_bytes = 64},
        LaunchPlan{.steps = {gradient_step(formula("n * 16"))}, .workspace_bytes = 64}}) {
    EXPECT_TRUE(plan.has_matmul());
    EXPECT_EQ(*launch_plan_from_json(to_json(plan)), plan);
  }
  EXPECT_FALSE(two_pass_plan().has_matmul());
}

TEST(LaunchPlan, AnEmptyPlanSurvivesJson) { EXPECT_EQ(*launch_plan_from_json(to_json(LaunchPlan())), LaunchPlan()); }

TEST(LaunchPlan, WritesConstantsAsNumbersAndFormulasAsText) {
  EXPECT_EQ(to_json(LaunchPlan{{}, formula("n * 4")}), R"({"workspace_bytes":"n * 4","steps":[]})");
  EXPECT_EQ(to_json(LaunchPlan{{}, 64}), R"({"workspace_bytes":64,"steps":[]})");
}

struct Refused {
  const char* text;
  const char* reason;  // part of the message
};

TEST(LaunchPlan, RefusesWhatIsNoPlanAndSaysWhere) {
  const Refused cases[] = {
      {"", "parse error"},
      {"{", "parse error"},
      {"[]", "not an object"},
      {R"({"steps":[]})", "workspace_bytes"},
      {R"({"workspace_bytes":0})", "steps"},
      {R"({"workspace_bytes":0,"steps":{}})", "not an array"},
      {R"({"workspace_bytes":1.5,"steps":[]})", "neither an integer nor an expression"},
      {R"({"workspace_bytes":18446744073709551615,"steps":[]})", "beyond 64 bits"},
      {R"({"workspace_bytes":"m","steps":[]})", "the plan.workspace_bytes"},
      {R"({"workspace_bytes":0,"steps":[],"extra":1})", "\"extra\""},
      {R"({"workspace_bytes":0,"steps":[1]})", "steps[0]: is not an object"},
      {R"({"workspace_bytes":0,"steps":[{"kind":"copy"}]})", "steps[0].kind"},
      {R"({"workspace_bytes":0,"steps":[{"kind":"zero","offset":0}]})", "\"bytes\""},
      {R"({"workspace_bytes":0,"steps":[{"kind":"matmul"}]})", "\"array\""},
      {R"({"workspace_bytes":0,"steps":[{"kind":"matmul","array":"w","product":"m"}]})", "steps[0].product"},
      {R"({"workspace_bytes":0,"steps":[{"kind":"matmul","array":"w","kernel":"k"}]})", "\"kernel\""},
      {R"({"workspace_bytes":0,"steps":[{"kind":"matmul","weight":"m"}]})", "steps[0].weight"},
      {R"({"workspace_bytes":0,"steps":[{"kind":"matmul","array":"w","weight":0}]})", "\"array\""},
      {R"({"workspace_bytes":0,"steps":[{"kind":"matmul","array":"w","proposal":32}]})",
       "\"proposal\" is not an integer"},
      {R"({"workspace_bytes":0,"steps":[{"kind":"matmul","array":"w","proposal":-1}]})",
       "\"proposal\" is not an integer"},
      {R"({"workspace_bytes":0,"steps":[{"kind":"matmul","array":"w","proposed_for":2147483648}]})",
       "\"proposed_for\" is not an integer"},
      {R"({"workspace_bytes":0,"steps":[{"kind":"launch","grid":[1,1,1],"block":[1,1,1],"arguments":[]}]})",
       "\"kernel\""},
      {R"({"workspace_bytes":0,"steps":[{"kind":"launch","kernel":"a b","grid":[1,1,1],"block":[1,1,1],"arguments":[]}]})",
       "is not a name"},
      {R"({"workspace_bytes":0,"steps":[{"kind":"launch","kernel":"k","grid":[1,1],"block":[1,1,1],"arguments":[]}]})",
       "steps[0].grid"},
      {R"({"workspace_bytes":0,"steps":[{"kind":"launch","kernel":"k","grid":[1,1,"n+"],"block":[1,1,1],"arguments":[]}]})",
       "steps[0].grid"},
      {R"({"workspace_bytes":0,"steps":[{"kind":"launch","kernel":"k","grid":[1,1,1],"block":[1,1,1],"arguments":[{"kind":"z"}]}]})",
       "steps[0].arguments[0].kind"},
      {R"({"workspace_bytes":0,"steps":[{"kind":"launch","kernel":"k","grid":[1,1,1],"block":[1,1,1],"arguments":[{"kind":"packed"}]}]})",
       "\"name\""},
      {R"({"workspace_bytes":0,"steps":[{"kind":"launch","kernel":"k","grid":[1,1,1],"block":[1,1,1],"arguments":[{"kind":"x","value":1}]}]})",
       "unknown key \"value\""},
      {R"({"workspace_bytes":0,"steps":[{"kind":"launch","kernel":"k","grid":[1,1,1],"block":[1,1,1],"arguments":[{"kind":"x","name":"x"}]}]})",
       "unknown key \"name\""},
      {R"({"workspace_bytes":0,"steps":[{"kind":"launch","kernel":"k","grid":[1,1,1],"block":[1,1,1],"arguments":[{"kind":"operand"}]}]})",
       "\"name\""},
      {R"({"workspace_bytes":0,"steps":[{"kind":"launch","kernel":"k","grid":[1,1,1],"block":[1,1,1],"arguments":[{"kind":"scalar","name":"alpha","value":1}]}]})",
       "unknown key \"value\""},
  };
  for (const Refused& refused : cases) {
    const auto plan = launch_plan_from_json(refused.text);
    ASSERT_FALSE(plan.ok()) << refused.text;
    EXPECT_EQ(plan.status().code(), StatusCode::kInvalidInput);
    EXPECT_NE(plan.status().message().find(refused.reason), std::string::npos) << plan.status().message();
  }
}

TEST(LaunchPlan, BoundsItsSize) {
  LaunchPlan plan;
  PlanStep zero;
  zero.kind = PlanStep::Kind::kZero;
  plan.steps.resize(257, zero);
  EXPECT_FALSE(launch_plan_from_json(to_json(plan)).ok());
  plan.steps.resize(256);
  EXPECT_TRUE(launch_plan_from_json(to_json(plan)).ok());
  EXPECT_FALSE(launch_plan_from_json(std::string((std::size_t{4} << 20) + 1, ' ')).ok());
  EXPECT_FALSE(launch_plan_from_json(std::string(1'000'000, '[')).ok());
}

TEST(LaunchPlan, EveryDamagedByteIsRefusedOrReadAsAnotherPlan) {
  const std::string text = to_json(two_pass_plan());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x15);
    const auto plan = launch_plan_from_json(damaged);
    EXPECT_FALSE(plan.ok() && *plan == two_pass_plan()) << "byte " << i;
    EXPECT_FALSE(launch_plan_from_json(text.substr(0, i)).ok());
  }
}

}  // namespace
}  // namespace sparsmith
