// The PTX of device functions that the emulator replaces by twins: what no test without a GPU runs is at least read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "generator/kernel_text.h"
#include "tuner/compile/kernel_compiler.h"

namespace sparsmith::test {
namespace {

// The PTX instructions named `prefix`..., in order, with their operands.
std::vector<std::string> instructions(const std::string& ptx, const std::string& prefix) {
  const std::regex pattern("(" + prefix + "[^;]*);");
  std::vector<std::string> found;
  for (std::sregex_iterator each(ptx.begin(), ptx.end(), pattern); each != std::sregex_iterator(); ++each)
    found.push_back(each->str(1));
  return found;
}

Result<std::string> ptx_of(const KernelCompiler& compiler, const std::string& body, const std::string& architecture) {
  KernelText text;
  text.name = "device_functions";
  text.threads = 128;
  text.headers = {"snippets/device.cuh"};
  text.parameters = {{"const u8*", "from", packed_array("from")}};
  text.body = body;
  SPARSMITH_ASSIGN_OR_RETURN(const KernelSource source, assemble(text));
  return compiler.ptx(source, architecture);
}

TEST(DevicePtxTest, CopiesAreAwaitedButForAsManyGroupsAsAreNamed) {
  const auto compiler = KernelCompiler::open();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  const auto ptx = ptx_of(**compiler,
                          "async_copy<4>(shared_memory(), from);\n"
                          "async_copy<8>(shared_memory() + 8, from + 8);\n"
                          "async_copy_streaming(shared_memory() + 16, from + 16);\n"
                          "async_commit();\nasync_wait<3>();\nasync_wait<1>();\nasync_wait<0>();",
                          "compute_80");
  ASSERT_TRUE(ptx.ok()) << ptx.status().to_string();
  EXPECT_EQ(instructions(*ptx, "cp\\.async\\.wait_group"),
            (std::vector<std::string>{"cp.async.wait_group 3", "cp.async.wait_group 1", "cp.async.wait_group 0"}));
  EXPECT_EQ(instructions(*ptx, "cp\\.async\\.commit_group").size(), 1U);
  const std::vector<std::string> copies = instructions(*ptx, "cp\\.async\\.c[ag]");
  ASSERT_EQ(copies.size(), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(copies[i].ends_with(fmt::format(", {}", 4 << i))) << copies[i];
}

TEST(DevicePtxTest, ProductsOfWarpgroupsAreAwaitedButForAsManyGroupsAsAreNamed) {
  const auto compiler = KernelCompiler::open();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  const auto ptx = ptx_of(**compiler,
                          "warpgroup_multiply_begin();\nwarpgroup_multiply_commit();\n"
                          "warpgroup_multiply_wait<1>();\nwarpgroup_multiply_wait();",
                          "compute_90a");
  ASSERT_TRUE(ptx.ok()) << ptx.status().to_string();
  EXPECT_EQ(instructions(*ptx, "wgmma\\.wait_group"),
            (std::vector<std::string>{"wgmma.wait_group.sync.aligned 1", "wgmma.wait_group.sync.aligned 0"}));
  EXPECT_EQ(instructions(*ptx, "wgmma\\.commit_group").size(), 1U);
}

TEST(DevicePtxTest, SixteenBitsBecomeTheFloatThatTheyAre) {
  const auto compiler = KernelCompiler::open();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  const auto ptx = ptx_of(**compiler,
                          "float* to = reinterpret_cast<float*>(shared_memory());\n"
                          "to[0] = to_float(bfloat16{reinterpret_cast<const u16*>(from)[thread_index()]});\n"
                          "to[1] = to_float(half{reinterpret_cast<const u16*>(from)[thread_index()]});",
                          "compute_80");
  ASSERT_TRUE(ptx.ok()) << ptx.status().to_string();
  const std::vector<std::string> shifts = instructions(*ptx, "sh[lr]\\.b32");
  ASSERT_EQ(shifts.size(), 1U) << *ptx;
  EXPECT_TRUE(shifts[0].starts_with("shl") && shifts[0].ends_with(", 16")) << shifts[0];
  EXPECT_EQ(instructions(*ptx, "cvt\\.f32\\.f16").size(), 1U);
}

}  // namespace
}  // namespace sparsmith::test
