#include "tuner/compile/kernel_compiler.h"

#include <gtest/gtest.h>

namespace sparsmith {
namespace {

// As NVRTC 13.0 writes it.
constexpr const char* kPlain =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'rows_b128' for 'sm_90'\n"
    "ptxas info    : Function properties for rows_b128\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 31 registers, used 1 barriers, 4096 bytes smem\n"
    "ptxas info    : Compile time = 3.112 ms\n";

constexpr const char* kSpilling =
    "ptxas info    : 11 bytes gmem, 24 bytes cmem[4]\n"
    "ptxas info    : Compiling entry function 'other' for 'sm_80'\n"
    "ptxas info    : Function properties for other\n"
    "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
    "ptxas info    : Used 40 registers, 380 bytes cmem[0]\n"
    "ptxas info    : Compiling entry function 'rows' for 'sm_80'\n"
    "ptxas info    : Function properties for rows\n"
    "    512 bytes stack frame, 128 bytes spill stores, 256 bytes spill loads\n"
    "ptxas info    : Used 255 registers, used 2 barriers, 512 bytes cumulative stack size, 1024 bytes smem, 400 bytes "
    "cmem[0]\n"
    "ptxas info    : Function properties for rows_called\n"
    "    16 bytes stack frame, 2 bytes spill stores, 3 bytes spill loads\n";

TEST(PtxasLogTest, ReadsFigures) {
  const auto figures = parse_ptxas_log(kPlain, "rows_b128");
  ASSERT_TRUE(figures.ok()) << figures.status().to_string();
  EXPECT_EQ(figures->registers, 31);
  EXPECT_EQ(figures->static_shared_bytes, 4096);
  EXPECT_EQ(figures->stack_bytes, 0);
  EXPECT_EQ(figures->spill_store_bytes, 0);
  EXPECT_EQ(figures->spill_load_bytes, 0);
}

TEST(PtxasLogTest, ReadsTheEntryAskedForAlone) {
  const auto figures = parse_ptxas_log(kSpilling, "rows");
  ASSERT_TRUE(figures.ok()) << figures.status().to_string();
  EXPECT_EQ(figures->registers, 255);
  EXPECT_EQ(figures->static_shared_bytes, 1024);
  EXPECT_EQ(figures->stack_bytes, 512);
  EXPECT_EQ(figures->spill_store_bytes, 128);
  EXPECT_EQ(figures->spill_load_bytes, 256);
}

TEST(PtxasLogTest, RefusesLogsWithoutTheKernel) {
  EXPECT_FALSE(parse_ptxas_log(kPlain, "rows").ok());
  EXPECT_FALSE(parse_ptxas_log("", "rows").ok());
  EXPECT_FALSE(parse_ptxas_log("ptxas info    : Compiling entry function 'rows' for 'sm_90'\n registers", "rows").ok());
  EXPECT_FALSE(
      parse_ptxas_log("Compiling entry function 'rows'\nUsed 99999999999999999999999 registers\n", "rows").ok());
}

}  // namespace
}  // namespace sparsmith
