// The C interface, on the fake driver.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/file.h"
#include "base/temporary_directory.h"
#include "formats/csr.h"
#include "sparsmith/sparsmith.h"
#include "tests/support/fake_cuda_driver.h"
#include "tests/support/tuned_sample.h"

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
    ASSERT_EQ(sparsmith_model_load(path_.c_str(), nullptr, &model_), SPARSMITH_OK) << sparsmith_last_error();
  }
  void TearDown() override {
    sparsmith_model_free(model_);
    EXPECT_EQ(fake_cuda().live_buffers, 0);
  }

  static const sparsmith_weight* weight_of(const sparsmith_model* model, const char* name) {
    const sparsmith_weight* weight = nullptr;
    EXPECT_EQ(sparsmith_model_weight(model, name, &weight), SPARSMITH_OK) << sparsmith_last_error();
    return weight;
  }
  static const sparsmith_operator* operator_of(const sparsmith_model* model, const char* name) {
    const sparsmith_operator* op = nullptr;
    EXPECT_EQ(sparsmith_weight_operator(weight_of(model, name), SPARSMITH_SPMM, &op), SPARSMITH_OK)
        << sparsmith_last_error();
    return op;
  }
  template <std::size_t count>
  static sparsmith_run_arguments arguments_of(const sparsmith_operand_array (&operands)[count], std::int64_t tokens) {
    sparsmith_run_arguments arguments{};
    arguments.struct_size = sizeof(arguments);
    arguments.tokens = tokens;
    arguments.operands = operands;
    arguments.operand_count = count;
    return arguments;
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.file("model.tuned.safetensors");
  sparsmith_model* model_ = nullptr;
};

TEST_F(CApiTest, RunsAnOperator) {
  const sparsmith_operator* op = operator_of(model_, "fc/1");
  std::size_t bytes = 1;
  ASSERT_EQ(sparsmith_operator_workspace_bytes(op, 2, &bytes), SPARSMITH_OK);
  EXPECT_EQ(bytes, 0U);
  const float x[3] = {1, 10, 100};
  const float bias[2] = {0.5F, 0.25F};
  float y[2] = {};
  const sparsmith_operand_array operands[] = {{"bias", bias, 0}, {"x", x, 0}, {"y", y, 0}};
  sparsmith_run_arguments arguments = arguments_of(operands, 1);
  ASSERT_EQ(sparsmith_operator_run(op, &arguments, nullptr), SPARSMITH_OK) << sparsmith_last_error();
  EXPECT_EQ(y[0], 201.5F);
  EXPECT_EQ(y[1], 30.25F);

  const auto refuses = [&](const sparsmith_run_arguments& wrong, const char* reason) {
    EXPECT_EQ(sparsmith_operator_run(op, &wrong, nullptr), SPARSMITH_INVALID_ARGUMENT);
    EXPECT_THAT(sparsmith_last_error(), HasSubstr(reason));
  };
  refuses(arguments_of({operands[1], operands[2]}, 1), "bias is null");
  refuses(arguments_of({operands[1], operands[2], operands[1]}, 1), "x is given twice");
  refuses(arguments_of({operands[0], operands[1], operands[2], {"z", x, 0}}, 1), "no operand z");
  refuses(arguments_of({operands[0], operands[1], {nullptr, y, 0}}, 1), "name is null");
  sparsmith_operand_array many[9] = {};
  const char* const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
  for (int i = 0; i < 9; ++i) many[i] = {names[i], x, 0};
  refuses(arguments_of(many, 1), "no operand");
  arguments.operands = nullptr;
  refuses(arguments, "operands is null");
  arguments.struct_size = 8;
  refuses(arguments, "struct_size");
}

TEST_F(CApiTest, EveryStrideAndScalarReachesTheOperator) {
  TunedSample sample;
  TunedWeight& weight = sample.contents().weights[2];  // dense [[1, 0, 2], [0, 3, 0]]
  weight.operators[0].spec.epilogue = *Epilogue::parse("residual");
  ASSERT_TRUE(write_tuned_file(path_, sample.contents()).ok());
  sparsmith_model* model = nullptr;
  ASSERT_EQ(sparsmith_model_load(path_.c_str(), nullptr, &model), SPARSMITH_OK) << sparsmith_last_error();
  const sparsmith_operator* op = operator_of(model, "fc3");
  const float x[] = {1, 10, 100, -1, 2, 20, 200};
  const float residual[] = {1000, 2000, -1, -1, -1, 3000, 4000};
  std::vector<float> y(5, -1);
  std::size_t bytes = 0;
  ASSERT_EQ(sparsmith_operator_workspace_bytes(op, 2, &bytes), SPARSMITH_OK);
  std::vector<unsigned char> space(bytes + 256);
  const sparsmith_operand_array operands[] = {{"x", x, 4}, {"y", y.data(), 3}, {"residual", residual, 5}};
  sparsmith_run_arguments arguments = arguments_of(operands, 2);
  arguments.workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(space.data()) + 255) / 256 * 256);
  ASSERT_EQ(sparsmith_operator_run(op, &arguments, nullptr), SPARSMITH_OK) << sparsmith_last_error();
  EXPECT_THAT(y, testing::ElementsAre(1201, 2030, -1, 3402, 4060)) << "alpha = 0 means 1";
  arguments.alpha = 2;
  ASSERT_EQ(sparsmith_operator_run(op, &arguments, nullptr), SPARSMITH_OK) << sparsmith_last_error();
  EXPECT_THAT(y, testing::ElementsAre(1402, 2060, -1, 3804, 4120));
  sparsmith_model_free(model);
}

TEST_F(CApiTest, Describes) {
  const sparsmith_weight* weight = weight_of(model_, "fc/1");
  sparsmith_weight_info about{};
  about.struct_size = sizeof(about);
  ASSERT_EQ(sparsmith_weight_describe(weight, &about), SPARSMITH_OK) << sparsmith_last_error();
  EXPECT_STREQ(about.name, "fc/1");
  EXPECT_EQ(about.rows, 2);
  EXPECT_EQ(about.cols, 3);
  EXPECT_EQ(about.nnz, 3);
  EXPECT_EQ(about.type, SPARSMITH_FP32);
  EXPECT_EQ(about.gpu_bytes, 768);
  EXPECT_EQ(about.places_bytes, 0);
  EXPECT_EQ(about.member_count, 0U);
  EXPECT_EQ(sparsmith_model_gpu_bytes(model_), 2 * 768 + 256);

  const sparsmith_operator* op = operator_of(model_, "fc/1");
  sparsmith_operator_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(sparsmith_operator_describe(op, &info), SPARSMITH_OK) << sparsmith_last_error();
  EXPECT_EQ(info.kind, SPARSMITH_SPMM);
  EXPECT_EQ(info.rows, 2);
  EXPECT_EQ(info.cols, 3);
  EXPECT_EQ(info.type, SPARSMITH_FP32);
  EXPECT_STREQ(info.layout, "token_major");
  EXPECT_STREQ(info.epilogue, "bias");
  EXPECT_STREQ(info.accumulation, "fp32");
  ASSERT_EQ(info.operand_count, 4U);
  ASSERT_EQ(info.choice_count, 2U);
  --info.struct_size;
  EXPECT_EQ(sparsmith_operator_describe(op, &info), SPARSMITH_INVALID_ARGUMENT);

  std::vector<std::string> operands;
  for (std::size_t i = 0; i < info.operand_count; ++i) {
    sparsmith_operand_info operand{};
    operand.struct_size = sizeof(operand);
    ASSERT_EQ(sparsmith_operator_operand(op, i, &operand), SPARSMITH_OK) << sparsmith_last_error();
    operands.push_back(fmt::format("{} {} {}{} {}x{} {}", operand.name, operand.present, operand.read, operand.written,
                                   operand.lines, operand.length, operand.has_ld));
  }
  EXPECT_THAT(operands,
              testing::ElementsAre("x 1 10 -1x3 1", "y 1 01 -1x2 1", "bias 1 10 1x2 0", "residual 0 10 -1x2 1"));
  sparsmith_operand_info none{};
  none.struct_size = sizeof(none);
  EXPECT_EQ(sparsmith_operator_operand(op, 4, &none), SPARSMITH_INVALID_ARGUMENT);

  sparsmith_choice_info choice{};
  choice.struct_size = sizeof(choice);
  ASSERT_EQ(sparsmith_operator_choice(op, 1, &choice), SPARSMITH_OK) << sparsmith_last_error();
  EXPECT_EQ(choice.tokens, 8);
  EXPECT_STREQ(choice.config, "rows threads_per_block=128");
  EXPECT_STREQ(choice.packing, CsrPacking().name().c_str());
  EXPECT_EQ(choice.measured, 1);
  EXPECT_EQ(choice.median_us, 3.25);
  EXPECT_EQ(choice.dense_us, 7.5);
  EXPECT_EQ(sparsmith_operator_choice(op, 2, &choice), SPARSMITH_INVALID_ARGUMENT);
}

TEST_F(CApiTest, NewValuesReachTheOperator) {
  TunedSample sample;
  sample.contents().weights.resize(1);
  sample.contents().weights[0].packings[0].writers = {TunedSample::writer()};
  ASSERT_TRUE(write_tuned_file(path_, sample.contents()).ok());
  const std::string file = *read_file(path_);
  sparsmith_load_options options{};
  options.struct_size = sizeof(options);
  options.updatable = 1;
  sparsmith_model* model = nullptr;
  ASSERT_EQ(sparsmith_model_load_bytes(file.data(), file.size(), &options, &model), SPARSMITH_OK)
      << sparsmith_last_error();
  const sparsmith_weight* weight = weight_of(model, "fc/1");
  const float values[3] = {4, 0, -2};
  ASSERT_EQ(sparsmith_weight_set_values(weight, values, SPARSMITH_FP32, nullptr), SPARSMITH_OK)
      << sparsmith_last_error();
  const float x[3] = {1, 10, 100};
  const float bias[2] = {0.5F, 0.25F};
  float y[2] = {};
  const sparsmith_operand_array operands[] = {{"x", x, 0}, {"y", y, 0}, {"bias", bias, 0}};
  const sparsmith_run_arguments arguments = arguments_of(operands, 1);
  ASSERT_EQ(sparsmith_operator_run(operator_of(model, "fc/1"), &arguments, nullptr), SPARSMITH_OK);
  EXPECT_THAT(y, testing::ElementsAre(4.5F, -19.75F));
  EXPECT_EQ(sparsmith_weight_set_values(weight, values, SPARSMITH_BF16, nullptr), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("values of bf16"));
  // A C program may pass any integer. NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
  const auto no_type = static_cast<sparsmith_type>(9);
  EXPECT_EQ(sparsmith_weight_set_values(weight, values, no_type, nullptr), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("9 is no sparsmith_type"));
  EXPECT_EQ(sparsmith_weight_set_values(weight_of(model_, "fc/1"), values, SPARSMITH_FP32, nullptr),
            SPARSMITH_INVALID_ARGUMENT);
  const sparsmith_operator* op = nullptr;
  EXPECT_EQ(sparsmith_weight_operator(weight, SPARSMITH_SPMM_TRANSPOSED, &op), SPARSMITH_NOT_FOUND);
  // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
  const auto no_kind = static_cast<sparsmith_operator_kind>(3);
  EXPECT_EQ(sparsmith_weight_operator(weight, no_kind, &op), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_EQ(op, nullptr);
  sparsmith_model_free(model);
}

TEST_F(CApiTest, MemoryMayBeTheCallers) {
  struct Memory {
    alignas(256) unsigned char bytes[4096];
    int live = 0;
  } memory;
  TunedSample sample;
  sample.contents().weights.resize(1);
  ASSERT_TRUE(write_tuned_file(path_, sample.contents()).ok());
  sparsmith_load_options options{};
  options.struct_size = sizeof(options);
  options.allocate = [](std::size_t bytes, void* context) -> void* {
    auto* const lent = static_cast<Memory*>(context);
    return bytes <= sizeof(lent->bytes) && lent->live++ == 0 ? lent->bytes : nullptr;
  };
  options.free = [](void*, void* context) { --static_cast<Memory*>(context)->live; };
  options.context = &memory;
  sparsmith_model* model = nullptr;
  ASSERT_EQ(sparsmith_model_load(path_.c_str(), &options, &model), SPARSMITH_OK) << sparsmith_last_error();
  EXPECT_EQ(memory.live, 1);
  EXPECT_EQ(sparsmith_model_gpu_bytes(model), 768);
  sparsmith_model_free(model);
  EXPECT_EQ(memory.live, 0);
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
  EXPECT_EQ(sparsmith_model_load(path_.c_str(), &options, &model), SPARSMITH_INVALID_ARGUMENT);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("struct_size"));
  options.struct_size = sizeof(options);
  EXPECT_EQ(sparsmith_model_load(path_.c_str(), &options, &model), SPARSMITH_INVALID_INPUT);
  options.trusted = 1;
  EXPECT_EQ(sparsmith_validate(path_.c_str(), &options), SPARSMITH_OK);
  ASSERT_EQ(sparsmith_model_load(path_.c_str(), &options, &model), SPARSMITH_OK) << sparsmith_last_error();
  sparsmith_model_free(model);
  EXPECT_EQ(sparsmith_validate(nullptr, nullptr), SPARSMITH_INVALID_ARGUMENT);
}

TEST_F(CApiTest, ListsItsWeights) {
  ASSERT_EQ(sparsmith_model_weight_count(model_), 3U);
  EXPECT_EQ(sparsmith_model_weight_at(model_, 1), weight_of(model_, "fc2"));
  EXPECT_EQ(sparsmith_model_weight_at(model_, 3), nullptr);
}

TEST_F(CApiTest, SaysWhereMembersLie) {
  const sparsmith_weight* group = weight_of(model_, "fc2");
  EXPECT_STREQ(sparsmith_weight_member_name(group, 1), "k");
  EXPECT_EQ(sparsmith_weight_member_name(group, 2), nullptr);
  EXPECT_EQ(sparsmith_weight_member_name(weight_of(model_, "fc/1"), 0), nullptr);
  const sparsmith_operator* op = operator_of(model_, "fc2");
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
  const sparsmith_weight* member = nullptr;
  EXPECT_EQ(sparsmith_model_weight(model_, "k", &member), SPARSMITH_NOT_FOUND);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("group fc2"));
}

TEST_F(CApiTest, NullArgumentsAreErrors) {
  const sparsmith_weight* weight = weight_of(model_, "fc/1");
  const sparsmith_operator* op = operator_of(model_, "fc/1");
  std::size_t bytes = 0;
  const sparsmith_status statuses[] = {sparsmith_model_load(nullptr, nullptr, &model_),
                                       sparsmith_model_load(path_.c_str(), nullptr, nullptr),
                                       sparsmith_model_load_bytes(nullptr, 8, nullptr, &model_),
                                       sparsmith_model_load_bytes(path_.c_str(), 8, nullptr, nullptr),
                                       sparsmith_model_weight(nullptr, "fc/1", &weight),
                                       sparsmith_model_weight(model_, nullptr, &weight),
                                       sparsmith_model_weight(model_, "fc/1", nullptr),
                                       sparsmith_weight_describe(nullptr, nullptr),
                                       sparsmith_weight_describe(weight, nullptr),
                                       sparsmith_weight_set_values(nullptr, &bytes, SPARSMITH_FP32, nullptr),
                                       sparsmith_weight_operator(nullptr, SPARSMITH_SPMM, &op),
                                       sparsmith_weight_operator(weight, SPARSMITH_SPMM, nullptr),
                                       sparsmith_operator_describe(nullptr, nullptr),
                                       sparsmith_operator_describe(op, nullptr),
                                       sparsmith_operator_operand(nullptr, 0, nullptr),
                                       sparsmith_operator_operand(op, 0, nullptr),
                                       sparsmith_operator_choice(nullptr, 0, nullptr),
                                       sparsmith_operator_choice(op, 0, nullptr),
                                       sparsmith_operator_workspace_bytes(nullptr, 1, &bytes),
                                       sparsmith_operator_workspace_bytes(op, 1, nullptr),
                                       sparsmith_operator_run(nullptr, nullptr, nullptr),
                                       sparsmith_operator_run(op, nullptr, nullptr),
                                       sparsmith_operator_member(nullptr, "k", 1, 0, nullptr)};
  for (const sparsmith_status status : statuses) EXPECT_EQ(status, SPARSMITH_INVALID_ARGUMENT);
  EXPECT_EQ(sparsmith_model_weight_count(nullptr), 0U);
  EXPECT_EQ(sparsmith_model_weight_at(nullptr, 0), nullptr);
  EXPECT_EQ(sparsmith_model_gpu_bytes(nullptr), 0);
  EXPECT_EQ(sparsmith_weight_member_name(nullptr, 0), nullptr);
  sparsmith_model_free(nullptr);
}

TEST_F(CApiTest, ErrorsAreOfTheThreadThatMadeThem) {
  const sparsmith_weight* weight = nullptr;
  EXPECT_EQ(sparsmith_model_weight(model_, "fc9", &weight), SPARSMITH_NOT_FOUND);
  EXPECT_THAT(sparsmith_last_error(), HasSubstr("fc9"));
  std::thread([] { EXPECT_STREQ(sparsmith_last_error(), ""); }).join();
  sparsmith_model* missing = nullptr;
  EXPECT_EQ(sparsmith_model_load((path_ + "x").c_str(), nullptr, &missing), SPARSMITH_NOT_FOUND);
  sparsmith_load_options options{};
  options.struct_size = sizeof(options);
  options.device = 7;
  EXPECT_EQ(sparsmith_model_load(path_.c_str(), &options, &missing), SPARSMITH_NO_DEVICE);
  EXPECT_EQ(missing, nullptr);
}

TEST_F(CApiTest, NamesItsVersionAndStatuses) {
  EXPECT_STREQ(sparsmith_version(), "0.2.0");
  EXPECT_STREQ(sparsmith_status_name(SPARSMITH_NO_DEVICE), "no device");
  // A C program may pass any integer. NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
  EXPECT_STREQ(sparsmith_status_name(static_cast<sparsmith_status>(99)), "unknown");
}

}  // namespace
}  // namespace sparsmith
