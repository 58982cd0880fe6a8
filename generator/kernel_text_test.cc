#include "generator/kernel_text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generator/catalogue.h"

namespace sparsmith {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

KernelText copy_kernel() {
  KernelText text;
  text.name = "copy_t128";
  text.summary = "y = x, one element a thread.";
  text.threads = 128;
  text.min_blocks_per_sm = 4;
  text.max_shared_bytes = 256;
  text.headers = {"snippets/device.cuh"};
  text.lines = {{"using Element = half", "of x and y"}, {"constexpr int kUnroll = 1", ""}};
  text.parameters = {{"const Element*", "x", operand("x")}, {"Element*", "y", operand("y")}};
  text.body = "const int i = block_index_x() * kThreads + thread_index();\ny[i] = x[i];";
  return text;
}

TEST(KernelText, ReadsAsAProgram) {
  const auto kernel = assemble(copy_kernel());
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  EXPECT_EQ(kernel->name, "copy_t128");
  EXPECT_EQ(kernel->threads_per_block, 128);
  EXPECT_EQ(kernel->max_shared_bytes, 256);
  EXPECT_EQ(kernel->closure_hash, closure_hash(kernel->source));
  EXPECT_THAT(kernel->source, StartsWith("// copy_t128\n//\n// y = x, one element a thread.\n//\n"));
  EXPECT_THAT(kernel->source, HasSubstr("-arch=sm_90 -cubin copy_t128.cu\n"));
  EXPECT_THAT(kernel->source, HasSubstr("// ---- snippets/device.cuh\n"));
  EXPECT_THAT(kernel->source, EndsWith(R"(
// ---- this kernel

namespace sparsmith {
namespace {

constexpr int kThreads = 128;       // of a block
constexpr int kMinBlocksPerSm = 4;  // bounds the registers
using Element = half;               // of x and y
constexpr int kUnroll = 1;

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kMinBlocksPerSm) copy_t128(
    const Element* x,
    Element* y) {
  const int i = block_index_x() * kThreads + thread_index();
  y[i] = x[i];
}

}  // namespace sparsmith
)"));
}

TEST(KernelText, SameTextSameBytes) { EXPECT_EQ(assemble(copy_kernel()).value(), assemble(copy_kernel()).value()); }

// What a launch asks for depends on the weight's shape; kernels are shared between shapes.
TEST(KernelText, LaunchLimitsAreNotInTheText) {
  KernelText text = copy_kernel();
  const std::string source = assemble(text)->source;
  text.max_shared_bytes *= 2;
  EXPECT_EQ(assemble(text)->source, source);
}

TEST(KernelText, LongLinesHaveTheirCommentAbove) {
  KernelText text = copy_kernel();
  const std::string declaration = fmt::format("constexpr int k{:L>60} = 1", "");
  const std::string comment = fmt::format("{:c>50}", "");
  text.lines.push_back({declaration, comment});
  EXPECT_THAT(assemble(text)->source, HasSubstr(fmt::format("\n// {}:\n{};\n", comment, declaration)));
}

TEST(KernelText, CommentsDoNotChangeTheHashLinesDo) {
  KernelText text = copy_kernel();
  const std::string hash = assemble(text)->closure_hash;
  text.summary = "Another summary.";
  text.lines[0].comment = "";
  EXPECT_EQ(assemble(text)->closure_hash, hash);
  text.lines[0].declaration = "using Element = bfloat16";
  EXPECT_NE(assemble(text)->closure_hash, hash);
}

TEST(KernelText, RefusesWhatIsNotWhatItShouldBe) {
  const auto refused = [](auto change) {
    KernelText text = copy_kernel();
    change(text);
    return assemble(text).status();
  };
  const auto code_of = [&](auto change) { return refused(change).code(); };
  EXPECT_EQ(code_of([](KernelText& t) { t.name = "2fast"; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](KernelText& t) { t.name = "a-b"; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](KernelText& t) { t.threads = 0; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](KernelText& t) { t.threads = 1025; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](KernelText& t) { t.summary = "a\nint b;"; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](KernelText& t) { t.lines[0].comment = "ends in \\"; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](KernelText& t) { t.lines[0].declaration = "int a; int b"; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](KernelText& t) { t.parameters[0].name = ""; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](KernelText& t) { t.body = "\n"; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](KernelText& t) { t.headers = {"snippets/gone.cuh"}; }), StatusCode::kNotFound);
  EXPECT_THAT(refused([](KernelText& t) { t.headers = {"snippets/gone.cuh"}; }).message(),
              HasSubstr("snippets/gone.cuh"));
}

TEST(KernelText, ALaunchHasAnArgumentOfTheSizeOfEachParameter) {
  KernelText text = copy_kernel();
  text.parameters.push_back({"i64", "ldx", integer("ld.x")});
  text.parameters.push_back({"int", "n", integer("n")});
  const PlanStep step = launch_of(text);
  EXPECT_EQ(step.kernel, "copy_t128");
  EXPECT_EQ(step.block[0], 128);
  EXPECT_EQ(step.shared_bytes, 256);
  using Kind = PlanArgument::Kind;
  ASSERT_EQ(step.arguments.size(), 4U);
  EXPECT_EQ(step.arguments[0].kind, Kind::kOperand);
  EXPECT_EQ(step.arguments[0].name, "x");
  EXPECT_EQ(step.arguments[1].name, "y");
  EXPECT_EQ(step.arguments[2].kind, Kind::kInt64);
  EXPECT_EQ(step.arguments[2].value.text(), "ld.x");
  EXPECT_EQ(step.arguments[3].kind, Kind::kInt32);
}

}  // namespace
}  // namespace sparsmith
