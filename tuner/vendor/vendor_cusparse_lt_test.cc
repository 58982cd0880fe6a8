// Runs on the fake driver and the fake cuSPARSELt.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/drawn_two_four.h"
#include "tests/support/fake_cuda_driver.h"
#include "tests/support/sample_weight.h"
#include "tuner/vendor/vendor.h"

namespace sparsmith::test {
namespace {

CsrMatrix two_four_weight(std::int64_t rows, std::int64_t cols) {
  Random random(5);
  CsrMatrix matrix = draw_two_four(random, rows, cols, 0.9);
  for (std::size_t i = 0; i < matrix.values.size(); ++i) matrix.values[i] = 0.25F + static_cast<float>(i % 97) / 64;
  return matrix;
}

// Of the fake library, which is open already.
int& fake_number(const char* name) {
  void* const library = dlopen("libcusparseLt.so.0", RTLD_NOW | RTLD_NOLOAD);
  return *static_cast<int*>(dlsym(library, name));
}

class CusparseLtTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda() = FakeCudaState();
    executor_ = GpuExecutor::create(0).value();
    vendor_ = open_cusparse_lt(*executor_).value();
  }

  // All ways to compute Y = W X of so many tokens.
  Result<std::vector<std::unique_ptr<VendorWork>>> works(const CsrMatrix& matrix, DataType type, Layout layout,
                                                         std::int64_t tokens) {
    reference_ = std::make_unique<ReferenceProblem>(matrix, sample_spec(matrix, type, layout),
                                                    ProblemOptions{.tokens = tokens, .padding = 3});
    reference_->set_sums(reference_->compute_sums());
    problem_ = VendorProblem::create(*executor_, *reference_, nullptr).value();
    vendor_->forget_weight();
    return vendor_->works(*problem_);
  }

  std::string reason(const CsrMatrix& matrix, DataType type, std::int64_t tokens) {
    const auto none = works(matrix, type, Layout::kTokenMajor, tokens);
    EXPECT_EQ(none.status().code(), StatusCode::kUnsupported);
    return none.status().message();
  }

  std::unique_ptr<GpuExecutor> executor_;
  std::unique_ptr<Vendor> vendor_;
  std::unique_ptr<ReferenceProblem> reference_;
  std::unique_ptr<VendorProblem> problem_;
};

TEST_F(CusparseLtTest, EveryAlgorithmMultipliesEveryCopyInBothLayouts) {
  const CsrMatrix matrix = two_four_weight(48, 64);
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    int& selections = fake_number("fake_cusparse_lt_selections");
    selections = 0;
    const auto found = works(matrix, type, Layout::kTokenMajor, 24);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    EXPECT_EQ(selections, 2);  // one a layout, before any algorithm runs
    std::vector<std::string> computed;
    for (const std::unique_ptr<VendorWork>& work : *found) {
      const Status made = work->make_copies(3);
      if (work->detail().find("algorithm 1") != std::string::npos) {
        EXPECT_EQ(made.code(), StatusCode::kUnsupported) << work->detail();
        continue;
      }
      ASSERT_TRUE(made.ok()) << work->detail() << ": " << made.to_string();
      for (int copy = 0; copy < 3; ++copy) {
        ASSERT_TRUE(problem_->poison(work->layout()).ok());
        const Status run = work->enqueue(executor_->stream(), copy);
        ASSERT_TRUE(run.ok()) << work->detail() << ": " << run.to_string();
        const auto verification = problem_->verify(work->layout());
        ASSERT_TRUE(verification.ok()) << verification.status().to_string();
        EXPECT_TRUE(verification->ok) << work->detail() << ", copy " << copy << ": " << verification->reason;
      }
      EXPECT_EQ(work->weight_bytes(), 48 * 64 / 4 * 6);
      computed.push_back(work->detail());
    }
    const Status again = found->front()->enqueue(executor_->stream(), 0);  // after the plans of others
    EXPECT_TRUE(again.ok()) << again.to_string();
    EXPECT_THAT(computed, testing::ElementsAre("cuSPARSELt algorithm 0, X column-major",  //
                                               "cuSPARSELt algorithm 2, X column-major",  //
                                               "cuSPARSELt algorithm 0, split-K 2 in one kernel, X column-major",
                                               "cuSPARSELt algorithm 2, split-K 2 in one kernel, X column-major",
                                               "cuSPARSELt algorithm 0, X row-major",  //
                                               "cuSPARSELt algorithm 2, X row-major",
                                               "cuSPARSELt algorithm 0, split-K 2 in one kernel, X row-major",
                                               "cuSPARSELt algorithm 2, split-K 2 in one kernel, X row-major"));
  }
}

TEST_F(CusparseLtTest, SaysWhyItDoesNotComputeAProblem) {
  const CsrMatrix matrix = two_four_weight(48, 64);
  EXPECT_THAT(reason(matrix, DataType::kFloat32, 8), testing::HasSubstr("takes fp16 and bf16 weights"));
  EXPECT_THAT(reason(matrix, DataType::kFloat16, 1), testing::HasSubstr("takes multiples of 8 tokens"));
  EXPECT_THAT(reason(two_four_weight(40, 64), DataType::kFloat16, 8),
              testing::HasSubstr("rows and columns are multiples of 16"));
  EXPECT_THAT(reason(two_four_weight(48, 72), DataType::kFloat16, 8),
              testing::HasSubstr("rows and columns are multiples of 16"));
  EXPECT_THAT(reason(sample_weight(48, 64, 0.9, 1), DataType::kFloat16, 8),
              testing::HasSubstr("takes 2:4 weights: row 0 has more than two nonzeros among four columns"));
}

TEST_F(CusparseLtTest, AnAlgorithmWithoutAnAnswerIsNamed) {
  auto found = works(two_four_weight(48, 64), DataType::kFloat16, Layout::kTokenMajor, 24);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  fake_cuda().unready_queries = 1'000'000;
  GpuTimer timer(executor_->context(), executor_->stream());
  const auto best = best_work(timer, *problem_, *std::move(found), {}, std::chrono::milliseconds(20));
  ASSERT_TRUE(best.ok()) << best.status().to_string();
  EXPECT_EQ(best->work, nullptr);
  EXPECT_EQ(best->timing.broke, "cuSPARSELt algorithm 0, X column-major");
  EXPECT_THAT(best->timing.detail, testing::HasSubstr("gave no answer"));
}

// The fake driver has no graphs: so the other algorithms are not timed either.
TEST_F(CusparseLtTest, AnAlgorithmThatFailsAloneDoesNotCountAsBreakingTheContext) {
  auto found = works(two_four_weight(48, 64), DataType::kFloat16, Layout::kTokenMajor, 24);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  fake_number("fake_cusparse_lt_failing") = 0;
  GpuTimer timer(executor_->context(), executor_->stream());
  const auto best = best_work(timer, *problem_, *std::move(found), {});
  fake_number("fake_cusparse_lt_failing") = -1;
  EXPECT_EQ(best.status().code(), StatusCode::kUnsupported) << (best.ok() ? best->timing.broke : "");
}

TEST_F(CusparseLtTest, RefusesVersionsThatItDoesNotKnow) {
  int& version = fake_number("fake_cusparse_lt_version");
  for (const int unknown : {701, 900}) {
    version = unknown;
    const auto refused = open_cusparse_lt(*executor_);
    EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported);
    EXPECT_THAT(refused.status().message(), testing::HasSubstr(unknown == 701 ? "0.7.1" : "0.9.0"));
  }
  version = 800;
}

}  // namespace
}  // namespace sparsmith::test
