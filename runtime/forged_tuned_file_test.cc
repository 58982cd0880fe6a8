// Tuned files as a forger writes them: every hash is right, and what the file asks for is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "base/temporary_directory.h"
#include "runtime/tuned_file.h"
#include "runtime/tuned_file_json.h"
#include "tests/support/fake_cuda_driver.h"
#include "tests/support/tuned_sample.h"

namespace sparsmith {
namespace {

class ForgedTunedFileTest : public testing::Test {
 protected:
  TunedSample sample_;
  TemporaryDirectory directory_;
  std::string path_ = directory_.file("model.tuned.safetensors");
};

TEST_F(ForgedTunedFileTest, RefusesPlansThatDoNotFitTheirKernels) {
  using Kind = PlanArgument::Kind;
  const auto formula = [](const char* text) { return IntegerExpression::parse(text).value(); };
  const auto refuses = [&](const std::function<void(LaunchPlan&)>& change, const char* reason) {
    TunedSample sample;
    change(sample.contents().weights[1].operators[0].choices[0].plan);  // fake_fill of the workspace, then fake_csr
    const Status status = write_tuned_file(path_, sample.contents());
    EXPECT_EQ(status.code(), StatusCode::kInvalidInput) << reason;
    EXPECT_THAT(status.message(), testing::HasSubstr(reason));
    EXPECT_THAT(status.message(), testing::HasSubstr("weight fc2: spmm: choice for 4 tokens"));
  };
  refuses([](LaunchPlan& p) { p.steps[1].arguments.pop_back(); }, "kernel fake_csr: 10 arguments; its cubin takes 11");
  refuses([](LaunchPlan& p) { p.steps[1].arguments.clear(); }, "0 arguments; its cubin takes 11");
  refuses([](LaunchPlan& p) { p.steps[1].arguments.push_back(operand("x")); }, "12 arguments");
  refuses([](LaunchPlan& p) { p.steps[1].arguments[3] = operand("dy"); }, "no operand dy");
  refuses([](LaunchPlan& p) { p.steps[1].arguments[10] = scalar("gamma"); }, "no scalar gamma");
  refuses([](LaunchPlan& p) { p.steps[1].grid[0] = IntegerExpression::of("fact.none"); }, "none has no value");
  refuses([](LaunchPlan& p) { p.steps[1].grid[0] = IntegerExpression::of("ld.z"); }, "z has no value");
  refuses([](LaunchPlan& p) { p.steps[1].arguments[0] = {Kind::kInt32, "", 0}; }, "argument 0 has 4 bytes");
  refuses([](LaunchPlan& p) { p.steps[1].arguments[10] = {Kind::kInt64, "", 0}; }, "argument 10 has 8 bytes");
  refuses([](LaunchPlan& p) { p.steps[1].arguments[0] = tensor_map("x", 1 << 20, {}); },
          "only token-major operands of 16 bits");
  refuses([](LaunchPlan& p) { p.steps[1].arguments[6].value = INT64_MAX; }, "beyond 32 bits");
  refuses([&](LaunchPlan& p) { p.steps[0].arguments[0].value = formula("n * 16 + 1"); }, "an argument is byte 17");
  refuses([](LaunchPlan& p) { p.steps[0].arguments[0].value = -1; }, "an argument is byte -1");
  const auto zeroes = [&](const char* offset, const char* bytes, const char* reason) {
    refuses(
        [&](LaunchPlan& p) {
          PlanStep& zero = p.steps.emplace_back();
          zero.kind = PlanStep::Kind::kZero;
          zero.zero_offset = formula(offset);
          zero.zero_bytes = formula(bytes);
        },
        reason);
  };
  zeroes("0", "n * 16 + 1", "zeroes 17 bytes from byte 0 on of a workspace of 16 bytes");
  zeroes("17", "0", "from byte 17 on");
  zeroes("-1", "1", "from byte -1 on");
  zeroes("8", "9223372036854775807", "zeroes 9223372036854775807 bytes");
  zeroes("0", "65 * (n / 4)",
         "with 4 tokens: a step zeroes 65");     // the largest of the bucket alone
  zeroes("0", "81 * (n / 5)", "with 5 tokens");  // above the largest bucket
  zeroes("0", "(n + 1) * 4611686018427387904", "exceeds 64 bits");
  zeroes("0", "1 / (n - 1)", "divides by zero");
  refuses([](LaunchPlan& p) { p.workspace_bytes = INT64_MAX - 8; }, "a workspace of 9223372036854775799");
  refuses([](LaunchPlan& p) { p.workspace_bytes = -1; }, "a workspace of -1");
  refuses([&](LaunchPlan& p) { p.workspace_bytes = formula("n * 16 + ldx"); }, "depends on strides");
  refuses([](LaunchPlan& p) { p.steps[1].grid[1] = 65'536; }, "a grid of");
  refuses([](LaunchPlan& p) { p.steps[1].block[0] = 1025; }, "a block of 1025");
  refuses([](LaunchPlan& p) { p.steps[1].cluster = {2, 1, 1}; }, "clusters of 2 x 1 x 1");
  refuses([](LaunchPlan& p) { p.steps[1].shared_bytes = 1025; }, "1025 bytes of shared memory");
}

TEST_F(ForgedTunedFileTest, RefusesMapsThatReachBeyondTheirOperands) {
  const auto refuses = [&](const char* name, std::int64_t elements, const char* reason) {
    TunedSample sample;
    TunedWeight& weight = sample.contents().weights[1];  // 2 x 3
    weight.type = weight.operators[0].spec.type = DataType::kFloat16;
    weight.operators[0].choices[0].plan.steps[1].arguments[0] = tensor_map(name, elements, {});
    EXPECT_THAT(write_tuned_file(path_, sample.contents()).message(), testing::HasSubstr(reason));
  };
  refuses("x", 3, "argument 0 has 128 bytes");  // a map of X; the kernel takes none
  refuses("x", 4, "a tensor map of x with 4 elements a line, of 3");
  refuses("y", 2, "a tensor map of y, which is no input of n lines");
  refuses("bias", 2, "a tensor map of bias, which is no input of n lines");
  refuses("residual", 2, "a tensor map of residual, which is no input of n lines");
}

TEST_F(ForgedTunedFileTest, RefusesKernelsThatDoNotStateTheirParameters) {
  const std::vector<std::byte> other = fake_cubin("another", kFakeCsrParameters);
  sample_.contents().kernels[0].binaries[1].cubin = other;
  Status status = write_tuned_file(path_, sample_.contents());
  EXPECT_THAT(status.message(), testing::HasSubstr("kernel fake_csr: sm_90: the cubin does not describe a kernel"));
  sample_.contents().kernels[0].binaries[1].cubin = {};
  EXPECT_THAT(write_tuned_file(path_, sample_.contents()).message(), testing::HasSubstr("damaged"));
  sample_.contents().kernels[0].binaries.clear();
  sample_.contents().kernels[0].max_shared_bytes = 1 << 20;
  EXPECT_THAT(write_tuned_file(path_, sample_.contents()).message(), testing::HasSubstr("no GPU has more"));
}

TEST_F(ForgedTunedFileTest, ArraysMustHoldTheWeightThatWasTuned) {
  const auto refuses = [&](const std::function<void(TunedWeight&)>& change) {
    TunedSample sample;
    change(sample.contents().weights[0]);
    const Status status = write_tuned_file(path_, sample.contents());
    ASSERT_TRUE(status.ok()) << status.to_string();
    const auto file = TunedFile::open(path_);
    EXPECT_EQ(file.status().code(), StatusCode::kInvalidInput);
    EXPECT_THAT(file.status().message(), testing::HasSubstr("weight fc/1"));
    EXPECT_TRUE(TunedFile::open(path_, {.trusted = true}).ok());
  };
  refuses([](TunedWeight& weight) { weight.rows = weight.operators[0].spec.rows = 1; });
  refuses([](TunedWeight& weight) { weight.rows = weight.operators[0].spec.rows = 3; });
  refuses([](TunedWeight& weight) { weight.cols = weight.operators[0].spec.cols = 2; });
  refuses([](TunedWeight& weight) { weight.nnz = 2; });
  refuses([](TunedWeight& weight) { weight.pattern_hash = "aa"; });
  refuses([](TunedWeight& weight) { weight.value_hash = "bb"; });
  refuses([](TunedWeight& weight) { weight.packings[0].packer_version = 99; });
  refuses([](TunedWeight& weight) { weight.packings[0].facts["segments"] = 3; });
  refuses([](TunedWeight& weight) {
    weight.packings[0].packing = weight.operators[0].choices[0].packing = weight.operators[0].choices[1].packing =
        "csr9";
  });
  for (const std::uint32_t element : {0x7FFFFFFFU, 0xFFFFFFFFU, 1U}) {
    for (std::size_t array = 0; array < 3; ++array) {
      for (std::size_t i = 0; i < sample_.csr().arrays[array].bytes.size() / 4; ++i) {
        std::vector<std::byte> bytes = sample_.csr().arrays[array].bytes;
        std::memcpy(bytes.data() + 4 * i, &element, 4);
        if (bytes == sample_.csr().arrays[array].bytes) continue;
        refuses([&](TunedWeight& weight) { weight.packings[0].arrays[array].bytes = bytes; });
      }
    }
  }
}

TEST_F(ForgedTunedFileTest, NestingAndRepetitionAreErrors) {
  const std::string good = tuned_contents_to_json(sample_.contents());
  const auto error = [&good](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    const auto any_tensor = [](const std::string&, DataType, const std::string&) {
      return std::span<const std::byte>();
    };
    return tuned_contents_from_json(text, any_tensor).status().message();
  };
  std::string nested;
  for (int i = 0; i < 400'000; ++i) nested += "[";
  std::string nested_objects;
  for (int i = 0; i < 200'000; ++i) nested_objects += R"({"a":)";
  EXPECT_THAT(error(R"("plan":{)", R"("plan":{"x":)" + nested + std::string(400'000, ']') + ","),
              testing::HasSubstr("nested more than 64 levels"));
  EXPECT_THAT(error(R"("plan":{)", R"("plan":{"x":)" + nested_objects + "1" + std::string(200'000, '}') + ","),
              testing::HasSubstr("nested more than 64 levels"));
  EXPECT_THAT(error(R"("nnz":3)", R"("nnz":3,"nnz":4)"), testing::HasSubstr("the key \"nnz\" comes twice"));
  EXPECT_THAT(error(R"("facts":{)", R"("facts":{"stored":1,)"), testing::HasSubstr("comes twice"));
  EXPECT_THAT(error(R"("facts":{)", R"("facts":{"x":18446744073709551615,)"), testing::HasSubstr("not an integer"));
}

TEST_F(ForgedTunedFileTest, ADescriptionTakesNoMoreMemoryThanItsFileMay) {
  const std::string good = tuned_contents_to_json(sample_.contents());
  const auto any_tensor = [](const std::string&, DataType, const std::string&) { return std::span<const std::byte>(); };
  EXPECT_THAT(tuned_contents_from_json(good, any_tensor, 1000).status().message(),
              testing::HasSubstr("more than 1000 bytes of memory"));
  std::string steps = good;
  std::string zeroes;
  for (int i = 0; i < 200; ++i) zeroes += R"({"kind":"zero","offset":0,"bytes":0},)";
  steps.replace(steps.find(R"("steps":[)"), 9, R"("steps":[)" + zeroes);
  EXPECT_THAT(tuned_contents_from_json(steps, any_tensor, 280'000).status().message(),
              testing::HasSubstr("more plans"));
  EXPECT_TRUE(tuned_contents_from_json(steps, any_tensor).ok());
}

}  // namespace
}  // namespace sparsmith
