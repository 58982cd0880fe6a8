#include "tuner/compile/compiler_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_frames.h"
#include "tuner/process/call_message.h"

namespace sparsmith {
namespace {

// Through a frame and back, as the other side sees it.
CompilerCall asked(const CompilerCall& call) {
  CompilerCall decoded;
  const Status status = decode_call(decode_frame(encode_frame(encode_call(call))).value(), decoded);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return decoded;
}
template <class Reply>
Result<Reply> replied(const Result<Reply>& reply) {
  Result<Reply> decoded = internal_error("nothing was decoded");
  const Status status = decode_reply(decode_frame(encode_frame(encode_reply(reply))).value(), decoded);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return decoded;
}
StatusCode refused(const std::string& header, const std::vector<std::vector<std::byte>>& blobs) {
  CompilerCall call;
  return decode_call({header, blobs}, call).code();
}
template <class Reply>
StatusCode refused_as(const std::string& header, const std::vector<std::vector<std::byte>>& blobs) {
  Result<Reply> reply = Reply();
  return decode_reply({header, blobs}, reply).code();
}

const KernelSource kKernel{.name = "k",
                           .source = "source \x80 with a bad byte",
                           .closure_hash = "",
                           .threads_per_block = 32,
                           .max_shared_bytes = 0,
                           .architecture = "sm_90a"};

TEST(CompilerCallsTest, CallsSurvive) {
  EXPECT_TRUE(std::holds_alternative<VersionCall>(asked(VersionCall{})));
  const auto compile = std::get<CompileCall>(asked(CompileCall{{kKernel, "sm_90"}}));
  EXPECT_EQ(compile.kernel->name, "k");
  EXPECT_EQ(compile.kernel->source, kKernel.source);
  EXPECT_EQ(compile.kernel->architecture, "sm_90a");
  EXPECT_EQ(compile.architecture, "sm_90");
  const auto ptx = std::get<PtxCall>(asked(PtxCall{{kKernel, "compute_90"}}));
  EXPECT_EQ(ptx.kernel->source, kKernel.source);
  EXPECT_EQ(ptx.architecture, "compute_90");
}

TEST(CompilerCallsTest, RepliesSurvive) {
  EXPECT_EQ(*replied<std::string>(std::string("13.0")), "13.0");
  EXPECT_EQ(*replied<std::string>(std::string(".version 9.0\n")), ".version 9.0\n");
  CompiledKernel kernel;
  kernel.name = "k";
  kernel.cubin = {std::byte{1}, std::byte{0}, std::byte{255}};
  kernel.figures = {
      .registers = 40, .spill_store_bytes = 8, .spill_load_bytes = 12, .stack_bytes = 16, .static_shared_bytes = 1024};
  const auto received = replied<CompiledKernel>(kernel).value();
  EXPECT_EQ(received.name, "k");
  EXPECT_EQ(received.cubin, kernel.cubin);
  EXPECT_EQ(received.figures.registers, 40);
  EXPECT_EQ(received.figures.spill_store_bytes, 8);
  EXPECT_EQ(received.figures.spill_load_bytes, 12);
  EXPECT_EQ(received.figures.stack_bytes, 16);
  EXPECT_EQ(received.figures.static_shared_bytes, 1024);
  const auto error = replied<std::string>(invalid_input("k does not compile for sm_90")).status();
  EXPECT_EQ(error.code(), StatusCode::kInvalidInput);
  EXPECT_EQ(error.message(), "k does not compile for sm_90");
}

TEST(CompilerCallsTest, WhatIsNoMessageIsRefused) {
  constexpr StatusCode kRefused = StatusCode::kInvalidInput;
  const std::vector<std::byte> blob(4);
  for (const char* header : {"", "[]", "{}", R"({"call": "run"})", R"({"call": 1})", R"({"call": "compile"})"})
    EXPECT_EQ(refused(header, {blob}), kRefused) << header;
  const std::string compile = encode_call(CompileCall{{kKernel, "sm_90"}}).header;
  EXPECT_EQ(refused(compile, {blob}), StatusCode::kOk);
  EXPECT_EQ(refused(compile, {}), kRefused) << "its source is missing";
  EXPECT_EQ(refused(compile, {blob, blob}), kRefused);
  EXPECT_EQ(refused(R"({"call": "version"})", {blob}), kRefused);
  for (const char* header :
       {"", "{}", R"({"reply": 13})", R"({"reply": {"version": 13}})", R"({"error": {"code": 0, "message": "ok"}})",
        R"({"error": {"code": 99, "message": ""}})", R"({"reply": {}})", R"({"reply": {"name": "k"}})"}) {
    EXPECT_EQ(refused_as<std::string>(header, {}), kRefused) << header;
    EXPECT_EQ(refused_as<CompiledKernel>(header, {}), kRefused) << header;
  }
  EXPECT_EQ(refused_as<std::string>(R"({"reply": "13.0"})", {}), StatusCode::kOk);
  EXPECT_EQ(refused_as<std::string>(R"({"reply": "13.0"})", {blob}), kRefused);
}

}  // namespace
}  // namespace sparsmith
