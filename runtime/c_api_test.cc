// The C interface, on the fake driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/temporary_directory.h"
#include "runtime/fake_cuda_driver.h"
#include "runtime/tuned_sample.h"
#include "sparsmith/sparsmith.h"

namespace sparsmith {
namespace {

using testing::HasSubstr;

class CApiTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda() = FakeCudaState();
    TunedSample sample;
    sample.contents().weights[1].members = {{"q", 0, 1}, {"k", 1, 1}};
    ASSERT_TRUE(write_tuned_file(path_, sample.contents()).ok());
    ASSERT_EQ(sparsmith_model_load(path_.c_str(), 0, &model_), SPARSMITH_OK) << sparsmith_last_error();
  }
  void TearDown() override {
    sparsmith_model_free(model_);
    EXPECT_EQ(fake_cuda().live_buffers, 0);
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.file("model.tuned.safetensors");
  sparsmith_model* model_ = nullptr;
};

TEST_F(CApiTest, RunsAnOperatorThatOutlivesItsModel) {
  sparsmith_operator* op = nullptr;
  ASSERT_EQ(sparsmith_model_operator(model_, "fc/1", &op), SPARSMITH_OK) << sparsmith_last_error();
  sparsmith_model_free(model_);
  model_ = nullptr;
  sparsmith_operator_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(sparsmith_operator_describe(op, &info), SPARSMITH_OK);
  EXPECT_EQ(info.rows, 2);
  EXPECT_EQ(info.cols, 3);
  EXPECT_EQ(info.nnz, 3);
  EXPECT_STREQ(info.type, "fp32");
  EXPECT_STREQ(info.layout, "token_major");
  EXPECT_STREQ(info.epilogue, "bias");
  EXPECT_STREQ(info.accumulation, "fp32");
  sparsmith_operator_info older{};  // of a program that knows nothing of accumulation
  older.struct_size = offsetof(sparsmith_operator_info, accumulation);
  ASSERT_EQ(sparsmith_operator_describe(op, &older), SPARSMITH_OK);
  EXPECT_STREQ(older.epilogue, "bias");
  EXPECT_EQ(older.accumulation, nullptr);
  --older.struct_size;
  EXPECT_EQ(sparsmith_operator_describe(op, &older), SPARSMITH_INVALID_ARGUMENT);
  std::size_t bytes = 1;
  ASSERT_EQ(sparsmith_operator_workspace_bytes(op, 2, &bytes), SPARSMITH_OK);
  EXPECT_EQ(bytes, 0U);

  const float x[3] = {1, 10, 100};
  const float bias[2] = {0.5F, 0.25F};
  float y[2] = {};
  sparsmith_run_arguments arguments{};
  arguments.struct_size = sizeof(arguments);
  arguments.x = x;
  arguments.y = y;
  arguments.tokens = 1;
  arguments.bias = bias;
  arguments.alpha = 1;
  ASSERT_EQ(sparsmith_operator_run(op, &arguments, nullptr), SPARSMITH_OK) << sparsmith_last_error();
  EXPECT_EQ(y[0], 201.5F);
  EXPECT_EQ(y[1], 30.25F);

  arguments.bias = nullptr;
  EXPECT_EQ(sparsmith_operator_run(op, &arguments, nullptr), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("bias is null"));
  arguments.struct_size = 8;
  EXPECT_EQ(sparsmith_operator_run(op, &arguments, nullptr), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("struct_size"));
  sparsmith_operator_free(op);
}

TEST_F(CApiTest, EveryStrideAndScalarReachesTheOperator) {
  TunedSample sample;
  TunedWeight& weight = sample.contents().weights[2];  // dense [[1, 0, 2], [0, 3, 0]]
  weight.spec.epilogue = *Epilogue::parse("residual");
  ASSERT_TRUE(write_tuned_file(path_, sample.contents()).ok());
  sparsmith_model* model = nullptr;
  ASSERT_EQ(sparsmith_model_load(path_.c_str(), 0, &model), SPARSMITH_OK) << sparsmith_last_error();
  sparsmith_operator* op = nullptr;
  ASSERT_EQ(sparsmith_model_operator(model, "fc3", &op), SPARSMITH_OK) << sparsmith_last_error();
  const float x[] = {1, 10, 100, -1, 2, 20, 200};
  const float residual[] = {1000, 2000, -1, -1, -1, 3000, 4000};
  std::vector<float> y(5, -1);
  std::size_t bytes = 0;
  ASSERT_EQ(sparsmith_operator_workspace_bytes(op, 2, &bytes), SPARSMITH_OK);
  std::vector<unsigned char> space(bytes + 256);
  sparsmith_run_arguments arguments = SPARSMITH_RUN_ARGUMENTS_INIT;
  arguments.x = x;
  arguments.y = y.data();
  arguments.tokens = 2;
  arguments.residual = residual;
  arguments.workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(space.data()) + 255) / 256 * 256);
  arguments.ldx = 4;
  arguments.ldy = 3;
  arguments.ldr = 5;
  ASSERT_EQ(sparsmith_operator_run(op, &arguments, nullptr), SPARSMITH_OK) << sparsmith_last_error();
  EXPECT_THAT(y, testing::ElementsAre(1201, 2030, -1, 3402, 4060));
  arguments.alpha = 2;
  ASSERT_EQ(sparsmith_operator_run(op, &arguments, nullptr), SPARSMITH_OK) << sparsmith_last_error();
  EXPECT_THAT(y, testing::ElementsAre(1402, 2060, -1, 3804, 4120));
  arguments.alpha = 0;
  EXPECT_EQ(sparsmith_operator_run(op, &arguments, nullptr), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("alpha is 0"));
  sparsmith_operator_free(op);
  sparsmith_model_free(model);
}

TEST_F(CApiTest, ValidatesAndTrustsFiles) {
  EXPECT_EQ(sparsmith_validate(path_.c_str(), nullptr), SPARSMITH_OK);
  TunedSample sample;
  sample.contents().weights[0].value_hash = "that of another weight";
  ASSERT_TRUE(write_tuned_file(path_, sample.contents()).ok());
  EXPECT_EQ(sparsmith_validate(path_.c_str(), nullptr), SPARSMITH_INVALID_INPUT);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("fc/1"));
  sparsmith_load_options options{};
  sparsmith_model* model = nullptr;
  EXPECT_EQ(sparsmith_model_load_with(path_.c_str(), &options, &model), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("struct_size"));
  options.struct_size = sizeof(options);
  EXPECT_EQ(sparsmith_model_load_with(path_.c_str(), &options, &model), SPARSMITH_INVALID_INPUT);
  options.trusted = 1;
  EXPECT_EQ(sparsmith_validate(path_.c_str(), &options), SPARSMITH_OK);
  ASSERT_EQ(sparsmith_model_load_with(path_.c_str(), &options, &model), SPARSMITH_OK) << sparsmith_last_error();
  sparsmith_model_free(model);
  EXPECT_EQ(sparsmith_model_load_with(path_.c_str(), nullptr, &model), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_EQ(sparsmith_validate(nullptr, nullptr), SPARSMITH_INVALID_ARGUMENT);
}

TEST_F(CApiTest, ListsItsWeights) {
  ASSERT_EQ(sparsmith_model_weight_count(model_), 3U);
  EXPECT_STREQ(sparsmith_model_weight_name(model_, 1), "fc2");
  EXPECT_EQ(sparsmith_model_weight_name(model_, 3), nullptr);
}

TEST_F(CApiTest, SaysWhereMembersLie) {
  sparsmith_operator* op = nullptr;
  ASSERT_EQ(sparsmith_model_operator(model_, "fc2", &op), SPARSMITH_OK) << sparsmith_last_error();
  ASSERT_EQ(sparsmith_operator_member_count(op), 2U);
  EXPECT_STREQ(sparsmith_operator_member_name(op, 1), "k");
  EXPECT_EQ(sparsmith_operator_member_name(op, 2), nullptr);
  sparsmith_member_view view{};
  view.struct_size = sizeof(view);
  ASSERT_EQ(sparsmith_operator_member(op, "k", 4, 0, &view), SPARSMITH_OK) << sparsmith_last_error();
  EXPECT_EQ(view.first_row, 1);
  EXPECT_EQ(view.rows, 1);
  EXPECT_EQ(view.offset, 1);
  EXPECT_EQ(view.ld, 2);
  ASSERT_EQ(sparsmith_operator_member(op, "k", 4, 9, &view), SPARSMITH_OK);
  EXPECT_EQ(view.ld, 9);
  EXPECT_EQ(sparsmith_operator_member(op, "v", 4, 0, &view), SPARSMITH_NOT_FOUND);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("there are q, k"));
  EXPECT_EQ(sparsmith_operator_member(op, nullptr, 4, 0, &view), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_EQ(sparsmith_operator_member(op, "k", 4, 0, nullptr), SPARSMITH_INVALID_ARGUMENT);
  view.struct_size = 8;
  EXPECT_EQ(sparsmith_operator_member(op, "k", 4, 0, &view), SPARSMITH_INVALID_ARGUMENT);
  sparsmith_operator_free(op);

  ASSERT_EQ(sparsmith_model_operator(model_, "fc/1", &op), SPARSMITH_OK);
  EXPECT_EQ(sparsmith_operator_member_count(op), 0U);
  sparsmith_operator_free(op);
  EXPECT_EQ(sparsmith_model_operator(model_, "k", &op), SPARSMITH_NOT_FOUND);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("group fc2"));
}

TEST_F(CApiTest, NullArgumentsAreErrors) {
  sparsmith_operator* op = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(sparsmith_model_load(nullptr, 0, &model_), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_EQ(sparsmith_model_load(path_.c_str(), 0, nullptr), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_EQ(sparsmith_model_operator(nullptr, "fc/1", &op), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_EQ(sparsmith_model_operator(model_, nullptr, &op), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_EQ(sparsmith_operator_describe(nullptr, nullptr), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_EQ(sparsmith_operator_workspace_bytes(nullptr, 1, &bytes), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_EQ(sparsmith_operator_run(nullptr, nullptr, nullptr), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_EQ(sparsmith_model_weight_count(nullptr), 0U);
  EXPECT_EQ(sparsmith_operator_member_count(nullptr), 0U);
  EXPECT_EQ(sparsmith_operator_member(nullptr, "k", 1, 0, nullptr), SPARSMITH_INVALID_ARGUMENT);
  sparsmith_model_free(nullptr);
  sparsmith_operator_free(nullptr);
}

TEST_F(CApiTest, ErrorsAreOfTheThreadThatMadeThem) {
  sparsmith_operator* op = nullptr;
  EXPECT_EQ(sparsmith_model_operator(model_, "fc9", &op), SPARSMITH_NOT_FOUND);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("fc9"));
  std::thread([] { EXPECT_STREQ(sparsmith_last_error(), ""); }).join();
  sparsmith_model* missing = nullptr;
  EXPECT_EQ(sparsmith_model_load((path_ + "x").c_str(), 0, &missing), SPARSMITH_NOT_FOUND);
  EXPECT_EQ(sparsmith_model_load(path_.c_str(), 7, &missing), SPARSMITH_NO_DEVICE);
  EXPECT_EQ(missing, nullptr);
}

TEST_F(CApiTest, NamesItsVersionAndStatuses) {
  EXPECT_STREQ(sparsmith_version(), "0.1.0");
  EXPECT_STREQ(sparsmith_status_name(SPARSMITH_NO_DEVICE), "no device");
  // A C program may pass any integer. NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
  EXPECT_STREQ(sparsmith_status_name(static_cast<sparsmith_status>(99)), "unknown");
}

}  // namespace
}  // namespace sparsmith
