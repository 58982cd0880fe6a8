#include "search/choice/budget.h"

#include <gtest/gtest.h>

namespace sparsmith {
namespace {

using std::chrono::seconds;

// A clock that a test moves.
struct Time {
  Budget::Clock::time_point begin = Budget::Clock::now();
  seconds passed{0};
  Budget::Now now() {
    return [this] { return begin + passed; };
  }
  double left(Budget::Clock::time_point end) const { return std::chrono::duration<double>(end - begin).count(); }
};

TEST(BudgetTest, WithoutSecondsNothingEnds) {
  const Budget budget(0, 1, {5.0, 1.0, 9.0});
  EXPECT_FALSE(budget.over());
  EXPECT_EQ(budget.end_of_search(0), Budget::Clock::time_point::max());
  EXPECT_EQ(budget.order(), (std::vector<std::size_t>{0, 1, 2}));
}

TEST(BudgetTest, EndsAfterPartOfASecond) {
  Time time;
  const Budget budget(0.5, 1, {1.0}, time.now());
  EXPECT_NEAR(time.left(budget.end_of_search(0)), 0.5, 1e-6);
}

TEST(BudgetTest, ASearchGetsItsPartOfWhatIsLeft) {
  Time time;
  Budget budget(100, 1, {5.0, 1.0, 4.0}, time.now());
  EXPECT_EQ(budget.order(), (std::vector<std::size_t>{0, 2, 1}));
  EXPECT_NEAR(time.left(budget.end_of_search(0)), 50, 1e-6);
  EXPECT_NEAR(time.left(budget.end_of_search(1)), 10, 1e-6);
  budget.done(0);
  time.passed = seconds(20);  // it took less: 80 s are left for gains of 5
  EXPECT_NEAR(time.left(budget.end_of_search(1)), 20 + 16, 1e-6);
  budget.done(2);
  EXPECT_NEAR(time.left(budget.end_of_search(1)), 100, 1e-6);
  time.passed = seconds(99);
  EXPECT_FALSE(budget.over());
  time.passed = seconds(100);
  EXPECT_TRUE(budget.over());
  EXPECT_NEAR(time.left(budget.end_of_search(1)), 100, 1e-6);
}

TEST(BudgetTest, DevicesSearchSideBySide) {
  Time time;
  const Budget budget(100, 2, {1.0, 1.0, 1.0, 1.0}, time.now());
  EXPECT_NEAR(time.left(budget.end_of_search(0)), 50, 1e-6);
  const Budget more(100, 8, {1.0, 1.0, 1.0, 1.0}, time.now());
  EXPECT_NEAR(time.left(more.end_of_search(0)), 100, 1e-6);  // never beyond the end
}

TEST(BudgetTest, AnUnknownGainIsTheMeanOfTheOthers) {
  Time time;
  const Budget budget(90, 1, {2.0, std::nullopt, 4.0}, time.now());
  EXPECT_NEAR(time.left(budget.end_of_search(1)), 30, 1e-6);
  EXPECT_EQ(budget.order(), (std::vector<std::size_t>{2, 1, 0}));
  const Budget alike(90, 1, {std::nullopt, std::nullopt, 0.0}, time.now());
  for (const std::size_t weight : {0, 1, 2}) EXPECT_NEAR(time.left(alike.end_of_search(weight)), 30, 1e-6);
}

TEST(BudgetTest, AGainIsWhatDenseTakesLonger) {
  Problem problem;
  problem.spec.rows = problem.spec.cols = 4096;
  problem.device = typical_device(90);
  const double dense = baseline_us(problem);
  SearchSpace space;
  EXPECT_NEAR(promised_gain_us(problem, space), 0.02 * dense, 1e-9);
  space.configs.push_back({{}, 0.25 * dense});
  space.configs.push_back({{}, 0.75 * dense});
  EXPECT_NEAR(promised_gain_us(problem, space), 0.75 * dense, 1e-9);
  space.configs.front().predicted_us = 2 * dense;  // the model may be wrong
  EXPECT_NEAR(promised_gain_us(problem, space), 0.02 * dense, 1e-9);
}

}  // namespace
}  // namespace sparsmith
