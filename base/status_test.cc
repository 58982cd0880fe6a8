#include "sparsmith/status.h"

#include <gtest/gtest.h>

namespace sparsmith {
namespace {

TEST(StatusTest, AnnotationsStandBeforeTheMessage) {
  EXPECT_EQ(not_found("no such tensor").annotate("model.safetensors").to_string(),
            "not found: model.safetensors: no such tensor");
  EXPECT_EQ(Status().annotate("anywhere").to_string(), "ok");
}

TEST(ResultTest, HoldsAValueOrWhyThereIsNone) {
  const Result<int> five(5);
  ASSERT_TRUE(five.ok());
  EXPECT_EQ(five.value(), 5);
  const Result<int> none(io_error("the disk is full"));
  EXPECT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kIoError);
  EXPECT_DEATH((void)none.value(), "i/o error: the disk is full");
  EXPECT_EQ(Result<int>(Status()).status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace sparsmith
